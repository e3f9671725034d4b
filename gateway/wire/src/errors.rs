//! Stable codes of everything that can go wrong; the words may change, the codes may not.

use serde::{Deserialize, Serialize};

/// A stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Arguments or request fields are not usable.
    InvalidRequest,
    /// An argument is not UTF-8 where it must be.
    NotUtf8,
    /// A settings file exists but is rejected.
    SettingsRejected,
    /// A settings file cannot be read.
    SettingsUnreadable,
    /// The working directory or project cannot be used.
    DirectoryUnusable,
    /// The state directory cannot be used.
    StateUnusable,
    /// No shell is installed where one is looked for.
    ShellMissing,
    /// The audit log cannot be written.
    AuditUnavailable,
    /// A required protection cannot be had on this machine.
    SandboxUnavailable,
    /// The launcher failed before the command started.
    LaunchFailed,
    /// A gateway was asked for and none answers.
    GatewayUnreachable,
    /// The gateway speaks another version.
    VersionMismatch,
    /// Something of ours failed that has no code of its own.
    Internal,
    /// The gate is not in force for an agent.
    AgentUnguarded,
    /// No such task, or it has ended where a running one is needed.
    TaskUnknown,
}

/// Something that stockade itself could not do; nothing was run unless the message says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable code.
    pub code: Code,
    /// Description of the failure, one line without full stop.
    pub message: String,
    /// Remedy, one line.
    pub help: String,
}

impl Failure {
    /// Returns a failure with these words; empty help becomes the general one of the code.
    pub fn new(code: Code, message: impl Into<String>, help: impl Into<String>) -> Failure {
        let mut help: String = help.into();
        if help.is_empty() {
            help = code.help().to_owned();
        }
        Failure { code, message: message.into(), help }
    }
}

impl Code {
    /// Every code, in the order of their numbers in the protocol.
    pub const ALL: [Code; 15] = [
        Code::InvalidRequest,
        Code::NotUtf8,
        Code::SettingsRejected,
        Code::SettingsUnreadable,
        Code::DirectoryUnusable,
        Code::StateUnusable,
        Code::ShellMissing,
        Code::AuditUnavailable,
        Code::SandboxUnavailable,
        Code::LaunchFailed,
        Code::GatewayUnreachable,
        Code::VersionMismatch,
        Code::Internal,
        Code::AgentUnguarded,
        Code::TaskUnknown,
    ];

    /// Returns what can be done about any failure of this kind, one line.
    pub fn help(self) -> &'static str {
        match self {
            Code::InvalidRequest => "`stockade --help` shows what can be asked for",
            Code::NotUtf8 => "use UTF-8",
            Code::SettingsRejected => "correct the file, or exclude its layer",
            Code::SettingsUnreadable => "correct or remove the file",
            Code::DirectoryUnusable => "specify an existing directory that you can enter",
            Code::StateUnusable => "specify your own directory with `--state-dir DIR`",
            Code::ShellMissing => "install the package `bash`, or set its path in `shell`",
            Code::AuditUnavailable => "`stockade audit verify` checks the log",
            Code::SandboxUnavailable | Code::LaunchFailed => {
                "`stockade doctor` lists what this machine can enforce"
            }
            Code::GatewayUnreachable => "start one with `stockade serve`",
            Code::VersionMismatch => "stop the running gateway, and start this version",
            Code::AgentUnguarded => "`stockade setup` connects an agent to the gate",
            Code::TaskUnknown => "`stockade tasks list` lists all tasks",
            Code::Internal => "try again; `stockade doctor` lists what this machine can enforce",
        }
    }

    /// Returns the code as it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Code::InvalidRequest => "invalid_request",
            Code::NotUtf8 => "not_utf8",
            Code::SettingsRejected => "settings_rejected",
            Code::SettingsUnreadable => "settings_unreadable",
            Code::DirectoryUnusable => "directory_unusable",
            Code::StateUnusable => "state_unusable",
            Code::ShellMissing => "shell_missing",
            Code::AuditUnavailable => "audit_unavailable",
            Code::SandboxUnavailable => "sandbox_unavailable",
            Code::LaunchFailed => "launch_failed",
            Code::GatewayUnreachable => "gateway_unreachable",
            Code::VersionMismatch => "version_mismatch",
            Code::Internal => "internal",
            Code::AgentUnguarded => "agent_unguarded",
            Code::TaskUnknown => "task_unknown",
        }
    }
}

/// Returns the failure of something of ours.
pub fn broken(message: &str) -> Failure {
    Failure::new(Code::Internal, message, "this is a fault of stockade; report it")
}
