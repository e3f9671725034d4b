//! Names as a file system that folds them would compare them.
//!
//! Guarded names are ASCII. Which other spellings reach them depends on the file system: letter case (all
//! that fold), characters that fold to ASCII letters or to nothing (the Unicode tables of ext4, f2fs and
//! APFS), dots and blanks at the end (FAT and its kin). All of it is compared everywhere: the stricter reading.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Says whether `name` may reach `known`, a name of ASCII characters, on some file system.
pub(super) fn reaches(name: &OsStr, known: &OsStr) -> bool {
    let bytes = name.as_bytes();
    if bytes.eq_ignore_ascii_case(known.as_bytes()) {
        return true;
    }
    if bytes.is_ascii() && !bytes.ends_with(b".") && !bytes.ends_with(b" ") {
        return false;
    }
    folded(name).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns `name` in small letters as it may be compared; none for what is not text, which every file system compares byte by
/// byte.
pub(super) fn folded(name: &OsStr) -> Option<String> {
    let text = std::str::from_utf8(name.as_bytes()).ok()?;
    let mut folded: String = text.chars().filter(|it| !is_ignored(*it)).map(fold).collect();
    folded.truncate(folded.trim_end_matches(['.', ' ']).len());
    folded.make_ascii_lowercase();
    Some(folded)
}

/// Characters other than ASCII letters that fold to one: KELVIN SIGN and LATIN SMALL LETTER LONG S are all
/// of them (Unicode, CaseFolding.txt); the dotted capital I folds to `i` with a mark or without.
fn fold(character: char) -> char {
    match character {
        '\u{212A}' => 'k',
        '\u{17F}' => 's',
        '\u{130}' | '\u{131}' => 'i',
        other => other,
    }
}

/// Characters that compare as nothing (Unicode, Default_Ignorable_Code_Point), and the mark that the dotted
/// capital I leaves.
fn is_ignored(character: char) -> bool {
    matches!(character,
        '\u{AD}' | '\u{307}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &[u8], known: &str, expected: bool) {
        assert_eq!(reaches(OsStr::from_bytes(name), OsStr::new(known)), expected, "{name:?}");
    }

    #[test]
    fn letter_case_does_not_matter() {
        check(b".GiT", ".git", true);
        check(b".gut", ".git", false);
    }

    #[test]
    fn characters_that_fold_to_letters_or_to_nothing_do_not_hide_a_name() {
        check("hoo\u{212A}s".as_bytes(), "hooks", true);
        check("hook\u{17F}".as_bytes(), "hooks", true);
        check(".g\u{130}t".as_bytes(), ".git", true);
        check(".g\u{200C}it".as_bytes(), ".git", true);
        check("\u{FEFF}.git".as_bytes(), ".git", true);
        check(".gít".as_bytes(), ".git", false);
    }

    #[test]
    fn dots_and_blanks_at_the_end_do_not_hide_a_name() {
        check(b".git. .", ".git", true);
        check(b"...", ".git", false);
        check(b".git.x", ".git", false);
    }

    #[test]
    fn what_is_no_text_is_compared_as_it_is() {
        check(b".git\xFF", ".git", false);
    }
}
