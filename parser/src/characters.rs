//! A byte outside quotes ends a word, is plain, or belongs to a name: a table tells the classes of each.

/// Classes of a byte outside quotes.
const META: u8 = 1;
const SPECIAL: u8 = 2;
const NAME_START: u8 = 4;
const DIGIT: u8 = 8;

const CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u8;
        #[allow(
            clippy::indexing_slicing,
            reason = "in a constant: out of bounds would not compile"
        )]
        let place = &mut table[byte];
        *place = match value {
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => META,
            b'\\' | b'\'' | b'"' | b'`' | b'$' => SPECIAL,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME_START,
            b'0'..=b'9' => DIGIT,
            _ => 0,
        };
        byte += 1;
    }
    table
}

fn class(byte: u8) -> u8 {
    CLASS.get(byte as usize).copied().unwrap_or(0)
}

/// Says whether the byte ends a word.
pub(crate) fn is_meta(byte: u8) -> bool {
    class(byte) & META != 0
}

/// Says whether the byte is an ordinary part of a word.
pub(crate) fn is_plain(byte: u8) -> bool {
    class(byte) & (META | SPECIAL) == 0
}

/// Says whether a name may begin with the byte.
pub(crate) fn is_name_start(byte: u8) -> bool {
    class(byte) & NAME_START != 0
}

/// Says whether a name may go on with the byte.
pub(crate) fn is_name(byte: u8) -> bool {
    class(byte) & (NAME_START | DIGIT) != 0
}
