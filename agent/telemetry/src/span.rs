//! A span is a part of a call, a turn or a session, and belongs to a trace.
//!
//! All identities are derived from the records, so whoever sends a record again sends the same span again.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::record::{Attributes, Record};

/// The flag of a trace that its caller wants to be recorded (W3C Trace Context).
pub(crate) const SAMPLED: u8 = 1;

/// A part of a call, with a beginning and an end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) trace: Trace,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// The parent is a span of another process.
    pub(crate) is_remote: bool,
    /// Nanoseconds since 1970.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    pub(crate) error: Option<String>,
}

/// The trace of a call: of its caller, of its session, or its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trace {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    /// The span of the caller.
    pub(crate) parent: Option<String>,
    pub(crate) flags: u8,
}

impl Trace {
    /// Returns the trace of a decision.
    pub(crate) fn of(record: Record<'_>) -> Trace {
        if let Some(trace) = record.text(&["agent", "trace"]).and_then(Trace::given) {
            return trace;
        }
        let id = match record.text(&["agent", "session"]) {
            Some(session) => {
                digits::<16>(&["session", record.text(&["chain"]).unwrap_or_default(), session])
            }
            None => digits::<16>(&["call", record.id()]),
        };
        Trace { id, parent: None, flags: SAMPLED }
    }

    /// Reads `00-TRACE-SPAN-FLAGS`.
    fn given(text: &str) -> Option<Trace> {
        let fields: Vec<&str> = text.split('-').collect();
        let [_, id, parent, flags] = fields.as_slice() else { return None };
        let is_id = |text: &str, length| {
            text.len() == length && text.bytes().all(|it| it.is_ascii_hexdigit())
        };
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (is_id(id, 32) && is_id(parent, 16)).then(|| Trace {
            id: (*id).to_owned(),
            parent: Some((*parent).to_owned()),
            flags,
        })
    }
}

/// Returns the first bytes of a digest over words, in hexadecimal digits.
fn digits<const BYTES: usize>(words: &[&str]) -> String {
    let mut digest = Sha256::new();
    for word in words {
        digest.update(word.len().to_le_bytes());
        digest.update(word);
    }
    digest.finalize().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the identity of a span.
pub(crate) fn span(name: &str, of: &str) -> String {
    digits::<8>(&["span", name, of])
}
