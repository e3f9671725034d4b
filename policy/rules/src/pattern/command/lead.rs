//! Options in front: a deny rule for `git push` is about `git --no-pager -C x push` as well.
//!
//! This code does not ask which options take a value: a rule that forbids is tried with and without. So `git -C push log`
//! counts as `git push log`, too.

use stockade_parser::{Word, WordClass};

/// Kind of a word in front of the sub-command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Option,
    /// An option that brings its value, or a word that is not an option.
    Other,
    Unknown,
}

/// Returns where what follows the options in front of a command may begin, later ones last, and whether that is sure: no
/// word before it is not known before it runs.
pub(super) fn behind_options(words: &[Word]) -> Vec<(usize, bool)> {
    let mut found = Vec::new();
    let (mut before, mut is_sure, mut is_behind_value) = (Kind::Other, true, false);
    for (index, word) in words.iter().enumerate().skip(1) {
        let (kind, is_option) = kind(word);
        if word.exact() == Some(b"--") {
            // Some programs find their sub-command behind it; not where it stands behind a word that may be one itself.
            if index + 1 < words.len() {
                found.push((index + 1, is_sure && !is_behind_value));
            }
            break;
        }
        // A word behind an option may be its value.
        if !is_option && kind == Kind::Other && before == Kind::Other {
            break;
        }
        is_behind_value = !is_option;
        is_sure &= kind != Kind::Unknown;
        if index + 1 < words.len() {
            found.push((index + 1, is_sure));
        }
        before = kind;
    }
    found
}

/// Returns what the word is, and whether it is an option of either kind. `+nightly` is one of `cargo`.
fn kind(word: &Word) -> (Kind, bool) {
    let WordClass::Exact(bytes) = &word.class else { return (Kind::Unknown, false) };
    let is_option = bytes.starts_with(b"-") || bytes.starts_with(b"+");
    match is_option && !bytes.contains(&b'=') {
        true => (Kind::Option, true),
        false => (Kind::Other, is_option),
    }
}
