//! `case`.

use crate::characters::is_meta;
use crate::event::{Kind, flag};
use crate::grammar::list::Keyword;
use crate::grammar::{Frame, Parser, Step, WordMode};

/// Where in `case` the grammar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseAt {
    Subject,
    In,
    Item,
    /// In front of a pattern of the item with this node.
    Pattern(u32),
    /// Behind one.
    BehindPattern(u32),
    Body(u32),
}

impl Parser<'_> {
    pub(crate) fn step_case(&mut self, node: u32, at: CaseAt) -> Step {
        match at {
            CaseAt::Subject => {
                self.take_blanks();
                if self.peek().is_none_or(is_meta) && !self.substitution_ahead() {
                    return Err(self.error("expected a word after `case`"));
                }
                self.stack.push(Frame::Case { node, at: CaseAt::In });
                self.push_word(WordMode::Plain, flag::PATTERN);
                Ok(())
            }
            CaseAt::In => {
                if self.skip_newline(Frame::Case { node, at }) {
                    return Ok(());
                }
                if !self.take_keyword(Keyword::In) {
                    return Err(self.missing(node, "`in` is expected"));
                }
                self.stack.push(Frame::Case { node, at: CaseAt::Item });
                Ok(())
            }
            CaseAt::Item => self.case_item(node),
            CaseAt::Pattern(item) => self.case_pattern(node, item),
            CaseAt::BehindPattern(item) => self.behind_pattern(node, item),
            CaseAt::Body(item) => self.case_body_end(node, item),
        }
    }

    fn case_item(&mut self, node: u32) -> Step {
        if self.skip_newline(Frame::Case { node, at: CaseAt::Item }) {
            return Ok(());
        }
        if self.take_keyword(Keyword::Esac) {
            self.shallow();
            self.stack.push(Frame::Trailer { node });
            return Ok(());
        }
        if self.peek().is_none() {
            return Err(self.missing(node, "`esac` is expected"));
        }
        let item = self.open(Kind::CaseItem, 0);
        if self.peek() == Some(b'(') {
            self.take_continuations();
            self.leaf(Kind::Opener, self.pos + 1);
        }
        self.stack.push(Frame::Case { node, at: CaseAt::Pattern(item) });
        Ok(())
    }

    fn case_pattern(&mut self, node: u32, item: u32) -> Step {
        self.take_blanks();
        if self.peek().is_none_or(is_meta) && !self.substitution_ahead() {
            return Err(self.missing(node, "a pattern is expected"));
        }
        self.stack.push(Frame::Case { node, at: CaseAt::BehindPattern(item) });
        self.push_word(WordMode::Plain, flag::PATTERN);
        Ok(())
    }

    fn behind_pattern(&mut self, node: u32, item: u32) -> Step {
        self.take_blanks();
        match self.peek() {
            Some(b'|') => {
                self.take_continuations();
                self.leaf(Kind::Operator, self.pos + 1);
                self.stack.push(Frame::Case { node, at: CaseAt::Pattern(item) });
                Ok(())
            }
            Some(b')') => {
                self.take_continuations();
                self.leaf(Kind::Closer, self.pos + 1);
                self.stack.push(Frame::Case { node, at: CaseAt::Body(item) });
                self.push_list();
                Ok(())
            }
            Some(_) | None => Err(self.missing(node, "a pattern is expected")),
        }
    }

    fn case_body_end(&mut self, node: u32, item: u32) -> Step {
        let ends: [&[u8]; 3] = [b";;&", b";;", b";&"];
        let end = ends.iter().find_map(|text| self.ahead(text));
        if let Some(end) = end {
            if self.ahead(b";&").is_some() || self.ahead(b";;&").is_some() {
                self.bash_only(self.pos, end);
            }
            self.leaf(Kind::Operator, end);
            self.close(item);
            self.stack.push(Frame::Case { node, at: CaseAt::Item });
            return Ok(());
        }
        self.close(item);
        if self.take_keyword(Keyword::Esac) {
            self.shallow();
            self.stack.push(Frame::Trailer { node });
            return Ok(());
        }
        Err(self.missing(node, "`;;` or `esac` is expected"))
    }
}
