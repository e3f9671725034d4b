//! What the grammar saw, in the terms in which it is compared with the witness.

use crate::Span;
use crate::event::{Event, Kind, flag};
use crate::grammar::Syntax;
use crate::marks::{Mark, MarkKind};

/// Returns the marks of a text, sorted.
pub(crate) fn marks(syntax: &Syntax) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(syntax.events.len() / 3);
    // For each open node: its kind, and whether a command name was seen directly in it.
    let mut open: Vec<(Kind, bool)> = Vec::with_capacity(16);
    for event in &syntax.events {
        if event.kind == Kind::Close {
            open.pop();
            continue;
        }
        if event.kind.is_leaf() {
            leaf(event, &mut marks);
            continue;
        }
        let in_command = open.last().is_some_and(|(kind, _)| *kind == Kind::Simple);
        if let Some(kind) = mark_of(event, in_command) {
            let span = Span { start: event.start, end: event.end };
            let first = kind == MarkKind::Word
                && open.last_mut().is_some_and(|parent| !std::mem::replace(&mut parent.1, true));
            if first {
                marks.push(Mark { span, kind: MarkKind::Name });
            }
            marks.push(Mark { span, kind });
        }
        open.push((event.kind, false));
    }
    marks.sort_unstable();
    marks
}

fn leaf(event: &Event, marks: &mut Vec<Mark>) {
    let span = Span { start: event.start, end: event.end };
    match event.kind {
        Kind::Comment => marks.push(Mark { span, kind: MarkKind::Comment }),
        Kind::Backquote => marks.push(Mark { span, kind: MarkKind::Substitution }),
        _ => {}
    }
}

fn mark_of(event: &Event, in_command: bool) -> Option<MarkKind> {
    match event.kind {
        Kind::Word if in_command => Some(MarkKind::Word),
        Kind::Assignment => Some(MarkKind::Assignment),
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
