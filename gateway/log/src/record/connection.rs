//! A connection of a command, as it is recorded: before it is made, when it is over, and when it is refused.

use serde::Serialize;

use super::{Text, Who};

/// A connection.
#[derive(Debug, Clone, Serialize)]
pub struct Connection {
    /// Id of the decision.
    #[serde(skip)]
    pub reference: String,
    pub action: Action,
    /// Number of the connection within the run; 0 for an attempt that was refused before it became one.
    pub number: u64,
    /// `http`, `connect` or `socks`; `forward` for one that comes in to a task.
    pub way: &'static str,
    pub to: Target,
    /// Opened: those that may be dialled. Closed: the one that was.
    pub addresses: Vec<String>,
    pub verdict: Verdict,
    pub rules: Vec<Rule>,
    pub who: Option<Who>,
    /// How often; more than once only where a refusal was tried again.
    pub count: u64,
    pub bytes: Option<Bytes>,
    pub duration_us: Option<u64>,
}

/// Event of a connection that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Opened,
    Closed,
    Refused,
}

/// Where it goes; empty when the request named no host.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    pub host: Text,
    pub port: u16,
}

/// Decision about a connection.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub decision: &'static str,
    pub by: &'static str,
    pub code: &'static str,
    pub reason: Text,
}

/// The rule that decided, with the fields that rules of decisions have.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    pub text: Text,
    pub effect: &'static str,
    pub layer: &'static str,
    pub file: Text,
    pub line: u32,
    pub pointer: String,
    pub file_sha256: Option<String>,
    pub part: u64,
    pub decisive: bool,
}

/// Bytes that were carried, from the side that connected and to it: the command, or the client of a forward.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
}
