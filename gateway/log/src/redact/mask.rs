//! Puts masks into a record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Redactor;
use super::grammar::fits;
use super::known::{Known, Search};
use super::rules::{Kind, Rule, Spot};
use super::visit;

/// Most masks in one text. One with more secrets is masked as a whole.
pub(super) const MOST_MASKS: usize = 1000;

/// Places that the grammar of the command tells.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// The text of the command, in which `source` counts.
    pub(super) command: Vec<u8>,
    pub(super) source: Vec<Spot>,
    /// Places in single strings, by their JSON pointer.
    pub(super) strings: BTreeMap<String, Vec<Spot>>,
    /// Values found, and the rule that found them.
    pub(super) known: Known,
}

/// One mask, as `redacted` lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Mask {
    pub(crate) ptr: String,
    pub(crate) rule: String,
    pub(crate) tag: String,
}

/// A masked text.
pub(super) struct Masked {
    pub(super) text: Vec<u8>,
    /// For each mask: what it stands for in the old text, and where it ends in the new one.
    moves: Vec<(Range<usize>, usize)>,
    /// The rule and the tag of each mask.
    pub(super) masks: Vec<(usize, String)>,
}

/// Masks every text and every key from outside of a record and returns the masks.
pub(crate) fn mask(
    members: &mut Map<String, Value>,
    extras: &Extras,
    redactor: &Redactor,
) -> Vec<Mask> {
    let mut known = extras.known.clone();
    let mut value = Value::Object(std::mem::take(members));
    visit::visit(&mut value, &mut |pointer, text| {
        let named = named(pointer, text, redactor);
        for spot in redactor.rules().shapes(text).into_iter().chain(named) {
            known.add(text.get(spot.range).unwrap_or_default(), spot.rule);
        }
        None
    });
    let mut masks = BTreeSet::new();
    if !known.is_empty() || !extras.source.is_empty() {
        let mut search = Search::new(&known);
        let mut moves = Vec::new();
        let found = visit::visit(&mut value, &mut |pointer, text| {
            let mut spots = extras.strings.get(pointer).cloned().unwrap_or_default();
            let is_command = text == extras.command && !text.is_empty();
            if is_command {
                spots.extend(extras.source.iter().cloned());
            }
            spots.extend(redactor.rules().shapes(text));
            spots.extend(named(pointer, text, redactor));
            search.find(text, &mut spots);
            let mut masked = apply(text, spots, redactor)?;
            if is_command {
                moves = std::mem::take(&mut masked.moves);
            }
            Some(masked)
        });
        masks.extend(found.into_iter().map(|(ptr, rule, tag)| {
            let rule = redactor.rules().id(rule).into();
            Mask { ptr, rule, tag }
        }));
        shift(&mut value, &moves);
    }
    if let Value::Object(masked) = value {
        *members = masked;
    }
    masks.into_iter().collect()
}

/// Returns all of `text` when it is a member of the tool's input whose name says that it is secret.
fn named(pointer: &str, text: &[u8], redactor: &Redactor) -> Option<Spot> {
    let (_, name) = pointer.strip_prefix("/request/input/").map(|_| pointer.rsplit_once('/'))??;
    let rules = redactor.rules();
    let tells = |rule: &&Rule| match rule.kind {
        Kind::Assignment => {
            rule.with.is_empty() && rule.names.iter().any(|pattern| fits(pattern, name))
        }
        Kind::Header => rule.names.iter().any(|header| header.eq_ignore_ascii_case(name)),
        Kind::Option | Kind::Pair | Kind::Last | Kind::Stdin | Kind::Template | Kind::Shape => {
            false
        }
    };
    let rule = rules.rules.iter().position(|rule| tells(&rule) && rules.is_secret(rule, text))?;
    Some(Spot { range: 0..text.len(), rule })
}

/// Returns `text` with masks at `spots`; none when there is nothing to mask.
pub(super) fn apply(text: &[u8], mut spots: Vec<Spot>, redactor: &Redactor) -> Option<Masked> {
    spots.retain(|spot| !spot.range.is_empty() && spot.range.end <= text.len());
    if spots.is_empty() {
        return None;
    }
    // The wider spot first, and of equals the one that was found first.
    spots.sort_by_key(|spot| (spot.range.start, usize::MAX - spot.range.end));
    let mut merged: Vec<Spot> = Vec::new();
    for spot in spots {
        match merged.last_mut() {
            Some(last) if spot.range.start < last.range.end => {
                last.range.end = last.range.end.max(spot.range.end);
            }
            _ => merged.push(spot),
        }
    }
    if merged.len() > MOST_MASKS {
        merged.truncate(1);
        merged.iter_mut().for_each(|all| all.range = 0..text.len());
    }
    let mut masked = Masked { text: Vec::new(), moves: Vec::new(), masks: Vec::new() };
    let mut at = 0;
    for spot in merged {
        let secret = text.get(spot.range.clone()).unwrap_or_default();
        let tag = redactor.tag(secret);
        let mask = format!("[redacted:{}:{tag}]", redactor.rules().id(spot.rule));
        masked.text.extend_from_slice(text.get(at..spot.range.start).unwrap_or_default());
        masked.text.extend_from_slice(mask.as_bytes());
        at = spot.range.end;
        masked.moves.push((spot.range, masked.text.len()));
        masked.masks.push((spot.rule, tag));
    }
    masked.text.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(masked)
}

/// Moves the spans of a record to where their text stands in the masked command.
fn shift(value: &mut Value, moves: &[(Range<usize>, usize)]) {
    if moves.is_empty() {
        return;
    }
    for pointer in ["/parsed/commands", "/parsed/opaque", "/parts"] {
        let Some(Value::Array(elements)) = value.pointer_mut(pointer) else { continue };
        for element in elements {
            let Some(Value::Array(ends)) = element.get_mut("span") else { continue };
            for end in ends {
                let at = end.as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
                *end = Value::from(moved(at, moves));
            }
        }
    }
}

/// Returns where byte `at` of the old text is in the new one; inside a mask, its end.
fn moved(at: usize, moves: &[(Range<usize>, usize)]) -> usize {
    let before = moves.partition_point(|(old, _)| old.end <= at);
    match (before.checked_sub(1).and_then(|it| moves.get(it)), moves.get(before)) {
        (_, Some((old, end))) if at > old.start => *end,
        (Some((old, end)), _) => end + at - old.end,
        (None, _) => at,
    }
}
