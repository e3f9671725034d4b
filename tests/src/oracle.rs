//! The differential oracle: real bash runs a text in a cage, and what it started and opened for writing must be
//! in the tree, word for word, or the tree must say that it does not know.
//!
//! A text runs in namespaces of its own: no network, no file of the machine but copies of a few programs, a
//! time limit. Every other program name in the text is a stub. `strace` sees every `execve` and every open.

pub mod accept;
pub mod cage;
pub mod compose;
pub mod corpus;
pub mod damage;
pub mod judge;
pub mod minimise;
pub mod mutate;
pub mod room;
pub mod scenery;
pub mod trace;
pub mod tree;

use cage::Cage;
use judge::Miss;
use scenery::Scenery;

/// Findings of the oracle about one text.
#[derive(Debug, Default)]
pub struct Finding {
    /// The tree is opaque: it promises nothing about programs and files.
    pub flagged: bool,
    /// Programs that ran.
    pub ran: usize,
    /// The number of them that the tree has word for word.
    pub exact: usize,
    /// Those that the tree has otherwise, as they ran.
    pub inexact: Vec<Vec<Vec<u8>>>,
    /// For each program that the tree has with exact words only, in order, its words and whether it ran.
    pub predicted: Vec<(Vec<u8>, bool)>,
    /// Programs and writes that got past. Empty if the tree is opaque.
    pub missed: Vec<Miss>,
}

/// Compares the tree of `text` with what it does in `cage`, unless the tree promises nothing. `status` is what
/// the stubs exit with.
pub fn examine(cage: &Cage, text: &[u8], status: u8) -> Result<Finding, String> {
    let tree = tree::read(text);
    if tree.is_dynamic() {
        return Ok(Finding { flagged: true, ..Finding::default() });
    }
    Ok(judge::compare(&tree, &cage.run(text, status, &Scenery::of(&tree))?))
}

/// Does the same, and runs texts with an opaque tree as well, to count what the tree has all the same.
pub fn measure(cage: &Cage, text: &[u8], status: u8) -> Result<Finding, String> {
    let tree = tree::read(text);
    let found = judge::compare(&tree, &cage.run(text, status, &Scenery::of(&tree))?);
    let missed = if tree.is_dynamic() { Vec::new() } else { found.missed };
    Ok(Finding { flagged: tree.is_dynamic(), missed, ..found })
}

/// Does the same as [`examine`] for texts that only the witness doubts as well: what is missed then is a fault of
/// the authority that the witness makes up for.
pub fn examine_authority(cage: &Cage, text: &[u8], status: u8) -> Result<Finding, String> {
    let tree = tree::read(text);
    let doubted = |opaque: &stockade_parser::Opaque| !opaque.reason.code().starts_with("witness-");
    if tree.opaque_spans().iter().any(doubted) {
        return Ok(Finding { flagged: true, ..Finding::default() });
    }
    Ok(judge::compare(&tree, &cage.run(text, status, &Scenery::of(&tree))?))
}
