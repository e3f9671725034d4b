//! `[[ ]]`: its own grammar, read loosely: what bash refuses here never runs.

use crate::event::{Kind, flag};
use crate::grammar::{Frame, Parser, Step, WordMode};

impl Parser<'_> {
    pub(crate) fn step_test(&mut self, node: u32, depth: u32, any: bool) -> Step {
        if self.skip_newline(Frame::Test { node, depth, any }) {
            return Ok(());
        }
        if let Some((word, length, end)) = self.plain_word()
            && word.get(..length) == Some(b"]]")
        {
            if depth > 0 || !any {
                return Err(self.error("unexpected `]]`"));
            }
            self.leaf(Kind::Keyword, end);
            self.shallow();
            self.stack.push(Frame::Trailer { node });
            return Ok(());
        }
        let again = |depth| Frame::Test { node, depth, any: true };
        let operator = |parser: &Self| {
            [b"&&".as_slice(), b"||", b"<", b">", b"(", b")"]
                .iter()
                .find_map(|text| Some((*text, parser.ahead(text)?)))
        };
        let mode = self.test_mode(node);
        // A regular expression may begin with what is an operator elsewhere.
        let regex = mode == WordMode::Regex && matches!(self.peek(), Some(b'(' | b'|'));
        if !regex
            && !self.substitution_ahead()
            && let Some((text, end)) = operator(self)
        {
            self.take_continuations();
            let depth = match text {
                b"(" => depth + 1,
                b")" => match depth.checked_sub(1) {
                    Some(depth) => depth,
                    None => return Err(self.error("unexpected `)`")),
                },
                _ => depth,
            };
            self.leaf(Kind::Operator, end);
            self.stack.push(again(depth));
            return Ok(());
        }
        match self.peek() {
            None => return Err(self.missing(node, "`]]` is expected")),
            Some(b';' | b'&' | b'|') if !regex => {
                return Err(self.error("unexpected token in `[[`"));
            }
            Some(_) => {}
        }
        self.stack.push(again(depth));
        self.push_word(mode, flag::PATTERN);
        Ok(())
    }

    /// How the next operand is read: it depends on the operator in front.
    fn test_mode(&self, node: u32) -> WordMode {
        let before = self.out.events.get(node as usize + 1..).unwrap_or_default();
        let mut words = before.iter().rev().filter(|event| {
            !matches!(event.kind, Kind::Blank | Kind::Newline | Kind::Continuation | Kind::Comment)
        });
        let Some(close) = words.next().filter(|event| event.kind == Kind::Close) else {
            return WordMode::Plain;
        };
        let text = self.source.get(close.start as usize..close.end as usize).unwrap_or_default();
        // An operator counts only behind an operand.
        let open = self.out.events.get(close.link as usize);
        let first = open.is_none_or(|open| open.kind != Kind::Word);
        let operand = self
            .out
            .events
            .get(node as usize + 1..close.link as usize)
            .unwrap_or_default()
            .iter()
            .rev()
            .find(|event| !matches!(event.kind, Kind::Blank | Kind::Newline | Kind::Continuation))
            .is_some_and(|event| event.kind == Kind::Close);
        if first || !operand {
            return WordMode::Plain;
        }
        match text {
            b"==" | b"=" | b"!=" => WordMode::Pattern,
            b"=~" => WordMode::Regex,
            _ => WordMode::Plain,
        }
    }
}
