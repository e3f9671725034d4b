//! Sessions of a gateway that stays, as they go over the socket.

use serde::{Deserialize, Serialize};

/// One open session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its name, as its front end chose it.
    pub session: String,
    /// The front end of its first call, such as `run` or `hook`.
    pub door: String,
    /// The agent behind the front end, as it says.
    pub agent: Option<String>,
    /// Working directory of its first call.
    pub cwd: String,
    /// When it began, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// When its last call began.
    pub used_ms: u64,
    /// Tasks of it that run.
    pub tasks: usize,
    /// The process of the agent, with which it ends; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_pid: Option<u32>,
    /// Whether it ends with the connection that began it.
    pub ends_with_connection: bool,
}

/// A request about sessions: of those of the caller's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum SessionRequest {
    /// Returns all open sessions.
    List,
    /// Ends a session: its tasks are stopped, and its network is gone.
    Close {
        /// The session.
        session: String,
    },
}

/// The answer to a request about sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnswer {
    /// The sessions, oldest first; the one that was closed.
    pub sessions: Vec<SessionView>,
}
