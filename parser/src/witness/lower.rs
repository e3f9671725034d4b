//! The witness's tree in the terms of the authority: marks.
//!
//! The grammar has known defects. Each that is repaired here has a name in [`Repair`]; a repair only joins
//! pieces of one word or turns something into a word, and what it yields must still equal what the authority saw.

use super::NodeKind;
use super::kind::{Part, Shows};
use super::shape::Shape;
use crate::Span;
use crate::marks::{Mark, MarkKind};

/// A defect of the grammar that lowering mends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// Further destinations of one redirection are arguments of the command.
    Destination,
    /// Pieces without a blank between them are one word.
    Join,
    /// `time` and `!` in front of a command are keywords.
    Keyword,
    /// Words behind the operators of `[ ]` are arguments.
    TestWords,
    /// A lone `-` in front of a here-document belongs to no node.
    LostDash,
    /// Operands of `alias`, `eval` and `let` are read as those of `export` are.
    AssignmentOperand,
}

impl Repair {
    /// Returns the name of the repair in `--explain`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Repair::Destination => "words-after-redirection",
            Repair::Join => "joined-word",
            Repair::Keyword => "keyword",
            Repair::TestWords => "test-words",
            Repair::LostDash => "lost-dash",
            Repair::AssignmentOperand => "assignment-operand",
        }
    }
}

/// A tree in the terms of the authority.
pub(super) struct Lowered {
    /// Marks that were seen, sorted.
    pub(super) marks: Vec<Mark>,
    /// Repairs that were made.
    pub(super) repairs: Vec<Repair>,
}

/// Lowers a tree that has neither ERROR nor MISSING nodes.
pub(super) fn lower(shape: &Shape) -> Lowered {
    let mut lowering = Lowering { shape, marks: Vec::new(), repairs: Vec::new() };
    let mut index = 0;
    while index < shape.len() {
        index = lowering.node(index);
    }
    let Lowering { mut marks, repairs, .. } = lowering;
    marks.sort_unstable();
    Lowered { marks, repairs }
}

struct Lowering<'a, 'b> {
    shape: &'a Shape<'b>,
    marks: Vec<Mark>,
    repairs: Vec<Repair>,
}

impl Lowering<'_, '_> {
    /// Marks what node `index` itself shows; returns the index of the node to look at next.
    fn node(&mut self, index: usize) -> usize {
        let shape = self.shape;
        match shape.kind(index).shows() {
            Shows::Nothing => {}
            Shows::Whole(kind) => self.whole(kind, index),
            Shows::Pieces => self.pieces_of(index),
            Shows::Test => self.test_command(index),
            Shows::Assignment => self.lone_assignment(index),
            Shows::Redirect => self.lone_redirect(index),
            Shows::HereBody => self.here_document_body(index),
            Shows::Substitution => {
                let span = self.backquotes_without_dollar(index);
                self.mark(MarkKind::Substitution, span);
                if span.of(shape.text()).first() == Some(&b'`') {
                    return shape.after(index);
                }
            }
            Shows::Compound => {
                let arithmetic = shape.bytes(index).starts_with(b"((");
                let kind = if arithmetic { MarkKind::Arithmetic } else { MarkKind::Compound };
                self.whole(kind, index);
            }
            Shows::ArithmeticFor => {
                self.whole(MarkKind::Compound, index);
                self.head_of_for(index);
            }
            Shows::Function => self.function(index),
        }
        index + 1
    }

    fn mark(&mut self, kind: MarkKind, span: Span) {
        self.marks.push(Mark { span, kind });
    }

    fn whole(&mut self, kind: MarkKind, index: usize) {
        self.mark(kind, self.shape.span(index));
    }

    /// `(( ))` of a `for`.
    fn head_of_for(&mut self, index: usize) {
        let shape = self.shape;
        let token = |text: &[u8]| {
            let found = shape.children(index).find(|child| shape.bytes(*child) == text);
            found.map(|child| shape.span(child))
        };
        if let (Some(open), Some(close)) = (token(b"(("), token(b"))")) {
            self.mark(MarkKind::Arithmetic, open.join(close));
        }
    }

    /// The span of a substitution; the grammar takes a `$` before a backquote for a part of it.
    fn backquotes_without_dollar(&self, index: usize) -> Span {
        let span = self.shape.span(index);
        let dollar = span.of(self.shape.text()).starts_with(b"$`");
        Span { start: span.start + u32::from(dollar), end: span.end }
    }

    fn function(&mut self, index: usize) {
        let shape = self.shape;
        let is_body =
            |child: &usize| matches!(shape.kind(*child).part(), Part::Compound | Part::Test);
        let body = shape.children(index).filter(is_body).last();
        let end = body.map_or(shape.span(index).end, |body| shape.span(body).end);
        self.mark(MarkKind::Compound, Span { start: shape.span(index).start, end });
    }

    /// An assignment that is a statement of its own; those in commands are marked with the command.
    fn lone_assignment(&mut self, index: usize) {
        let shape = self.shape;
        let parent = shape.kind(shape.parent(index));
        // Below anything else it leaves a mark, which the authority must have seen. `for ((i=0; ...` is arithmetic.
        let arithmetic = [NodeKind::CStyleForStatement, NodeKind::VariableAssignment];
        let commands = [NodeKind::Command, NodeKind::DeclarationCommand];
        if !commands.contains(&parent) && !arithmetic.contains(&parent) {
            self.whole(MarkKind::Assignment, index);
        }
    }

    /// A redirection that stands elsewhere than in a command: in `$(<f)`, after a function body.
    fn lone_redirect(&mut self, index: usize) {
        let shape = self.shape;
        let marked = [NodeKind::Command, NodeKind::RedirectedStatement, NodeKind::HeredocRedirect];
        if !marked.contains(&shape.kind(shape.parent(index))) {
            let mut pieces = Vec::new();
            self.redirect(index, &mut pieces);
            self.finish(pieces, None);
        }
    }

    /// Marks the words, assignments and redirections that are children of `index`.
    fn pieces_of(&mut self, index: usize) {
        let shape = self.shape;
        let mut pieces = Vec::new();
        let mut keyword = false;
        let mut reached = shape.span(index).start;
        for child in shape.children(index) {
            let span = shape.span(child);
            let gap = Span { start: std::mem::replace(&mut reached, span.end), end: span.start };
            if let Some(dash) = lost_dash(shape, child, gap) {
                self.repairs.push(Repair::LostDash);
                pieces.push((MarkKind::Word, dash));
            }
            match shape.kind(child).part() {
                Part::Assignment => pieces.push((MarkKind::Assignment, span)),
                Part::Redirect | Part::HereDocument => self.redirect(child, &mut pieces),
                Part::Name if pieces.is_empty() => {
                    keyword = matches!(shape.bytes(child), b"time" | b"!");
                    pieces.push((MarkKind::Word, span));
                }
                Part::Name | Part::Literal => pieces.push((MarkKind::Word, span)),
                Part::Token if is_word_token(shape, index, child) => {
                    pieces.push((MarkKind::Word, span));
                }
                Part::Token | Part::Delimiter | Part::Expression | Part::Redirected => {}
                Part::Compound | Part::Test | Part::Other => {}
            }
        }
        if keyword {
            self.after_keywords(&mut pieces);
        }
        self.assignment_operands(&mut pieces);
        let is_command = shape.kind(index) != NodeKind::RedirectedStatement;
        self.finish(pieces, is_command.then_some(MarkKind::Name));
    }

    /// Finds the assignments that the grammar took for words behind `alias`, `eval` and `let`.
    fn assignment_operands(&mut self, pieces: &mut [(MarkKind, Span)]) {
        let text = self.shape.text();
        let mut words = pieces.iter_mut().filter(|(kind, _)| *kind == MarkKind::Word);
        let name = words.next().map_or(b"".as_slice(), |(_, name)| name.of(text));
        if !matches!(name, b"alias" | b"eval" | b"let") {
            return;
        }
        for (kind, _) in words.filter(|(_, span)| looks_like_assignment(span.of(text))) {
            *kind = MarkKind::Assignment;
            self.repairs.push(Repair::AssignmentOperand);
        }
    }

    /// Takes `time` with its options and `!` away, and finds the assignments behind them that the grammar took
    /// for words.
    fn after_keywords(&mut self, pieces: &mut Vec<(MarkKind, Span)>) {
        let text = self.shape.text();
        let mut after_time = false;
        let keywords = pieces.iter().take_while(|(kind, span)| {
            let word = span.of(text);
            let option = after_time && matches!(word, b"-p" | b"--");
            after_time = option || word == b"time";
            *kind == MarkKind::Word && (option || matches!(word, b"time" | b"!"))
        });
        let keywords = keywords.count();
        pieces.drain(..keywords);
        self.repairs.push(Repair::Keyword);
        for (kind, span) in pieces.iter_mut() {
            if *kind != MarkKind::Word || !looks_like_assignment(span.of(text)) {
                break;
            }
            *kind = MarkKind::Assignment;
        }
    }

    /// Adds the redirection `index`: operator with descriptor and first destination, then words.
    fn redirect(&mut self, index: usize, pieces: &mut Vec<(MarkKind, Span)>) {
        let shape = self.shape;
        let start = shape.span(index).start;
        let mut end = None;
        for child in shape.children(index) {
            let span = shape.span(child);
            match shape.kind(child).part() {
                Part::Token if matches!(shape.bytes(child), b"<&-" | b">&-") => {
                    end = Some(span.end);
                    pieces.push((MarkKind::Redirect, Span { start, end: span.end }));
                }
                Part::Delimiter => {
                    end = Some(span.end);
                    pieces.push((MarkKind::Redirect, Span { start, end: span.end }));
                }
                Part::Redirect if shape.kind(index) == NodeKind::HeredocRedirect => {
                    self.redirect(child, pieces);
                }
                Part::Name | Part::Literal => match end {
                    None => {
                        end = Some(span.end);
                        pieces.push((MarkKind::Redirect, Span { start, end: span.end }));
                    }
                    Some(_) => {
                        self.repairs.push(Repair::Destination);
                        pieces.push((MarkKind::Word, span));
                    }
                },
                // Other parts of a here-document are met on the way down.
                Part::Token | Part::Assignment | Part::Redirect | Part::HereDocument => {}
                Part::Expression | Part::Redirected | Part::Compound => {}
                Part::Test | Part::Other => {}
            }
        }
    }

    /// Marks `pieces`, joined where only line continuations, or nothing, are between them. The first word gets the mark
    /// `of_first` too: that of a command is its name.
    fn finish(&mut self, pieces: Vec<(MarkKind, Span)>, of_first: Option<MarkKind>) {
        let mut joined: Vec<(MarkKind, Span)> = Vec::with_capacity(pieces.len());
        for (kind, span) in pieces {
            match joined.last_mut() {
                Some((_, last))
                    if kind == MarkKind::Word
                        && last.end <= span.start
                        && is_continuation(self.shape.text(), last.end, span.start) =>
                {
                    last.end = span.end;
                    self.repairs.push(Repair::Join);
                }
                _ => joined.push((kind, span)),
            }
        }
        let first = joined.iter().find(|(kind, _)| *kind == MarkKind::Word);
        if let (Some((_, span)), Some(mark)) = (first, of_first) {
            self.mark(mark, *span);
        }
        for (kind, span) in joined {
            self.mark(kind, span);
        }
    }

    /// `[ ]` is a plain command: its operators and operands are words. `[[ ]]` is a compound.
    fn test_command(&mut self, index: usize) {
        let shape = self.shape;
        if shape.bytes(index).starts_with(b"[[") {
            return self.whole(MarkKind::Compound, index);
        }
        let mut pieces = Vec::new();
        let mut at = index + 1;
        let end = shape.after(index);
        while at < end {
            let kind = shape.kind(at);
            if matches!(kind.part(), Part::Expression | Part::Redirected) {
                at += 1;
                continue;
            }
            if kind == NodeKind::FileRedirect || kind == NodeKind::HerestringRedirect {
                self.redirect(at, &mut pieces);
            } else if kind != NodeKind::Comment {
                pieces.push((MarkKind::Word, shape.span(at)));
            }
            at = shape.after(at);
        }
        self.repairs.push(Repair::TestWords);
        self.finish(pieces, Some(MarkKind::Name));
    }

    /// The body of a here-document: from the line after the operator to the line of the delimiter.
    fn here_document_body(&mut self, index: usize) {
        let shape = self.shape;
        let text = shape.text();
        let span = shape.span(index);
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n');
        let before = text.get(..span.start as usize).unwrap_or_default();
        let words_end = before.iter().rposition(|byte| !blank(byte)).map_or(0, |at| at + 1);
        let gap = before.get(words_end..).unwrap_or_default();
        let start = gap
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(span.start as usize, |line_end| words_end + line_end + 1);
        let closing = shape.after(index);
        let mut end = span.end as usize;
        if shape.kind(closing) == NodeKind::HeredocEnd && closing < shape.len() {
            end = shape.span(closing).start as usize;
            let tabs = text.get(..end).unwrap_or_default();
            end = tabs.iter().rposition(|byte| *byte != b'\t').map_or(0, |at| at + 1);
        }
        if start < end {
            self.mark(MarkKind::HereDocumentBody, Span::new(start, end));
        }
    }
}

/// Says whether `text` between `start` and `end` holds nothing but line continuations.
fn is_continuation(text: &[u8], start: u32, end: u32) -> bool {
    let gap = Span { start, end }.of(text);
    gap.chunks(2).all(|pair| pair == b"\\\n")
}

/// Returns the lone `-` that is all of `gap` in front of the here-document `child` of a statement: the grammar
/// has no node for it.
pub(super) fn lost_dash(shape: &Shape, child: usize, gap: Span) -> Option<Span> {
    let before = gap.of(shape.text());
    let fits = shape.kind(child) == NodeKind::HeredocRedirect
        && shape.kind(shape.parent(child)) == NodeKind::RedirectedStatement
        && before.trim_ascii() == b"-"
        && before.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
        && !before.contains(&b'\n');
    let at = gap.start + u32::try_from(before.iter().position(|byte| *byte == b'-')?).ok()?;
    fits.then_some(Span { start: at, end: at + 1 })
}

/// Says whether `word` begins like `name=`.
fn looks_like_assignment(word: &[u8]) -> bool {
    let name =
        word.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let rest = word.get(name..).unwrap_or_default();
    let digit_first = word.first().is_some_and(u8::is_ascii_digit);
    name > 0 && !digit_first && (rest.starts_with(b"=") || rest.starts_with(b"+="))
}

/// Says whether a token among the children of a command is an argument: the word of a builtin with its own
/// rule, a lone `$`, `==` and `=~`.
fn is_word_token(shape: &Shape, parent: usize, token: usize) -> bool {
    let all = [NodeKind::Command, NodeKind::DeclarationCommand, NodeKind::UnsetCommand];
    all.contains(&shape.kind(parent)) || shape.bytes(token) == b"$"
}
