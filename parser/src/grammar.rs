//! Tokens to a flat syntax tree, on an explicit stack: the machine that drives the lexer.

mod case;
mod compound;
mod cursor;
pub(crate) mod lex;
mod list;
pub(crate) mod redirect;
mod simple;
mod syntax;
mod test;

use crate::event::{Event, Kind};
use crate::{Reason, Span};

pub(crate) use syntax::Syntax;
use syntax::memory_of;

/// A part that the grammar doubts.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub reason: Reason,
    pub span: Span,
    pub detail: &'static str,
    /// How to write it, where the reason does not say it; else empty.
    pub help: &'static str,
}

/// A text that bash would not accept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyntaxError {
    pub at: usize,
    /// The opener that is not closed, for recovery.
    pub opener: Option<usize>,
    pub detail: &'static str,
}

/// Troubles kept one by one; one more stands for all that follow.
const TROUBLES: usize = 10_000;

pub(crate) type Step = Result<(), SyntaxError>;

/// How a word is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordMode {
    Plain,
    /// The right side of `==` in `[[ ]]`: extended patterns count.
    Pattern,
    /// The right side of `=~`.
    Regex,
}

/// How the operand of `${ }` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperandMode {
    /// Outside double quotes.
    Plain,
    /// Inside double quotes: single quotes are paired by the lexer, but are literal and hide nothing.
    QuotedLiteral,
    /// Inside double quotes, after `#`, `%`, `/`: single quotes quote.
    QuotedPattern,
}

impl OperandMode {
    /// Returns the flags of an expansion in the operand.
    pub(crate) fn flags(self) -> u8 {
        if self == OperandMode::Plain { 0 } else { crate::event::flag::QUOTED }
    }
}

/// End of arithmetic text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArithmeticEnd {
    /// `))`; the index of a speculation, if backtracking is possible.
    Parentheses(Option<u32>),
    /// `]`.
    Bracket,
    /// `}`, not consumed.
    Brace,
}

/// A step of the grammar that waits for those above it on the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame {
    List { node: u32, separated: bool, count: u32, top: bool },
    AndOr { node: u32, started: bool },
    Pipeline { node: u32, started: bool },
    Simple { node: u32, words: u32, parts: u32, declaration: bool },
    Word { node: u32, mode: WordMode },
    Double { node: u32 },
    Operand { node: u32, mode: OperandMode },
    BracedName { node: u32, mode: OperandMode },
    LiteralQuotes { end: usize, outer_end: usize },
    Arithmetic { node: u32, end: ArithmeticEnd, depth: u32, brackets: u32 },
    Group { node: u32, depth: u32, regex: bool },
    ArrayValue { node: u32 },
    AssignmentValue { node: u32 },
    Redirect { node: u32, here: u8 },
    Trailer { node: u32 },
    Closing { node: u32, byte: u8, pending: usize },
    HereBodies { next: usize },
    HereBody { node: u32, outer_end: usize, tabs: bool, line_end: usize, line_start: bool },
    FunctionBody { node: u32 },
    Coproc { node: u32 },
    If { node: u32, at: compound::IfAt },
    Loop { node: u32, at: compound::LoopAt },
    For { node: u32, at: compound::ForAt },
    Case { node: u32, at: case::CaseAt },
    Test { node: u32, depth: u32, any: bool },
}

/// Where to go back to when text behind `((` is not arithmetic.
#[derive(Debug, Clone, Copy)]
struct Speculation {
    opener: u32,
    events: usize,
    stack: usize,
    pending: usize,
    here_documents: usize,
    troubles: usize,
    depth: u32,
    end: usize,
    level: usize,
    in_here_body: u32,
}

pub(crate) struct Parser<'a> {
    pub(crate) source: &'a [u8],
    /// The end of what is read now: of the text, or of a here-document body.
    pub(crate) end: usize,
    pub(crate) pos: usize,
    pub(crate) out: Syntax,
    pub(crate) stack: Vec<Frame>,
    /// Here-documents whose bodies come after the next line feed; indexes.
    pub(crate) pending: Vec<u32>,
    /// Those of `pending` before this index belong to an outer level.
    pub(crate) level: usize,
    pub(crate) extended_patterns: bool,
    pub(crate) extended_patterns_next: bool,
    pub(crate) list_was_empty: bool,
    speculations: Vec<Speculation>,
    not_arithmetic: Vec<u32>,
    /// Bytes that were read in vain; beyond a few times the text, guessing ends.
    backtracked: usize,
    depth: u32,
    depth_limit: u32,
    step_limit: u64,
    memory_limit: usize,
    /// The start of the line that is being read at the top level.
    pub(crate) line_start: usize,
    rewinds: u32,
    pub(crate) in_here_body: u32,
    pub(crate) tabs_doubted: bool,
    /// The last search for the end of a here-document that found none.
    pub(crate) in_vain: Option<crate::grammar::lex::heredoc::Search>,
    /// Arithmetic was opened somewhere.
    arithmetic: bool,
}

/// The bounds under which a text was read: with them, reading it again gives the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HowRead {
    pub depth: u32,
    pub steps: u64,
    /// Bytes of memory that the syntax may take.
    pub memory_bytes: usize,
}

impl HowRead {
    /// Reads one text as a program, or reads it again.
    pub(crate) fn read(self, source: &[u8]) -> Syntax {
        let mut parser = Parser {
            source,
            end: source.len(),
            pos: 0,
            out: Syntax { events: Vec::with_capacity(source.len() / 2 + 32), ..Syntax::default() },
            stack: Vec::with_capacity(32),
            pending: Vec::new(),
            level: 0,
            extended_patterns: false,
            extended_patterns_next: false,
            list_was_empty: true,
            speculations: Vec::new(),
            not_arithmetic: Vec::new(),
            backtracked: 0,
            depth: 0,
            depth_limit: self.depth,
            step_limit: self.steps,
            memory_limit: self.memory_bytes,
            line_start: 0,
            rewinds: 0,
            in_here_body: 0,
            tabs_doubted: false,
            arithmetic: false,
            in_vain: None,
        };
        parser.run();
        if parser.arithmetic {
            let nodes = parser.out.events.iter().filter(|event| event.kind == Kind::Arithmetic);
            parser.out.arithmetic =
                nodes.map(|event| Span { start: event.start, end: event.end }).collect();
        }
        parser.out
    }
}

impl Parser<'_> {
    fn run(&mut self) {
        self.push_top_list();
        loop {
            let step = self.run_stack().and_then(|()| self.finish());
            let Err(error) = step else { return };
            if self.backtrack() {
                continue;
            }
            if self.is_spent() || self.depth > self.depth_limit {
                self.abandon();
                return;
            }
            self.recover(error);
            if self.pos >= self.end {
                self.close_all(0);
                return;
            }
        }
    }

    fn run_stack(&mut self) -> Step {
        while let Some(frame) = self.stack.pop() {
            self.spend(1)?;
            self.step(frame)?;
        }
        Ok(())
    }

    /// Counts work; an error when the limit is passed.
    pub(crate) fn spend(&mut self, steps: u64) -> Step {
        self.out.steps += steps;
        if self.is_spent() { Err(self.error("too much work")) } else { Ok(()) }
    }

    /// Says whether a limit of work or memory is passed.
    fn is_spent(&self) -> bool {
        self.out.steps > self.step_limit
            || memory_of(self.out.events.len(), &self.out.here_documents) > self.memory_limit
    }

    fn step(&mut self, frame: Frame) -> Step {
        match frame {
            Frame::List { node, separated, count, top } => {
                self.step_list(node, separated, count, top)
            }
            Frame::AndOr { node, started } => self.step_and_or(node, started),
            Frame::Pipeline { node, started } => self.step_pipeline(node, started),
            Frame::Simple { node, words, parts, declaration } => {
                self.step_simple(node, words, parts, declaration)
            }
            Frame::Word { node, mode } => self.step_word(node, mode),
            Frame::Double { node } => self.step_double(node),
            Frame::Operand { node, mode } => self.step_operand(node, mode),
            Frame::BracedName { node, mode } => self.step_braced_operator(node, mode),
            Frame::LiteralQuotes { end, outer_end } => self.step_literal_quotes(end, outer_end),
            Frame::Arithmetic { node, end, depth, brackets } => {
                self.step_arithmetic(node, end, depth, brackets)
            }
            Frame::Group { node, depth, regex } => self.step_group(node, depth, regex),
            Frame::ArrayValue { node } => self.step_array_value(node),
            Frame::AssignmentValue { node } => self.step_assignment_value(node),
            Frame::Redirect { node, here } => self.step_redirect(node, here),
            Frame::Trailer { node } => self.step_trailer(node),
            Frame::Closing { node, byte, pending } => self.step_closing(node, byte, pending),
            Frame::HereBodies { next } => self.step_here_bodies(next),
            Frame::HereBody { node, outer_end, tabs, line_end, line_start } => {
                self.step_here_body(node, outer_end, tabs, line_end, line_start)
            }
            Frame::FunctionBody { node } => self.step_function_body(node),
            Frame::Coproc { node } => self.step_coproc(node),
            Frame::If { node, at } => self.step_if(node, at),
            Frame::Loop { node, at } => self.step_loop(node, at),
            Frame::For { node, at } => self.step_for(node, at),
            Frame::Case { node, at } => self.step_case(node, at),
            Frame::Test { node, depth, any } => self.step_test(node, depth, any),
        }
    }

    /// The end of the text: nothing may be left over.
    fn finish(&mut self) -> Step {
        if self.pos < self.end {
            return Err(self.error("unexpected token"));
        }
        Ok(())
    }

    // Events.

    /// Opens a node here and returns its index.
    pub(crate) fn open(&mut self, kind: Kind, flags: u8) -> u32 {
        let start = index(self.pos);
        let node = index(self.out.events.len());
        self.arithmetic |= kind == Kind::Arithmetic;
        self.out.events.push(Event { kind, flags, start, end: start, link: u32::MAX });
        node
    }

    /// Closes a node here.
    pub(crate) fn close(&mut self, node: u32) {
        let end = index(self.pos);
        let at = index(self.out.events.len());
        let start = match self.out.events.get_mut(node as usize) {
            Some(open) => {
                open.end = end;
                open.link = at;
                open.start
            }
            None => end,
        };
        self.out.events.push(Event { kind: Kind::Close, flags: 0, start, end, link: node });
    }

    /// Emits a token up to `end` and goes on there. The only way forward: so tokens tile the text.
    pub(crate) fn leaf(&mut self, kind: Kind, end: usize) {
        self.leaf_with(kind, 0, end);
    }

    pub(crate) fn leaf_with(&mut self, kind: Kind, flags: u8, end: usize) {
        if end > self.pos {
            let (start, end_at) = (index(self.pos), index(end));
            self.out.events.push(Event { kind, flags, start, end: end_at, link: 0 });
            self.pos = end;
        }
    }

    pub(crate) fn event_mut(&mut self, node: u32) -> Option<&mut Event> {
        self.out.events.get_mut(node as usize)
    }

    pub(crate) fn add_flags(&mut self, node: u32, flags: u8) {
        if let Some(event) = self.event_mut(node) {
            event.flags |= flags;
        }
    }

    pub(crate) fn start_of(&self, node: u32) -> usize {
        self.out.events.get(node as usize).map_or(0, |event| event.start as usize)
    }

    // Doubts.

    pub(crate) fn error(&self, detail: &'static str) -> SyntaxError {
        SyntaxError { at: self.pos, opener: None, detail }
    }

    pub(crate) fn unterminated(&self, opener: usize, detail: &'static str) -> SyntaxError {
        SyntaxError { at: self.end, opener: Some(opener), detail }
    }

    pub(crate) fn trouble(&mut self, reason: Reason, span: Span, detail: &'static str) {
        self.trouble_with(Trouble { reason, span, detail, help: "" });
    }

    /// Notes a doubt that has a help of its own.
    pub(crate) fn trouble_with(&mut self, trouble: Trouble) {
        match self.out.troubles.len() {
            ..TROUBLES => self.out.troubles.push(trouble),
            TROUBLES => self.out.troubles.push(Trouble {
                reason: Reason::LimitWork,
                span: Span::new(0, self.source.len()),
                detail: "more doubts than are listed",
                help: "",
            }),
            _ => {}
        }
    }

    /// Notes that other shells read `start..end` otherwise.
    pub(crate) fn bash_only(&mut self, start: usize, end: usize) {
        if self.out.bash_only.is_none() {
            self.out.bash_only = Some(Span::new(start, end));
        }
    }

    /// Enters a nesting construct.
    pub(crate) fn deepen(&mut self) -> Step {
        self.depth += 1;
        if self.depth > self.depth_limit { Err(self.error("nested too deep")) } else { Ok(()) }
    }

    pub(crate) fn shallow(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    // Speculation.

    /// Remembers this place: what starts here may turn out to be no arithmetic.
    pub(crate) fn speculate(&mut self) -> u32 {
        self.speculations.push(Speculation {
            opener: index(self.pos),
            events: self.out.events.len(),
            stack: self.stack.len(),
            pending: self.pending.len(),
            here_documents: self.out.here_documents.len(),
            troubles: self.out.troubles.len(),
            depth: self.depth,
            end: self.end,
            level: self.level,
            in_here_body: self.in_here_body,
        });
        index(self.speculations.len() - 1)
    }

    /// The guess was right.
    pub(crate) fn confirm(&mut self, speculation: u32) {
        self.speculations.truncate(speculation as usize);
    }

    /// Says whether the opener here was found not to be arithmetic.
    pub(crate) fn known_not_arithmetic(&mut self) -> bool {
        if self.not_arithmetic.binary_search(&index(self.pos)).is_ok() {
            return true;
        }
        let guesses = self.backtracked <= 4 * self.source.len() + 4_096;
        if !guesses {
            let span = Span::new(self.pos, self.pos + 2);
            self.trouble(Reason::ArithOrSubshell, span, "too many openers that are not closed");
        }
        !guesses
    }

    /// Goes back to the innermost guess and takes the other reading.
    fn backtrack(&mut self) -> bool {
        if self.is_spent() || self.depth > self.depth_limit {
            return false;
        }
        let Some(back) = self.speculations.pop() else { return false };
        self.restore(back);
        if let Err(at) = self.not_arithmetic.binary_search(&back.opener) {
            self.not_arithmetic.insert(at, back.opener);
        }
        // The frame below the opener looks at the same place again.
        self.reopen().is_ok()
    }

    fn restore(&mut self, back: Speculation) {
        let vain = self.pos.saturating_sub(back.opener as usize);
        self.backtracked = self.backtracked.saturating_add(vain);
        self.out.steps += vain as u64;
        self.in_here_body = back.in_here_body;
        self.pos = back.opener as usize;
        self.out.events.truncate(back.events);
        self.stack.truncate(back.stack);
        self.pending.truncate(back.pending);
        self.out.here_documents.truncate(back.here_documents);
        self.out.troubles.truncate(back.troubles);
        self.depth = back.depth;
        self.end = back.end;
        self.level = back.level;
    }

    /// Reads the opener here again, as a substitution or a subshell.
    fn reopen(&mut self) -> Step {
        if self.byte(self.pos) == Some(b'$') {
            self.open_substitution()
        } else {
            self.open_subshell()
        }
    }

    // Recovery.

    /// Closes every node that is still open, down to `floor` frames.
    fn close_all(&mut self, floor: usize) {
        while self.stack.len() > floor {
            self.stack.pop();
        }
        self.speculations.clear();
        let mut open: Vec<u32> = Vec::new();
        for (at, event) in self.out.events.iter().enumerate() {
            if event.kind == Kind::Close {
                open.pop();
            } else if !event.kind.is_leaf() {
                open.push(index(at));
            }
        }
        while let Some(node) = open.pop() {
            self.close(node);
        }
        self.depth = 0;
        self.end = self.source.len();
        self.pending.clear();
        self.level = 0;
        self.in_here_body = 0;
    }

    /// Makes the rest from the line of the error on opaque, and goes on behind the error to list commands.
    fn recover(&mut self, error: SyntaxError) {
        if self.out.error.is_none() {
            self.out.error = Some(error.at);
            let span = Span::new(self.line_start, self.source.len());
            self.trouble(Reason::Syntax, span, error.detail);
        }
        self.rewinds += 1;
        let rewind = error.opener.filter(|_| self.rewinds <= 8);
        if let Some(opener) = rewind {
            self.rewind(opener);
        }
        self.close_all(0);
        if self.rewinds > 24 {
            self.pos = self.pos.min(self.source.len());
            self.leaf(Kind::Junk, self.source.len());
            return;
        }
        let rest = self.source.get(self.pos..).unwrap_or_default();
        let word = rest.iter().take_while(|byte| crate::characters::is_plain(**byte)).count();
        let junk = (self.pos + word.max(1)).min(self.source.len());
        self.leaf(Kind::Junk, junk);
        if self.pos < self.source.len() {
            self.push_top_list();
        }
    }

    /// Drops what was read from `opener` on.
    fn rewind(&mut self, opener: usize) {
        while self.out.events.last().is_some_and(|event| {
            if event.kind == Kind::Close {
                event.end as usize > opener
            } else {
                event.start as usize >= opener
            }
        }) {
            self.out.events.pop();
        }
        let mut events = std::mem::take(&mut self.out.events);
        for event in &mut events {
            if !event.kind.is_leaf() && event.kind != Kind::Close && event.end as usize > opener {
                event.end = event.start;
            }
        }
        let covered = events
            .iter()
            .rev()
            .find(|event| event.kind.is_leaf())
            .map_or(0, |event| event.end as usize);
        self.out.events = events;
        self.pos = covered;
        self.out
            .here_documents
            .retain(|document| (document.redirect as usize) < self.out.events.len());
        let kept = self.out.events.len();
        for document in &mut self.out.here_documents {
            document.body = document.body.filter(|body| (*body as usize) < kept);
        }
    }

    /// Stops reading: the rest is one opaque token.
    fn abandon(&mut self) {
        let reason = if self.is_spent() { Reason::LimitWork } else { Reason::LimitDepth };
        let span = Span::new(self.pos, self.source.len());
        self.trouble(reason, span, "the rest is not read");
        self.close_all(0);
        self.leaf(Kind::Junk, self.source.len());
    }
}

/// Returns `at` as an index of the tree. Texts are far below 4 GiB: longer ones are refused before.
pub(crate) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
