//! Lists, and-or chains, pipelines, and what a command can start with.

use crate::event::{Kind, Operation, flag};
use crate::grammar::{Frame, Parser, Step};

/// A reserved word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    If,
    Then,
    Else,
    Elif,
    Fi,
    While,
    Until,
    For,
    Select,
    Do,
    Done,
    Case,
    Esac,
    In,
    Function,
    Coproc,
    Time,
    Not,
    OpenBrace,
    CloseBrace,
    OpenTest,
}

fn keyword_of(word: &[u8]) -> Option<Keyword> {
    Some(match word {
        b"if" => Keyword::If,
        b"then" => Keyword::Then,
        b"else" => Keyword::Else,
        b"elif" => Keyword::Elif,
        b"fi" => Keyword::Fi,
        b"while" => Keyword::While,
        b"until" => Keyword::Until,
        b"for" => Keyword::For,
        b"select" => Keyword::Select,
        b"do" => Keyword::Do,
        b"done" => Keyword::Done,
        b"case" => Keyword::Case,
        b"esac" => Keyword::Esac,
        b"in" => Keyword::In,
        b"function" => Keyword::Function,
        b"coproc" => Keyword::Coproc,
        b"time" => Keyword::Time,
        b"!" => Keyword::Not,
        b"{" => Keyword::OpenBrace,
        b"}" => Keyword::CloseBrace,
        b"[[" => Keyword::OpenTest,
        _ => return None,
    })
}

impl Parser<'_> {
    /// The reserved word here and its end.
    pub(crate) fn keyword(&self) -> Option<(Keyword, usize)> {
        // Most words begin with a byte with which no reserved word does.
        if !self.peek().is_some_and(|byte| b"itefwusdc!{}[".contains(&byte)) {
            return None;
        }
        let (word, length, end) = self.plain_word()?;
        keyword_of(word.get(..length)?).map(|keyword| (keyword, end))
    }

    /// Takes this reserved word if it is here.
    pub(crate) fn take_keyword(&mut self, wanted: Keyword) -> bool {
        match self.keyword() {
            Some((keyword, end)) if keyword == wanted => {
                self.leaf(Kind::Keyword, end);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Starts a list here, inside what is open.
    pub(crate) fn push_list(&mut self) {
        let node = self.open(Kind::List, 0);
        self.stack.push(Frame::List { node, separated: true, count: 0, top: false });
    }

    /// Starts the list of the text itself here.
    pub(crate) fn push_top_list(&mut self) {
        let node = self.open(Kind::List, 0);
        self.stack.push(Frame::List { node, separated: true, count: 0, top: true });
    }

    pub(crate) fn step_list(&mut self, node: u32, separated: bool, count: u32, top: bool) -> Step {
        self.take_blanks();
        let Some(byte) = self.peek() else { return self.close_list(node, count) };
        if byte == b'\n' {
            self.stack.push(Frame::List { node, separated: true, count, top });
            self.newline();
            if top {
                self.line_start = self.pos;
                self.extended_patterns = self.extended_patterns_next;
            }
            return Ok(());
        }
        if !separated {
            return self.step_separator(node, count, top, byte);
        }
        if byte == b')' || byte == b';' || self.closes_list() {
            return self.close_list(node, count);
        }
        let count = count.saturating_add(1);
        self.stack.push(Frame::List { node, separated: false, count, top });
        if let Some(words) = self.plain_command_ahead() {
            return self.plain_command(words);
        }
        let node = self.open(Kind::AndOr, 0);
        self.stack.push(Frame::AndOr { node, started: false });
        Ok(())
    }

    fn close_list(&mut self, node: u32, count: u32) -> Step {
        self.list_was_empty = count == 0;
        self.close(node);
        Ok(())
    }

    fn closes_list(&self) -> bool {
        let Some((keyword, _)) = self.keyword() else { return false };
        match keyword {
            Keyword::Then
            | Keyword::Else
            | Keyword::Elif
            | Keyword::Fi
            | Keyword::Do
            | Keyword::Done
            | Keyword::Esac
            | Keyword::In
            | Keyword::CloseBrace => true,
            Keyword::If
            | Keyword::While
            | Keyword::Until
            | Keyword::For
            | Keyword::Select
            | Keyword::Case
            | Keyword::Function
            | Keyword::Coproc
            | Keyword::Time
            | Keyword::Not
            | Keyword::OpenBrace
            | Keyword::OpenTest => false,
        }
    }

    /// After a command: `;` or `&`, or the end of the list.
    fn step_separator(&mut self, node: u32, count: u32, top: bool, byte: u8) -> Step {
        let after = self.look(self.pos).map_or(self.pos, |(_, after)| after);
        let second = self.look(after).map(|(byte, _)| byte);
        let operation = match (byte, second) {
            (b';', Some(b';' | b'&')) => None,
            (b';', _) => Some(Operation::Semicolon),
            (b'&', _) => Some(Operation::Background),
            _ => None,
        };
        let Some(operation) = operation else { return self.close_list(node, count) };
        if operation == Operation::Background {
            self.mark_background();
        }
        self.leaf_with(Kind::Operator, operation as u8, after);
        self.stack.push(Frame::List { node, separated: true, count, top });
        Ok(())
    }

    /// The and-or chain that was closed last runs in background.
    fn mark_background(&mut self) {
        let last = self.out.events.iter().rev().find(|event| event.kind == Kind::Close);
        if let Some(open) = last.map(|event| event.link) {
            self.add_flags(open, flag::BACKGROUND);
        }
    }

    pub(crate) fn step_and_or(&mut self, node: u32, started: bool) -> Step {
        if started {
            self.take_blanks();
            let operation = match self.peek() {
                Some(b'&') => self.ahead(b"&&").map(|end| (Operation::And, end)),
                Some(b'|') => self.ahead(b"||").map(|end| (Operation::Or, end)),
                Some(_) | None => None,
            };
            let Some((operation, end)) = operation else {
                self.close(node);
                return Ok(());
            };
            self.leaf_with(Kind::Operator, operation as u8, end);
            self.stack.push(Frame::AndOr { node, started: false });
            return Ok(());
        }
        if self.skip_newline(Frame::AndOr { node, started }) {
            return Ok(());
        }
        self.stack.push(Frame::AndOr { node, started: true });
        let pipeline = self.open(Kind::Pipeline, 0);
        self.stack.push(Frame::Pipeline { node: pipeline, started: false });
        self.take_pipeline_prefix(pipeline)
    }

    /// Takes blanks and one line feed; if there was one, `back` is on the stack to look again.
    pub(crate) fn skip_newline(&mut self, back: Frame) -> bool {
        self.take_blanks();
        if self.peek() == Some(b'\n') {
            self.stack.push(back);
            self.newline();
            return true;
        }
        false
    }

    /// `!` and `time`, in any order and number.
    fn take_pipeline_prefix(&mut self, node: u32) -> Step {
        let mut prefixed = false;
        loop {
            self.take_blanks();
            if self.take_keyword(Keyword::Not) {
                self.add_flags(node, flag::NEGATED);
            } else if let Some((Keyword::Time, end)) = self.keyword() {
                self.bash_only(self.pos, end);
                self.leaf(Kind::Keyword, end);
                self.take_time_options();
            } else {
                break;
            }
            prefixed = true;
        }
        if prefixed && matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b')')) {
            // `!` or `time` alone is a command that does nothing.
            self.stack.pop();
            self.close(node);
        }
        Ok(())
    }

    fn take_time_options(&mut self) {
        for option in [b"-p".as_slice(), b"--"] {
            self.take_blanks();
            let word = self.plain_word();
            if let Some((bytes, length, end)) = word
                && bytes.get(..length) == Some(option)
            {
                self.leaf(Kind::Keyword, end);
            }
        }
    }

    pub(crate) fn step_pipeline(&mut self, node: u32, started: bool) -> Step {
        if !started {
            if self.skip_newline(Frame::Pipeline { node, started }) {
                return Ok(());
            }
            self.stack.push(Frame::Pipeline { node, started: true });
            return self.start_command();
        }
        self.take_blanks();
        if self.peek() == Some(b'|') && self.ahead(b"||").is_none() {
            let both = self.ahead(b"|&");
            if let Some(end) = both {
                self.bash_only(self.pos, end);
            }
            let end = both.or_else(|| self.ahead(b"|")).unwrap_or(self.pos + 1);
            let operation = if both.is_some() { Operation::PipeBoth } else { Operation::Pipe };
            self.leaf_with(Kind::Operator, operation as u8, end);
            self.add_flags(node, flag::PIPED);
            self.stack.push(Frame::Pipeline { node, started: false });
            return Ok(());
        }
        self.close_pipeline(node);
        Ok(())
    }

    /// Closes a pipeline. One that is a short simple command and nothing else leaves no node.
    fn close_pipeline(&mut self, node: u32) {
        /// Events of a command that are moved by one place.
        const SHORT: usize = 16;
        let at = node as usize;
        let events = &mut self.out.events;
        let plain = events.get(at).is_some_and(|event| event.flags == 0)
            && events.get(at + 1).is_some_and(|event| event.kind == Kind::Simple)
            && events.len() - at <= SHORT
            // Here-documents are known by the places of their events.
            && !events.iter().skip(at).any(|event| event.kind == Kind::HereBody)
            && self.out.here_documents.last().is_none_or(|here| here.redirect < node);
        if !plain {
            return self.close(node);
        }
        events.remove(at);
        for event in events.iter_mut().skip(at).filter(|event| !event.kind.is_leaf()) {
            event.link -= 1;
        }
    }

    /// Starts the command here: compound or simple.
    fn start_command(&mut self) -> Step {
        if self.start_compound()? {
            return Ok(());
        }
        if let Some((keyword, end)) = self.keyword() {
            match keyword {
                Keyword::Function => return self.start_function(end),
                Keyword::Coproc => return self.start_coproc(end),
                // After `|`, `time` is an ordinary word.
                Keyword::Time => {}
                Keyword::If
                | Keyword::Then
                | Keyword::Else
                | Keyword::Elif
                | Keyword::Fi
                | Keyword::While
                | Keyword::Until
                | Keyword::For
                | Keyword::Select
                | Keyword::Do
                | Keyword::Done
                | Keyword::Case
                | Keyword::Esac
                | Keyword::In
                | Keyword::Not
                | Keyword::OpenBrace
                | Keyword::CloseBrace
                | Keyword::OpenTest => {
                    return Err(self.error("a reserved word where a command is expected"));
                }
            }
        }
        self.push_simple();
        Ok(())
    }
}
