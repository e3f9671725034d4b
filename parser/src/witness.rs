//! What the second parser saw, as plain data.

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The grammar's name of the node.
    pub kind: String,
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
    /// Distance from the root.
    pub depth: u32,
    /// A named node of the grammar, not a literal token.
    pub named: bool,
    /// An ERROR or MISSING node.
    pub broken: bool,
}
