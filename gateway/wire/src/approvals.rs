//! Questions that wait for a person elsewhere, as they go over the socket.

use serde::{Deserialize, Serialize};

use crate::types::Question;

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalView {
    /// Its identity, which no other question of this gateway has.
    pub id: String,
    /// The question.
    pub question: Question,
    /// Working directory of the command.
    pub cwd: String,
    /// The front end of the call, such as `run` or `shell`.
    pub door: String,
    /// The agent behind the front end, as it says.
    pub agent: Option<String>,
    /// The session of the call.
    pub session: Option<String>,
    /// Process that called.
    pub pid: u32,
    /// User of that process.
    pub uid: u32,
    /// When the question came up, in milliseconds since 1970 (UTC).
    pub asked_ms: u64,
    /// When it is withdrawn unless somebody answers.
    pub expires_ms: u64,
}

/// A request about questions that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum ApprovalRequest {
    /// Returns all of them.
    List,
    /// Says yes to one.
    Allow {
        /// Which.
        id: String,
        /// Write the offered rule as well.
        #[serde(default)]
        always: bool,
    },
    /// Says no to one.
    Deny {
        /// Which.
        id: String,
    },
}

/// The answer to a request about questions that wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The questions, oldest first; the one that was answered.
    pub approvals: Vec<ApprovalView>,
}
