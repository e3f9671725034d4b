//! Words: runs of literal text, quotes, expansions, extended patterns.

use crate::characters::{is_meta, is_plain};
use crate::event::Kind;
use crate::grammar::{Frame, Parser, Step, WordMode};
use crate::{Reason, Span};

impl Parser<'_> {
    /// Starts a word here.
    pub(crate) fn push_word(&mut self, mode: WordMode, flags: u8) {
        let node = self.open(Kind::Word, flags);
        self.stack.push(Frame::Word { node, mode });
    }

    pub(crate) fn step_word(&mut self, node: u32, mode: WordMode) -> Step {
        while let Some(byte) = self.byte(self.pos) {
            if is_plain(byte) {
                self.literal_run(is_plain);
                continue;
            }
            match byte {
                b'\\' => self.escape(),
                b'\'' => self.single_quotes()?,
                b'`' => self.backquotes(0)?,
                b'"' => {
                    self.stack.push(Frame::Word { node, mode });
                    return self.open_double(1);
                }
                b'$' => {
                    self.stack.push(Frame::Word { node, mode });
                    return self.dollar(0);
                }
                b'(' if self.opens_group(mode) => {
                    self.stack.push(Frame::Word { node, mode });
                    return self.open_group(mode);
                }
                b'|' if mode == WordMode::Regex => self.leaf(Kind::Literal, self.pos + 1),
                b'<' | b'>' if self.look(self.pos + 1).is_some_and(|(next, _)| next == b'(') => {
                    self.stack.push(Frame::Word { node, mode });
                    return self.open_process_substitution();
                }
                _ if is_meta(byte) => break,
                _ => self.leaf(Kind::Literal, self.pos + 1),
            }
        }
        self.doubt_element(node);
        self.close(node);
        Ok(())
    }

    /// Emits the run of bytes for which `is_part` holds; at least one byte.
    pub(crate) fn literal_run(&mut self, is_part: fn(u8) -> bool) {
        let rest = self.source.get(self.pos..self.end).unwrap_or_default();
        let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len()).max(1);
        self.leaf(Kind::Literal, self.pos + length);
    }

    /// A backslash outside quotes: a continuation, or the next byte as it is.
    pub(crate) fn escape(&mut self) {
        if self.byte(self.pos + 1) == Some(b'\n') {
            self.leaf(Kind::Continuation, self.pos + 2);
        } else {
            let end = (self.pos + 2).min(self.end);
            if self.pos + 1 == self.source.len() && self.source.contains(&b'\n') {
                // In a word with a line feed in quotes bash drops it, else it stays.
                let span = Span::new(self.pos, end);
                self.trouble(Reason::Syntax, span, "a backslash at the end of several lines");
            }
            self.leaf(Kind::Escape, end);
        }
    }

    /// Says whether the parenthesis here belongs to the word.
    fn opens_group(&self, mode: WordMode) -> bool {
        if mode == WordMode::Regex {
            return true;
        }
        if mode != WordMode::Pattern && !self.extended_patterns {
            return false;
        }
        let last = self.out.events.iter().rev().find(|event| event.kind != Kind::Continuation);
        last.is_some_and(|event| {
            let before = (event.end as usize).checked_sub(1).and_then(|at| self.byte(at));
            event.kind == Kind::Literal && matches!(before, Some(b'?' | b'*' | b'+' | b'@' | b'!'))
        })
    }

    fn open_group(&mut self, mode: WordMode) -> Step {
        self.deepen()?;
        let node = self.open(Kind::ExtendedPattern, 0);
        self.leaf(Kind::Opener, self.pos + 1);
        self.stack.push(Frame::Group { node, depth: 0, regex: mode == WordMode::Regex });
        Ok(())
    }

    /// The inside of a parenthesis in a pattern: blanks and operators are literal, quotes and `$` live.
    pub(crate) fn step_group(&mut self, node: u32, mut depth: u32, regex: bool) -> Step {
        loop {
            let Some(byte) = self.byte(self.pos) else {
                return Err(self.unterminated(self.start_of(node), "a pattern is not closed"));
            };
            match byte {
                b'\\' => self.escape(),
                b'\'' => self.single_quotes()?,
                b'`' => self.backquotes(0)?,
                b'"' => {
                    self.stack.push(Frame::Group { node, depth, regex });
                    return self.open_double(1);
                }
                b'$' => {
                    self.stack.push(Frame::Group { node, depth, regex });
                    return self.dollar(0);
                }
                b'<' | b'>' if self.look(self.pos + 1).is_some_and(|(next, _)| next == b'(') => {
                    self.stack.push(Frame::Group { node, depth, regex });
                    return self.open_process_substitution();
                }
                b'(' => {
                    depth += 1;
                    self.leaf(Kind::Literal, self.pos + 1);
                }
                b')' if depth == 0 => break,
                b')' => {
                    depth -= 1;
                    self.leaf(Kind::Literal, self.pos + 1);
                }
                _ if is_plain(byte) => self.literal_run(is_plain),
                _ => self.leaf(Kind::Literal, self.pos + 1),
            }
        }
        self.leaf(Kind::Closer, self.pos + 1);
        self.close(node);
        self.shallow();
        Ok(())
    }
}
