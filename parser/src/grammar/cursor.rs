//! The parser looks ahead: a backslash and a line feed vanish before anything is decided.

use crate::characters::{is_meta, is_name, is_name_start, is_plain};
use crate::event::Kind;
use crate::grammar::Parser;

impl Parser<'_> {
    /// The byte at `at` as it stands.
    #[inline]
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        if at < self.end { self.source.get(at).copied() } else { None }
    }

    /// The place behind any continuations at `at`.
    #[inline]
    pub(crate) fn past_continuations(&self, mut at: usize) -> usize {
        while self.byte(at) == Some(b'\\') && self.byte(at + 1) == Some(b'\n') {
            at += 2;
        }
        at
    }

    /// The byte at or behind continuations at `at`, and the place after it.
    #[inline]
    pub(crate) fn look(&self, at: usize) -> Option<(u8, usize)> {
        let at = self.past_continuations(at);
        self.byte(at).map(|byte| (byte, at + 1))
    }

    /// The next byte, continuations removed.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.look(self.pos).map(|(byte, _)| byte)
    }

    /// The end of `text` if it stands here, continuations removed.
    pub(crate) fn ahead(&self, text: &[u8]) -> Option<usize> {
        self.ahead_from(self.pos, text)
    }

    pub(crate) fn ahead_from(&self, mut at: usize, text: &[u8]) -> Option<usize> {
        for expected in text {
            let (byte, next) = self.look(at)?;
            if byte != *expected {
                return None;
            }
            at = next;
        }
        Some(at)
    }

    /// The end of a name that starts at `at`; none if there is no name.
    pub(crate) fn name_end(&self, at: usize) -> Option<usize> {
        let (first, mut end) = self.look(at)?;
        if !is_name_start(first) {
            return None;
        }
        while let Some((byte, next)) = self.look(end) {
            if !is_name(byte) {
                break;
            }
            end = next;
        }
        Some(end)
    }

    /// Emits the continuations here.
    #[inline]
    pub(crate) fn take_continuations(&mut self) {
        while self.byte(self.pos) == Some(b'\\') && self.byte(self.pos + 1) == Some(b'\n') {
            self.leaf(Kind::Continuation, self.pos + 2);
        }
    }

    /// Emits blanks, continuations, and a comment if one starts here: this is the start of a word.
    #[inline]
    pub(crate) fn take_blanks(&mut self) {
        if let Some(b' ' | b'\t' | b'#' | b'\\') = self.byte(self.pos) {
            self.take_some_blanks();
        }
    }

    fn take_some_blanks(&mut self) {
        loop {
            self.take_continuations();
            let start = self.pos;
            let mut end = start;
            while matches!(self.byte(end), Some(b' ' | b'\t')) {
                end += 1;
            }
            self.leaf(Kind::Blank, end);
            match self.byte(self.pos) {
                Some(b'#') => {
                    let rest = self.source.get(self.pos..self.end).unwrap_or_default();
                    let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    // The line feed may be a part of a continuation.
                    self.doubt_continuations(self.pos, self.pos + length + 1);
                    self.leaf(Kind::Comment, self.pos + length);
                    return;
                }
                Some(b'\\') if self.byte(self.pos + 1) == Some(b'\n') => {}
                _ => return,
            }
        }
    }

    /// The unquoted word of plain bytes here, at most 12 long, and its end: what can be a keyword.
    pub(crate) fn plain_word(&self) -> Option<([u8; 12], usize, usize)> {
        let mut word = [0; 12];
        let mut length = 0;
        let mut at = self.pos;
        loop {
            match self.look(at) {
                Some((byte, next)) if is_plain(byte) => {
                    *word.get_mut(length)? = byte;
                    length += 1;
                    at = next;
                }
                Some((byte, next)) if is_meta(byte) => {
                    // `<(` and `>(` go on with the word.
                    if matches!(byte, b'<' | b'>')
                        && self.look(next).is_some_and(|(b, _)| b == b'(')
                    {
                        return None;
                    }
                    // So do extended patterns such as `!(`.
                    let last = length.checked_sub(1).and_then(|last| word.get(last));
                    if byte == b'('
                        && self.extended_patterns
                        && last.is_some_and(|last| b"?*+@!".contains(last))
                    {
                        return None;
                    }
                    break;
                }
                Some(_) => return None,
                None => break,
            }
        }
        if length == 0 { None } else { Some((word, length, at)) }
    }
}
