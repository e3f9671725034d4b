//! Partial knowledge of values: how the words of a loop begin, and commands that print one word.

use crate::extract::Walk;
use crate::{CommandKind, Count, Glob, Position, Span, Word, WordClass};
use stockade_programs::Lookup;

/// Returns how all `words` of a loop begin; nothing if that is not known of one.
pub(crate) fn common_beginning(words: &[Word]) -> Vec<u8> {
    let mut beginnings = words.iter().map(beginning);
    let first = beginnings.next().unwrap_or_default();
    let same = beginnings.fold(first.len(), |same, next| {
        same.min(first.iter().zip(next).take_while(|(a, b)| **a == **b).count())
    });
    first.get(..same).unwrap_or_default().to_vec()
}

fn beginning(word: &Word) -> &[u8] {
    match &word.class {
        WordClass::Exact(bytes) => bytes,
        WordClass::Pattern { glob, .. } => match glob.first() {
            Some(Glob::Literal(bytes)) => bytes,
            Some(Glob::Star | Glob::Question | Glob::Other(_)) | None => &[],
        },
        WordClass::Unknown { count: Count::One, prefix, .. } => prefix,
        WordClass::Unknown { count: Count::Any, .. } => &[],
    }
}

/// Says whether a value that begins with `beginning` still does when the literal `suffix` is taken off its end.
pub(crate) fn keeps_beginning(beginning: &[u8], suffix: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte);
    let overlaps = |from: usize| {
        let end = beginning.get(from..).unwrap_or_default();
        suffix.starts_with(end)
    };
    suffix.iter().all(plain) && !(0..beginning.len()).any(overlaps)
}

impl Walk<'_> {
    /// Says whether the substitution at `span` is one command that prints a word without blanks.
    pub(crate) fn prints_one_word(&mut self, span: Span) -> bool {
        let [.., before, last] = self.commands.as_slice() else { return false };
        let alone = before.span.start < span.start && last.span.start > span.start;
        let plain = last.kind == CommandKind::External
            && last.position == Position::Substitution
            && last.assignments.is_empty()
            && last.redirects.is_empty()
            && last.words.iter().all(|word| word.exact().is_some());
        let name = last.words.first().and_then(Word::exact).filter(|_| alone && plain);
        let Some(name) = name.map(<[u8]>::to_vec) else { return false };
        matches!(self.rows.look_up(&name), Lookup::Row(row) if row.one_word)
    }

    /// Says whether the substitution at `span` is one command that prints a whole number, or nothing.
    pub(crate) fn prints_number(&mut self, span: Span) -> bool {
        let [.., before, last] = self.commands.as_slice() else { return false };
        let alone = before.span.start < span.start && last.span.start > span.start;
        let plain = last.kind == CommandKind::External
            && last.position == Position::Substitution
            && last.assignments.is_empty()
            && last.redirects.is_empty();
        let words: Option<Vec<&[u8]>> = last.words.iter().map(Word::exact).collect();
        alone && plain && words.is_some_and(|words| stockade_programs::prints_number(&words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_alike_as_far_as_they_are_known() {
        let words = |texts: &[&str]| -> Vec<Word> {
            texts.iter().map(|text| Word::literal(Span::default(), text.as_bytes())).collect()
        };
        assert_eq!(common_beginning(&words(&["./a.c", "./b.c"])), b"./");
        assert_eq!(common_beginning(&words(&["src/a", "src/a/b"])), b"src/a");
        assert_eq!(common_beginning(&words(&["./a", "-x"])), b"");
        assert_eq!(common_beginning(&[]), b"");
    }

    #[test]
    fn a_suffix_that_may_reach_into_the_beginning_leaves_nothing() {
        assert!(keeps_beginning(b"./", b".c"));
        assert!(keeps_beginning(b"src/", b".tar.gz"));
        assert!(!keeps_beginning(b"./", b"/"));
        assert!(!keeps_beginning(b"./", b"./x"));
        assert!(!keeps_beginning(b"./", b".*"));
        assert!(!keeps_beginning(b"a-b", b"-bc"));
    }
}
