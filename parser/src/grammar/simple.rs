//! Simple commands: assignments, words, redirections, and the head of a function.

use crate::characters::{is_name_start, is_plain};
use crate::event::{Kind, flag};
use crate::grammar::{Frame, Parser, Step, WordMode};

/// Builtins whose operands may be assignments of arrays.
const DECLARATIONS: &[&[u8]] =
    &[b"declare", b"typeset", b"local", b"export", b"readonly", b"alias", b"eval", b"let"];

/// Part of an assignment in front of its value.
struct AssignmentHead {
    name_end: usize,
    subscript: bool,
    /// The end of `=` or `+=`; none when a subscript comes first.
    operator_end: Option<usize>,
}

impl Parser<'_> {
    /// Starts a simple command here.
    pub(crate) fn push_simple(&mut self) {
        let node = self.open(Kind::Simple, 0);
        self.stack.push(Frame::Simple { node, words: 0, parts: 0, declaration: false });
    }

    pub(crate) fn step_simple(
        &mut self,
        node: u32,
        words: u32,
        parts: u32,
        mut declaration: bool,
    ) -> Step {
        self.take_blanks();
        let start = self.pos;
        match self.peek() {
            None | Some(b'\n' | b';' | b'|' | b')') => return self.finish_simple(node, parts),
            Some(b'&') if self.ahead(b"&>").is_none() => return self.finish_simple(node, parts),
            Some(b'(') if words == 1 && parts == 1 => return self.start_function_body(node),
            Some(b'(') => return Err(self.error("unexpected `(`")),
            Some(_) => {}
        }
        let parts = parts.saturating_add(1);
        if self.redirect_ahead() {
            self.stack.push(Frame::Simple { node, words, parts, declaration });
            return self.start_redirect();
        }
        self.doubt_assignment(node, words);
        if words == 0 || declaration {
            if let Some(head) = self.assignment_ahead()
                && (words == 0 || head.operator_end.is_some())
            {
                let words = if words == 0 { 0 } else { words + 1 };
                self.stack.push(Frame::Simple { node, words, parts, declaration });
                return self.start_assignment(&head, words > 0);
            }
            if words == 0 {
                declaration = self.declaration_ahead();
            }
        }
        debug_assert!(start <= self.pos);
        let words = words.saturating_add(1);
        self.stack.push(Frame::Simple { node, words, parts, declaration });
        match self.plain_word_end(self.pos) {
            Some(end) => self.leaf(Kind::PlainWord, end),
            None => self.push_word(WordMode::Plain, 0),
        }
        Ok(())
    }

    /// Counts the words here if they are a whole command of plain words, with an end that leaves it alone in its
    /// list. What could be a keyword, an assignment, a function or a comment is left to the slower way.
    pub(crate) fn plain_command_ahead(&self) -> Option<u64> {
        let first_end = self.plain_word_end(self.pos)?;
        let first = self.source.get(self.pos..first_end)?;
        if self.keyword().is_some()
            || self.declaration_ahead()
            || first == b"shopt"
            || first.iter().any(|byte| matches!(byte, b'=' | b'['))
        {
            return None;
        }
        let (mut at, mut words) = (first_end, 1);
        loop {
            while matches!(self.byte(at), Some(b' ' | b'\t')) {
                at += 1;
            }
            match self.byte(at) {
                None | Some(b'\n' | b')') => return Some(words),
                Some(b';') if !matches!(self.byte(at + 1), Some(b';' | b'&' | b'\\')) => {
                    return Some(words);
                }
                Some(b'#') => return None,
                Some(_) => at = self.plain_word_end(at)?,
            }
            words += 1;
        }
    }

    /// Takes a command of this many plain words.
    pub(crate) fn plain_command(&mut self, words: u64) -> Step {
        // As many as the slower way takes for the words.
        self.spend(words.saturating_add(2))?;
        let node = self.open(Kind::PlainCommand, 0);
        for _ in 0..words {
            if let Some(end) = self.plain_word_end(self.pos) {
                self.leaf(Kind::PlainWord, end);
            }
            self.take_blanks();
        }
        self.close(node);
        Ok(())
    }

    /// The end of the word at `start` if it is nothing but plain bytes.
    fn plain_word_end(&self, start: usize) -> Option<usize> {
        let rest = self.source.get(start..self.end).unwrap_or_default();
        let length = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        let ends = matches!(
            rest.get(length),
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')')
        );
        (ends && length > 0).then_some(start + length)
    }

    fn finish_simple(&mut self, node: u32, parts: u32) -> Step {
        if parts == 0 {
            return Err(self.error("a command is expected"));
        }
        self.close(node);
        self.note_extended_patterns(node);
        Ok(())
    }

    /// `shopt -s extglob` changes the lexer from the next line on.
    fn note_extended_patterns(&mut self, node: u32) {
        let text = self.source.get(self.start_of(node)..self.pos).unwrap_or_default();
        if !text.starts_with(b"shopt") {
            return;
        }
        let mut words = text.split(|byte| matches!(byte, b' ' | b'\t'));
        if words.any(|word| word == b"extglob") {
            let unset = text.windows(2).any(|pair| pair == b"-u");
            self.extended_patterns_next = !unset;
        }
    }

    fn declaration_ahead(&self) -> bool {
        if !self.peek().is_some_and(|byte| b"dtlera".contains(&byte)) {
            return false;
        }
        let Some((word, length, _)) = self.plain_word() else { return false };
        word.get(..length).is_some_and(|word| DECLARATIONS.contains(&word))
    }

    /// The head of an assignment, if one stands here.
    fn assignment_ahead(&self) -> Option<AssignmentHead> {
        if !self.peek().is_some_and(is_name_start) {
            return None;
        }
        let name_end = self.name_end(self.pos)?;
        match self.look(name_end)? {
            (b'=', end) => {
                Some(AssignmentHead { name_end, subscript: false, operator_end: Some(end) })
            }
            (b'+', next) => {
                let (_, end) = self.look(next).filter(|(byte, _)| *byte == b'=')?;
                Some(AssignmentHead { name_end, subscript: false, operator_end: Some(end) })
            }
            (b'[', _) => Some(AssignmentHead { name_end, subscript: true, operator_end: None }),
            _ => None,
        }
    }

    /// Assignments where bash 5.2 reads what is inside of brackets otherwise than elsewhere: in an array right behind a
    /// redirection, blanks and parentheses included, and in the word behind that of a coprocess.
    fn doubt_assignment(&mut self, node: u32, words: u32) {
        let coprocess = words == 1 && self.is_coprocess(node);
        let behind_redirect = words == 0 && self.is_behind_redirect();
        if !(coprocess || behind_redirect) {
            return;
        }
        let Some(head) = self.assignment_ahead() else { return };
        let opens = head.operator_end.is_some_and(|end| self.ahead_from(end, b"(").is_some());
        if opens || coprocess {
            let span = crate::Span::new(self.pos, head.name_end);
            let detail = "an assignment after a redirection or the name of a coprocess";
            self.trouble(crate::Reason::Syntax, span, detail);
        }
    }

    /// Says whether a simple command is that of `coproc`.
    fn is_coprocess(&self, node: u32) -> bool {
        let before = self.out.events.get(..node as usize).unwrap_or_default().iter().rev();
        let mut before =
            before.filter(|event| !matches!(event.kind, Kind::Blank | Kind::Continuation));
        before.next().is_some_and(|event| event.kind == Kind::Keyword)
            && before.next().is_some_and(|event| event.kind == Kind::Coproc)
    }

    fn is_behind_redirect(&self) -> bool {
        let blank = |kind: Kind| matches!(kind, Kind::Blank | Kind::Continuation);
        let last = self.out.events.iter().rev().find(|event| !blank(event.kind));
        last.filter(|last| last.kind == Kind::Close)
            .and_then(|close| self.out.events.get(close.link as usize))
            .is_some_and(|open| open.kind == Kind::Redirect)
    }

    fn start_assignment(&mut self, head: &AssignmentHead, operand: bool) -> Step {
        let flags = if operand { flag::OPERAND } else { 0 };
        if head.subscript {
            // Without `=` behind the subscript this stays a word.
            self.bash_only(self.pos, head.name_end);
            let node = self.open(Kind::Word, flags);
            self.leaf(Kind::Name, head.name_end);
            self.take_continuations();
            self.stack.push(Frame::AssignmentValue { node });
            return self.open_subscript();
        }
        let node = self.open(Kind::Assignment, flags);
        self.leaf(Kind::Name, head.name_end);
        self.take_assignment_operator(node, head.operator_end.unwrap_or(self.pos))
    }

    /// Behind `name[subscript]`: an operator, or more of a word.
    pub(crate) fn step_assignment_value(&mut self, node: u32) -> Step {
        let end = self.ahead(b"=").or_else(|| self.ahead(b"+="));
        let Some(end) = end else {
            self.stack.push(Frame::Word { node, mode: WordMode::Plain });
            return Ok(());
        };
        if let Some(event) = self.event_mut(node) {
            event.kind = Kind::Assignment;
        }
        self.bash_only(self.start_of(node), end);
        self.take_assignment_operator(node, end)
    }

    fn take_assignment_operator(&mut self, node: u32, end: usize) -> Step {
        let append = self.peek() == Some(b'+');
        if append {
            self.add_flags(node, flag::APPEND);
            self.bash_only(self.pos, end);
        }
        self.leaf_with(Kind::Operator, if append { flag::APPEND } else { 0 }, end);
        self.stack.push(Frame::Word { node, mode: WordMode::Plain });
        if self.peek() == Some(b'(') {
            self.take_continuations();
            self.bash_only(self.pos, self.pos + 1);
            self.deepen()?;
            let array = self.open(Kind::ArrayValue, 0);
            self.leaf(Kind::Opener, self.pos + 1);
            self.stack.push(Frame::ArrayValue { node: array });
        }
        Ok(())
    }

    /// Between the parentheses of `name=(..)`.
    pub(crate) fn step_array_value(&mut self, node: u32) -> Step {
        self.take_blanks();
        let back = Frame::ArrayValue { node };
        match self.peek() {
            None => Err(self.unterminated(self.start_of(node), "an array is not closed")),
            Some(b'\n') => {
                if self.pending.len() > self.level {
                    let span = crate::Span::new(self.pos, self.pos + 1);
                    let detail = "a here-document whose body starts inside an array";
                    self.trouble(crate::Reason::Syntax, span, detail);
                }
                self.stack.push(back);
                self.newline();
                Ok(())
            }
            Some(b')') => {
                self.take_continuations();
                self.leaf(Kind::Closer, self.pos + 1);
                self.close(node);
                self.shallow();
                Ok(())
            }
            Some(b'[') => {
                self.stack.push(back);
                self.take_continuations();
                let word = self.open(Kind::Word, 0);
                self.stack.push(Frame::AssignmentValue { node: word });
                self.open_subscript()
            }
            Some(byte @ (b'<' | b'>')) if self.ahead(&[byte, b'(']).is_some() => {
                self.stack.push(back);
                self.push_word(WordMode::Plain, 0);
                Ok(())
            }
            Some(b';' | b'&' | b'|' | b'<' | b'>' | b'(') => {
                Err(self.error("unexpected token in an array"))
            }
            Some(_) => {
                self.stack.push(back);
                self.push_word(WordMode::Plain, 0);
                Ok(())
            }
        }
    }

    /// `name (`: a function, if `)` follows.
    fn start_function_body(&mut self, node: u32) -> Step {
        self.take_continuations();
        self.leaf(Kind::Opener, self.pos + 1);
        self.take_blanks();
        if self.peek() != Some(b')') {
            return Err(self.error("unexpected token after `(`"));
        }
        self.take_continuations();
        self.leaf(Kind::Closer, self.pos + 1);
        if let Some(event) = self.event_mut(node) {
            event.kind = Kind::Function;
        }
        self.deepen()?;
        self.stack.push(Frame::FunctionBody { node });
        Ok(())
    }
}
