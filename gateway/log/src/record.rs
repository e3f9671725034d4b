//! Records as typed data, in the order in which they are stored.
//!
//! Records that are built here are not yet masked: [`super::Log::record`] masks the whole record before it makes a
//! line of it, so no builder has to think of secrets.

pub mod caller;
pub mod connection;
pub mod decision;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use decision::Decision;

/// Bytes from outside: a string, or `{"b64": …}` when they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub(crate) Vec<u8>);

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text.into_bytes())
    }
}

impl From<&[u8]> for Text {
    fn from(text: &[u8]) -> Text {
        Text(text.to_vec())
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Text {
        Text(path.as_os_str().as_encoded_bytes().to_vec())
    }
}

impl Text {
    /// Returns the bytes as they were given.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value as it is stored.
    pub(super) fn stored(&self) -> Value {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Value::String(text.into()),
            Err(_) => serde_json::json!({ "b64": STANDARD.encode(&self.0) }),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.stored().serialize(serializer)
    }
}

/// Content of a record, besides the fields that every record has.
#[derive(Debug)]
pub enum Body {
    /// First line of every segment.
    Segment(Segment),
    /// The rules in force changed.
    PolicyLoad(Box<PolicyLoad>),
    /// A call was decided.
    Decision(Box<Decision>),
    /// A question was answered, withdrawn or expired.
    Approval(Approval),
    /// A connection of a command is about to be made, is over or was refused.
    Connection(Box<connection::Connection>),
    /// A command ended, or never started.
    Result(Box<Outcome>),
    /// A remembered permission was made, used up or revoked.
    Grant(GrantRecord),
    /// Hooks ran at an event after which nothing is decided about a call.
    Hooks(Box<HookRuns>),
    /// An agent told of a step of its session.
    Session(Box<Session>),
    /// Something is missing or was not provable.
    Gap(Gap),
}

impl Body {
    /// The kind as it is stored.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Body::Segment(_) => "segment",
            Body::PolicyLoad(_) => "policy_load",
            Body::Decision(_) => "decision",
            Body::Approval(_) => "approval",
            Body::Connection(_) => "connection",
            Body::Result(_) => "result",
            Body::Grant(_) => "grant",
            Body::Hooks(_) => "hooks",
            Body::Session(_) => "session",
            Body::Gap(_) => "gap",
        }
    }

    /// The decision to which the record belongs.
    pub(super) fn reference(&self) -> Option<&str> {
        match self {
            Body::Decision(decision) => decision.repeats.as_deref(),
            Body::Approval(approval) => Some(&approval.reference),
            Body::Connection(connection) => Some(&connection.reference),
            Body::Result(outcome) => Some(&outcome.reference),
            Body::Hooks(hooks) => hooks.reference.as_deref(),
            Body::Segment(_)
            | Body::PolicyLoad(_)
            | Body::Grant(_)
            | Body::Session(_)
            | Body::Gap(_) => None,
        }
    }
}

/// First line of a segment.
#[derive(Debug, Clone, Serialize)]
pub struct Segment {
    pub number: u64,
    pub format: u64,
    pub vkey: String,
    pub origin: String,
    pub first_seq: u64,
    pub previous: Option<PreviousSegment>,
}

/// The segment before: its name, size and digest.
#[derive(Debug, Clone, Serialize)]
pub struct PreviousSegment {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// The rules in force, whole enough to decide again.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyLoad {
    pub sha256: String,
    pub layers: Vec<LoadedLayer>,
    pub rules: Vec<LoadedRule>,
    pub hooks: Vec<LoadedHook>,
    /// The sandbox settings in force, as an object; never a value of the environment.
    pub sandbox: Value,
    pub warnings: Vec<Text>,
}

/// One file of settings that was read.
#[derive(Debug, Clone, Serialize)]
pub struct LoadedLayer {
    pub layer: &'static str,
    pub file: Text,
    pub sha256: Option<String>,
}

/// One rule in force.
#[derive(Debug, Clone, Serialize)]
pub struct LoadedRule {
    pub text: Text,
    pub effect: &'static str,
    pub layer: &'static str,
    pub file: Text,
    pub line: u32,
}

/// One hook in force.
#[derive(Debug, Clone, Serialize)]
pub struct LoadedHook {
    pub event: Text,
    pub handler: Text,
    pub layer: &'static str,
    pub file: Text,
    pub pointer: Text,
    pub sha256: Option<String>,
}

/// Person who answered.
#[derive(Debug, Clone, Serialize)]
pub struct Who {
    pub uid: u32,
    pub name: Text,
}

/// The answer to a question.
#[derive(Debug, Clone, Serialize)]
pub struct Approval {
    /// Id of the decision.
    #[serde(skip)]
    pub reference: String,
    pub answer: ApprovalAnswer,
    pub who: Option<Who>,
    /// How it was put, such as `terminal` or `socket`.
    pub channel: Text,
    pub waited_ms: u64,
    /// Keyed digest of the text that was shown, from [`super::Redactor::digest`].
    pub shown_hmac: String,
    pub scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The identity of the question at its gateway, where others answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The persons who approved, where the managed settings say who may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Approver>,
    /// The reason of who allowed it alone in an emergency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<Text>,
    /// Name of the person who answered, as the program says that passed the answer on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Text>,
    /// Keyed digest of what the command may reach after this answer; [`super::Log::approval`] puts it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_hmac: Option<String>,
}

/// A person who approved.
#[derive(Debug, Clone, Serialize)]
pub struct Approver {
    pub uid: u32,
    pub name: Text,
    /// Person in whose place they approved.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub in_place_of: Option<Text>,
}

/// Answer to a question, by a person or by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    Allow,
    Deny,
    Withdrawn,
}

/// For how long an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
    /// For some minutes or calls.
    Limited,
    Always,
}

/// How a command ended, or that it never started.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Id of the decision.
    #[serde(skip)]
    pub reference: String,
    pub agreement: Agreement,
    pub exit: Option<i64>,
    pub signal: Option<String>,
    pub timed_out: bool,
    pub interrupted: bool,
    pub oom: bool,
    /// From [`super::clock::at`].
    pub started: Option<String>,
    pub ended: Option<String>,
    pub duration_us: Option<u64>,
    pub usage: Option<Usage>,
    pub streams: Vec<Stream>,
    pub enforced: Vec<String>,
    pub missing: Vec<String>,
    pub touched: Touched,
    pub execs: u64,
    pub execs_lost: u64,
    /// `gateway`, `front_end` or `nobody`.
    pub observed: &'static str,
}

impl Outcome {
    /// Returns the result of a command of which nothing but `agreement` is known.
    pub fn bare(reference: &str, agreement: Agreement, observed: &'static str) -> Outcome {
        Outcome {
            reference: reference.into(),
            agreement,
            exit: None,
            signal: None,
            timed_out: false,
            interrupted: false,
            oom: false,
            started: None,
            ended: None,
            duration_us: None,
            usage: None,
            streams: Vec::new(),
            enforced: Vec::new(),
            missing: Vec::new(),
            touched: Touched::default(),
            execs: 0,
            execs_lost: 0,
            observed,
        }
    }
}

/// Whether what ran is what was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    AsDecided,
    NotRun,
    Unknown,
}

/// Resources that the command used.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub rss_kib: u64,
}

/// One output stream.
#[derive(Debug, Clone, Serialize)]
pub struct Stream {
    pub name: &'static str,
    pub bytes: u64,
    /// From [`super::Redactor::stream_digest`].
    pub digest: String,
    pub spill: Option<Text>,
    pub cut: bool,
}

/// Files and sockets that the command changed or used, and acts that were denied.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Touched {
    pub complete: bool,
    pub written: Vec<Text>,
    pub removed: Vec<Text>,
    pub sockets: Vec<Text>,
    pub denials: Vec<Denial>,
}

/// Something the command was kept from.
#[derive(Debug, Clone, Serialize)]
pub struct Denial {
    /// The name of the protection.
    pub blocker: Text,
    pub path_or_host: Text,
}

/// A remembered permission.
#[derive(Debug, Clone, Serialize)]
pub struct GrantRecord {
    pub rule: Text,
    pub layer: &'static str,
    /// `made`, `used_up` or `revoked`.
    pub action: &'static str,
    pub who: Option<Who>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Hooks that ran after a call, or at the beginning or end of something.
#[derive(Debug, Clone, Serialize)]
pub struct HookRuns {
    /// Id of the decision, when they are about a call that this gateway decided.
    #[serde(skip)]
    pub reference: Option<String>,
    pub event: &'static str,
    pub agent: decision::Agent,
    pub caller: caller::Caller,
    pub hooks: Vec<decision::HookRun>,
}

/// A step of a session, by the word of its agent.
#[derive(Debug, Clone, Serialize)]
pub struct Session {
    /// `start`, `turn`, `turn_end`, `completed` or `end`.
    pub action: &'static str,
    pub agent: decision::Agent,
    pub caller: caller::Caller,
    /// How it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Text>,
    /// How a turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Text>,
    /// Use of models in a turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<ModelUsage>,
}

/// Use of one model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelUsage {
    pub model: Text,
    pub answers: u64,
    pub input: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    pub output: u64,
    pub micro_dollars: u64,
}

/// Something that is missing or was not provable.
#[derive(Debug, Clone, Serialize)]
pub struct Gap {
    /// One of the reasons that the manual lists, such as `torn_tail`.
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    pub detail: Text,
}

/// Returns the person who answers: the user of this process.
pub fn who() -> Who {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    Who { uid, name: name_of(uid, &users).unwrap_or_default().into() }
}

fn name_of(uid: u32, users: &[u8]) -> Option<String> {
    let uid = uid.to_string();
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        let found = fields.nth(1)? == uid.as_bytes();
        found.then(|| String::from_utf8_lossy(name).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_user_has_the_name_of_the_line_with_that_number() {
        let users = b"root:x:0:0::/root:/bin/sh\nann:x:1000:100::/:/\nbroken\nbob:x:7:1000::/:/";
        let names = [0, 1000, 7, 100].map(|uid| name_of(uid, users));
        let expected = [Some("root"), Some("ann"), Some("bob"), None];
        assert_eq!(names, expected.map(|it| it.map(str::to_owned)));
    }
}
