//! The differential oracle: real bash runs a text in a cage, and what it started and opened for writing must be
//! in the tree, word for word, or the tree must say that it does not know.
//!
//! A text runs in namespaces of its own: no network, no file of the machine but copies of a few programs, a
//! time limit. Every other program name in the text is a stub. `strace` sees every `execve` and every open.

pub mod cage;
pub mod corpus;
pub mod judge;
pub mod minimise;
pub mod mutate;
pub mod stub;
pub mod trace;
pub mod tree;

use cage::Cage;
use judge::Miss;

/// What the oracle found out about one text.
#[derive(Debug)]
pub enum Finding {
    /// The tree is opaque: it promises nothing about programs and files.
    Flagged,
    /// Every program and file was predicted. How many programs ran, and how many of them word for word.
    Predicted {
        /// Programs that ran.
        ran: usize,
        /// Those whose every word was exact.
        exact: usize,
    },
    /// Something got past.
    Missed(Vec<Miss>),
}

/// Runs `text` in `cage` and compares; `status` is what the stubs exit with.
pub fn examine(cage: &Cage, text: &[u8], status: u8) -> Result<Finding, String> {
    let tree = tree::read(text);
    if tree.is_dynamic() {
        return Ok(Finding::Flagged);
    }
    let trace = cage.run(text, status)?;
    Ok(judge::compare(&tree, &trace))
}
