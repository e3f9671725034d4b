//! Words, and how much of their value the text alone tells.

pub(crate) mod brace;
pub(crate) mod build;
pub(crate) mod glob;

use crate::{Reason, Span};

/// One word of a command: where it stands and what is known about its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Word {
    /// Where it stands in the source.
    pub span: Span,
    /// What is known about its value.
    pub class: WordClass,
}

/// What the text tells about the value of a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WordClass {
    /// Exactly these bytes reach the program, as one argument.
    Exact(Vec<u8>),
    /// A file name pattern: any number of names that match, or the pattern itself when none does.
    Pattern {
        /// The pattern after quote removal.
        glob: Vec<Glob>,
        /// The word reaches the program as typed when nothing matches.
        may_stay_literal: bool,
    },
    /// Only the running shell knows the value.
    Unknown {
        /// Why.
        reason: Reason,
        /// How many arguments it may become.
        count: Count,
        /// Bytes that the first argument surely begins with; of use only with [`Count::One`].
        prefix: Vec<u8>,
        /// Bytes that the last argument surely ends with; of use only with [`Count::One`].
        suffix: Vec<u8>,
    },
}

/// How many arguments an unknown word may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Count {
    /// Exactly one.
    One,
    /// Any number, none included.
    Any,
}

/// A piece of a file name pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Glob {
    /// These bytes as they stand.
    Literal(Vec<u8>),
    /// `*`: any bytes but `/`.
    Star,
    /// `?`: one character but `/`.
    Question,
    /// `[...]` or an extended pattern: not looked into, may be any bytes.
    Other(Vec<u8>),
}

impl Word {
    /// Returns the value if the text alone tells it.
    pub fn exact(&self) -> Option<&[u8]> {
        match &self.class {
            WordClass::Exact(bytes) => Some(bytes),
            WordClass::Pattern { .. } | WordClass::Unknown { .. } => None,
        }
    }

    /// Says whether an argument made from this word could equal `bytes`; true when in doubt.
    pub fn may_equal(&self, bytes: &[u8]) -> bool {
        match &self.class {
            WordClass::Exact(value) => value == bytes,
            WordClass::Pattern { glob, .. } => glob_may_match(glob, bytes, false),
            WordClass::Unknown { count: Count::Any, .. } => true,
            WordClass::Unknown { count: Count::One, prefix, suffix, reason } => {
                // Where the home directory is `/`, bash 5.3 makes one slash of two.
                let shared = usize::from(*reason == Reason::Tilde);
                bytes.len() + shared >= prefix.len() + suffix.len()
                    && bytes.starts_with(prefix)
                    && bytes.ends_with(suffix)
            }
        }
    }

    /// Says whether an argument made from this word could begin with `bytes`; true when in doubt.
    pub fn may_start_with(&self, bytes: &[u8]) -> bool {
        match &self.class {
            WordClass::Exact(value) => value.starts_with(bytes),
            WordClass::Pattern { glob, .. } => glob_may_match(glob, bytes, true),
            WordClass::Unknown { count: Count::Any, .. } => true,
            WordClass::Unknown { count: Count::One, prefix, .. } => {
                prefix.starts_with(bytes) || bytes.starts_with(prefix)
            }
        }
    }
}

/// Says whether the leading literal of `glob` allows a name that equals (or, with `open`, begins with) `bytes`.
fn glob_may_match(glob: &[Glob], bytes: &[u8], open: bool) -> bool {
    let Some(Glob::Literal(first)) = glob.first() else { return true };
    if open {
        first.starts_with(bytes) || bytes.starts_with(first)
    } else {
        bytes.starts_with(first)
    }
}
