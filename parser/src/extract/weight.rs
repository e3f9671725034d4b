//! Weights of work in steps, and of things that are kept in bytes.
//!
//! A step is about what one token of plain text takes. The weights were measured on texts of 1 MiB that consist of
//! one construct (`cargo run --release -p stockade-parser --example worst`).

use crate::{Assignment, Glob, Redirect, RedirectTarget, Target, Word, WordClass};

/// A part that is not understood.
pub(crate) const DOUBT: u64 = 8;
/// A text within a text begins.
pub(crate) const TEXT: u64 = 20;
/// A shell of its own begins, and is told what the text may change.
pub(crate) const SHELL: u64 = 20;
/// A command is read with a row of the tables.
pub(crate) const ROW: u64 = 10;
/// A name is looked for in the tables, for the first time in this text.
pub(crate) const LOOK_UP: u64 = 30;
/// A command that another one starts.
pub(crate) const INNER: u64 = 32;
/// A variable is set.
pub(crate) const SET: u64 = 20;
/// A variable is set of which nothing was known: the table grows.
pub(crate) const NEW_NAME: u64 = 30;
/// A command in another directory than the first.
pub(crate) const ELSEWHERE: u64 = 3;
/// The variables that make other programs start are looked up.
pub(crate) const VARIABLES: u64 = 12;
/// A part of a pipeline, or a list in background.
pub(crate) const PROCESS: u64 = 3;
/// An expression or subscript is evaluated.
pub(crate) const EVALUATE: u64 = 12;
/// A redirection.
pub(crate) const REDIRECT: u64 = 8;
/// One value that may have changed.
pub(crate) const BLUR: u64 = 3;
/// A part of a text begins whose effects end with it.
pub(crate) const SCOPE: u64 = 3;
/// A substitution ends.
pub(crate) const SUBSTITUTION: u64 = 10;
/// A value is put in where it is used.
pub(crate) const USE: u64 = 6;
/// An operator of an and-or chain.
pub(crate) const CHAIN: u64 = 4;

/// Bytes that the allocator takes for one piece besides the piece itself.
const PIECE: usize = 16;

/// Returns the bytes that a word takes besides its own size.
pub(crate) fn of_word(word: &Word) -> usize {
    match &word.class {
        WordClass::Exact(bytes) if bytes.len() > 22 => PIECE + bytes.len(),
        WordClass::Exact(_) => 0,
        WordClass::Pattern { glob, .. } => 3 * PIECE + glob.len() * (size_of::<Glob>() + PIECE),
        WordClass::Unknown { prefix, suffix, .. } => {
            let thin = |length: usize| if length == 0 { 0 } else { 4 * PIECE + length };
            thin(prefix.len()) + thin(suffix.len())
        }
    }
}

/// Returns the bytes that the words of a command take: a single one is stored in place.
pub(crate) fn of_words(words: &[Word]) -> usize {
    let list = if words.len() > 1 { PIECE + size_of_val(words) } else { 0 };
    list + words.iter().map(of_word).sum::<usize>()
}

/// Returns the bytes that assignments in front of a command take.
pub(crate) fn of_assignments(assignments: &[Assignment]) -> usize {
    let list = if assignments.is_empty() { 0 } else { 4 * PIECE + size_of_val(assignments) };
    list + assignments.iter().map(|assignment| of_word(&assignment.value)).sum::<usize>()
}

/// Returns the bytes that a redirection takes, with its file in the list of files.
pub(crate) fn of_redirect(redirect: &Redirect) -> usize {
    let target = match &redirect.target {
        RedirectTarget::File(word) => size_of::<Target>() + 2 * of_word(word),
        RedirectTarget::Text(word) => of_word(word),
        RedirectTarget::Descriptor(_) => 0,
    };
    4 * PIECE + size_of::<Redirect>() + target
}
