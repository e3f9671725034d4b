//! Keeps a line below its limit by shortening what is longest, and says so in the line.

use serde_json::{Map, Value, json};

use super::redact::Redactor;

/// Longest line, in bytes, without its line feed.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Room for the common members.
const COMMON: usize = 4096;

/// Bytes that are kept of a shortened string.
const KEPT: usize = 1024;

/// Returns `members` small enough for a line. Strings are shortened first, then lists are left out, the
/// largest first; each is named in `cut` with its size and keyed digest.
pub(super) fn fit(
    members: Map<String, Value>,
    redactor: &Redactor,
) -> Result<Map<String, Value>, String> {
    if size(&members)? + COMMON <= MAX_LINE {
        return Ok(members);
    }
    let mut value = Value::Object(members);
    let mut cuts = Vec::new();
    strings(&mut value, &mut String::new(), redactor, &mut cuts);
    for pointer in
        ["/parsed/commands", "/parts", "/facts/paths", "/request/input", "/request/env_names"]
    {
        if serde_json::to_vec(&value).map_err(|error| error.to_string())?.len() + COMMON <= MAX_LINE
        {
            break;
        }
        let Some(found) = value.pointer_mut(pointer) else { continue };
        let text = serde_json::to_vec(found).map_err(|error| error.to_string())?;
        cuts.push(json!({ "ptr": pointer, "bytes": text.len(), "digest": redactor.digest(&text) }));
        *found = if found.is_object() { json!({}) } else { json!([]) };
    }
    let Value::Object(mut members) = value else { return Err("a record is an object".into()) };
    members.insert("cut".into(), Value::Array(cuts));
    if size(&members)? + COMMON > MAX_LINE {
        return Err("it is longer than the longest line".into());
    }
    Ok(members)
}

fn size(members: &Map<String, Value>) -> Result<usize, String> {
    serde_json::to_vec(members).map(|text| text.len()).map_err(|error| error.to_string())
}

fn strings(value: &mut Value, pointer: &mut String, redactor: &Redactor, cuts: &mut Vec<Value>) {
    let length = pointer.len();
    match value {
        Value::String(text) if text.len() > 4 * KEPT => {
            let digest = redactor.digest(text.as_bytes());
            cuts.push(json!({ "ptr": pointer.as_str(), "bytes": text.len(), "digest": digest }));
            let end = text.floor_char_boundary(KEPT);
            text.truncate(end);
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                strings(element, pointer, redactor, cuts);
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                pointer.push('/');
                pointer.push_str(&super::redact::pointer_part(key));
                strings(member, pointer, redactor, cuts);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
