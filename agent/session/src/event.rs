//! Events: one line of the log each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Format of events that this version writes.
pub(crate) const VERSION: u64 = 1;

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The session begins: `session`, `cwd`.
    #[serde(rename = "session.start")]
    Start,
    /// A message in the role of the user: `uuid`, `content`; results of calls are such messages.
    #[serde(rename = "user.message")]
    User,
    /// A message of the model: `uuid`, `content`.
    #[serde(rename = "assistant.message")]
    Assistant,
    /// The permission mode: `mode`.
    #[serde(rename = "mode.changed")]
    Mode,
    /// The model that is asked: `model`.
    #[serde(rename = "model.changed")]
    Model,
    /// The list of things to do: `todos`, or `list`.
    #[serde(rename = "todo.changed")]
    Todos,
    /// Use of a turn: `dollars`, and by model without sub-agents, `root`, and with them, `aggregate`; `copied` in a copy.
    #[serde(rename = "usage")]
    Usage,
    /// The session has a name: `name`.
    #[serde(rename = "session.name")]
    Name,
    /// The session is a copy: `from` and the message `at` which it parts; or another one is a copy of it: `to`.
    #[serde(rename = "fork")]
    Fork,
    /// A message in the role of the user takes the place of all before: `uuid`, `content`; `files` were in use.
    #[serde(rename = "compaction.complete")]
    Compaction,
    /// Results of calls are lines now: `results`, an object of lines by the identity of the call.
    #[serde(rename = "compaction.micro")]
    TakenOut,
    /// A file tool changed a file: `path`, `call`, digests of the content `before` and `after`, its `mode` before, and `seen`,
    /// the bytes of the list of changes so far.
    #[serde(rename = "file.changed")]
    Changed,
    /// The conversation goes on behind an earlier message, `uuid`, or in front of one, `before`. With `files` the changes of
    /// files since are taken back; `conversation: false` leaves the messages.
    #[serde(rename = "rewind")]
    Rewind,
    /// The session was brought here from elsewhere: directories `from` and `to`.
    #[serde(rename = "session.handoff")]
    HandOff,
    /// Something else, of a later version: kept and skipped.
    #[serde(untagged)]
    Other(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Format.
    pub v: u64,
    /// Identity (UUID version 7, RFC 9562).
    pub id: String,
    /// Identity of the event before.
    pub parent: Option<String>,
    /// When, as RFC 3339 has it, in UTC.
    pub at: String,
    /// Kind.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Members that depend on the kind.
    #[serde(default)]
    pub data: Value,
}

impl Event {
    /// Makes an event of now.
    #[must_use]
    pub fn now(parent: Option<&str>, kind: Kind, data: Value) -> Event {
        Event {
            v: VERSION,
            id: uuid::Uuid::now_v7().to_string(),
            parent: parent.map(str::to_owned),
            at: now(),
            kind,
            data,
        }
    }

    /// Says whether a crash of the machine must not lose the event: words of a person, and what changes something.
    pub(crate) fn is_precious(&self) -> bool {
        matches!(
            self.kind,
            Kind::Start
                | Kind::User
                | Kind::Name
                | Kind::Fork
                | Kind::Rewind
                | Kind::Changed
                | Kind::Compaction
        )
    }
}

/// Returns the time as RFC 3339 has it, in UTC.
#[must_use]
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Returns a time in the same form; one that cannot be written so is 1970.
pub(crate) fn at(time: std::time::SystemTime) -> String {
    format!("{:.3}", jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}
