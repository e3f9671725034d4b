//! Puts masks into a record.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Redactor;

/// Places that the grammar of the command tells.
#[derive(Debug, Default)]
pub(in crate::audit) struct Extras {}

/// One mask, as `redacted` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::audit) struct Mask {
    pub(in crate::audit) ptr: String,
    pub(in crate::audit) rule: String,
    pub(in crate::audit) tag: String,
}

/// Masks every text of a record and returns the masks.
pub(in crate::audit) fn mask(
    members: &mut Map<String, Value>,
    extras: &Extras,
    redactor: &Redactor,
) -> Vec<Mask> {
    let _ = (members, extras, redactor);
    Vec::new()
}

/// Returns a key as a part of a JSON pointer (RFC 6901).
pub(in crate::audit) fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
