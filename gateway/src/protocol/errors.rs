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
}

/// Something that stockade itself could not do; nothing was run unless the message says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable code.
    pub code: Code,
    /// What happened, one line without full stop.
    pub message: String,
    /// What to do, one line; may be empty.
    pub help: String,
}

impl Failure {
    /// Returns a failure with these words.
    pub fn new(code: Code, message: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), help: help.into() }
    }
}

impl Code {
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
        }
    }
}
