//! Quotes: single, `$'..'`, double, and backquotes.

use crate::event::{Kind, flag};
use crate::grammar::{Frame, Parser, Step};

fn is_plain_in_double(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | b'$' | b'`')
}

impl Parser<'_> {
    /// `'..'`: one token, nothing in it is special.
    pub(crate) fn single_quotes(&mut self) -> Step {
        let rest = self.source.get(self.pos + 1..self.end).unwrap_or_default();
        match rest.iter().position(|byte| *byte == b'\'') {
            Some(length) => {
                self.doubt_continuations(self.pos, self.pos + length + 2);
                self.leaf(Kind::Single, self.pos + length + 2);
                Ok(())
            }
            None => Err(self.unterminated(self.pos, "a single quote is not closed")),
        }
    }

    /// `$'..'`: one token; a backslash hides the quote behind it. `quote` is the place of the quote.
    pub(crate) fn ansi_quotes(&mut self, quote: usize) -> Step {
        self.bash_only(self.pos, quote);
        let mut at = quote + 1;
        loop {
            match self.byte(at) {
                Some(b'\\') => at += 2,
                Some(b'\'') => break,
                Some(_) => at += 1,
                None => return Err(self.unterminated(self.pos, "a quote is not closed")),
            }
        }
        self.doubt_continuations(self.pos, at + 1);
        self.leaf(Kind::Ansi, at + 1);
        Ok(())
    }

    /// Starts double quotes here; `length` is 1, or 2 for `$"`.
    pub(crate) fn open_double(&mut self, length: usize) -> Step {
        self.deepen()?;
        let node = self.open(Kind::Double, 0);
        self.leaf(Kind::Quote, self.pos + length);
        self.stack.push(Frame::Double { node });
        Ok(())
    }

    pub(crate) fn step_double(&mut self, node: u32) -> Step {
        loop {
            match self.byte(self.pos) {
                None => {
                    return Err(
                        self.unterminated(self.start_of(node), "a double quote is not closed")
                    );
                }
                Some(b'"') => break,
                Some(b'\\') => self.escape_in_double(),
                Some(b'`') => self.backquotes(flag::QUOTED)?,
                Some(b'$') => {
                    self.stack.push(Frame::Double { node });
                    return self.dollar(flag::QUOTED);
                }
                Some(_) => self.literal_run(is_plain_in_double),
            }
        }
        self.leaf(Kind::Quote, self.pos + 1);
        self.close(node);
        self.shallow();
        Ok(())
    }

    /// A backslash in `${ }` inside double quotes: it escapes `}` too.
    pub(crate) fn escape_in_braces(&mut self) {
        match self.byte(self.pos + 1) {
            Some(b'}') => self.leaf(Kind::Escape, self.pos + 2),
            Some(_) | None => self.escape_in_double(),
        }
    }

    /// A backslash in double quotes: it escapes only a few characters.
    fn escape_in_double(&mut self) {
        match self.byte(self.pos + 1) {
            Some(b'\n') => self.leaf(Kind::Continuation, self.pos + 2),
            Some(b'$' | b'`' | b'"' | b'\\') => self.leaf(Kind::Escape, self.pos + 2),
            Some(_) | None => self.leaf(Kind::Literal, self.pos + 1),
        }
    }

    /// Backquotes: one token up to the next backquote without a backslash.
    pub(crate) fn backquotes(&mut self, flags: u8) -> Step {
        let mut at = self.pos + 1;
        loop {
            match self.byte(at) {
                Some(b'\\') => at += 2,
                Some(b'`') => break,
                Some(_) => at += 1,
                None => return Err(self.unterminated(self.pos, "a backquote is not closed")),
            }
        }
        self.leaf_with(Kind::Backquote, flags, at + 1);
        Ok(())
    }
}

/// One byte after escapes are removed, with the place it comes from.
pub(crate) struct Decoded {
    pub bytes: Vec<u8>,
    /// For runs of bytes: where the run starts among the bytes, and in the source.
    pub map: Vec<(u32, u32)>,
}

/// Removes one level of backslashes from what stands between backquotes at `start..end` of `source`.
pub(crate) fn decode_backquotes(source: &[u8], start: usize, end: usize, quoted: bool) -> Decoded {
    let mut decoded =
        Decoded { bytes: Vec::with_capacity(end.saturating_sub(start)), map: Vec::new() };
    let mut at = start;
    let mut run = true;
    while at < end {
        let Some(byte) = source.get(at).copied() else { break };
        let next = source.get(at + 1).copied().filter(|_| at + 1 < end);
        let escaped = byte == b'\\'
            && match next {
                Some(b'$' | b'`' | b'\\') => true,
                Some(b'"') => quoted,
                Some(_) | None => false,
            };
        if byte == b'\\' && next == Some(b'\n') {
            at += 2;
            run = true;
            continue;
        }
        if escaped {
            at += 1;
            run = true;
        }
        if run {
            let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            decoded.map.push((place(decoded.bytes.len()), place(at)));
            run = false;
        }
        decoded.bytes.extend(source.get(at));
        at += 1;
    }
    decoded
}

/// The meaning of an escape in `$'..'`.
enum Escape {
    Byte(u8),
    CodePoint(u32),
}

/// Decodes the inside of `$'..'`; a NUL ends the value.
pub(crate) fn decode_ansi(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            out.push(byte);
            rest = after;
            continue;
        }
        let Some((&kind, behind)) = after.split_first() else {
            out.push(b'\\');
            return;
        };
        rest = match escape(after) {
            Some((Escape::Byte(0) | Escape::CodePoint(0), _)) => return,
            Some((Escape::Byte(byte), behind)) => {
                out.push(byte);
                behind
            }
            Some((Escape::CodePoint(point), behind)) => {
                push_code_point(point, out);
                behind
            }
            None => {
                out.extend_from_slice(&[b'\\', kind]);
                behind
            }
        };
    }
}

/// Reads an escape without its backslash, and returns what stands behind it; nothing if it stands for itself.
fn escape(text: &[u8]) -> Option<(Escape, &[u8])> {
    let (&kind, rest) = text.split_first()?;
    let byte = match kind {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 27,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'\'' | b'"' | b'?' => kind,
        b'0'..=b'7' => {
            let (value, length) = number(text, 8, 3);
            return Some((low_byte(value), text.get(length..).unwrap_or_default()));
        }
        b'x' => {
            let (value, after) = hexadecimal(rest)?;
            return Some((low_byte(value), after));
        }
        b'u' | b'U' => {
            let (value, length) = number(rest, 16, if kind == b'u' { 4 } else { 8 });
            let after = rest.get(length..).unwrap_or_default();
            return (length > 0).then_some((Escape::CodePoint(value), after));
        }
        b'c' => {
            let (&control, after) = rest.split_first()?;
            // `\c\\` takes both backslashes.
            let both = control == b'\\' && after.first() == Some(&b'\\');
            let after = if both { after.get(1..).unwrap_or_default() } else { after };
            let byte = if control == b'?' { 127 } else { control.to_ascii_uppercase() & 0x1f };
            return Some((Escape::Byte(byte), after));
        }
        _ => return None,
    };
    Some((Escape::Byte(byte), rest))
}

fn low_byte(value: u32) -> Escape {
    Escape::Byte(u8::try_from(value & 255).unwrap_or(0))
}

/// Reads at most `most` digits; the value and how many there were.
fn number(text: &[u8], base: u32, most: usize) -> (u32, usize) {
    let mut value: u32 = 0;
    let mut length = 0;
    for byte in text.iter().take(most) {
        let Some(digit) = char::from(*byte).to_digit(base) else { break };
        value = value.wrapping_mul(base).wrapping_add(digit);
        length += 1;
    }
    (value, length)
}

/// `\xHH`, and `\x{H..}` of any length.
fn hexadecimal(rest: &[u8]) -> Option<(u32, &[u8])> {
    if let Some(braced) = rest.strip_prefix(b"{") {
        let (value, length) = number(braced, 16, braced.len());
        let after = braced.get(length..).unwrap_or_default();
        let after = after.strip_prefix(b"}").unwrap_or(after);
        return (length > 0).then_some((value, after));
    }
    let (value, length) = number(rest, 16, 2);
    (length > 0).then_some((value, rest.get(length..).unwrap_or_default()))
}

/// Appends UTF-8, also beyond what is a character: bash does not check.
fn push_code_point(value: u32, out: &mut Vec<u8>) {
    let low = |shift: u32| u8::try_from((value >> shift) & 0x3f).unwrap_or(0) | 0x80;
    let high = |shift: u32, mark: u8| u8::try_from((value >> shift) & 0xff).unwrap_or(0) | mark;
    match value {
        0..0x80 => out.push(high(0, 0)),
        0x80..0x800 => out.extend_from_slice(&[high(6, 0xc0), low(0)]),
        0x800..0x1_0000 => out.extend_from_slice(&[high(12, 0xe0), low(6), low(0)]),
        0x1_0000..0x20_0000 => {
            out.extend_from_slice(&[high(18, 0xf0), low(12), low(6), low(0)]);
        }
        _ => out.extend_from_slice(&[0xfd, low(24), low(18), low(12), low(6), low(0)]),
    }
}
