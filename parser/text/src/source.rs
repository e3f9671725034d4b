//! Byte spans, and lines and columns for people.

/// A range of bytes of the source, end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// Returns the span from `start` to `end`; positions above 4 GiB are clamped.
    pub fn new(start: usize, end: usize) -> Span {
        let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: clamp(start), end: clamp(end) }
    }

    /// Returns the bytes of `source` that the span covers; none if it lies outside.
    pub fn of(self, source: &[u8]) -> &[u8] {
        source.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Returns the smallest span that covers both.
    pub fn join(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A place in a text as a person counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// Returns the line and column of byte `at` of `source`; beyond the end, those of the end.
    pub fn at(source: &[u8], at: usize) -> Position {
        let before = source.get(..at.min(source.len())).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let column =
            String::from_utf8_lossy(before.get(start..).unwrap_or_default()).chars().count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        Position { line: count(line), column: count(column) }
    }
}
