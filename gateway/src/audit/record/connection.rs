//! A connection of a command, as it is recorded: before it is made, when it is over, and when it is refused.

use serde::Serialize;

use super::{Text, Who};

/// A connection.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Connection {
    /// Id of the decision.
    #[serde(skip)]
    pub(crate) reference: String,
    pub(crate) action: Action,
    /// Which of the run's connections; 0 for one that was refused before it was one.
    pub(crate) number: u64,
    /// `http`, `connect` or `socks`.
    pub(crate) way: &'static str,
    pub(crate) to: Target,
    /// Opened: those that may be dialled. Closed: the one that was.
    pub(crate) addresses: Vec<String>,
    pub(crate) verdict: Verdict,
    pub(crate) rules: Vec<Rule>,
    pub(crate) who: Option<Who>,
    /// How often; more than once only where a refusal was tried again.
    pub(crate) count: u64,
    pub(crate) bytes: Option<Bytes>,
    pub(crate) duration_us: Option<u64>,
}

/// What is recorded of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Opened,
    Closed,
    Refused,
}

/// Where it goes; empty when the request named no host.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Target {
    pub(crate) host: Text,
    pub(crate) port: u16,
}

/// What was decided.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Verdict {
    pub(crate) decision: &'static str,
    pub(crate) by: &'static str,
    pub(crate) code: &'static str,
    pub(crate) reason: Text,
}

/// The rule that decided, with the fields that rules of decisions have.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rule {
    pub(crate) text: Text,
    pub(crate) effect: &'static str,
    pub(crate) layer: &'static str,
    pub(crate) file: Text,
    pub(crate) line: u32,
    pub(crate) pointer: String,
    pub(crate) file_sha256: Option<String>,
    pub(crate) part: u64,
    pub(crate) decisive: bool,
}

/// What was carried: from the command, and to it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bytes {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}
