//! Marks of the grammar, in the terms in which it is compared with the witness.

use crate::Span;
use crate::event::{Event, Kind, flag};
use crate::grammar::Syntax;
use crate::marks::{Mark, MarkKind};

/// A node whose end has not come yet.
struct Open {
    kind: Kind,
    /// The mark that it will be.
    mark: Option<MarkKind>,
    start: u32,
    /// A word was seen directly in it: the name, if it is a command.
    named: bool,
    /// Where its own closing token, or its body, ends.
    closed: Option<u32>,
    /// Tabs in front of what may be the closing line of a here-document.
    tabs: Span,
}

/// Returns the marks of a text, sorted.
pub(crate) fn marks(syntax: &Syntax) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(syntax.events.len() / 3);
    let mut open: Vec<Open> = Vec::with_capacity(16);
    for event in &syntax.events {
        if event.kind == Kind::Close {
            if let Some(node) = open.pop() {
                close(&node, event.end, open.last_mut(), &mut marks);
            }
        } else if event.kind.is_leaf() {
            leaf(event, open.last_mut(), &mut marks);
        } else {
            let mark =
                open.last().map_or(mark_of(event, Kind::List), |above| mark_of(event, above.kind));
            let tabs = Span::default();
            let (kind, start) = (event.kind, event.start);
            open.push(Open { kind, mark, start, named: false, closed: None, tabs });
        }
    }
    marks.sort_unstable();
    marks
}

/// Marks a node that ends at `end`; a compound ends with its closing token, before its redirections.
fn close(node: &Open, end: u32, above: Option<&mut Open>, marks: &mut Vec<Mark>) {
    let Some(kind) = node.mark else { return };
    let end = node.closed.unwrap_or(end);
    let span = Span { start: node.start, end };
    if let Some(above) = above {
        if kind == MarkKind::Word && !std::mem::replace(&mut above.named, true) {
            marks.push(Mark { span, kind: MarkKind::Name });
        }
        if above.kind == Kind::Function && matches!(kind, MarkKind::Compound | MarkKind::Arithmetic)
        {
            above.closed = Some(end);
        }
    }
    if kind != MarkKind::HereDocumentBody || span.start < span.end {
        marks.push(Mark { span, kind });
    }
}

fn leaf(event: &Event, above: Option<&mut Open>, marks: &mut Vec<Mark>) {
    use Kind::*;
    let span = Span { start: event.start, end: event.end };
    let mut mark = |kind| marks.push(Mark { span, kind });
    match (event.kind, above) {
        (Comment, _) => mark(MarkKind::Comment),
        (Backquote, _) => mark(MarkKind::Substitution),
        (Keyword | Closer, Some(above)) if above.mark == Some(MarkKind::Compound) => {
            above.closed = Some(event.end);
        }
        (PlainWord, Some(above)) if matches!(above.kind, Simple | PlainCommand) => {
            if !std::mem::replace(&mut above.named, true) {
                mark(MarkKind::Name);
            }
            mark(MarkKind::Word);
        }
        (HereTabs, Some(above)) => above.tabs = span,
        (HereEnd, Some(above)) => {
            let with_tabs = above.tabs.end == span.start && above.tabs.start < above.tabs.end;
            above.closed = Some(if with_tabs { above.tabs.start } else { span.start });
        }
        (
            Blank | Newline | Continuation | Operator | Keyword | Number | VariableDescriptor
            | RedirectOperator | Literal | Escape | Single | Ansi | Quote | Name | Parameter
            | ParameterOperator | Opener | Closer | HereText | HereTabs | HereEnd | PlainWord
            | Junk,
            _,
        ) => {}
        // Nodes: `mark_of` says what they are.
        (
            List | AndOr | Pipeline | Simple | PlainCommand | Word | Assignment | ArrayValue
            | Redirect | Double | Braced | Subscript | Substitution | BraceSubstitution
            | ProcessSubstitution | Arithmetic | Group | Subshell | If | Branch | Loop | For
            | Select | Case | CaseItem | Test | Function | Coproc | ExtendedPattern | HereBody
            | Close,
            _,
        ) => {}
    }
}

fn mark_of(event: &Event, above: Kind) -> Option<MarkKind> {
    use Kind::*;
    match event.kind {
        Word if above == Simple => Some(MarkKind::Word),
        Assignment if above != ArrayValue => Some(MarkKind::Assignment),
        Redirect => Some(MarkKind::Redirect),
        HereBody => Some(MarkKind::HereDocumentBody),
        Substitution | BraceSubstitution => Some(MarkKind::Substitution),
        ProcessSubstitution => Some(MarkKind::ProcessSubstitution),
        Arithmetic if event.flags & flag::OFFSET == 0 => Some(MarkKind::Arithmetic),
        Subshell | If | Loop | For | Select | Case | Test | Function => Some(MarkKind::Compound),
        Group if event.flags & flag::ARITHMETIC_GROUP == 0 => Some(MarkKind::Compound),
        List | AndOr | Pipeline | Simple | PlainCommand | Word | Assignment | ArrayValue
        | Double | Braced | Subscript | Arithmetic | Group | Branch | CaseItem | Coproc
        | ExtendedPattern | Close => None,
        // Tokens: `leaf` marks them.
        Blank | Newline | Comment | Continuation | Operator | Keyword | Number
        | VariableDescriptor | RedirectOperator | Literal | Escape | Single | Ansi | Quote
        | Name | Parameter | ParameterOperator | Backquote | Opener | Closer | HereText
        | HereTabs | HereEnd | PlainWord | Junk => None,
    }
}
