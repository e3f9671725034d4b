//! tree-sitter-bash as a second reader of shell text: a flat list of nodes, and the frames that carry it.
//!
//! [`Grammar`] is C code over hostile text: only the contained worker makes one. [`frames`] is plain Rust
//! for both ends of the pipe; every length in it is bounded and nothing in it panics.
#![forbid(unsafe_code)]

pub mod frames;
mod grammar;
mod guard;

pub use grammar::{Grammar, KindName};
pub use guard::{INPUT_LIMIT_BYTES, refusal};

/// Result of the grammar for one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The nodes of its tree, in the order of a walk from the root, parents before children.
    Nodes(Vec<SeenNode>),
    /// The text was not read.
    Refused(Refusal),
}

/// Why a text was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The text has the shape that makes the grammar's C code read outside of a table.
    Guard,
    /// The text holds a NUL byte, which the grammar takes for the end.
    Nul,
    /// The text, or the answer to it, is longer than the limit.
    Long,
    /// The grammar gave no tree.
    NoTree,
}

/// One node of the grammar's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenNode {
    /// An index into [`Grammar::kinds`]; [`SeenNode::ERROR`] for an ERROR node.
    pub kind: u16,
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
    /// Distance from the root.
    pub depth: u32,
    /// An ERROR or MISSING node.
    pub broken: bool,
}

impl SeenNode {
    /// The kind of an ERROR node: the grammar's table has no entry for it.
    pub const ERROR: u16 = u16::MAX;
}
