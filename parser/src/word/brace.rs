//! Brace expansion, exactly as bash does it: first of all expansions.

use crate::Span;
use crate::word::build::{BraceBudget, Building, Piece};

/// What brace expansion makes of a word.
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

/// Expands the braces of `word`.
pub(crate) fn expand(word: &Building, budget: &mut BraceBudget) -> Expansion {
    let units = units(word);
    let mut done: Vec<Vec<Unit>> = Vec::new();
    // Words still to look at, the next one last, each with the place from which to look.
    let mut open: Vec<(Vec<Unit>, usize)> = vec![(units, 0)];
    let mut expanded = false;
    while let Some((units, from)) = open.pop() {
        let Some(found) = find(&units, from, budget.words) else {
            done.push(units);
            continue;
        };
        expanded = true;
        let front = units.get(..found.open).unwrap_or_default();
        let back = units.get(found.close + 1..).unwrap_or_default();
        // Each expansion looks at the whole word again.
        let cost = (front.len() + back.len() + 8).saturating_mul(found.members.len())
            + (found.close - found.open);
        if found.members.is_empty() || found.members.len() > budget.words || cost > budget.bytes {
            // What follows is not tried any more: the limit is one for the whole text.
            budget.words = 0;
            return Expansion::Limit;
        }
        budget.words -= found.members.len();
        budget.bytes -= cost;
        for member in found.members.iter().rev() {
            let mut next = Vec::with_capacity(front.len() + member.len() + back.len());
            next.extend_from_slice(front);
            next.extend_from_slice(member);
            next.extend_from_slice(back);
            // Members are looked at again: they may hold braces; what is in front was looked at.
            open.push((next, found.open));
        }
    }
    if !expanded {
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

struct Found {
    open: usize,
    close: usize,
    members: Vec<Vec<Unit>>,
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

/// Finds the first brace expression that expands, from `from` on.
fn find(units: &[Unit], from: usize, most: usize) -> Option<Found> {
    let pairs = pairs(units);
    let mut at = from;
    while at < units.len() {
        if units.get(at) == Some(&Unit::Byte(b'{'))
            && let Ok(pair) = pairs.binary_search_by_key(&at, |pair| pair.0)
            && let Some((open, close, commas)) = pairs.get(pair).copied()
        {
            let inner = units.get(open + 1..close).unwrap_or_default();
            if commas {
                return Some(Found { open, close, members: split(inner) });
            }
            if let Some(members) = range(inner, most) {
                return Some(Found { open, close, members });
            }
        }
        at += 1;
    }
    None
}

/// The pairs of braces, by place of the opener, and whether a comma stands directly inside.
fn pairs(units: &[Unit]) -> Vec<(usize, usize, bool)> {
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut pairs = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        match unit {
            Unit::Byte(b'{') => open.push((at, false)),
            Unit::Byte(b',') => {
                if let Some(last) = open.last_mut() {
                    last.1 = true;
                }
            }
            Unit::Byte(b'}') => {
                if let Some((start, commas)) = open.pop() {
                    pairs.push((start, at, commas));
                }
            }
            Unit::Byte(_) | Unit::Segment(_) => {}
        }
    }
    pairs.sort_unstable();
    pairs
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
