//! `stockade run`: one command, decided, run confined and recorded.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::Terminal;
use super::attend::{Attended, attend};
use super::check::with_hooks;
use super::interrupts::ENDING;
use super::refused::Refused;
use super::{args, context, failure, shell, streams};
use stockade_client::start;

use crate::parse::is_plain;
use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::TaskView;
use crate::protocol::types::{
    AtLimit, AuditReference, CommandRequest, CommandText, DecisionView, LONGEST_MS, RunOutcome,
    RunResult,
};
use crate::protocol::{status, words};
use crate::route::Options;
use crate::serve::shell::inside;

/// Runs the command of `options` to its end and returns its exit status.
pub(crate) fn run(options: args::Run, foreseen: Option<Prefork>) -> Result<u8, Failure> {
    // First of all: what is forked holds what this process has by then.
    let purpose = Purpose::Run { is_read: !is_plain(options.command.join(" ").as_bytes()) };
    let prefork = context::prefork(&options.common, purpose, foreseen);
    let json = options.common.json;
    let failure = match attempt(options, prefork) {
        Err(failure) if json => failure,
        told => return told,
    };
    let ending = Ending { json, quiet: true, command: String::new(), cwd: String::new() };
    Ok(ending.tell(&RunOutcome::Failed(failure), None))
}

fn attempt(mut options: args::Run, prefork: Prefork) -> Result<u8, Failure> {
    // In a line that the hook of an agent wrote, the session is what the hook names.
    let hook_session = options.common.session.take_if(|_| options.for_agent);
    let mut call = match context::call(&options.common, "run") {
        Ok(call) => call,
        Err(failure) => {
            let command = options.command.join(" ");
            return Err(unread(&options.common, prefork, "run", &command, failure));
        }
    };
    call.context.hook_session = hook_session;
    call.context.hook_question = options.asked.take();
    let reads_text = matches!(options.command.as_slice(), [dash] if dash == "-");
    let command = context::command_text(options.command)?;
    if inside::own_confinement() && !options.common.json {
        return Err(in_own_sandbox(&command, options.pty, options.background)?);
    }
    let pty = match options.pty {
        args::Pty::Always => true,
        args::Pty::Auto => streams::is_terminal(),
        args::Pty::Never => false,
    };
    let (shown, cwd) = (context::shown(&command), call.shown_directory());
    // A person who does not see the command's terminal does not type there either.
    let has_keys = pty && !options.common.json && streams::has_keys();
    let stdin = !reads_text && (has_keys || streams::has_stdin());
    // An agent that runs the line of its hook in its own shell keeps its own directory.
    let is_here = options.common.cwd.is_none() && !options.for_agent;
    let carries = call.context.session.is_some() && is_here;
    let request = CommandRequest {
        command,
        cwd: call.cwd.clone(),
        timeout_ms: timeout_of(options.for_agent, options.timeout),
        background: options.background,
        at_limit: options.on_timeout.map_or(AtLimit::Usual, args::OnTimeout::at_limit),
        // The object has both in one text.
        one_stream: options.common.json || options.merge_output || streams::are_one_place(),
        pty,
        window: streams::window().filter(|_| pty),
        description: options.description,
        unsandboxed: options.unsandboxed,
        stdin,
        report_cwd: carries && !options.background,
        carry_cwd: carries,
        call_id: None,
        context: call.context,
    };
    let show = shown_of(options.common.json, options.common.quiet);
    let people = if options.for_agent { People::Nobody } else { People::AtTerminal };
    if request.background || request.at_limit == AtLimit::Background {
        find_room_for_task(&call.options)?;
    }
    let (outcome, lost) = perform(Options { prefork, ..call.options }, request, show, people)?;
    Ok(Ending { json: options.common.json, quiet: options.common.quiet, command: shown, cwd }
        .tell(&outcome, lost))
}

/// Returns the time limit of a request in milliseconds.
fn timeout_of(for_agent: bool, asked: Option<Duration>) -> Option<u64> {
    let whole = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(LONGEST_MS - 1);
    if for_agent { Some(LONGEST_MS) } else { asked.map(whole) }
}

/// Has a gateway run that a background task can stay at.
fn find_room_for_task(options: &Options) -> Result<(), Failure> {
    if inside::own_confinement() {
        let message = "a sandboxed command cannot start background tasks";
        let help = "remove `--background` and `--on-timeout`";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    start::gateway(options, start::PATIENCE)
}

/// Runs `command` in the sandbox of this process, where it has neither a terminal nor tasks of its own.
fn in_own_sandbox(
    command: &CommandText,
    pty: args::Pty,
    background: bool,
) -> Result<Failure, Failure> {
    if pty == args::Pty::Always {
        return Err(Failure::new(
            Code::InvalidRequest,
            "a sandboxed command cannot have a terminal of its own",
            "remove `--pty`: the command has the streams of its parent",
        ));
    }
    if background {
        return Err(Failure::new(
            Code::InvalidRequest,
            "a sandboxed command cannot start background tasks",
            "remove `--background`: the command runs in the sandbox of its parent",
        ));
    }
    shell::within(command)
}

fn shown_of(json: bool, quiet: bool) -> streams::Show {
    match (json, quiet) {
        (true, _) => streams::Show::Nothing,
        (false, true) => streams::Show::Output,
        (false, false) => streams::Show::All,
    }
}

/// Records that `command` was refused before it could be asked for, and returns the message about it.
pub(super) fn unread(
    common: &args::Common,
    prefork: Prefork,
    door: &str,
    command: &str,
    failure: Failure,
) -> Failure {
    let refused = Refused { door, agent: None, tool: "Bash", input: json!({ "command": command }) };
    super::wait(Box::pin(refused.record(common, prefork, failure))).unwrap_or_else(|broken| broken)
}

/// People who answer questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum People {
    /// Whoever sits at the terminal of this process.
    AtTerminal,
    /// Nobody: the terminal is an agent's, and what is typed there may be the model's.
    Nobody,
}

/// Has the gateway that `options` name run `request`, with `people` for its questions.
pub(super) fn perform(
    mut options: Options,
    mut request: CommandRequest,
    show: streams::Show,
    people: People,
) -> Result<Attended, Failure> {
    let terminal = match people {
        People::AtTerminal => Terminal::open(),
        People::Nobody => None,
    };
    request.context.interactive = terminal.is_some();
    loop {
        let again = Options { prefork: Prefork::default(), ..options.clone() };
        let ended = attend(options, request.clone(), terminal.clone(), show);
        // A person who chose another permission mode has the command judged once more. Input that was read is gone, and
        // nothing is read twice.
        let waits = matches!(ended, Ok((RunOutcome::NeedsPerson(_), _)));
        let mode = terminal.as_ref().and_then(Terminal::take_mode).filter(|_| waits);
        if let Some(mode) = &mode
            && !request.stdin
        {
            request.context.mode = Some(mode.clone());
            options = again;
            continue;
        }
        // Messages that are still printed may wait for a reader; nothing of the command waits behind them. Not before:
        // signals are heard once for all attempts.
        stockade_kernel::let_end(&ENDING).map_err(|error| {
            Failure::new(Code::Internal, format!("cannot pass signals on: {error}"), "")
        })?;
        if mode.is_some() {
            let told = "the permission mode cannot change here: the command has input";
            failure::tell(&format!("stockade: {told}\n  try: --permission-mode MODE"));
        }
        return ended;
    }
}

/// How the outcome is told.
pub(super) struct Ending {
    /// One object on standard output.
    pub json: bool,
    /// No line about what the sandbox refused.
    pub quiet: bool,
    /// The command, as people read it.
    pub command: String,
    /// Where it was to run.
    pub cwd: String,
}

impl Ending {
    /// Tells the outcome, and returns the exit status that says the same.
    pub(super) fn tell(&self, outcome: &RunOutcome, lost: Option<std::io::Error>) -> u8 {
        let lost = lost.or_else(|| self.print(|| object(outcome)));
        match outcome {
            RunOutcome::Ran(result) => {
                if result.timed_out {
                    failure::tell(&words::timed_out(result));
                }
                if !self.quiet && !result.footer.is_empty() {
                    failure::tell(&words::lines(&result.footer));
                }
            }
            RunOutcome::Background(task) => self.tell_task(task),
            RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
                failure::tell(&words::verdict(&refusal.decision, &self.command, &self.cwd));
            }
            RunOutcome::Failed(failure) => failure::tell(&words::failure(failure)),
        }
        match (lost, status::of(outcome)) {
            // The work of the command is done and recorded, but a caller that takes 0 for "I have it all" errs.
            (Some(error), status) => {
                let told = failure::fail(&failure::unwritable(error));
                if status == 0 { told } else { status }
            }
            (None, status) => status,
        }
    }

    /// Tells a person which task it is, and a script its identity.
    fn tell_task(&self, task: &TaskView) {
        if !self.json {
            let _ = failure::print(&task.task_id); // nobody reads it: the next lines say the same
        }
        if !self.quiet {
            let id = &task.task_id;
            failure::tell(&format!(
                "stockade: the command runs in the background as task {id}\n  try: stockade tasks follow {id}"
            ));
        }
    }

    /// Prints the one object of `--json` and returns why that failed. The record is written; that nobody reads
    /// the object is told by nothing but the closed pipe.
    fn print(&self, object: impl FnOnce() -> Value) -> Option<std::io::Error> {
        let printed = if self.json { failure::print(&object().to_string()) } else { Ok(()) };
        printed.err().filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)
    }
}

/// Returns the one object of `--json`.
fn object(outcome: &RunOutcome) -> Value {
    match outcome {
        RunOutcome::Ran(result) => ran(result),
        RunOutcome::Background(task) => in_background(task),
        RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
            refused(&refusal.decision, refusal.audit.as_ref())
        }
        RunOutcome::Failed(failure) => failed(failure),
    }
}

fn ran(result: &RunResult) -> Value {
    let object = json!({
        "decision": result.decision.decision,
        "reason": result.decision.reason,
        "rules": result.decision.rules,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out,
        "interrupted": result.interrupted,
        "duration_ms": result.duration_ms,
        "output": result.output,
        "output_bytes": result.output_bytes,
        "output_lines": result.output_lines,
        "spill_path": result.spill_path,
        "truncated": result.truncated,
        "task_id": result.task_id,
        "cwd_after": result.cwd_after,
        "sandbox": result.sandbox,
        "violations": result.violations,
        "left_running": result.left_running,
        "audit": {"decision_id": result.audit.decision_id, "sequence": result.audit.sequence},
    });
    with_hooks(object, &result.decision)
}

/// The object of a command that runs on.
fn in_background(task: &TaskView) -> Value {
    json!({
        "decision": "allow",
        "exit_code": null,
        "signal": null,
        "timed_out": false,
        "interrupted": false,
        "output": "",
        "task_id": task.task_id,
        "task": task,
        "audit": task.audit,
    })
}

fn refused(decision: &DecisionView, audit: Option<&AuditReference>) -> Value {
    let audit = audit.map(|at| json!({"decision_id": at.decision_id, "sequence": at.sequence}));
    let object = json!({
        "decision": decision.decision,
        "reason": decision.reason,
        "rules": decision.rules,
        "exit_code": null,
        "signal": null,
        "timed_out": false,
        "interrupted": false,
        "duration_ms": 0,
        "output": "",
        "output_bytes": 0,
        "output_lines": 0,
        "spill_path": null,
        "truncated": false,
        "task_id": null,
        "cwd_after": null,
        "sandbox": {"enforced": [], "missing": []},
        "violations": [],
        "left_running": [],
        "audit": audit,
    });
    with_hooks(object, decision)
}

/// The object of a call that stockade itself could not serve: a refusal that carries the failure.
fn failed(failure: &Failure) -> Value {
    let decision = DecisionView {
        decision: "deny".into(),
        reason: failure.message.clone(),
        ..DecisionView::default()
    };
    failure::with_error(refused(&decision, None), Some(failure))
}
