//! Signs that the witness's tree cannot be trusted, whatever its marks are.

use super::NodeKind;
use super::kind::Part;
use super::lower::lost_dash;
use super::shape::Shape;
use crate::{Reason, Span};

/// Cause of a doubt, and its place in the text.
pub(super) struct Doubt {
    pub(super) reason: Reason,
    pub(super) span: Span,
    pub(super) detail: &'static str,
}

/// Returns the first sign of a tree that misreads its text.
pub(super) fn doubt(shape: &Shape) -> Option<Doubt> {
    (0..shape.len()).find_map(|index| {
        let found = |reason, detail| Some(Doubt { reason, span: shape.span(index), detail });
        if shape.broken(index) {
            return found(Reason::WitnessError, "");
        }
        if shape.kind(index) == NodeKind::Other {
            return found(Reason::WitnessNonsense, "a kind of node that is not known");
        }
        if hides_opener(shape, index) {
            return found(Reason::WitnessGuard, "an opener inside of what should be plain text");
        }
        if quotes_in_expansion(shape, index) {
            return found(Reason::WitnessGuard, "quotes inside an expansion inside quotes");
        }
        if holds_operator(shape, index) {
            return found(Reason::WitnessGuard, "a control operator inside of a test");
        }
        let span = gap(shape, index)?;
        let detail = "bytes that belong to no node";
        Some(Doubt { reason: Reason::WitnessGuard, span, detail })
    })
}

/// Says whether a leaf holds what starts an expansion, outside of single quotes.
fn hides_opener(shape: &Shape, index: usize) -> bool {
    let kind = shape.kind(index);
    if kind == NodeKind::HeredocBody && !is_quoted(shape, index) {
        // Text between its expansions belongs to no node.
        let mut reached = shape.span(index).start;
        return shape.children(index).any(|child| {
            let gap = Span { start: reached, end: shape.span(child).start };
            reached = shape.span(child).end;
            holds_opener(gap.of(shape.text()))
        }) || holds_opener(
            Span { start: reached, end: shape.span(index).end }.of(shape.text()),
        );
    }
    // Every other leaf is looked into, one that has no entry as well.
    let is_plain = matches!(
        kind,
        NodeKind::RawString
            | NodeKind::AnsiCString
            | NodeKind::Comment
            | NodeKind::Token
            | NodeKind::HeredocStart
            | NodeKind::HeredocEnd
            | NodeKind::HeredocBody
    );
    !is_plain && shape.is_leaf(index) && holds_opener(shape.bytes(index))
}

/// Says whether the delimiter of the here-document that node `index` is the body of is quoted.
fn is_quoted(shape: &Shape, index: usize) -> bool {
    // Behind a descriptor and the operator.
    shape.children(shape.parent(index)).take(3).any(|sibling| {
        shape.kind(sibling) == NodeKind::HeredocStart
            && shape.bytes(sibling).iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\'))
    })
}

/// Says whether an unescaped `` ` ``, `$(`, `${`, `$[`, `<(` or `>(` is in `text`.
fn holds_opener(text: &[u8]) -> bool {
    let mut previous = 0;
    text.iter().any(|byte| {
        if previous == b'\\' {
            previous = 0;
            return false;
        }
        let opens = match byte {
            b'`' => true,
            b'(' => matches!(previous, b'$' | b'<' | b'>'),
            b'{' | b'[' => previous == b'$',
            _ => false,
        };
        previous = *byte;
        opens
    })
}

/// Says whether a single-quoted string stands in `${ }` in double quotes, where `'` may mean itself.
fn quotes_in_expansion(shape: &Shape, index: usize) -> bool {
    if !matches!(shape.kind(index), NodeKind::RawString | NodeKind::AnsiCString) {
        return false;
    }
    let mut above = shape.parent(index);
    if shape.kind(above) == NodeKind::Concatenation {
        above = shape.parent(above);
    }
    let outer = shape.kind(shape.parent(above));
    shape.kind(above) == NodeKind::Expansion
        && matches!(outer, NodeKind::String | NodeKind::HeredocBody | NodeKind::Expansion)
}

/// Says whether a child of an expression in `[ ]` is an operator of the shell.
fn holds_operator(shape: &Shape, index: usize) -> bool {
    use Part::*;
    if shape.kind(index) != NodeKind::Token
        || !matches!(
            shape.bytes(index),
            b"&&" | b"||" | b"&" | b"|" | b";" | b"<" | b">" | b"(" | b")"
        )
    {
        return false;
    }
    let mut above = shape.parent(index);
    for _ in 0..MAX_EXPRESSION_DEPTH {
        match shape.kind(above).part() {
            Expression => above = shape.parent(above),
            Test => return !shape.bytes(above).starts_with(b"[["),
            Literal | Name | Assignment | Redirect | HereDocument | Delimiter | Redirected
            | Compound | Token | Other => return false,
        }
    }
    // Deeper than anyone writes; not looked into, hence not trusted.
    true
}

/// How deep an expression may be nested for its operators to be looked at.
const MAX_EXPRESSION_DEPTH: usize = 64;

/// Returns bytes in front of or behind the children of node `index` that belong to none of them and are no blanks.
fn gap(shape: &Shape, index: usize) -> Option<Span> {
    if shape.is_leaf(index) || shape.kind(index) == NodeKind::HeredocBody {
        return None;
    }
    let whole = shape.span(index);
    let mut reached = whole.start;
    let end = Span { start: whole.end, end: whole.end };
    shape
        .children(index)
        .map(|child| (Some(child), shape.span(child)))
        .chain([(None, end)])
        .map(|(child, span)| {
            let gap = Span { start: reached, end: span.start };
            reached = span.end;
            (child, gap)
        })
        .find(|(child, gap)| {
            let dash = child.and_then(|child| lost_dash(shape, child, *gap));
            dash.is_none() && !is_blank(gap.of(shape.text()))
        })
        .map(|(_, gap)| gap)
}

/// Says whether `gap` holds nothing but what may stand between words.
fn is_blank(gap: &[u8]) -> bool {
    let mut bytes = gap.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' => {}
            b'\\' if bytes.next() == Some(&b'\n') => {}
            _ => return false,
        }
    }
    true
}
