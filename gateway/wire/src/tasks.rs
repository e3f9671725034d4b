//! Background tasks, as they go over the socket and as their files hold them.

use serde::{Deserialize, Serialize};

use crate::parts::{AuditReference, Input, Window};

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Granted and recorded; the command is being started.
    Pending,
    /// The command runs.
    Running,
    /// The command exited with status 0.
    Completed,
    /// The command exited with another status, a signal ended it, its time limit passed, or it could not be started.
    Failed,
    /// Somebody stopped it, or its session ended.
    Stopped,
    /// The gateway that ran it is gone, and recorded no end.
    Lost,
}

impl TaskState {
    /// Says whether the task is over.
    pub fn has_ended(self) -> bool {
        match self {
            TaskState::Pending | TaskState::Running => false,
            TaskState::Completed | TaskState::Failed | TaskState::Stopped | TaskState::Lost => true,
        }
    }

    /// Returns the word for the state, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            TaskState::Pending => "pending",
            TaskState::Running => "running",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Stopped => "stopped",
            TaskState::Lost => "lost",
        }
    }
}

/// One background task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its identity: that of the decision that let it run.
    pub task_id: String,
    /// Its state.
    pub state: TaskState,
    /// Why it is in that state, in a few words, such as `exit status 1`.
    pub reason: String,
    /// The session that it belongs to; it ends with that session, unless `outlives_session`.
    pub session: Option<String>,
    /// True if the task goes on when its session ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outlives_session: bool,
    /// The command as text.
    pub command: String,
    /// Purpose of the command, as the agent states it.
    pub description: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// When it started, in milliseconds since 1970 (UTC).
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Exit status, if it exited.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended it, such as `SIGKILL`.
    pub signal: Option<String>,
    /// Number of that signal.
    pub signal_number: Option<i32>,
    /// The file that holds its output: both streams, in the order written.
    pub output_path: String,
    /// Bytes in that file.
    #[serde(default)]
    pub output_bytes: u64,
    /// True if the command has a terminal of its own.
    pub pty: bool,
    /// TCP ports on which it listens, in the network of its session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// The record of the decision.
    pub audit: AuditReference,
}

/// A request about tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Only tasks of this session; none for all tasks of the user.
    #[serde(default)]
    pub session: Option<String>,
    /// The operation.
    #[serde(flatten)]
    pub act: TaskAct,
}

/// Operation on tasks. Where a `task_id` is taken, a unique beginning or ending of one is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum TaskAct {
    /// Returns all tasks.
    List,
    /// Returns one task.
    Show {
        /// The task.
        task_id: String,
    },
    /// Returns output of a task.
    Output(OutputRequest),
    /// Waits until a task has ended.
    Wait {
        /// The task.
        #[serde(alias = "shell_id")]
        task_id: String,
        /// Longest wait in milliseconds; at most ten minutes.
        timeout_ms: u64,
    },
    /// Stops a task: TERM, then KILL after two seconds.
    Stop {
        /// The task.
        #[serde(alias = "shell_id")]
        task_id: String,
    },
    /// Gives a task input, as `stdin` does for a run.
    Input {
        /// The task.
        task_id: String,
        /// The input.
        input: Input,
    },
    /// Forwards a port of the host's loopback interface to one on which a task listens, until the task ends.
    Open {
        /// The task.
        task_id: String,
        /// The port of the task; none for the one on which it listens.
        #[serde(default)]
        port: Option<u16>,
        /// The port of the host; none for any that is free.
        #[serde(default)]
        listen: Option<u16>,
    },
    /// Gives the terminal of a task another size.
    Resize {
        /// The task.
        task_id: String,
        /// The size.
        window: Window,
    },
}

/// A request for output of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRequest {
    /// The task.
    #[serde(alias = "shell_id", alias = "bash_id")]
    pub task_id: String,
    /// The byte at which to begin; none for where the last request without an offset ended.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Keep only lines that this regular expression matches (syntax of the crate `regex`, linear time).
    #[serde(default)]
    pub filter: Option<String>,
    /// Wait so long for the end of the task first, in milliseconds; at most ten minutes.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Output of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOutput {
    /// Text for people and models: invalid UTF-8 and control characters are replaced. At most 30,000 characters, the
    /// end of what was asked for.
    pub text: String,
    /// The byte at which `text` begins to be looked for.
    pub offset: u64,
    /// The byte after the last one looked at.
    pub next_offset: u64,
    /// Bytes between `offset` and `next_offset` that are left out of `text` because there are too many.
    pub left_out: u64,
}

/// The answer to a request about tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAnswer {
    /// The tasks, oldest first; one for a request about one.
    pub tasks: Vec<TaskView>,
    /// Its output, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<TaskOutput>,
    /// The forward, if one was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
}

/// A port of the host that leads to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Where to connect, such as `127.0.0.1:40123`.
    pub address: String,
    /// The port of the task to which it leads.
    pub port: u16,
}
