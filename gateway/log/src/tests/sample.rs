//! Records and places for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use stockade_policy::{By, Decision as Ruling, Verdict};

use crate::Places;
use crate::record::caller::Caller;
use crate::record::decision::{Agent, Decision, Policy, Request, Runs, Sandbox, Stdin};
use crate::record::{Agreement, Body, Outcome};

/// A folder of one test, removed at its end.
pub struct Scratch {
    pub folder: PathBuf,
    pub places: Places,
}

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir()
            .join(format!("stockade-audit-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let places = Places { directory: folder.join("audit"), state: folder.join("state") };
        Scratch { folder, places }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn plain_decision(command: &str) -> Decision {
    Decision {
        repeats: None,
        caller: Caller::parent(),
        agent: Agent {
            name: "agent".into(),
            version: None,
            session: Some("s-1".into()),
            call_id: None,
            model: None,
            door: "run".into(),
            mode_asked: None,
            trace: None,
            mode: "default".into(),
        },
        request: Request {
            tool: "Bash".into(),
            input: serde_json::json!({ "command": command }),
            command: Some(command.as_bytes().to_vec()),
            rewritten: None,
            cwd: "/home/u/p".into(),
            project: "/home/u/p".into(),
            home: "/home/u".into(),
            shell: None,
            env_names: vec!["LANG".into()],
            stdin: Stdin::NONE,
            timeout_ms: 120_000,
            background: false,
            pty: false,
            unsandboxed_asked: false,
            description: None,
        },
        tree: None,
        paths: BTreeMap::new(),
        verdict: Verdict {
            decision: Ruling::Allow,
            by: By::Sandbox,
            code: "sandbox_auto",
            reason: "it runs sandboxed".into(),
            parts: Vec::new(),
            unlisted: 0,
            rules: Vec::new(),
            suggestion: None,
            help: String::new(),
            auto_allowed: true,
            opens: Vec::new(),
        },
        eval_us: 12,
        file_digests: BTreeMap::new(),
        hooks: Vec::new(),
        policy: Policy {
            sha256: "00".repeat(32),
            reference: "01KAJ8P0000000000000000001".into(),
            source: "files",
        },
        grant: None,
        sandbox: Sandbox {
            wanted: true,
            profile_sha256: None,
            spec_hmac: None,
            landlock_abi: Some(7),
            network: "off".into(),
            enforced: vec!["write-outside".into()],
            missing: Vec::new(),
            excluded_by: None,
            auto_allow: true,
        },
        runs: Runs::Gateway,
    }
}

pub fn decision(command: &str) -> Body {
    Body::Decision(Box::new(plain_decision(command)))
}

pub fn result(reference: &str) -> Body {
    let mut outcome = Outcome::bare(reference, Agreement::AsDecided, "gateway");
    outcome.exit = Some(0);
    Body::Result(Box::new(outcome))
}
