//! Walks through the texts of a record.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::mask::Masked;
use crate::record::Text;

/// Members that hold no text from outside: digests, identities, times, and words of our own.
const OURS: [&str; 37] = [
    "sha256",
    "file_sha256",
    "exe_sha256",
    "profile_sha256",
    "command_hmac",
    "received_hmac",
    "shown_hmac",
    "spec_hmac",
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

/// Origin of the names in an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The names are ours, so some say that a member may be left alone.
    Ours,
    /// The names are paths, the members are ours.
    Paths,
    /// Everything comes from outside: no name says anything, and what looks like our form of bytes may be none.
    Outside,
}

/// A mask that was put in: its pointer, its rule and its tag.
pub(super) type Put = (String, usize, String);

/// Calls `change` with every text and every key from outside, and the pointer to it, and puts in its place what that
/// returns. Pointers are made of keys as they were changed, so none holds what was masked.
pub(super) fn visit(
    value: &mut Value,
    change: &mut impl FnMut(&str, &[u8]) -> Option<Masked>,
) -> Vec<Put> {
    let mut walk = Walk { pointer: String::new(), puts: Vec::new(), change };
    walk.value(value, Side::Ours);
    walk.puts
}

struct Walk<'a, C> {
    pointer: String,
    puts: Vec<Put>,
    change: &'a mut C,
}

impl<C: FnMut(&str, &[u8]) -> Option<Masked>> Walk<'_, C> {
    fn value(&mut self, value: &mut Value, side: Side) {
        if let Some(bytes) = encoded(value) {
            if let Some(masked) = (self.change)(&self.pointer, &bytes) {
                *value = self.put(masked).stored();
            }
            if side == Side::Ours {
                return;
            }
        }
        let length = self.pointer.len();
        match value {
            Value::String(text) => {
                if let Some(masked) = (self.change)(&self.pointer, text.as_bytes()) {
                    *value = self.put(masked).stored();
                }
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter_mut().enumerate() {
                    self.pointer.push_str(&format!("/{index}"));
                    self.value(element, side);
                    self.pointer.truncate(length);
                }
            }
            // No key of ours is masked, so the object stays as it is.
            Value::Object(members) if side == Side::Ours => {
                for (key, member) in members.iter_mut() {
                    push_part(&mut self.pointer, key);
                    let is_ours = OURS.contains(&key.as_str());
                    if !is_ours || member.is_object() || member.is_array() {
                        self.value(member, inner(&self.pointer, side));
                    }
                    self.pointer.truncate(length);
                }
            }
            Value::Object(members) => self.members(members, side),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Notes the masks of `masked` under the pointer as it is, and returns the text.
    fn put(&mut self, masked: Masked) -> Text {
        let put = |(rule, tag)| (self.pointer.clone(), rule, tag);
        self.puts.extend(masked.masks.into_iter().map(put));
        Text(masked.text)
    }

    /// Goes through an object whose keys may be changed. Keys that become equal are numbered.
    fn members(&mut self, members: &mut Map<String, Value>, side: Side) {
        let length = self.pointer.len();
        let old = std::mem::take(members);
        // A key is the value of no name.
        self.pointer.push('/');
        let changed: Vec<Option<Masked>> =
            old.keys().map(|key| (self.change)(&self.pointer, key.as_bytes())).collect();
        self.pointer.truncate(length);
        let kept = old.keys().zip(&changed).filter(|(_, changed)| changed.is_none());
        let mut taken: HashSet<String> = kept.map(|(key, _)| key.clone()).collect();
        let mut numbers = HashMap::new();
        for ((key, mut member), changed) in old.into_iter().zip(changed) {
            let key = match &changed {
                None => key,
                Some(masked) => {
                    let text = String::from_utf8_lossy(&masked.text).into_owned();
                    number(text, &mut taken, &mut numbers)
                }
            };
            push_part(&mut self.pointer, &key);
            if let Some(masked) = changed {
                self.put(masked);
            }
            self.value(&mut member, inner(&self.pointer, side));
            self.pointer.truncate(length);
            members.insert(key, member);
        }
    }
}

/// Returns `key`, with a number when it is taken, and takes it.
fn number(
    key: String,
    taken: &mut HashSet<String>,
    numbers: &mut HashMap<String, usize>,
) -> String {
    let count = numbers.entry(key.clone()).or_insert(1);
    let mut name = key.clone();
    while !taken.insert(name.clone()) {
        *count += 1;
        name = format!("{key} ({count})");
    }
    name
}

/// Says whose names stand in the member at `pointer` of an object with names of `side`.
fn inner(pointer: &str, side: Side) -> Side {
    match (pointer, side) {
        ("/request/input" | "/sandbox", _) => Side::Outside,
        ("/facts/paths", _) => Side::Paths,
        (_, Side::Paths) => Side::Ours,
        (_, Side::Ours | Side::Outside) => side,
    }
}

/// Returns a key as a part of a JSON pointer (RFC 6901).
pub(crate) fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
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
