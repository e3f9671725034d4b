//! Arithmetic text and subscripts: parentheses and brackets count, expansions run.

use crate::event::{Kind, flag};
use crate::grammar::{ArithmeticEnd, Frame, Parser, Step};
use crate::{Reason, Span};

fn is_plain_in_arithmetic(byte: u8) -> bool {
    !matches!(
        byte,
        b'(' | b')' | b'[' | b']' | b'}' | b'"' | b'\\' | b'$' | b'`' | b'\'' | b'<' | b'>'
    )
}

impl Parser<'_> {
    pub(crate) fn step_arithmetic(
        &mut self,
        node: u32,
        end: ArithmeticEnd,
        mut depth: u32,
        mut brackets: u32,
    ) -> Step {
        loop {
            let back = Frame::Arithmetic { node, end, depth, brackets };
            let Some(byte) = self.byte(self.pos) else {
                return Err(self.unterminated(self.start_of(node), "arithmetic is not closed"));
            };
            match byte {
                b'\\' => self.escape(),
                b'\'' => {
                    self.stack.push(back);
                    return self.open_literal_quotes();
                }
                b'`' => self.backquotes(flag::QUOTED)?,
                b'"' => {
                    self.stack.push(back);
                    return self.open_double(1);
                }
                b'$' => {
                    self.stack.push(back);
                    return self.dollar(flag::QUOTED);
                }
                b'<' | b'>' if self.is_process_substitution(end) => {
                    self.stack.push(back);
                    return self.open_process_substitution();
                }
                b')' if depth == 0 && matches!(end, ArithmeticEnd::Parentheses(_)) => break,
                b']' if brackets == 0 && end == ArithmeticEnd::Bracket => break,
                b'}' if end == ArithmeticEnd::Brace => break,
                _ => {
                    match byte {
                        b'(' => depth += 1,
                        b')' => depth = depth.saturating_sub(1),
                        b'[' => brackets += 1,
                        b']' => brackets = brackets.saturating_sub(1),
                        _ => {}
                    }
                    self.literal_run(is_plain_in_arithmetic);
                }
            }
        }
        self.close_arithmetic(node, end)
    }

    /// `<(` counts in subscripts and offsets, where text is expanded as a word first.
    fn is_process_substitution(&self, end: ArithmeticEnd) -> bool {
        !matches!(end, ArithmeticEnd::Parentheses(_))
            && self.look(self.pos + 1).is_some_and(|(next, _)| next == b'(')
    }

    fn close_arithmetic(&mut self, node: u32, end: ArithmeticEnd) -> Step {
        match end {
            ArithmeticEnd::Parentheses(speculation) => {
                // The second parenthesis must follow at once.
                match self.look(self.pos + 1) {
                    Some((b')', after)) => {
                        if after != self.pos + 2 {
                            let span = Span::new(self.pos, after);
                            let detail = "a continuation between the parentheses of arithmetic";
                            self.trouble(Reason::ArithOrSubshell, span, detail);
                        }
                        if let Some(speculation) = speculation {
                            self.confirm(speculation);
                        }
                        self.leaf(Kind::Closer, after);
                        self.shallow();
                    }
                    Some(_) | None => return Err(self.error("arithmetic is not closed by `))`")),
                }
            }
            ArithmeticEnd::Bracket => {
                self.leaf(Kind::Closer, self.pos + 1);
                self.shallow();
            }
            ArithmeticEnd::Brace => {}
        }
        self.close(node);
        Ok(())
    }
}
