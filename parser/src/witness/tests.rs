//! Lowering of real trees, and answers that cannot be.

use std::cell::RefCell;

use super::*;
use stockade_witness::{Grammar, Seen};

thread_local! {
    static GRAMMAR: RefCell<Grammar> = RefCell::new(Grammar::load().unwrap());
}

fn nodes(text: &str) -> Vec<Node> {
    GRAMMAR.with_borrow_mut(|grammar| {
        let kinds = grammar.kinds();
        let Seen::Nodes(seen) = grammar.see(text.as_bytes()) else { panic!("refused: {text}") };
        let kind = |node: &stockade_witness::SeenNode| {
            kinds
                .get(usize::from(node.kind))
                .map_or(NodeKind::Other, |kind| NodeKind::of(&kind.name, kind.named))
        };
        seen.iter()
            .map(|node| Node {
                kind: kind(node),
                start: node.start,
                end: node.end,
                depth: node.depth,
                broken: node.broken,
            })
            .collect()
    })
}

/// The marks of `text`, one letter and the text each, or the reason why there are none.
fn lowered(text: &str) -> String {
    let nodes = nodes(text);
    let Some(shape) = Shape::check(text.as_bytes(), &nodes) else { return "nonsense".into() };
    if let Some(found) = guard::doubt(&shape) {
        let at = String::from_utf8_lossy(found.span.of(text.as_bytes())).into_owned();
        return format!("{} {} {at:?}", found.reason.code(), found.detail);
    }
    let letter = |kind| match kind {
        MarkKind::Name => 'n',
        MarkKind::Word => 'w',
        MarkKind::Assignment => '=',
        MarkKind::Redirect => '>',
        MarkKind::HereDocumentBody => 'H',
        MarkKind::Substitution => '$',
        MarkKind::ProcessSubstitution => 'P',
        MarkKind::Arithmetic => '+',
        MarkKind::Compound => 'C',
        MarkKind::Comment => '#',
    };
    let line = |mark: &Mark| {
        let text = String::from_utf8_lossy(mark.span.of(text.as_bytes())).into_owned();
        format!("{}⟨{}⟩", letter(mark.kind), text.escape_debug())
    };
    lower::lower(&shape).marks.iter().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn show() {
    let corpus = std::env::var("SHOW").unwrap_or_default();
    for line in std::fs::read_to_string(corpus).unwrap_or_default().lines() {
        let text = line.replace("\\n", "\n");
        println!("== {line}\n   {}", lowered(&text));
    }
}
