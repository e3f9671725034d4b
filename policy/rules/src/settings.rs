//! Settings texts as typed values, with the position of every value.

pub mod hook;
pub mod merged;

use std::collections::BTreeMap;
use std::path::PathBuf;

use stockade_text::json::{Dialect, Value};

use crate::layer::{Layer, Origin};
use crate::mode::Mode;
use crate::pattern::command::CommandPattern;
use hook::Hook;
use merged::Rules;

/// One settings text as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// True if entries that tighten count, and nothing else: the text is that of a directory above the project, or, in the
    /// policy layer, of the program that started the session.
    pub above: bool,
}

impl SettingsText {
    /// Returns how the text is read: with comments, unless it is a file of the product that is read beside ours, which
    /// takes plain JSON.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        let names = self.file.iter().any(|name| name == ".claude" || name == "claude-code");
        if names { Dialect::Strict } else { Dialect::Commented }
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Reported; the rest of the file holds.
    Warning,
    /// An entry asks where it should refuse, or allows more than it seems; the rest of the file holds.
    Error,
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
    /// The fault, without full stop.
    pub message: String,
    /// Advice, one line.
    pub help: String,
}

/// How the message about an unknown key begins.
const UNKNOWN_KEY: &str = "unknown key `";
/// How the message about an entry that an untrusted file may not make ends.
const UNTIL_TRUSTED: &str = "until the folder is trusted";

/// Returns the message about a key that no settings file has.
pub(crate) fn unknown_key(key: &str) -> String {
    format!("{UNKNOWN_KEY}{key}`")
}

/// Returns the message about an entry that waits for trust: `ignored`, `hooks do not run`.
pub(crate) fn until_trusted(effect: &str) -> String {
    format!("{effect} {UNTIL_TRUSTED}")
}

impl Problem {
    /// Says whether the problem is a key that stockade does not know.
    pub fn is_unknown_key(&self) -> bool {
        self.message.starts_with(UNKNOWN_KEY)
    }

    /// Says whether an entry is ignored because its file is not trusted.
    pub fn waits_for_trust(&self) -> bool {
        self.message.ends_with(UNTIL_TRUSTED)
    }
}

/// Result of loading.
#[derive(Debug, Clone)]
#[must_use]
pub struct LoadedSettings {
    /// The merged rules and settings.
    pub rules: Rules,
    /// Problems that were found.
    pub problems: Vec<Problem>,
}

/// The merged settings besides rules.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The mode that applies when no flag names one.
    pub default_mode: Option<Mode>,
    /// `bypassPermissions` cannot be entered.
    pub disable_bypass: bool,
    /// `auto` cannot be entered.
    pub disable_auto: bool,
    /// Variables set for every command.
    pub env: BTreeMap<String, String>,
    /// Hooks of all layers in order, policy first.
    pub hooks: Vec<Hook>,
    /// `allowedHttpHookUrls`: the addresses that http hooks may use; none means every address.
    pub hook_urls: Option<Vec<(String, Origin)>>,
    /// `httpHookAllowedEnvVars`: the variables that headers of http hooks may name; none means each hook's own.
    pub hook_variables: Option<Vec<(String, Origin)>>,
    /// Settings of the sandbox.
    pub sandbox: SandboxSettings,
    /// Path of the shell; the default is looked up.
    pub shell: Option<PathBuf>,
    /// Further working directories.
    pub additional_directories: Vec<PathBuf>,
    /// "Always allow" may not be offered, nor any rule saved.
    pub managed_rules_only: bool,
    /// Nothing runs but through the gateway of the machine.
    pub require_gateway: bool,
    /// Further values that the schema knows, by key such as `audit.retentionDays` or `sandbox.backend`:
    /// that of the strongest layer whose word counts.
    pub values: BTreeMap<String, (Value, Origin)>,
}

/// Sandbox settings after merging. Each path is absolute, or begins with `~/` for the home directory, or among those that
/// deny with `./` for each place at which a refusal begins;
/// `sandbox_settings` of `stockade-policy` resolves them and adds what Edit and Read rules say.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Commands run confined.
    pub enabled: bool,
    /// Nothing runs when that cannot be had.
    pub fail_if_unavailable: bool,
    /// Commands that run confined need no rule.
    pub auto_allow: bool,
    /// A call may ask to run unconfined.
    pub allow_unsandboxed: bool,
    /// Files are not confined.
    pub files_disabled: bool,
    /// Writable paths besides the working directories.
    pub allow_write: Vec<(String, Origin)>,
    /// Paths that are not writable whatever else is.
    pub deny_write: Vec<(String, Origin)>,
    /// Paths that cannot be read.
    pub deny_read: Vec<(String, Origin)>,
    /// Paths inside those that can.
    pub allow_read: Vec<(String, Origin)>,
    /// Hosts that may be reached, with those of WebFetch rules.
    pub allowed_domains: Vec<(String, Origin)>,
    /// Hosts that may not, whatever else is said.
    pub denied_domains: Vec<(String, Origin)>,
    /// A host that is not listed is refused, not asked.
    pub strict_allowlist: bool,
    /// Only hosts that managed settings allow are reached, and nobody is asked about others.
    pub managed_domains_only: bool,
    /// Hosts whose addresses may be private ones.
    pub allow_private: Vec<(String, Origin)>,
    /// No way out at all, and where that is said.
    pub network_off: Option<Origin>,
    /// Sockets that may be reached.
    pub allow_unix_sockets: Vec<(String, Origin)>,
    /// Names of variables that are passed although their name looks like a secret.
    pub env_pass: Vec<String>,
    /// Names of variables that are not passed.
    pub env_deny: Vec<String>,
    /// Limits by their names, in bytes or as a number: what user, flag and policy settings say.
    pub limits: BTreeMap<String, (u64, Origin)>,
    /// Limits that project and local settings put lower; they hold only where they are lower.
    pub lowered_limits: BTreeMap<String, (u64, Origin)>,
    /// Commands that run outside, with the texts of the patterns.
    pub excluded: Vec<(CommandPattern, Origin)>,
}

impl Default for SandboxSettings {
    /// The bare defaults of the schema: the sandbox is off.
    fn default() -> SandboxSettings {
        SandboxSettings {
            enabled: false,
            fail_if_unavailable: false,
            auto_allow: true,
            allow_unsandboxed: true,
            files_disabled: false,
            allow_write: Vec::new(),
            deny_write: Vec::new(),
            deny_read: Vec::new(),
            allow_read: Vec::new(),
            allowed_domains: Vec::new(),
            denied_domains: Vec::new(),
            strict_allowlist: false,
            managed_domains_only: false,
            allow_private: Vec::new(),
            network_off: None,
            allow_unix_sockets: Vec::new(),
            env_pass: Vec::new(),
            env_deny: Vec::new(),
            limits: BTreeMap::new(),
            lowered_limits: BTreeMap::new(),
            excluded: Vec::new(),
        }
    }
}
