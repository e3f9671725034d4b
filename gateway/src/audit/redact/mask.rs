//! Puts masks into a record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Redactor;
use super::rules::Spot;
use crate::audit::record::Text;

/// Places that the grammar of the command tells.
#[derive(Debug, Default)]
pub(in crate::audit) struct Extras {
    /// The text of the command, in which `source` counts.
    pub(super) command: Vec<u8>,
    pub(super) source: Vec<Spot>,
    /// Places in single strings, by their JSON pointer.
    pub(super) strings: BTreeMap<String, Vec<Spot>>,
    /// Values found, and the rule that found them.
    pub(super) known: BTreeMap<Vec<u8>, usize>,
}

/// One mask, as `redacted` lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(in crate::audit) struct Mask {
    pub(in crate::audit) ptr: String,
    pub(in crate::audit) rule: String,
    pub(in crate::audit) tag: String,
}

/// A masked text.
pub(super) struct Masked {
    pub(super) text: Vec<u8>,
    /// For each mask: what it stands for in the old text, and its length.
    moves: Vec<(Range<usize>, usize)>,
    masks: Vec<(usize, String)>,
}

/// Members that hold no text from outside: digests, identities, times, and words of our own.
const OURS: [&str; 36] = [
    "sha256",
    "file_sha256",
    "exe_sha256",
    "profile_sha256",
    "command_hmac",
    "received_hmac",
    "shown_hmac",
    "digest",
    "ref",
    "grant",
    "decision",
    "by",
    "code",
    "effect",
    "layer",
    "runs",
    "kind",
    "position",
    "parser",
    "agreement",
    "observed",
    "answer",
    "scope",
    "action",
    "seen_by",
    "verified",
    "started",
    "ended",
    "expires",
    "vkey",
    "origin",
    "number",
    "last_sha256",
    "op",
    "os",
    "id",
];

/// Masks every text of a record and returns the masks.
pub(in crate::audit) fn mask(
    members: &mut Map<String, Value>,
    extras: &Extras,
    redactor: &Redactor,
) -> Vec<Mask> {
    let mut known = extras.known.clone();
    let mut value = Value::Object(std::mem::take(members));
    visit(&mut value, &mut String::new(), Side::Ours, &mut |_, text| {
        for spot in redactor.rules().shapes(text) {
            known.entry(text.get(spot.range).unwrap_or_default().to_vec()).or_insert(spot.rule);
        }
        None
    });
    let mut masks = BTreeSet::new();
    if !known.is_empty() || !extras.source.is_empty() {
        let mut moves = Vec::new();
        visit(&mut value, &mut String::new(), Side::Ours, &mut |pointer, text| {
            let mut spots = extras.strings.get(pointer).cloned().unwrap_or_default();
            let is_command = text == extras.command && !text.is_empty();
            if is_command {
                spots.extend(extras.source.iter().cloned());
            }
            spots.extend(redactor.rules().shapes(text));
            spots.extend(recurrences(text, &known));
            let masked = apply(text, spots, redactor)?;
            masks.extend(masked.masks.iter().map(|(rule, tag)| Mask {
                ptr: pointer.into(),
                rule: redactor.rules().id(*rule).into(),
                tag: tag.clone(),
            }));
            if is_command {
                moves = masked.moves;
            }
            Some(masked.text)
        });
        shift(&mut value, &moves);
    }
    if let Value::Object(masked) = value {
        *members = masked;
    }
    masks.into_iter().collect()
}

/// Returns a key as a part of a JSON pointer (RFC 6901).
pub(in crate::audit) fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
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
    let mut masked = Masked { text: Vec::new(), moves: Vec::new(), masks: Vec::new() };
    let mut at = 0;
    for spot in merged {
        let secret = text.get(spot.range.clone()).unwrap_or_default();
        let tag = redactor.tag(secret);
        let mask = format!("[redacted:{}:{tag}]", redactor.rules().id(spot.rule));
        masked.text.extend_from_slice(text.get(at..spot.range.start).unwrap_or_default());
        masked.text.extend_from_slice(mask.as_bytes());
        at = spot.range.end;
        masked.moves.push((spot.range, mask.len()));
        masked.masks.push((spot.rule, tag));
    }
    masked.text.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(masked)
}

/// Returns where values that are known to be secret stand again. Short ones count only as whole words.
fn recurrences(text: &[u8], known: &BTreeMap<Vec<u8>, usize>) -> Vec<Spot> {
    let mut spots = Vec::new();
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    for (value, rule) in known.iter().filter(|(value, _)| !value.is_empty()) {
        let mut from = 0;
        while let Some(rest) = text.get(from..) {
            let Some(at) = rest.windows(value.len()).position(|window| window == value.as_slice())
            else {
                break;
            };
            let range = from + at..from + at + value.len();
            let before = range.start.checked_sub(1).and_then(|it| text.get(it));
            if value.len() >= 8 || !(is_word(before) || is_word(text.get(range.end))) {
                spots.push(Spot { range: range.clone(), rule: *rule });
            }
            from = range.end;
        }
    }
    spots
}

/// Whether a member may be left alone because of its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The names are ours.
    Ours,
    /// The names come from outside too, so no name says anything.
    Outside,
}

/// Calls `change` with every text and its pointer, and puts in its place what that returns.
fn visit(
    value: &mut Value,
    pointer: &mut String,
    side: Side,
    change: &mut impl FnMut(&str, &[u8]) -> Option<Vec<u8>>,
) {
    if let Some(bytes) = encoded(value) {
        if let Some(changed) = change(pointer, &bytes) {
            *value = Text(changed).stored();
        }
        return;
    }
    let length = pointer.len();
    match value {
        Value::String(text) => {
            if let Some(changed) = change(pointer, text.as_bytes()) {
                *value = Text(changed).stored();
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                visit(element, pointer, side, change);
                pointer.truncate(length);
            }
        }
        // No key of ours is masked, so the object stays as it is.
        Value::Object(members) if side == Side::Ours => {
            for (key, member) in members.iter_mut() {
                push_part(pointer, key);
                let is_ours = OURS.contains(&key.as_str());
                if !is_ours || member.is_object() || member.is_array() {
                    visit(member, pointer, inner(pointer, side), change);
                }
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            for (key, mut member) in std::mem::take(members) {
                push_part(pointer, &key);
                let masked_key = change(pointer, key.as_bytes());
                visit(&mut member, pointer, inner(pointer, side), change);
                pointer.truncate(length);
                let key = masked_key.map_or(key, |key| String::from_utf8_lossy(&key).into_owned());
                members.insert(key, member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Says whose names stand in the member at `pointer` of an object with names of `side`.
fn inner(pointer: &str, side: Side) -> Side {
    match pointer {
        "/request/input" | "/facts/paths" | "/sandbox" => Side::Outside,
        _ => side,
    }
}

fn push_part(pointer: &mut String, key: &str) {
    pointer.push('/');
    match key.contains(['~', '/']) {
        true => pointer.push_str(&pointer_part(key)),
        false => pointer.push_str(key),
    }
}

/// Returns the bytes of a text that is not UTF-8.
fn encoded(value: &Value) -> Option<Vec<u8>> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    STANDARD.decode(members.get("b64")?.as_str()?).ok()
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
    let mut new = at;
    for (old, length) in moves.iter().rev() {
        if at >= old.end {
            new = new + length - old.len();
        } else if at > old.start {
            new = new - at + old.start + length;
        }
    }
    new
}
