//! The record of a request that failed before anything was decided.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stockade_parser::CommandTree;
use stockade_policy::Verdict;

use super::policy_load;
use crate::audit::record::caller::Caller;
use crate::audit::record::decision::{Agent, Policy, Request, Runs, Sandbox, Stdin};
use crate::audit::record::{Body, Decision};
use crate::audit::{self, Log, Receipt};
use crate::protocol::errors::Failure;
use crate::settings::Snapshot;

/// The content of a request that failed before the decision.
#[derive(Debug)]
pub struct Failed {
    /// The front end's description of itself.
    pub agent: Agent,
    /// Name of the tool.
    pub tool: String,
    /// The input of the tool.
    pub input: Value,
    /// The text of a command.
    pub command: Option<String>,
    /// The working directory as it was named.
    pub cwd: PathBuf,
    /// The home directory of the caller.
    pub home: PathBuf,
    /// Time limit in milliseconds; 0 if none was named.
    pub timeout_ms: u64,
    /// To run as a task.
    pub background: bool,
    /// On a terminal.
    pub pty: bool,
    /// Unconfined.
    pub unsandboxed: bool,
}

/// Records a refusal because of `failure`; the receipt comes when it is on disk.
pub async fn record(
    log: &Log,
    state: &Path,
    none: &Snapshot,
    caller: Caller,
    failed: Failed,
    tree: Option<CommandTree>,
    failure: &Failure,
) -> Result<Receipt, audit::Error> {
    let reference = policy_load(log, &state.join("policy_load.none"), none).await?;
    let record = Decision {
        repeats: None,
        caller,
        agent: failed.agent,
        request: Request {
            tool: failed.tool,
            input: failed.input,
            command: failed.command.map(String::into_bytes),
            rewritten: None,
            cwd: failed.cwd.clone(),
            project: failed.cwd,
            home: failed.home,
            shell: None,
            env_names: Vec::new(),
            stdin: Stdin::NONE,
            timeout_ms: failed.timeout_ms,
            background: failed.background,
            pty: failed.pty,
            unsandboxed_asked: failed.unsandboxed,
            description: None,
        },
        tree,
        paths: BTreeMap::new(),
        verdict: Verdict { code: failure.code.name(), ..Verdict::error(&failure.message) },
        eval_us: 0,
        file_digests: BTreeMap::new(),
        hooks: Vec::new(),
        policy: Policy { sha256: none.sha256.clone(), reference, source: "none" },
        grant: None,
        sandbox: Sandbox {
            wanted: true,
            profile_sha256: None,
            landlock_abi: None,
            network: "off".into(),
            enforced: Vec::new(),
            missing: Vec::new(),
            excluded_by: None,
            auto_allow: false,
            spec_hmac: None,
        },
        runs: Runs::Nobody,
    };
    log.record(Body::Decision(Box::new(record))).await
}
