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
pub(crate) struct Decision {
    /// Id of the decision that this one repeats (deferred, retried).
    pub(crate) repeats: Option<String>,
    pub(crate) caller: Caller,
    pub(crate) agent: Agent,
    pub(crate) request: Request,
    /// The tree of the command; none for tools that are no shell.
    pub(crate) tree: Option<CommandTree>,
    /// Real paths that rules were matched against: every name that each path goes through.
    pub(crate) paths: BTreeMap<PathBuf, Vec<PathBuf>>,
    pub(crate) verdict: Verdict,
    /// How long evaluation took, in microseconds.
    pub(crate) eval_us: u64,
    /// SHA-256 (hexadecimal) of each settings file that a rule of the verdict stands in.
    pub(crate) file_digests: BTreeMap<PathBuf, String>,
    pub(crate) hooks: Vec<HookRun>,
    pub(crate) policy: Policy,
    /// Id of the `grant` record on which it rests.
    pub(crate) grant: Option<String>,
    pub(crate) sandbox: Sandbox,
    pub(crate) runs: Runs,
}

/// What the front end says of itself.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Agent {
    pub(crate) name: Text,
    pub(crate) version: Option<Text>,
    pub(crate) session: Option<Text>,
    pub(crate) call_id: Option<Text>,
    pub(crate) model: Option<Text>,
    /// `run`, `hook`, `mcp`, `acp`, `socket`, `shell` or `sdk`.
    pub(crate) door: Text,
    pub(crate) mode_asked: Option<Text>,
    pub(crate) mode: Text,
}

/// What was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) tool: String,
    /// The tool's input as judged.
    pub(crate) input: Value,
    /// The command; none for tools that are no shell.
    pub(crate) command: Option<Vec<u8>>,
    /// The input before a hook changed it, and which hook did.
    pub(crate) rewritten: Option<Rewritten>,
    pub(crate) cwd: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    /// Names of variables that request or settings set; never a value.
    pub(crate) env_names: Vec<String>,
    pub(crate) stdin: Stdin,
    pub(crate) timeout_ms: u64,
    pub(crate) background: bool,
    pub(crate) pty: bool,
    pub(crate) unsandboxed_asked: bool,
    pub(crate) description: Option<String>,
}

/// A hook changed the input.
#[derive(Debug, Clone)]
pub(crate) struct Rewritten {
    /// The input before.
    pub(crate) received: Vec<u8>,
    /// Which hook.
    pub(crate) by: String,
}

/// What standard input is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Stdin {
    /// `none`, `pipe`, `file` or `tty`.
    pub(crate) kind: &'static str,
    pub(crate) bytes: Option<u64>,
    /// Keyed digest, from [`crate::audit::Redactor::digest`].
    pub(crate) digest: Option<String>,
}

impl Stdin {
    /// Nothing on standard input.
    pub(crate) const NONE: Stdin = Stdin { kind: "none", bytes: None, digest: None };
}

/// A hook that ran.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct HookRun {
    pub(crate) event: Text,
    pub(crate) handler: Text,
    pub(crate) layer: &'static str,
    pub(crate) file: Text,
    pub(crate) pointer: Text,
    pub(crate) exit: Option<i64>,
    pub(crate) ms: u64,
    pub(crate) decision: Option<Text>,
    pub(crate) error: Option<Text>,
}

/// Which rules were in force.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Policy {
    /// SHA-256 over all layers in order and the hook programs' digests.
    pub(crate) sha256: String,
    /// Id of the `policy_load` record.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) source: &'static str,
}

/// Under what the command would run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sandbox {
    pub(crate) wanted: bool,
    pub(crate) profile_sha256: Option<String>,
    pub(crate) landlock_abi: Option<u64>,
    pub(crate) network: Text,
    pub(crate) enforced: Vec<String>,
    pub(crate) missing: Vec<String>,
    pub(crate) excluded_by: Option<Text>,
    pub(crate) auto_allow: bool,
}

/// Who runs the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Runs {
    /// This gateway; a `result` follows.
    Gateway,
    /// A hook's front end runs it itself.
    Caller,
    /// Nobody: it is denied, or only judged.
    Nobody,
}
