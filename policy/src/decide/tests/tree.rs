//! The tree of a text as a gateway has it: with a witness, which sees the text in this process.

use std::cell::RefCell;

use stockade_parser::{
    Absence, CommandTree, Limits, Node, NodeKind, Programs, StartState, Witness, parse,
};
use stockade_witness::{Grammar, Seen};

thread_local! {
    static GRAMMAR: RefCell<(Grammar, Vec<NodeKind>)> = RefCell::new({
        let grammar = Grammar::load().unwrap();
        let kinds = grammar.kinds().iter().map(|it| NodeKind::of(it.name, it.named)).collect();
        (grammar, kinds)
    });
}

/// Reads a text whose environment is known.
pub(crate) fn tree(text: &str) -> CommandTree {
    let start = StartState {
        present: [b"PATH".to_vec()].into(),
        closed_environment: true,
        stdin_empty: true,
        ..StartState::default()
    };
    let draft = parse(text.as_bytes(), &start, Programs::builtin(), &Limits::default());
    let witnesses: Vec<Witness> = draft.requests().map(witness).collect();
    draft.confirm(&witnesses)
}

fn witness(text: &[u8]) -> Witness {
    GRAMMAR.with_borrow_mut(|(grammar, kinds)| match grammar.see(text) {
        Seen::Refused(_) => Witness::Absent(Absence::Guarded),
        Seen::Nodes(nodes) => {
            let node = |it: &stockade_witness::SeenNode| Node {
                kind: kinds.get(usize::from(it.kind)).copied().unwrap_or(NodeKind::Other),
                start: it.start,
                end: it.end,
                depth: it.depth,
                broken: it.broken,
            };
            Witness::Nodes(nodes.iter().map(node).collect())
        }
    })
}
