//! Brace expansion, exactly as bash does it: first of all expansions.

use crate::Span;
use crate::word::build::{BraceBudget, Building, Piece};

/// Result of the brace expansion of a word.
pub(crate) enum Expansion {
    /// There is none.
    None,
    /// More than the budget.
    Limit,
    /// These words.
    Words(Vec<Building>),
}

/// One unit of a word: a byte outside quotes, or something that braces do not look into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte(u8),
    /// Index of a segment.
    Segment(u32),
}

/// Says whether the word can have a brace expression at all.
pub(crate) fn possible(word: &Building) -> bool {
    word.segments.iter().any(|segment| {
        segment.piece == Piece::Plain
            && word
                .bytes
                .get(segment.start as usize..segment.end as usize)
                .is_some_and(|text| text.contains(&b'{'))
    })
}

/// How deeply braces may stand in braces.
const DEPTH: usize = 64;

/// Words up to this length are looked at even when the limit was reached before: they may have no expression.
const SHORT: usize = 256;

/// Expands the braces of `word`.
pub(crate) fn expand(word: &Building, budget: &mut BraceBudget) -> Expansion {
    if budget.words == 0 && word.bytes.len() > SHORT {
        return Expansion::Limit;
    }
    let mut work = Work { budget, expanded: false };
    let Some(done) = work.expand(&units(word), 0) else {
        // Words that follow are not expanded any more: the limit is one for the whole text.
        budget.words = 0;
        return Expansion::Limit;
    };
    if !work.expanded {
        return Expansion::None;
    }
    Expansion::Words(
        done.iter().map(|units| rebuild(word, units)).filter(|w| !is_empty(w)).collect(),
    )
}

/// A word that braces made of nothing vanishes.
fn is_empty(word: &Building) -> bool {
    word.segments.is_empty()
}

/// The work of one word. Where something gives `None`, it is too much or not modelled.
struct Work<'a> {
    budget: &'a mut BraceBudget,
    expanded: bool,
}

impl Work<'_> {
    /// Returns the expansion of `units`: the text in front of the first expression, its members, and the text behind
    /// it, each on its own (bash 5.2, braces.c).
    fn expand(&mut self, units: &[Unit], depth: usize) -> Option<Vec<Vec<Unit>>> {
        if depth > DEPTH {
            return None;
        }
        let mut results = vec![Vec::new()];
        let mut rest = units;
        loop {
            let Some((open, close)) = self.first_pair(rest)? else {
                return self.join(&results, rest, &[Vec::new()]);
            };
            let inner = rest.get(open + 1..close)?;
            let members = if inner.contains(&Unit::Byte(b',')) {
                self.expanded = true;
                let mut members = Vec::new();
                for member in split(inner) {
                    members.extend(self.expand(&member, depth + 1)?);
                }
                members
            } else {
                match range(inner, self.budget.words) {
                    Some(members) if members.is_empty() => return None,
                    Some(members) => {
                        self.expanded = true;
                        members
                    }
                    None => vec![rest.get(open..=close)?.to_vec()],
                }
            };
            results = self.join(&results, rest.get(..open)?, &members)?;
            rest = rest.get(close + 1..)?;
        }
    }

    /// Puts `middle` and each of `ends` behind each of `starts`.
    fn join(
        &mut self,
        starts: &[Vec<Unit>],
        middle: &[Unit],
        ends: &[Vec<Unit>],
    ) -> Option<Vec<Vec<Unit>>> {
        if let ([start], [end]) = (starts, ends) {
            return Some(vec![[start.as_slice(), middle, end.as_slice()].concat()]);
        }
        let words = starts.len().checked_mul(ends.len())?;
        let longest = |words: &[Vec<Unit>]| words.iter().map(Vec::len).max().unwrap_or(0);
        let size = longest(starts) + middle.len() + longest(ends) + 8;
        self.budget.words = self.budget.words.checked_sub(words)?;
        self.budget.bytes = self.budget.bytes.checked_sub(words.checked_mul(size)?)?;
        let both = |start: &Vec<Unit>| {
            let start = start.clone();
            ends.iter().map(move |end| [start.as_slice(), middle, end.as_slice()].concat())
        };
        Some(starts.iter().flat_map(both).collect())
    }

    /// Finds the first braces that belong together; the inner `None` is that there are none.
    fn first_pair(&mut self, units: &[Unit]) -> Option<Option<(usize, usize)>> {
        for (at, unit) in units.iter().enumerate() {
            if *unit != Unit::Byte(b'{') {
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| units.get(before));
            let behind = units.get(at + 1);
            let empty = behind == Some(&Unit::Byte(b'}'));
            // `{}` and `{` on their own are plain words.
            if before.is_none() && (empty || behind.is_none()) {
                continue;
            }
            // Quoted text may end with a blank, which makes it a word of its own.
            if empty && matches!(before, Some(Unit::Segment(_))) {
                return None;
            }
            if let Some(close) = closer(units, at + 1) {
                return Some(Some((at, close)));
            }
            // Each opener without an end looks through the whole rest.
            self.budget.bytes = self.budget.bytes.checked_sub(units.len() - at)?;
        }
        Some(None)
    }
}

/// Finds the `}` that ends what begins at `from`: one with a comma or `..` before it that stands directly inside.
/// Others are text.
fn closer(units: &[Unit], from: usize) -> Option<usize> {
    let (mut depth, mut separated) = (0_usize, false);
    for (at, unit) in units.iter().enumerate().skip(from) {
        let Unit::Byte(byte) = unit else { continue };
        let next = |offset: usize| units.get(at + offset);
        match byte {
            b'}' if depth == 0 && separated => return Some(at),
            b'}' => depth = depth.saturating_sub(1),
            b'{' => depth += 1,
            b',' if depth == 0 => separated = true,
            b'.' if depth == 0 && next(1) == Some(&Unit::Byte(b'.')) => {
                separated |= next(2) != Some(&Unit::Byte(b'}'));
            }
            _ => {}
        }
    }
    None
}

fn units(word: &Building) -> Vec<Unit> {
    let mut units = Vec::with_capacity(word.bytes.len() + word.segments.len());
    for (number, segment) in word.segments.iter().enumerate() {
        if segment.piece == Piece::Plain {
            let text =
                word.bytes.get(segment.start as usize..segment.end as usize).unwrap_or_default();
            units.extend(text.iter().map(|byte| Unit::Byte(*byte)));
        } else {
            units.push(Unit::Segment(u32::try_from(number).unwrap_or(u32::MAX)));
        }
    }
    units
}

fn rebuild(word: &Building, units: &[Unit]) -> Building {
    let mut built = Building { span: word.span, ..Building::default() };
    for unit in units {
        match unit {
            Unit::Byte(byte) => built.push(Piece::Plain, &[*byte]),
            Unit::Segment(number) => {
                if let Some(segment) = word.segments.get(*number as usize) {
                    let text = word.bytes.get(segment.start as usize..segment.end as usize);
                    built.push(segment.piece, text.unwrap_or_default());
                }
            }
        }
    }
    built.span = Span { ..word.span };
    built
}

/// Splits at the commas that stand directly inside.
fn split(inner: &[Unit]) -> Vec<Vec<Unit>> {
    let mut members = vec![Vec::new()];
    let mut depth = 0_usize;
    for unit in inner {
        match unit {
            Unit::Byte(b',') if depth == 0 => {
                members.push(Vec::new());
                continue;
            }
            Unit::Byte(b'{') => depth += 1,
            Unit::Byte(b'}') => depth = depth.saturating_sub(1),
            Unit::Byte(_) | Unit::Segment(_) => {}
        }
        if let Some(last) = members.last_mut() {
            last.push(*unit);
        }
    }
    members
}

/// `{1..5}`, `{01..10..2}`, `{a..e}`; no member stands for more than `most`, or for what is not modelled.
fn range(inner: &[Unit], most: usize) -> Option<Vec<Vec<Unit>>> {
    let mut text = Vec::new();
    for unit in inner {
        match unit {
            Unit::Byte(byte) if byte.is_ascii_alphanumeric() || b".+-".contains(byte) => {
                text.push(*byte);
            }
            Unit::Byte(_) | Unit::Segment(_) => return None,
        }
    }
    let text = String::from_utf8(text).ok()?;
    let mut parts = text.split("..");
    let (first, last, step) = (parts.next()?, parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    let step = match step {
        Some(step) => step.parse::<i64>().ok()?,
        None => 1,
    };
    let values = if let (Some(first), Some(last)) = (integer(first), integer(last)) {
        let width = width(text.split("..").next()?, text.split("..").nth(1)?);
        sequence(first, last, step, most)?.into_iter().map(|value| pad(value, width)).collect()
    } else {
        letters(first, last, step, most)?
    };
    Some(values.into_iter().map(|text| text.into_iter().map(Unit::Byte).collect()).collect())
}

fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The width to which numbers are padded: none unless one of the ends has a leading zero.
fn width(first: &str, last: &str) -> usize {
    let zero = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        digits.len() > 1 && digits.starts_with('0')
    };
    if zero(first) || zero(last) { first.len().max(last.len()) } else { 0 }
}

fn pad(value: i64, width: usize) -> Vec<u8> {
    format!("{value:0width$}").into_bytes()
}

/// The values; none at all if there are more than `most`.
fn sequence(first: i64, last: i64, step: i64, most: usize) -> Option<Vec<i64>> {
    let step = if step == 0 { 1 } else { step.checked_abs()? };
    let mut values = Vec::new();
    let mut value = first;
    loop {
        if (first <= last && value > last) || (first > last && value < last) {
            return Some(values);
        }
        if values.len() >= most {
            return Some(Vec::new());
        }
        values.push(value);
        let next = if first <= last { value.checked_add(step) } else { value.checked_sub(step) };
        match next {
            Some(next) => value = next,
            None => return Some(values),
        }
    }
}

fn letters(first: &str, last: &str, step: i64, most: usize) -> Option<Vec<Vec<u8>>> {
    let (&[first], &[last]) = (first.as_bytes(), last.as_bytes()) else { return None };
    if !first.is_ascii_alphabetic() || !last.is_ascii_alphabetic() {
        return None;
    }
    if first.is_ascii_lowercase() != last.is_ascii_lowercase() {
        // Between the cases lie a backslash and a backquote.
        return Some(Vec::new());
    }
    let values = sequence(i64::from(first), i64::from(last), step, most)?;
    Some(
        values
            .iter()
            .filter_map(|value| u8::try_from(*value).ok())
            .map(|byte| vec![byte])
            .collect(),
    )
}
