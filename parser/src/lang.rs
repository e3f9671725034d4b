//! Strict little scanners for programs in the languages of other tools.

pub(crate) mod awk;
pub(crate) mod sed;

/// Effects of a program in another language.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Findings {
    /// Shell texts that it runs.
    pub executes: Vec<Vec<u8>>,
    /// True if the program may run something that is not listed.
    pub may_execute: bool,
    /// Files that it writes.
    pub writes: Vec<Vec<u8>>,
    /// True if the program may write a file that is not listed.
    pub may_write: bool,
    /// Files that it reads.
    pub reads: Vec<Vec<u8>>,
    /// True if the program may read a file that is not listed.
    pub may_read: bool,
    /// True if the program may use the network.
    pub network: bool,
}

impl Findings {
    /// Returns what must be assumed of a text that is not understood.
    pub(crate) fn anything() -> Findings {
        Findings { may_execute: true, may_write: true, may_read: true, ..Findings::default() }
    }
}

/// Kind of text between two delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// A regular expression: a delimiter in brackets is literal.
    Regex,
    /// Other text.
    Text,
}

/// Returns the place behind the next `delimiter` from `at` on that no backslash and no bracket hides; none if the line
/// ends before.
pub(crate) fn past(text: &[u8], at: usize, delimiter: u8, between: Between) -> Option<usize> {
    let mut at = at;
    loop {
        match text.get(at).copied()? {
            b'\\' => at += 2,
            b'\n' => return None,
            byte if byte == delimiter => return Some(at + 1),
            b'[' if between == Between::Regex => at = bracket(text, at, delimiter)?,
            _ => at += 1,
        }
    }
}

/// Steps over the bracket expression that begins at `text[at]`; returns the place behind it.
///
/// A delimiter inside is literal. A tool that ended the expression at the delimiter would refuse it as not closed, so
/// the two readings cannot both run. None if it is not closed or tools differ on where it ends.
fn bracket(text: &[u8], at: usize, delimiter: u8) -> Option<usize> {
    let mut at = at + 1;
    if text.get(at) == Some(&b'^') {
        at += 1;
    }
    if text.get(at) == Some(&b']') {
        at += 1;
    }
    let mut class_seen = false;
    loop {
        let byte = text.get(at).copied()?;
        let next = text.get(at + 1).copied();
        match (byte, next) {
            (b']', _) => return Some(at + 1),
            (b'\n', _) | (b'\\', Some(b']')) => return None,
            (b'\\', _) => at += 2,
            (b'[', Some(kind @ (b':' | b'.' | b'='))) => {
                let rest = text.get(at + 2..)?;
                at += 4 + rest.windows(2).position(|pair| pair == [kind, b']'])?;
                class_seen = true;
            }
            (byte, _) if byte == delimiter && class_seen => return None,
            _ => at += 1,
        }
    }
}
