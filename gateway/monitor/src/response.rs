//! Answers to front ends: refusals, results, and what stockade itself could not do.

use serde_json::Value;
use stockade_policy::{Decision, SandboxState};

use crate::audit::{self, Receipt};
pub use crate::failures::unrecorded;
use crate::judge::{Judged, Scene};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{
    AuditReference, DecisionView, Event, Refusal, RunOutcome, RunResult, SandboxView,
};
use crate::run::Execution;
use crate::run_notice::{self, around};
use crate::view;
use crate::violation_help;
use stockade_base::signals::signal_name;
use stockade_egress::report::Refused;
use stockade_wire::conversation::Conversation;

/// Most refused acts that an answer names.
const MAX_VIOLATIONS: usize = 100;

/// A call as it was judged and recorded.
#[derive(Debug)]
pub struct Case {
    /// The scene in which it was judged.
    pub scene: Scene,
    /// The verdict, with all that it is made of.
    pub judged: Judged,
    /// The verdict as front ends get it.
    pub view: DecisionView,
    /// The record of the decision.
    pub receipt: Receipt,
}

/// Returns the answer for a command that no person could allow.
pub fn not_run(decision: Decision, Case { view, receipt, .. }: Case) -> RunOutcome {
    let refusal = Box::new(Refusal { decision: view, audit: Some(reference(&receipt)) });
    match decision {
        Decision::Ask => RunOutcome::NeedsPerson(refusal),
        // An allowed command that is not run is refused like a denied one.
        Decision::Deny | Decision::Allow => RunOutcome::Denied(refusal),
    }
}

/// Returns the answer for a command that a person declined, with their reason.
pub fn declined(case: Case, why: Option<String>) -> RunOutcome {
    let said = match why {
        Some(why) => format!("a person denied it: {why}"),
        None => "a person denied it".to_owned(),
    };
    let view = view::refused(case.view, "declined", &said);
    not_run(Decision::Deny, Case { view, ..case })
}

/// Returns the answer for a command whose question nobody answered.
pub fn withdrawn(case: Case) -> RunOutcome {
    not_run(Decision::Ask, case)
}

/// Returns the failure of a command that its caller gave up before it started.
pub fn given_up() -> Failure {
    Failure::new(Code::LaunchFailed, "the command was stopped before it started", "give it again")
}

/// Tells the front end what is worth knowing before the command runs.
pub async fn tell(conversation: &Conversation, Case { scene, judged, view, .. }: &Case) {
    // The warnings of the settings, and what hooks have to tell.
    let mut notices = view.warnings.clone();
    if scene.place.project_is_too_wide() && judged.facts.sandbox == SandboxState::Enforced {
        let project = scene.place.project.display();
        notices.push(format!(
            "nothing in `{project}` is writable, since it contains more than one project; specify yours with `--project DIR`"
        ));
    }
    for notice in notices {
        let _ = conversation.events.send(Event::Notice(notice)).await; // a gone front end reads none
    }
}

/// Where the shell of a call ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The directory, if it is known.
    pub cwd: Option<String>,
    /// No call of the session goes on there.
    pub is_outside: bool,
    /// Line for the person.
    pub note: Option<String>,
}

/// Returns the answer for a command that ran; `busy` tells of a task that has the port that it wants.
pub fn ran(case: Case, execution: &Execution, ended: Ended, busy: Option<String>) -> RunOutcome {
    let Case { scene, judged, view, receipt } = case;
    let exit = execution.exit.unwrap_or_default();
    let output = &execution.output;
    let footer = run_notice::of(execution, &judged, &scene);
    let lines = std::iter::once(footer).chain(busy).chain(ended.note);
    let footer = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    RunOutcome::Ran(Box::new(RunResult {
        decision: view,
        exit_code: exit.code,
        signal: exit.signal.map(signal_name),
        signal_number: exit.signal,
        timed_out: execution.timed_out,
        interrupted: execution.interrupted,
        duration_ms: u64::try_from(execution.took.as_millis()).unwrap_or(u64::MAX),
        output: output.text.clone(),
        output_bytes: output.bytes,
        output_lines: output.lines,
        spill_path: output.spill.as_ref().map(|path| path.display().to_string()),
        truncated: output.truncated,
        task_id: None,
        cwd_after: ended.cwd,
        cwd_outside: ended.is_outside,
        sandbox: SandboxView {
            notes: [execution.withheld.clone(), execution.enforced.notes.clone()].concat(),
            ..view::sandbox(&execution.enforced)
        },
        violations: violations(execution, &judged),
        left_running: execution.left.clone(),
        footer,
        audit: reference(&receipt),
    }))
}

fn violations(execution: &Execution, judged: &Judged) -> Vec<Value> {
    let network = execution.network.refused.iter().map(Refused::view);
    let others =
        execution.violations.iter().map(|found| violation_help::view(found, around(judged)));
    network.chain(others).take(MAX_VIOLATIONS).collect()
}

fn reference(receipt: &Receipt) -> AuditReference {
    AuditReference { decision_id: receipt.id.clone(), sequence: receipt.sequence }
}

/// Returns the failure of a log that could not take the result of a command that ran.
pub fn ran_unrecorded(error: &audit::Error, execution: &Execution) -> Failure {
    let how = match execution.exit.map(|exit| (exit.code, exit.signal)) {
        Some((Some(code), _)) => format!("ran, exit {code}"),
        Some((None, Some(signal))) => format!("ran, killed by {}", signal_name(signal)),
        Some((None, None)) | None => "ran".into(),
    };
    let cause = error.to_string().replace("; nothing was run", "");
    let message = format!("the command {how}, but that could not be recorded: {cause}");
    Failure::new(Code::AuditUnavailable, message, error.help())
}

/// Returns the failure of a command that could not be started.
pub fn not_started(error: &stockade_spec::Error) -> Failure {
    let message = format!("{error}; nothing was run");
    match error {
        stockade_spec::Error::Unenforceable { help, .. } => {
            Failure::new(Code::SandboxUnavailable, message, help.clone())
        }
        stockade_spec::Error::Terminal { source }
            if source.kind() == std::io::ErrorKind::StorageFull =>
        {
            let message =
                "no terminal is free: all terminals of the kernel are in use; nothing was run";
            let help = "close terminals, or raise their number (`sysctl kernel.pty.max`)";
            Failure::new(Code::LaunchFailed, message, help)
        }
        stockade_spec::Error::Exec { .. } => {
            let help = "check the file's permissions and its interpreter";
            Failure::new(Code::LaunchFailed, message, help)
        }
        stockade_spec::Error::Spec { .. } => {
            let help =
                "run the call again; if it fails again, stop the program that changes this path";
            Failure::new(Code::LaunchFailed, message, help)
        }
        stockade_spec::Error::Launcher { .. }
        | stockade_spec::Error::Report { .. }
        | stockade_spec::Error::Step { .. }
        | stockade_spec::Error::Terminal { .. } => {
            let help = "`stockade doctor` lists what this machine can enforce";
            Failure::new(Code::LaunchFailed, message, help)
        }
    }
}
