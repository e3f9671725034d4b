//! Words, and how much of their value the text alone tells.

pub(crate) mod brace;
pub(crate) mod build;
pub(crate) mod glob;

use crate::{Bytes, Reason, Span, Thin};

/// One word of a command: where it stands and what is known about its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Word {
    /// Where it stands in the source.
    pub span: Span,
    /// Class of its value: how much of it is known.
    pub class: WordClass,
}

/// Class of a word: how much the text tells about its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WordClass {
    /// Exactly these bytes reach the program, as one argument.
    Exact(Bytes),
    /// A file name pattern: any number of names that match, or the pattern itself when none does.
    Pattern {
        /// The pattern after quote removal.
        glob: Thin<Glob>,
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
        prefix: Thin<u8>,
        /// Bytes that the last argument surely ends with; of use only with [`Count::One`].
        suffix: Thin<u8>,
        /// Between those, it surely holds a byte that is in no name of an option, as `"$a..$b"` does; of use only with
        /// [`Count::One`].
        joined: bool,
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
    /// Returns a word of which the value is known.
    pub fn literal(span: Span, value: impl Into<Bytes>) -> Word {
        Word { span, class: WordClass::Exact(value.into()) }
    }

    /// Returns the value if the text alone tells it.
    pub fn exact(&self) -> Option<&[u8]> {
        match &self.class {
            WordClass::Exact(bytes) => Some(bytes),
            WordClass::Pattern { .. } | WordClass::Unknown { .. } => None,
        }
    }

    /// Says whether every argument made from this word is made of digits, with a sign at most, or empty.
    pub(crate) fn is_number(&self) -> bool {
        matches!(&self.class, WordClass::Unknown { reason: Reason::Arithmetic, prefix, suffix, .. }
            if prefix.is_empty() && suffix.is_empty())
    }

    /// Says whether an argument made from this word could equal `bytes`; true when in doubt.
    pub fn may_equal(&self, bytes: &[u8]) -> bool {
        if self.is_number() {
            return bytes.iter().all(|byte| is_of_number(*byte));
        }
        match &self.class {
            WordClass::Exact(value) => value.as_slice() == bytes,
            WordClass::Pattern { glob, .. } => {
                leading_literal(glob).is_none_or(|first| bytes.starts_with(first))
            }
            WordClass::Unknown { count: Count::Any, .. } => true,
            WordClass::Unknown { count: Count::One, prefix, suffix, reason, .. } => {
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
        if self.is_number() {
            return bytes.iter().all(|byte| is_of_number(*byte));
        }
        match &self.class {
            WordClass::Exact(value) => value.starts_with(bytes),
            WordClass::Pattern { glob, .. } => leading_literal(glob)
                .is_none_or(|first| first.starts_with(bytes) || bytes.starts_with(first)),
            WordClass::Unknown { count: Count::Any, .. } => true,
            WordClass::Unknown { count: Count::One, prefix, .. } => {
                prefix.starts_with(bytes) || bytes.starts_with(prefix)
            }
        }
    }
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'-'
}

/// Returns the literal with which each name that `glob` matches begins.
fn leading_literal(glob: &[Glob]) -> Option<&[u8]> {
    let Some(Glob::Literal(first)) = glob.first() else { return None };
    Some(first)
}

/// The words of a command; a single one is stored in place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Words(List);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum List {
    #[default]
    None,
    One(Word),
    Many(Box<[Word]>),
}

impl std::ops::Deref for Words {
    type Target = [Word];

    fn deref(&self) -> &[Word] {
        match &self.0 {
            List::None => &[],
            List::One(word) => std::slice::from_ref(word),
            List::Many(words) => words,
        }
    }
}

impl Words {
    /// Takes the words out of `words`, whose memory can be used again.
    pub(crate) fn taken(words: &mut Vec<Word>) -> Words {
        match words.len() {
            0 => Words(List::None),
            1 => Words(words.pop().map_or(List::None, List::One)),
            // A long list is not copied.
            65.. => std::mem::take(words).into(),
            _ => Words(List::Many(words.drain(..).collect())),
        }
    }
}

impl From<Vec<Word>> for Words {
    fn from(words: Vec<Word>) -> Words {
        match <[Word; 1]>::try_from(words) {
            Ok([word]) => Words(List::One(word)),
            Err(words) if words.is_empty() => Words(List::None),
            Err(words) => Words(List::Many(words.into())),
        }
    }
}

impl<'a> IntoIterator for &'a Words {
    type Item = &'a Word;
    type IntoIter = std::slice::Iter<'a, Word>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimpleCommand;

    #[test]
    fn words_and_commands_are_small() {
        assert_eq!(size_of::<Word>(), 40);
        assert_eq!(size_of::<Words>(), 40);
        assert_eq!(size_of::<SimpleCommand>(), 112);
    }
}
