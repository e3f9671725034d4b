//! The record of a decision: who asked for what, what was decided, and why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use stockade_parser::CommandTree;
use stockade_policy::Verdict;

use super::Text;
use super::caller::Caller;

/// A call and its verdict. Plain data; the log turns it into a masked line.
#[derive(Debug)]
pub struct Decision {
    /// Id of the decision that this one repeats (deferred, retried).
    pub repeats: Option<String>,
    pub caller: Caller,
    pub agent: Agent,
    pub request: Request,
    /// The tree of the command; none for tools other than a shell.
    pub tree: Option<CommandTree>,
    /// Real paths that rules were matched against: every name that each path goes through.
    pub paths: BTreeMap<PathBuf, Vec<PathBuf>>,
    pub verdict: Verdict,
    /// How long evaluation took, in microseconds.
    pub eval_us: u64,
    /// SHA-256 (hexadecimal) of each settings file that a rule of the verdict stands in.
    pub file_digests: BTreeMap<PathBuf, String>,
    pub hooks: Vec<HookRun>,
    pub policy: Policy,
    /// Id of the `grant` record on which it rests.
    pub grant: Option<String>,
    pub sandbox: Sandbox,
    pub runs: Runs,
}

/// The front end's description of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Agent {
    pub name: Text,
    pub version: Option<Text>,
    pub session: Option<Text>,
    pub call_id: Option<Text>,
    pub model: Option<Text>,
    /// `run`, `hook`, `mcp`, `acp`, `socket`, `shell` or `sdk`.
    pub door: Text,
    pub mode_asked: Option<Text>,
    pub mode: Text,
    /// The trace that the front end continues, as `TRACEPARENT` spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Request that was decided.
#[derive(Debug, Clone)]
pub struct Request {
    pub tool: String,
    /// The tool's input as judged.
    pub input: Value,
    /// The command; none for tools other than a shell.
    pub command: Option<Vec<u8>>,
    /// The input before a hook changed it, and which hook did.
    pub rewritten: Option<Rewritten>,
    pub cwd: PathBuf,
    pub project: PathBuf,
    pub home: PathBuf,
    /// The shell that runs the command; none for bash.
    pub shell: Option<PathBuf>,
    /// Names of variables that request or settings set; never a value.
    pub env_names: Vec<String>,
    pub stdin: Stdin,
    pub timeout_ms: u64,
    pub background: bool,
    pub pty: bool,
    pub unsandboxed_asked: bool,
    pub description: Option<String>,
}

/// A hook changed the input.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The input before.
    pub received: Vec<u8>,
    /// The hook that changed it.
    pub by: String,
}

/// Description of standard input.
#[derive(Debug, Clone, Serialize)]
pub struct Stdin {
    /// `none`, `pipe`, `file` or `tty`.
    pub kind: &'static str,
    pub bytes: Option<u64>,
    /// Keyed digest, from [`crate::Redactor::digest`].
    pub digest: Option<String>,
}

impl Stdin {
    /// Nothing on standard input.
    pub const NONE: Stdin = Stdin { kind: "none", bytes: None, digest: None };
}

/// A hook that ran.
#[derive(Debug, Clone, Serialize)]
pub struct HookRun {
    pub event: Text,
    pub handler: Text,
    pub layer: &'static str,
    pub file: Text,
    pub pointer: Text,
    pub exit: Option<i64>,
    pub ms: u64,
    pub decision: Option<Text>,
    pub error: Option<Text>,
}

/// The rules that were in force.
#[derive(Debug, Clone, Serialize)]
pub struct Policy {
    /// SHA-256 over all layers in order and the hook programs' digests.
    pub sha256: String,
    /// Id of the `policy_load` record.
    #[serde(rename = "ref")]
    pub reference: String,
    pub source: &'static str,
}

/// The sandbox under which the command would run.
#[derive(Debug, Clone, Serialize)]
pub struct Sandbox {
    pub wanted: bool,
    pub profile_sha256: Option<String>,
    pub landlock_abi: Option<u64>,
    pub network: Text,
    pub enforced: Vec<String>,
    pub missing: Vec<String>,
    pub excluded_by: Option<Text>,
    pub auto_allow: bool,
    /// Keyed digest of what the command may reach, from [`super::super::Redactor::digest`]; [`super::super::Log::decision`] puts it
    /// in. Keyed because the environment of the command is part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_hmac: Option<String>,
}

/// Runner of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// This gateway; a `result` follows.
    Gateway,
    /// A hook's front end runs it itself.
    Caller,
    /// Nobody: it is denied, or only judged.
    Nobody,
}
