//! An arithmetic expression uses names and changes some of them: each is found, with what happens to it.

use crate::characters::{is_name, is_name_start};

/// Use of a name by an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Value is used.
    None,
    /// `=`: the old value is not looked at.
    Assigned,
    /// `+=`, `++` and the like.
    Modified,
}

/// The names in an expression.
pub(crate) fn names(expression: &[u8]) -> Vec<(Vec<u8>, Change)> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(byte) = expression.get(at).copied() {
        if byte.is_ascii_digit() {
            // A number, `16#ff` and `0x1f` included.
            while expression.get(at).is_some_and(|b| is_name(*b) || matches!(b, b'#' | b'@')) {
                at += 1;
            }
            continue;
        }
        if !is_name_start(byte) {
            at += 1;
            continue;
        }
        let start = at;
        while expression.get(at).is_some_and(|byte| is_name(*byte)) {
            at += 1;
        }
        let name = expression.get(start..at).unwrap_or_default().to_vec();
        let rest = expression.get(at..).unwrap_or_default();
        let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        let rest = rest.get(blanks..).unwrap_or_default();
        let front = expression.get(..start).unwrap_or_default().trim_ascii_end();
        names.push((name, change(front, rest)));
    }
    names
}

fn change(front: &[u8], rest: &[u8]) -> Change {
    match rest {
        [b'=', b'=', ..] => Change::None,
        [b'=', ..] => Change::Assigned,
        [b'+', b'+', ..] | [b'-', b'-', ..] => Change::Modified,
        [b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^', b'=', ..] => Change::Modified,
        [b'<', b'<', b'=', ..] | [b'>', b'>', b'=', ..] => Change::Modified,
        _ if front.ends_with(b"++") || front.ends_with(b"--") => Change::Modified,
        _ => Change::None,
    }
}
