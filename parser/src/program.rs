//! What the program tables say: rows, option grammars, slots.

/// The program tables: which programs run others, and what options do.
#[derive(Debug, Clone, Default)]
pub struct Programs {}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl Programs {
    /// Returns the tables that are built into this crate.
    pub fn builtin() -> &'static Programs {
        const EMPTY: &Programs = &Programs {};
        EMPTY
    }
}
