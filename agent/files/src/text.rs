//! Bytes of a file as text, and back: encoding, byte-order mark and line ends are kept.

use sha2::{Digest as _, Sha256};

/// Most characters of one line that is shown.
pub(crate) const LINE: usize = 2_000;

/// How a text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8 (RFC 3629), with or without a byte-order mark.
    Utf8 { mark: bool },
    /// UTF-16 with a byte-order mark (RFC 2781).
    Utf16 { big: bool },
    /// ISO 8859-1, for what is neither and has no control characters.
    Latin1,
}

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// The text; every line end is a line feed.
    pub(crate) text: String,
    pub(crate) encoding: Encoding,
    /// Lines end with carriage return and line feed.
    pub(crate) crlf: bool,
}

impl Text {
    /// Reads bytes; none for what is not text.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Text> {
        let (text, encoding) = match bytes {
            [0xff, 0xfe, rest @ ..] => {
                (utf16(rest, u16::from_le_bytes)?, Encoding::Utf16 { big: false })
            }
            [0xfe, 0xff, rest @ ..] => {
                (utf16(rest, u16::from_be_bytes)?, Encoding::Utf16 { big: true })
            }
            _ => {
                let plain = bytes.strip_prefix(b"\xef\xbb\xbf");
                let mark = plain.is_some();
                match std::str::from_utf8(plain.unwrap_or(bytes)) {
                    Ok(text) if !text.contains('\0') => (text.to_owned(), Encoding::Utf8 { mark }),
                    Ok(_) => return None,
                    Err(_) if is_latin1(bytes) => {
                        (bytes.iter().map(|byte| char::from(*byte)).collect(), Encoding::Latin1)
                    }
                    Err(_) => return None,
                }
            }
        };
        let ends = text.matches('\n').count();
        let crlf = ends > 0 && text.matches("\r\n").count() == ends;
        let text = if crlf { text.replace("\r\n", "\n") } else { text };
        Some(Text { text, encoding, crlf })
    }

    /// Returns the bytes of `text` in the form of this file; none for characters that its encoding does not have.
    pub(crate) fn encode(&self, text: &str) -> Option<Vec<u8>> {
        let text = match self.crlf {
            true => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => text.to_owned(),
        };
        match self.encoding {
            Encoding::Utf8 { mark: false } => Some(text.into_bytes()),
            Encoding::Utf8 { mark: true } => {
                Some(["\u{feff}", text.as_str()].concat().into_bytes())
            }
            Encoding::Utf16 { big } => {
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                Some(
                    units
                        .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                        .collect(),
                )
            }
            Encoding::Latin1 => text.chars().map(|it| u8::try_from(u32::from(it)).ok()).collect(),
        }
    }

    /// Returns a word about an encoding that is worth telling.
    pub(crate) fn note(&self) -> Option<&'static str> {
        match self.encoding {
            Encoding::Utf8 { .. } => None,
            Encoding::Utf16 { .. } => Some("The file is UTF-16."),
            Encoding::Latin1 => Some("The file is not UTF-8; it is shown as Latin-1."),
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    String::from_utf16(&pairs.iter().map(|pair| unit(*pair)).collect::<Vec<_>>()).ok()
}

/// Says whether bytes are a text of ISO 8859-1: no control characters but white space.
fn is_latin1(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127..=159))
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes terminal escapes and bidirectional controls visible (Unicode Standard Annex 9): a text must not look like another
/// one to a person, or draw on a terminal.
#[must_use]
pub fn visible(text: &str) -> String {
    let hidden = |it: char| {
        (it.is_control() && it != '\t' && it != '\n')
            || matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(hidden) {
        return text.to_owned();
    }
    text.chars()
        .map(|it| if hidden(it) { it.escape_unicode().to_string() } else { it.to_string() })
        .collect()
}

/// Returns lines with their numbers, in the form of `cat -n`.
pub(crate) fn numbered(lines: &[&str], first: u64) -> String {
    let mut shown = Vec::with_capacity(lines.len());
    for (number, line) in (first..).zip(lines) {
        let end = line.char_indices().nth(LINE).map(|(at, _)| at);
        let cut =
            end.and_then(|end| line.get(..end)).map(|start| format!("{}… (cut)", visible(start)));
        shown.push(format!("{number:>6}\t{}", cut.unwrap_or_else(|| visible(line))));
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_written_back_as_it_was() {
        let forms: [&[u8]; 6] = [
            b"a\nb\n",
            b"a\r\nb\r\n",
            b"\xef\xbb\xbfa\n",
            b"\xff\xfea\0\n\0",
            b"\xfe\xff\0a\0\n",
            b"caf\xe9\n",
        ];
        for bytes in forms {
            let text = Text::decode(bytes).expect("text");
            assert_eq!(text.encode(&text.text).as_deref(), Some(bytes), "{bytes:?}");
        }
        assert_eq!(Text::decode(b"a\r\nb\r\n").expect("text").text, "a\nb\n");
        assert_eq!(Text::decode(b"a\r\nb\n").expect("text").text, "a\r\nb\n");
        for binary in [&b"\0\x01"[..], b"\x7fELF\xff", b"\xff\xfea"] {
            assert_eq!(Text::decode(binary), None);
        }
        let latin = Text::decode(b"caf\xe9").expect("text");
        assert_eq!(latin.encode("\u{20ac}"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_refused_or_come_back(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            if let Some(text) = Text::decode(&bytes) {
                proptest::prop_assert_eq!(text.encode(&text.text), Some(bytes));
            }
        }

        #[test]
        fn nothing_that_is_shown_draws(text in ".*") {
            let shown = visible(&text);
            proptest::prop_assert!(!shown.contains(|it: char| it.is_control() && it != '\t' && it != '\n'));
        }
    }

    #[test]
    fn what_would_draw_is_visible() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\tc\n"), "a\\u{1b}[2J\\u{202e}b\tc\n");
    }
}
