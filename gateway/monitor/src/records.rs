//! Records of the log, made from what happened.

pub mod failed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use stockade_policy::{Hook, HookEvent, SandboxState};

use crate::audit::record::decision::{
    Agent, HookRun, Policy, Request, Rewritten, Runs, Sandbox, Stdin,
};
use crate::audit::record::{
    self, Body, Decision, LoadedHook, LoadedLayer, Outcome, caller::Caller,
};
use crate::audit::{self, Log, Receipt, Recorded, clock};
use crate::decide::Spec;
use crate::failures::unrecorded;
use crate::hooks::{self, Ran, describe};
use crate::judge::{Judged, Scene};
use crate::protocol::errors::Failure;
use crate::protocol::types::{CheckRequest, CommandRequest, Context, Stream};
use crate::run::Execution;
use crate::settings::Snapshot;
use crate::view;
use stockade_base::hex;
use stockade_base::signals::signal_name;
use stockade_output::output::{Carried, SHORT_BYTES};

/// The content of a decision record besides the verdict.
#[derive(Debug)]
pub struct Circumstances<'a> {
    /// The caller, as the kernel reports it.
    pub caller: Caller,
    /// Name of the tool.
    pub tool: &'a str,
    /// The context that came with the call.
    pub context: &'a Context,
    /// Standard input is passed on.
    pub stdin: bool,
    /// Time limit in milliseconds; 0 for a call that is only judged, and for a task without one.
    pub timeout_ms: u64,
    /// To run as a task.
    pub background: bool,
    /// On a terminal.
    pub pty: bool,
    /// Unconfined.
    pub unsandboxed: bool,
    /// Purpose of the command, in the agent's words.
    pub description: Option<String>,
    /// Identity of the call, as the front end has it.
    pub call_id: Option<&'a str>,
    /// Runner of the call: the gateway, the caller or nobody.
    pub runs: Runs,
}

impl<'a> Circumstances<'a> {
    /// Returns those of a command that is to run.
    pub fn of_run(
        caller: Caller,
        request: &'a CommandRequest,
        timeout: Option<Duration>,
        runs: Runs,
    ) -> Circumstances<'a> {
        Circumstances {
            caller,
            tool: request.tool_name(),
            context: &request.context,
            stdin: request.stdin,
            timeout_ms: timeout.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
            background: request.background,
            pty: request.pty,
            unsandboxed: request.unsandboxed,
            description: request.description.clone(),
            call_id: request.call_id.as_deref(),
            runs,
        }
    }

    /// Returns those of a call that this gateway does not run.
    pub fn of_check(caller: Caller, request: &'a CheckRequest, runs: Runs) -> Circumstances<'a> {
        Circumstances {
            caller,
            tool: &request.tool,
            context: &request.context,
            stdin: false,
            timeout_ms: 0,
            background: false,
            pty: false,
            unsandboxed: false,
            description: None,
            call_id: request.call_id.as_deref(),
            runs,
        }
    }
}

/// Records a decision, with what the command may reach if it may run; returns when it is on disk.
pub async fn decision(
    log: &Log,
    state: &Path,
    scene: &Scene,
    judged: &Judged,
    circumstances: Circumstances<'_>,
    spec: Option<Spec>,
) -> Result<Recorded<Spec>, audit::Error> {
    let reference = policy_load(log, &state.join("policy_load"), &scene.snapshot).await?;
    let context = circumstances.context;
    let settings = scene.snapshot.rules.settings();
    let command = judged.tree.as_ref().map(|tree| tree.source().to_vec());
    let record = Decision {
        repeats: None,
        caller: circumstances.caller,
        agent: agent(context, circumstances.call_id, judged.facts.mode.name()),
        request: Request {
            tool: circumstances.tool.into(),
            input: judged.input.clone(),
            command,
            rewritten: judged.received.as_ref().map(|(received, origin)| Rewritten {
                received: received.to_string().into_bytes(),
                by: format!("the hook {}", describe(origin)),
            }),
            cwd: scene.place.cwd.clone(),
            project: scene.place.project.clone(),
            home: scene.place.home.clone(),
            shell: judged.tree.as_ref().and(scene.shell.zsh.map(|_| scene.shell.path.clone())),
            env_names: scene.environment.set.clone(),
            stdin: match circumstances.stdin {
                true => Stdin { kind: "pipe", bytes: None, digest: None },
                false => Stdin::NONE,
            },
            timeout_ms: circumstances.timeout_ms,
            background: circumstances.background,
            pty: circumstances.pty,
            unsandboxed_asked: circumstances.unsandboxed,
            description: circumstances.description,
        },
        tree: judged.tree.clone(),
        paths: judged.facts.real_paths.clone(),
        verdict: judged.verdict.clone(),
        eval_us: u64::try_from(judged.took.as_micros()).unwrap_or(u64::MAX),
        file_digests: file_digests(&scene.snapshot),
        hooks: judged.hooks.ran.iter().map(hook_run).collect(),
        policy: Policy { sha256: scene.snapshot.sha256.clone(), reference, source: "files" },
        grant: None,
        sandbox: Sandbox {
            wanted: settings.sandbox.enabled,
            profile_sha256: None,
            landlock_abi: None,
            network: match judged.facts.sandbox {
                SandboxState::Enforced if settings.sandbox.network_off.is_some() => "off".into(),
                SandboxState::Enforced => "proxy".into(),
                SandboxState::Unavailable | SandboxState::Off => "host".into(),
            },
            enforced: Vec::new(),
            missing: Vec::new(),
            excluded_by: None,
            auto_allow: judged.verdict.auto_allowed,
            spec_hmac: None,
        },
        runs: circumstances.runs,
    };
    log.decision(record, spec).await
}

/// Records how a command ended.
pub async fn result(
    log: &Log,
    decision: &Receipt,
    execution: &Execution,
) -> Result<Receipt, audit::Error> {
    let sandbox = view::sandbox(&execution.enforced);
    let mut outcome = Outcome::bare(&decision.id, record::Agreement::AsDecided, "gateway");
    outcome.timed_out = execution.timed_out;
    outcome.interrupted = execution.interrupted;
    outcome.started = Some(clock::at(execution.times.0));
    outcome.ended = Some(clock::at(execution.times.1));
    outcome.duration_us = u64::try_from(execution.took.as_micros()).ok();
    match &execution.exit {
        Some(exit) => {
            outcome.exit = exit.code.map(i64::from);
            outcome.signal = exit.signal.map(signal_name);
            outcome.usage = Some(record::Usage {
                user_us: u64::try_from(exit.user.as_micros()).unwrap_or(u64::MAX),
                system_us: u64::try_from(exit.system.as_micros()).unwrap_or(u64::MAX),
                rss_kib: exit.max_rss_kib,
            });
        }
        None => outcome.agreement = record::Agreement::Unknown,
    }
    let spill = execution.output.spill.as_deref();
    let cut = execution.output.cut.is_some();
    let streams = execution.output.streams.iter();
    outcome.streams = streams.map(|carried| stream(log, carried, spill, cut)).collect();
    (outcome.enforced, outcome.missing) = (sandbox.enforced, sandbox.missing);
    outcome.touched = touched(execution);
    log.record(Body::Result(Box::new(outcome))).await
}

/// Returns what is known of what a command reached, and was kept from.
fn touched(execution: &Execution) -> record::Touched {
    let network = execution.network.refused.iter().map(|refused| record::Denial {
        blocker: format!("network connect: {}", refused.cause.reason()).into(),
        path_or_host: refused.object.clone().into(),
    });
    let others = execution.violations.iter().map(|found| record::Denial {
        blocker: format!("{} {}: {}", found.kind, found.call, found.rule).into(),
        path_or_host: found.object.clone().into(),
    });
    record::Touched {
        denials: network.chain(others).collect(),
        sockets: execution.network.reached.iter().map(|it| it.clone().into()).collect(),
        ..record::Touched::default()
    }
}

/// Records that a command that was decided never started.
pub async fn not_run(log: &Log, decision: &Receipt) -> Result<(), Failure> {
    let outcome = Outcome::bare(&decision.id, record::Agreement::NotRun, "gateway");
    let recorded = log.record(Body::Result(Box::new(outcome))).await;
    recorded.map(drop).map_err(|error| unrecorded(&error))
}

fn stream(log: &Log, carried: &Carried, spill: Option<&Path>, cut: bool) -> record::Stream {
    let short = carried.bytes < SHORT_BYTES as u64;
    record::Stream {
        name: match carried.stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        },
        bytes: carried.bytes,
        digest: match short {
            true => log.redactor().stream_digest(&carried.first),
            false => format!("sha256:{}", hex(&carried.sha256)),
        },
        spill: spill.map(Into::into),
        cut,
    }
}

fn hook_run(ran: &Ran) -> HookRun {
    HookRun {
        event: ran.event.name().into(),
        handler: ran.handler.clone().into(),
        layer: ran.origin.layer.name(),
        file: ran.origin.file.as_path().into(),
        pointer: ran.origin.pointer.clone().into(),
        exit: ran.exit.map(i64::from),
        ms: ran.milliseconds,
        decision: hooks::decision(ran).map(Into::into),
        error: ran.answer.as_ref().err().map(|error| error.clone().into()),
    }
}

/// Records the hooks of an event after which nothing is decided about a call.
pub async fn hooks(
    log: &Log,
    decision: Option<&Receipt>,
    event: HookEvent,
    ran: &[Ran],
    agent: Agent,
    caller: Caller,
) -> Result<(), Failure> {
    let body = record::HookRuns {
        reference: decision.map(|receipt| receipt.id.clone()),
        event: event.name(),
        agent,
        caller,
        hooks: ran.iter().map(hook_run).collect(),
    };
    let recorded = log.record(Body::Hooks(Box::new(body))).await;
    recorded.map(drop).map_err(|error| unrecorded(&error))
}

/// Returns what the front end of a call says of itself.
pub fn agent(context: &Context, call_id: Option<&str>, mode: &str) -> Agent {
    Agent {
        name: context.agent.clone().unwrap_or_default().into(),
        version: None,
        session: context
            .session
            .as_ref()
            .or(context.hook_session.as_ref())
            .cloned()
            .map(Into::into),
        call_id: call_id.map(Into::into),
        model: None,
        door: context.door.clone().into(),
        mode_asked: context.mode.clone().map(Into::into),
        mode: mode.into(),
        trace: context.trace().map(str::to_owned),
    }
}

fn file_digests(snapshot: &Snapshot) -> BTreeMap<PathBuf, String> {
    let texts = snapshot.texts.iter();
    texts.map(|text| (text.file.clone(), hex(&Sha256::digest(&text.text)))).collect()
}

fn hosts(list: &[(String, stockade_policy::Origin)]) -> Vec<&str> {
    list.iter().map(|(text, _)| text.as_str()).collect()
}

/// Returns what the log says of the settings in force.
fn loaded(snapshot: &Snapshot) -> record::PolicyLoad {
    let settings = snapshot.rules.settings();
    let layer = |text: &stockade_policy::SettingsText| LoadedLayer {
        layer: text.layer.name(),
        file: text.file.as_path().into(),
        sha256: Some(hex(&Sha256::digest(&text.text))),
    };
    let rule = |rule: &stockade_policy::Rule| record::LoadedRule {
        text: rule.text.clone().into(),
        effect: rule.effect.name(),
        layer: rule.origin.layer.name(),
        file: rule.origin.file.as_path().into(),
        line: rule.origin.line,
    };
    let hook = |hook: &Hook| LoadedHook {
        event: hook.event.name().into(),
        handler: hook.handler.text().into(),
        layer: hook.origin.layer.name(),
        file: hook.origin.file.as_path().into(),
        pointer: hook.origin.pointer.clone().into(),
        sha256: None,
    };
    record::PolicyLoad {
        sha256: snapshot.sha256.clone(),
        layers: snapshot.texts.iter().map(layer).collect(),
        rules: snapshot.rules.rules().iter().map(rule).collect(),
        hooks: settings.hooks.iter().map(hook).collect(),
        sandbox: serde_json::json!({
            "enabled": settings.sandbox.enabled,
            "failIfUnavailable": settings.sandbox.fail_if_unavailable,
            "autoAllowBashIfSandboxed": settings.sandbox.auto_allow,
            "allowUnsandboxedCommands": settings.sandbox.allow_unsandboxed,
            "network": {
                "enabled": settings.sandbox.network_off.is_none(),
                "allowedDomains": hosts(&settings.sandbox.allowed_domains),
                "deniedDomains": hosts(&settings.sandbox.denied_domains),
                "allowPrivate": hosts(&settings.sandbox.allow_private),
                "strictAllowlist": settings.sandbox.strict_allowlist,
                "allowManagedDomainsOnly": settings.sandbox.managed_domains_only,
            },
        }),
        warnings: snapshot.warnings.iter().map(|warning| warning.clone().into()).collect(),
    }
}

/// Returns the id of the record that holds the settings in force, making it when they changed since what `kept` notes.
async fn policy_load(log: &Log, kept: &Path, snapshot: &Snapshot) -> Result<String, audit::Error> {
    if let Some(id) = log.settings_recorded(&snapshot.sha256) {
        return Ok(id);
    }
    let text = match log.is_apart() {
        true => String::new(),
        false => std::fs::read_to_string(kept).unwrap_or_default(),
    };
    match text.trim().split_once(' ') {
        Some((sha256, id)) if sha256 == snapshot.sha256 && id.len() == 26 => {
            return Ok(id.to_string());
        }
        Some(_) | None => {}
    }
    let body = loaded(snapshot);
    let receipt = log.record(Body::PolicyLoad(Box::new(body))).await?;
    if log.is_apart() {
        log.note_settings(&snapshot.sha256, &receipt.id);
        return Ok(receipt.id);
    }
    // Without the note the next call records the settings once more, which harms nobody.
    let new = kept.with_extension(format!("{}.tmp", std::process::id()));
    let line = format!("{} {}\n", snapshot.sha256, receipt.id);
    if std::fs::write(&new, line).is_err() || std::fs::rename(&new, kept).is_err() {
        let _ = std::fs::remove_file(&new); // a left-over name is written again next time
    }
    Ok(receipt.id)
}
