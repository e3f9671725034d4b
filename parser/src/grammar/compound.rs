//! Compound commands: groups, conditions, loops, functions, coprocesses.

use crate::characters::is_meta;
use crate::event::{Kind, flag};
use crate::grammar::list::Keyword;
use crate::grammar::{ArithmeticEnd, Frame, Parser, Step, WordMode};

/// Where in `if` the grammar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfAt {
    Condition,
    Body(u32),
    Else(u32),
}

/// Where in `while` or `until` the grammar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopAt {
    Condition,
    Body(u32),
}

/// Where in `for` or `select` the grammar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForAt {
    Name,
    In,
    Words,
    AfterHead,
    Do,
    Body(Keyword),
}

impl Parser<'_> {
    /// Starts the compound command here, if there is one.
    pub(crate) fn start_compound(&mut self) -> Result<bool, super::SyntaxError> {
        use Keyword::*;
        self.take_continuations();
        if self.byte(self.pos) == Some(b'(') {
            self.start_parenthesis()?;
            return Ok(true);
        }
        let Some((keyword, end)) = self.keyword() else { return Ok(false) };
        match keyword {
            OpenBrace => {
                let node = self.open_keyword(Kind::Group, end)?;
                let pending = self.level;
                self.stack.push(Frame::Closing { node, byte: b'{', pending });
                self.push_list();
            }
            If => {
                let node = self.open_keyword(Kind::If, end)?;
                self.stack.push(Frame::If { node, at: IfAt::Condition });
                self.push_list();
            }
            While | Until => {
                let node = self.open_keyword(Kind::Loop, end)?;
                self.stack.push(Frame::Loop { node, at: LoopAt::Condition });
                self.push_list();
            }
            For | Select => {
                let kind = if keyword == For { Kind::For } else { Kind::Select };
                let node = self.open_keyword(kind, end)?;
                self.stack.push(Frame::For { node, at: ForAt::Name });
            }
            Case => {
                let node = self.open_keyword(Kind::Case, end)?;
                self.stack.push(Frame::Case { node, at: super::case::CaseAt::Subject });
            }
            OpenTest => {
                let node = self.open_keyword(Kind::Test, end)?;
                self.stack.push(Frame::Test { node, depth: 0, any: false });
            }
            Then | Else | Elif | Fi | Do | Done | Esac | In | Function | Coproc | Time | Not
            | CloseBrace => return Ok(false),
        }
        Ok(true)
    }

    /// Opens the node of a compound command, and takes its keyword, which ends at `end`.
    fn open_keyword(&mut self, kind: Kind, end: usize) -> Result<u32, super::SyntaxError> {
        self.deepen()?;
        let node = self.open(kind, 0);
        if matches!(kind, Kind::Select | Kind::Test) {
            self.bash_only(self.pos, end);
        }
        self.leaf(Kind::Keyword, end);
        Ok(node)
    }

    fn start_parenthesis(&mut self) -> Step {
        let doubled = self.ahead(b"((");
        let Some(after) = doubled else { return self.open_subshell() };
        if self.known_not_arithmetic() {
            return self.open_subshell();
        }
        let speculation = self.speculate();
        self.deepen()?;
        self.bash_only(self.pos, after);
        let node = self.open(Kind::Group, flag::ARITHMETIC_GROUP);
        self.stack.push(Frame::Trailer { node });
        let arithmetic = self.open(Kind::Arithmetic, flag::COMMAND);
        self.leaf(Kind::Opener, after);
        let end = ArithmeticEnd::Parentheses(Some(speculation));
        self.stack.push(Frame::Arithmetic { node: arithmetic, end, depth: 0, brackets: 0 });
        Ok(())
    }

    /// Starts `(` here.
    pub(crate) fn open_subshell(&mut self) -> Step {
        self.deepen()?;
        if let Some(end) = self.ahead(b"((") {
            self.bash_only(self.pos, end);
        }
        let node = self.open(Kind::Subshell, 0);
        self.leaf(Kind::Opener, self.pos + 1);
        self.stack.push(Frame::Closing { node, byte: b'(', pending: self.level });
        self.push_list();
        Ok(())
    }

    /// The program inside `$( )`, `( )`, `{ }` is read: its end must be here.
    pub(crate) fn step_closing(&mut self, node: u32, byte: u8, pending: usize) -> Step {
        let empty = self.list_was_empty;
        match byte {
            // Groups and subshells: redirections may follow, and something must be inside.
            b'{' | b'(' => {
                if empty {
                    return Err(self.error("a command is expected"));
                }
                if byte == b'{' {
                    if !self.take_keyword(Keyword::CloseBrace) {
                        return Err(self.missing(node, "`{` is not closed"));
                    }
                } else {
                    self.take_close(node)?;
                }
                self.shallow();
                self.stack.push(Frame::Trailer { node });
                return Ok(());
            }
            b'}' => {
                if !self.take_keyword(Keyword::CloseBrace) && !self.take_glued_brace() {
                    return Err(self.missing(node, "`${ ` is not closed"));
                }
            }
            _ => self.take_close(node)?,
        }
        if self.pending.len() > self.level {
            let span = crate::Span::new(self.start_of(node), self.pos);
            let detail = "a here-document that a substitution leaves open";
            self.trouble(crate::Reason::Version, span, detail);
        }
        self.level = pending;
        self.close(node);
        self.shallow();
        Ok(())
    }

    /// `}` at the end of `${ list; }`, with anything behind it.
    fn take_glued_brace(&mut self) -> bool {
        self.take_continuations();
        if self.byte(self.pos) == Some(b'}') {
            self.leaf(Kind::Closer, self.pos + 1);
            return true;
        }
        false
    }

    fn take_close(&mut self, node: u32) -> Step {
        if self.peek() != Some(b')') {
            return Err(self.missing(node, "`(` is not closed"));
        }
        self.take_continuations();
        self.leaf(Kind::Closer, self.pos + 1);
        Ok(())
    }

    /// A closing word is missing: at the end of the text, or something else stands here.
    pub(crate) fn missing(&self, node: u32, detail: &'static str) -> crate::grammar::SyntaxError {
        if self.pos >= self.end
            && self
                .out
                .events
                .get(node as usize)
                .is_some_and(|open| open.kind == Kind::Substitution)
        {
            return self.unterminated(self.start_of(node), detail);
        }
        self.error(detail)
    }

    fn expect(&mut self, keyword: Keyword, node: u32, detail: &'static str) -> Step {
        self.take_blanks();
        if self.list_was_empty {
            return Err(self.error("a command is expected"));
        }
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.missing(node, detail)) }
    }

    /// Opens the branch of a condition or loop: a list that may not run, or run often.
    fn push_branch(&mut self) -> u32 {
        let branch = self.open(Kind::Branch, 0);
        self.push_list();
        branch
    }

    pub(crate) fn step_if(&mut self, node: u32, at: IfAt) -> Step {
        match at {
            IfAt::Condition => {
                self.expect(Keyword::Then, node, "`then` is expected")?;
                self.push_if(node, IfAt::Body);
            }
            IfAt::Body(branch) => {
                self.close(branch);
                if self.list_was_empty {
                    return Err(self.error("a command is expected"));
                }
                if self.take_keyword(Keyword::Elif) {
                    self.stack.push(Frame::If { node, at: IfAt::Condition });
                    self.push_list();
                } else if self.take_keyword(Keyword::Else) {
                    self.push_if(node, IfAt::Else);
                } else {
                    self.expect(Keyword::Fi, node, "`fi` is expected")?;
                    self.end_compound(node);
                }
            }
            IfAt::Else(branch) => {
                self.close(branch);
                self.expect(Keyword::Fi, node, "`fi` is expected")?;
                self.end_compound(node);
            }
        }
        Ok(())
    }

    fn push_if(&mut self, node: u32, at: fn(u32) -> IfAt) {
        let place = self.stack.len();
        self.stack.push(Frame::If { node, at: IfAt::Condition });
        let branch = self.push_branch();
        if let Some(frame) = self.stack.get_mut(place) {
            *frame = Frame::If { node, at: at(branch) };
        }
    }

    fn end_compound(&mut self, node: u32) {
        self.shallow();
        self.stack.push(Frame::Trailer { node });
    }

    pub(crate) fn step_loop(&mut self, node: u32, at: LoopAt) -> Step {
        match at {
            LoopAt::Condition => {
                self.expect(Keyword::Do, node, "`do` is expected")?;
                let branch = self.open(Kind::Branch, 0);
                self.stack.push(Frame::Loop { node, at: LoopAt::Body(branch) });
                self.push_list();
            }
            LoopAt::Body(branch) => {
                self.close(branch);
                self.expect(Keyword::Done, node, "`done` is expected")?;
                self.end_compound(node);
            }
        }
        Ok(())
    }

    pub(crate) fn step_for(&mut self, node: u32, at: ForAt) -> Step {
        match at {
            ForAt::Name => self.for_name(node),
            ForAt::In => {
                if self.skip_newline(Frame::For { node, at }) {
                    return Ok(());
                }
                if self.take_keyword(Keyword::In) {
                    self.stack.push(Frame::For { node, at: ForAt::Words });
                    return Ok(());
                }
                self.for_after_head(node)
            }
            ForAt::Words => {
                self.take_blanks();
                match self.peek() {
                    Some(b';' | b'\n') => self.for_after_head(node),
                    Some(byte) if is_meta(byte) && !self.substitution_ahead() => {
                        Err(self.error("unexpected token in the words of a loop"))
                    }
                    Some(_) => {
                        self.stack.push(Frame::For { node, at });
                        self.push_word(WordMode::Plain, 0);
                        Ok(())
                    }
                    None => Err(self.error("`do` is expected")),
                }
            }
            ForAt::AfterHead => self.for_after_head(node),
            ForAt::Do => {
                if self.skip_newline(Frame::For { node, at }) {
                    return Ok(());
                }
                let brace = self.take_keyword(Keyword::OpenBrace);
                if !brace && !self.take_keyword(Keyword::Do) {
                    return Err(self.missing(node, "`do` is expected"));
                }
                let branch = self.open(Kind::Branch, 0);
                let _ = branch;
                let end = if brace { Keyword::CloseBrace } else { Keyword::Done };
                self.stack.push(Frame::For { node, at: ForAt::Body(end) });
                self.push_list();
                Ok(())
            }
            ForAt::Body(end) => {
                self.close_branch();
                self.expect(end, node, "`done` is expected")?;
                self.end_compound(node);
                Ok(())
            }
        }
    }

    /// Closes the `Branch` around the list that was closed last.
    fn close_branch(&mut self) {
        let list = self.out.events.iter().rev().find(|event| event.kind == Kind::Close);
        if let Some(branch) = list.and_then(|close| close.link.checked_sub(1)) {
            self.close(branch);
        }
    }

    pub(crate) fn substitution_ahead(&self) -> bool {
        self.ahead(b"<(").is_some() || self.ahead(b">(").is_some()
    }

    fn for_name(&mut self, node: u32) -> Step {
        self.take_blanks();
        let select = self.out.events.get(node as usize).is_some_and(|e| e.kind == Kind::Select);
        if let Some(after) = self.ahead(b"((").filter(|_| !select) {
            self.bash_only(self.pos, after);
            self.deepen()?;
            self.stack.push(Frame::For { node, at: ForAt::AfterHead });
            let arithmetic = self.open(Kind::Arithmetic, flag::COMMAND);
            self.leaf(Kind::Opener, after);
            let end = ArithmeticEnd::Parentheses(None);
            self.stack.push(Frame::Arithmetic { node: arithmetic, end, depth: 0, brackets: 0 });
            return Ok(());
        }
        let end = self.name_end(self.pos);
        let ends = end.is_some_and(|end| self.look(end).is_none_or(|(byte, _)| is_meta(byte)));
        let Some(end) = end.filter(|_| ends) else {
            return Err(self.error("a name is expected"));
        };
        self.leaf(Kind::Name, end);
        self.stack.push(Frame::For { node, at: ForAt::In });
        Ok(())
    }

    /// Behind the words or `(( ))`: `;` or a line feed, then `do`.
    fn for_after_head(&mut self, node: u32) -> Step {
        self.take_blanks();
        if self.peek() == Some(b';') {
            self.take_continuations();
            self.leaf(Kind::Operator, self.pos + 1);
        }
        self.list_was_empty = false;
        self.stack.push(Frame::For { node, at: ForAt::Do });
        Ok(())
    }

    /// `function name [()] body`.
    pub(crate) fn start_function(&mut self, end: usize) -> Step {
        self.deepen()?;
        self.bash_only(self.pos, end);
        let node = self.open(Kind::Function, 0);
        self.leaf(Kind::Keyword, end);
        self.take_blanks();
        if self.peek().is_none_or(is_meta) {
            return Err(self.error("a name is expected"));
        }
        self.stack.push(Frame::FunctionBody { node });
        self.push_word(WordMode::Plain, 0);
        Ok(())
    }

    pub(crate) fn step_function_body(&mut self, node: u32) -> Step {
        if self.skip_newline(Frame::FunctionBody { node }) {
            return Ok(());
        }
        if let Some(end) = self.ahead_parentheses() {
            self.leaf(Kind::Opener, end);
            self.stack.push(Frame::FunctionBody { node });
            return Ok(());
        }
        self.shallow();
        let place = self.stack.len();
        self.stack.push(Frame::Trailer { node });
        if !self.start_compound()? {
            self.stack.truncate(place);
            return Err(self.error("the body of a function is expected"));
        }
        Ok(())
    }

    /// `()` with blanks between, directly behind the name in `function name ()`.
    fn ahead_parentheses(&self) -> Option<usize> {
        let mut at = self.ahead(b"(")?;
        while let Some((b' ' | b'\t', next)) = self.look(at) {
            at = next;
        }
        self.look(at).filter(|(byte, _)| *byte == b')').map(|(_, after)| after)
    }

    /// `coproc [NAME] command`.
    pub(crate) fn start_coproc(&mut self, end: usize) -> Step {
        self.deepen()?;
        self.bash_only(self.pos, end);
        let node = self.open(Kind::Coproc, 0);
        self.leaf(Kind::Keyword, end);
        self.stack.push(Frame::Coproc { node });
        self.take_blanks();
        if self.start_compound()? {
            return Ok(());
        }
        // A name counts only in front of a compound command.
        if let Some(end) = self.name_end(self.pos)
            && self.compound_behind(end)
        {
            self.leaf(Kind::Name, end);
            self.take_blanks();
            if self.start_compound()? {
                return Ok(());
            }
        }
        self.push_simple();
        Ok(())
    }

    fn compound_behind(&self, end: usize) -> bool {
        let mut at = end;
        let mut blank = false;
        while let Some((b' ' | b'\t', next)) = self.look(at) {
            at = next;
            blank = true;
        }
        let rest = |text: &[u8]| {
            self.ahead_from(at, text)
                .is_some_and(|end| self.look(end).is_none_or(|(byte, _)| is_meta(byte)))
        };
        blank
            && (self.ahead_from(at, b"(").is_some()
                || [b"{".as_slice(), b"if", b"while", b"until", b"for", b"select", b"case", b"[["]
                    .iter()
                    .any(|word| rest(word)))
    }

    pub(crate) fn step_coproc(&mut self, node: u32) -> Step {
        self.shallow();
        self.close(node);
        Ok(())
    }
}
