//! Words in front of an inner command that assign variables.

use crate::{Assignment, Count, Word, WordClass};

/// How a word reads as an assignment.
pub(super) enum AssignmentShape {
    /// The word is this assignment.
    Yes(Assignment),
    /// The word is no assignment.
    No,
    /// The word may be an assignment.
    Maybe,
}

/// Reads a word as `name=value`, as env does: whatever holds `=`.
pub(super) fn assignment(word: &Word) -> AssignmentShape {
    let (known, exact) = match &word.class {
        WordClass::Exact(bytes) => (bytes.as_slice(), true),
        WordClass::Unknown { count: Count::One, prefix, .. } => (&**prefix, false),
        WordClass::Pattern { .. } | WordClass::Unknown { .. } => return AssignmentShape::Maybe,
    };
    let Some(at) = known.iter().position(|byte| *byte == b'=') else {
        return if exact { AssignmentShape::No } else { AssignmentShape::Maybe };
    };
    let value = known.get(at + 1..).unwrap_or_default().to_vec();
    let class = match &word.class {
        WordClass::Unknown { reason, count, suffix, .. } => WordClass::Unknown {
            joined: false,
            reason: *reason,
            count: *count,
            prefix: value.into(),
            suffix: suffix.clone(),
        },
        WordClass::Exact(_) | WordClass::Pattern { .. } => WordClass::Exact(value.into()),
    };
    AssignmentShape::Yes(Assignment {
        name: known.get(..at).unwrap_or_default().into(),
        array: false,
        append: false,
        value: Word { span: word.span, class },
        span: word.span,
    })
}
