//! Settings texts as typed values, with the position of every value.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::facts::Mode;
use crate::layer::{Layer, Origin};

/// One settings text as it was found.
#[derive(Debug, Clone)]
pub struct SettingsText {
    /// Its layer.
    pub layer: Layer,
    /// Its file, or a name in `<>`.
    pub file: PathBuf,
    /// The text.
    pub text: Vec<u8>,
    /// The directory at which `/path` patterns of this file are anchored.
    pub anchor: PathBuf,
    /// The folder was trusted for this content; without it, what widens does not count.
    pub trusted: bool,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Reported; the rest of the file holds.
    Warning,
    /// Nothing runs while the file is like this.
    Refusal,
}

/// Something wrong in a settings text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it stands.
    pub origin: Origin,
    /// The offending text, shortened.
    pub text: String,
    /// What is wrong, without full stop.
    pub message: String,
    /// What to do, one line.
    pub help: String,
}

/// What came of loading.
#[derive(Debug, Clone)]
#[must_use]
pub struct LoadedSettings {
    /// The merged rules and settings.
    pub rules: Rules,
    /// What was wrong.
    pub problems: Vec<Problem>,
}

/// The merged rules of all layers, with the settings that go with them.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    settings: Settings,
}

/// The merged settings besides rules.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The mode that applies when no flag names one.
    pub default_mode: Option<Mode>,
    /// Variables set for every command.
    pub env: BTreeMap<String, String>,
    /// Hooks of all layers in order, policy first.
    pub hooks: Vec<Hook>,
    /// What the sandbox is to do.
    pub sandbox: SandboxSettings,
    /// Path of the shell; the default is looked up.
    pub shell: Option<PathBuf>,
    /// Further working directories.
    pub additional_directories: Vec<PathBuf>,
    /// "Always allow" may not be offered, nor any rule saved.
    pub managed_rules_only: bool,
}

/// Sandbox settings after merging; lists hold absolute patterns with their origin.
#[derive(Debug, Clone, Default)]
pub struct SandboxSettings {
    /// Commands run confined.
    pub enabled: bool,
    /// Nothing runs when that cannot be had.
    pub fail_if_unavailable: bool,
    /// Commands that run confined need no rule.
    pub auto_allow: bool,
    /// A call may ask to run unconfined.
    pub allow_unsandboxed: bool,
    /// Writable paths besides the working directories.
    pub allow_write: Vec<(String, Origin)>,
    /// Paths that are not writable whatever else is.
    pub deny_write: Vec<(String, Origin)>,
    /// Paths that cannot be read.
    pub deny_read: Vec<(String, Origin)>,
    /// Paths inside those that can.
    pub allow_read: Vec<(String, Origin)>,
    /// Names of variables that are passed although their name looks like a secret.
    pub env_pass: Vec<String>,
}

/// An event at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before a call is decided.
    PreToolUse,
    /// After a call succeeded.
    PostToolUse,
    /// After a call failed.
    PostToolUseFailure,
    /// When a question is about to be put.
    PermissionRequest,
    /// After a refusal in auto mode.
    PermissionDenied,
    /// A session begins.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// Settings changed.
    ConfigChange,
}

/// One configured handler.
#[derive(Debug, Clone)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// Matcher text; empty matches all.
    pub matcher: String,
    /// Where it is configured.
    pub origin: Origin,
    /// What runs.
    pub command: CommandHook,
}

/// A handler that is a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandHook {
    /// Shell text, or the program when `arguments` is present.
    pub command: String,
    /// Exec form: literal arguments, no shell.
    pub arguments: Option<Vec<String>>,
    /// Time limit.
    pub timeout: Duration,
}

impl Rules {
    /// The merged settings besides rules.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Reads and merges settings texts of all layers; the order of `texts` is the order within a layer.
pub fn load(texts: &[SettingsText]) -> LoadedSettings {
    let _ = texts;
    LoadedSettings { rules: Rules::default(), problems: Vec::new() }
}
