//! Texts that the grammar's C code must not see.

use crate::Refusal;

/// The longest text that is read, in bytes.
pub const INPUT_LIMIT_BYTES: usize = 1 << 20;

/// Returns why `text` must not be given to the grammar, if so.
pub fn refusal(text: &[u8]) -> Option<Refusal> {
    if text.len() > INPUT_LIMIT_BYTES {
        return Some(Refusal::Long);
    }
    if text.contains(&0) {
        return Some(Refusal::Nul);
    }
    (brace_before_wide_character(text) || open_expansions(text)).then_some(Refusal::Guard)
}

/// Openers `${` without an end with which the grammar is not tried: the time that it takes to give up on them
/// grows with the square of their number.
const OPEN_EXPANSIONS: usize = 256;

/// Says whether there are many more `${` than `}`.
fn open_expansions(text: &[u8]) -> bool {
    let opened = text.windows(2).filter(|pair| *pair == b"${").count();
    opened > OPEN_EXPANSIONS
        && opened - OPEN_EXPANSIONS > text.iter().filter(|byte| **byte == b'}').count()
}

/// Says whether `{`, digits and dots, and then a code point above U+00FF occur.
///
/// The scanner of grammar 0.25.1 gives that code point to `isdigit`, which takes it as an index into a
/// table of 384 entries (scanner.c, label `brace_start`). In UTF-8 the first byte of a code point above
/// U+00FF is 0xC4 or higher.
fn brace_before_wide_character(text: &[u8]) -> bool {
    let mut after_brace = false;
    for byte in text {
        match byte {
            b'{' => after_brace = true,
            b'0'..=b'9' | b'.' => {}
            0xC4..=0xFF if after_brace => return true,
            _ => after_brace = false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_crash_is_refused() {
        for text in
            ["echo {\u{100}", "{12\u{10000}", "a {1..3\u{4e2d}}", "{..\u{20ac}", "{{\u{100}"]
        {
            assert_eq!(refusal(text.as_bytes()), Some(Refusal::Guard), "{text}");
        }
    }

    #[test]
    fn openers_without_end_are_refused() {
        let open = "${".repeat(970);
        assert_eq!(refusal(open.as_bytes()), Some(Refusal::Guard));
        assert_eq!(refusal(format!("{open}a{}", "}".repeat(970)).as_bytes()), None);
    }

    #[test]
    fn ordinary_braces_and_letters_are_read() {
        for text in ["echo {a,\u{100}}", "echo {\u{e9},b}", "{ \u{20ac}", "\u{20ac}{1..3}", ""] {
            assert_eq!(refusal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn nul_and_length_are_refused() {
        assert_eq!(refusal(b"a\0b"), Some(Refusal::Nul));
        assert_eq!(refusal(&vec![b'a'; INPUT_LIMIT_BYTES + 1]), Some(Refusal::Long));
    }
}
