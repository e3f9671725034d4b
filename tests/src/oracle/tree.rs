//! The tree of a text, with the witness in this process: the oracle judges the parser, not the worker.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use stockade_parser::{
    Absence, CommandTree, Limits, Node, NodeKind, Programs, StartState, Witness, parse,
};
use stockade_witness::{Grammar, Seen};

use super::cage;

thread_local! {
    static GRAMMAR: RefCell<(Grammar, Vec<NodeKind>)> = RefCell::new({
        let grammar = Grammar::load().expect("the grammar fits tree-sitter");
        let kinds = grammar.kinds().iter().map(|kind| NodeKind::of(kind.name, kind.named)).collect();
        (grammar, kinds)
    });
}

/// Whether the parser is told the environment.
static TOLD: AtomicBool = AtomicBool::new(true);

/// From now on the parser is told nothing about the environment.
pub fn tell_nothing() {
    TOLD.store(false, Ordering::Relaxed);
}

/// Reads `text` as the gateway would: it knows the environment, for it sets it, as the cage does.
pub fn read(text: &[u8]) -> CommandTree {
    let known = [(b"HOME".to_vec(), cage::HOME.as_bytes().to_vec())].into();
    let present = [b"PATH".to_vec(), b"LC_ALL".to_vec()].into();
    let told = StartState {
        known,
        present,
        closed_environment: true,
        stdin_empty: true,
        ..StartState::default()
    };
    let start = if TOLD.load(Ordering::Relaxed) { told } else { StartState::default() };
    read_from(text, &start)
}

/// Says whether a tree is opaque only because its program is not in the text: a script that a shell reads, start-up
/// files, a shell that reads its input, another shell. Those are promised to be opaque.
pub fn is_elsewhere(tree: &CommandTree) -> bool {
    let elsewhere =
        |code: &str| matches!(code, "script-file" | "startup-files" | "stdin-program" | "dialect");
    tree.is_dynamic() && tree.opaque_spans().iter().all(|opaque| elsewhere(opaque.reason.code()))
}

/// Reads `text` as bash started in state `start` would.
pub fn read_from(text: &[u8], start: &StartState) -> CommandTree {
    let draft = parse(text, start, Programs::builtin(), &Limits::default());
    let witnesses: Vec<Witness> = draft.requests().map(witness).collect();
    draft.confirm(&witnesses)
}

/// Returns what the witness sees in `text`.
pub fn witness(text: &[u8]) -> Witness {
    GRAMMAR.with_borrow_mut(|(grammar, kinds)| match grammar.see(text) {
        Seen::Refused(_) => Witness::Absent(Absence::Guarded),
        Seen::Nodes(nodes) => Witness::Nodes(
            nodes
                .iter()
                .map(|node| Node {
                    kind: kinds.get(usize::from(node.kind)).copied().unwrap_or(NodeKind::Other),
                    start: node.start,
                    end: node.end,
                    depth: node.depth,
                    broken: node.broken,
                })
                .collect(),
        ),
    })
}
