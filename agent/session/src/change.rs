//! A change gives one file another content; the events of a session tell of it.

use serde_json::Value;

/// One change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path of the file.
    pub path: String,
    /// Digest of its content before; none if there was no file.
    pub before: Option<String>,
    /// Its mode before.
    pub mode: Option<u64>,
    /// Digest of its content after; none if there is no file.
    pub after: Option<String>,
}

impl Change {
    /// Reads a change; none for something else.
    pub(crate) fn of(data: &Value) -> Option<Change> {
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        let mode = data.get("mode").and_then(Value::as_u64);
        Some(Change { path: text("path")?, before: text("before"), mode, after: text("after") })
    }
}
