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
    let span = Span { start: event.start, end: event.end };
    match (event.kind, above) {
        (Kind::Comment, _) => marks.push(Mark { span, kind: MarkKind::Comment }),
        (Kind::Backquote, _) => marks.push(Mark { span, kind: MarkKind::Substitution }),
        (Kind::Keyword | Kind::Closer, Some(above)) if above.mark == Some(MarkKind::Compound) => {
            above.closed = Some(event.end);
        }
        (Kind::PlainWord, Some(above))
            if matches!(above.kind, Kind::Simple | Kind::PlainCommand) =>
        {
            if !std::mem::replace(&mut above.named, true) {
                marks.push(Mark { span, kind: MarkKind::Name });
            }
            marks.push(Mark { span, kind: MarkKind::Word });
        }
        (Kind::HereTabs, Some(above)) => above.tabs = span,
        (Kind::HereEnd, Some(above)) => {
            let with_tabs = above.tabs.end == span.start && above.tabs.start < above.tabs.end;
            above.closed = Some(if with_tabs { above.tabs.start } else { span.start });
        }
        _ => {}
    }
}

fn mark_of(event: &Event, above: Kind) -> Option<MarkKind> {
    match event.kind {
        Kind::Word if above == Kind::Simple => Some(MarkKind::Word),
        Kind::Assignment if above != Kind::ArrayValue => Some(MarkKind::Assignment),
        Kind::Redirect => Some(MarkKind::Redirect),
        Kind::HereBody => Some(MarkKind::HereDocumentBody),
        Kind::Substitution | Kind::BraceSubstitution => Some(MarkKind::Substitution),
        Kind::ProcessSubstitution => Some(MarkKind::ProcessSubstitution),
        Kind::Arithmetic if event.flags & flag::OFFSET == 0 => Some(MarkKind::Arithmetic),
        Kind::Subshell
        | Kind::If
        | Kind::Loop
        | Kind::For
        | Kind::Select
        | Kind::Case
        | Kind::Test
        | Kind::Function => Some(MarkKind::Compound),
        Kind::Group if event.flags & flag::ARITHMETIC_GROUP == 0 => Some(MarkKind::Compound),
        _ => None,
    }
}
