//! Results of the second parser, as plain data, and the comparison of the two parsers.

mod guard;
mod kind;
mod lower;
mod shape;
#[cfg(test)]
mod tests;

pub use kind::NodeKind;

use std::collections::BTreeMap;

use crate::extract::marks::marks;
use crate::marks::{Mark, MarkKind, Request};
use crate::{CommandTree, Draft, Opaque, Reason, Span};
use shape::Shape;

/// The answer of the witness to one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Witness {
    /// The nodes of its tree, in the order of a walk from the root, parents before children.
    Nodes(Vec<Node>),
    /// There is no answer.
    Absent(Absence),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The worker did not start, or died.
    Dead,
    /// The text is one of those that the grammar must not see.
    Guarded,
    /// The deadline passed.
    Slow,
    /// The answer was no list of nodes.
    Nonsense,
}

/// One node of the witness's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Kind of the node in the grammar.
    pub kind: NodeKind,
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
    /// Distance from the root.
    pub depth: u32,
    /// An ERROR or MISSING node.
    pub broken: bool,
}

impl Absence {
    fn reason(self) -> Reason {
        match self {
            Absence::Dead => Reason::WitnessAbsent,
            Absence::Guarded => Reason::WitnessGuard,
            Absence::Slow => Reason::WitnessSlow,
            Absence::Nonsense => Reason::WitnessNonsense,
        }
    }
}

impl Draft {
    /// Returns the tree after comparing it with the answers of the witness, one for each request.
    ///
    /// Each difference, each missing answer and each surplus one adds an opaque span; nothing is taken away.
    pub fn confirm(self, witnesses: &[Witness]) -> CommandTree {
        let (mut tree, requests) = self.into_parts();
        let whole = Span::new(0, tree.source.len());
        // A tree about which the witness was not even asked must say itself that it is not understood.
        let unasked = requests.is_empty() && tree.opaque.is_empty();
        if unasked || witnesses.len() != requests.len() {
            tree.opaque.push(opaque(Reason::WitnessAbsent, whole, String::new()));
        }
        let mut repairs = BTreeMap::<&'static str, u32>::new();
        for (request, witness) in requests.iter().zip(witnesses) {
            if let Some(found) = doubt(request, authority, witness, &tree.source, &mut repairs) {
                tree.opaque.push(found);
            }
        }
        tree.repairs = repairs.into_iter().collect();
        tree
    }
}

/// Returns what the authority sees in a text: it reads it once more, as it did before.
fn authority(request: &Request) -> Vec<Mark> {
    marks(&request.reading.read(&request.text))
}

/// Returns why the authority's reading of one text is not confirmed, if so; counts what was mended.
fn doubt(
    request: &Request,
    authority: impl FnOnce(&Request) -> Vec<Mark>,
    witness: &Witness,
    source: &[u8],
    repairs: &mut BTreeMap<&'static str, u32>,
) -> Option<Opaque> {
    let nodes = match witness {
        Witness::Nodes(nodes) => nodes,
        Witness::Absent(why) => return Some(opaque(why.reason(), request.origin, String::new())),
    };
    let place = |span| outer(request, span, source);
    let Some(shape) = Shape::check(&request.text, nodes) else {
        return Some(opaque(Reason::WitnessNonsense, request.origin, String::new()));
    };
    if let Some(found) = guard::doubt(&shape) {
        return Some(opaque(found.reason, place(found.span), found.detail.to_owned()));
    }
    let lowered = lower::lower(&shape);
    for repair in &lowered.repairs {
        *repairs.entry(repair.name()).or_default() += 1;
    }
    let (mark, seen) = first_difference(&authority(request), &lowered.marks)?;
    let detail = format!("{} that only {seen} sees", name(mark.kind));
    Some(opaque(Reason::WitnessDiffers, place(mark.span), detail))
}

/// Returns the first mark that is in only one of the two sorted lists, and who sees it.
fn first_difference(authority: &[Mark], witness: &[Mark]) -> Option<(Mark, &'static str)> {
    let differing = authority.iter().zip(witness).find(|(ours, theirs)| ours != theirs);
    if let Some((ours, theirs)) = differing {
        return Some(if ours < theirs {
            (*ours, "the first parser")
        } else {
            (*theirs, "the second parser")
        });
    }
    let common = authority.len().min(witness.len());
    let ours = authority.get(common).map(|mark| (*mark, "the first parser"));
    ours.or_else(|| witness.get(common).map(|mark| (*mark, "the second parser")))
}

/// Returns where `span` of the text of `request` is in the outer source: all of its origin, unless the text
/// stands there byte for byte.
fn outer(request: &Request, span: Span, source: &[u8]) -> Span {
    if request.origin.of(source) == request.text.as_slice() {
        let start = request.origin.start;
        return Span {
            start: start.saturating_add(span.start),
            end: start.saturating_add(span.end),
        };
    }
    request.origin
}

fn opaque(reason: Reason, span: Span, detail: String) -> Opaque {
    Opaque { reason, span, detail, help: String::new() }
}

fn name(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Name => "the name of a command",
        MarkKind::Word => "a word",
        MarkKind::Assignment => "an assignment",
        MarkKind::Redirect => "a redirection",
        MarkKind::HereDocumentBody => "the body of a here-document",
        MarkKind::Substitution => "a substitution",
        MarkKind::ProcessSubstitution => "a process substitution",
        MarkKind::Arithmetic => "arithmetic",
        MarkKind::Compound => "a compound command",
        MarkKind::Comment => "a comment",
    }
}
