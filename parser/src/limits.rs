//! Bounds on what one text may cost.

/// Bounds on one call of [`crate::parse`]; beyond one, the text from there on is opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub input_bytes: usize,
    /// Nesting of any kind.
    pub depth: u32,
    /// Nesting of text inside evaluators such as `bash -c`.
    pub evaluator_depth: u32,
    /// Words that brace expansion may make in one text.
    pub brace_words: usize,
    /// Bytes that brace expansion may make in one text.
    pub brace_bytes: usize,
    /// Bytes of decoded nested texts, all together.
    pub nested_bytes: usize,
    /// Values of a loop variable that are tried one by one.
    pub loop_values: usize,
    /// Work steps for each byte, besides 100,000 for the text.
    pub steps_per_byte: u64,
    /// Work steps of one text, however long it is: what an ordinary script of 600 KiB takes.
    pub work: u64,
    /// Bytes of memory that the tree and what makes it may take, as they are counted while it grows.
    pub memory_bytes: usize,
    /// Words of one command that are read with its row of the tables.
    pub command_words: usize,
    /// Parts that are not understood that are kept one by one; further ones are one for the whole text.
    pub doubts: usize,
    /// Notices kept; further ones are only counted.
    pub notices: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            input_bytes: 1 << 20,
            depth: 1_000,
            evaluator_depth: 32,
            brace_words: 4_096,
            brace_bytes: 256 << 10,
            nested_bytes: 4 << 20,
            loop_values: 16,
            steps_per_byte: 64,
            work: 2_400_000,
            memory_bytes: 59 << 20,
            command_words: 1 << 17,
            doubts: 10_000,
            notices: 100,
        }
    }
}
