//! Runs hooks: all that match an event, at once, with bounded time and output, and gone afterwards with everything
//! they started. What they say is merged so that nothing depends on which ended first.
//!
//! A managed hook that fails in any way blocks the call. Another one that fails is reported and ignored.
//!
//! Starts the processes of hooks and sends requests to their addresses; reads no settings and grants nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

mod answer;
mod beside;
mod confined;
mod frame;
mod http;
pub mod merge;
pub mod own;
pub mod pipes;
mod prepared;
mod process;
pub mod reaper;
mod standing;

use std::path::PathBuf;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use stockade_policy::{Handler, Hook, HookEvent, HookOutcome, HookVerdict, Layer, Origin};

use stockade_base::place::Place;
use stockade_base::places::Places;
use stockade_scene::scene::Scene;
use stockade_spec::Start;
use stockade_wire::errors::Failure;
use stockade_wire::types::{Context, HookView};
use stockade_worker::Scanner;

pub use answer::HookAnswer;
use prepared::{Prepared, Task};

/// Time that the hooks of one event at the end of a session may take together, unless one of them names more.
const FAREWELL: Duration = Duration::from_millis(1500);
/// Longest time that they may take, whatever they name.
const LONGEST_FAREWELL: Duration = Duration::from_secs(60);

/// With what hooks are run.
#[derive(Debug, Clone)]
pub struct Means {
    /// The `stockade` executable, which keeps the processes of hooks.
    pub executable: PathBuf,
    /// Starts a hook that runs confined.
    pub start: Start,
    /// Our own directories.
    pub places: Places,
}

/// Call or event that hooks are told of.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub event: HookEvent,
    /// Text that matchers are held against: the name of the tool; at events that are not about one, the source or
    /// reason.
    pub subject: &'a str,
    /// Input of the tool.
    pub input: &'a Value,
    /// Members of the input besides those of each event.
    pub further: &'a Value,
    /// Identity of the call.
    pub id: &'a str,
    /// Name of the mode.
    pub mode: &'a str,
    /// Where it happens.
    pub place: &'a Place,
    /// The context that came with it.
    pub context: &'a Context,
    /// Says whether the `if` of a hook covers it.
    pub covers: &'a (dyn Fn(&Hook) -> bool + Sync),
}

/// One hook that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// At which event.
    pub event: HookEvent,
    /// Its place in the list of hooks.
    pub index: usize,
    /// Its command line or address.
    pub handler: String,
    /// Where it is configured.
    pub origin: Origin,
    /// Exit status, if it exited.
    pub exit: Option<i32>,
    /// How long it took.
    pub milliseconds: u64,
    /// Answer of the hook, or its failure.
    pub answer: Result<HookAnswer, String>,
}

/// Outcome of all hooks of one event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The merged outcome; none when no hook spoke.
    pub outcome: Option<HookOutcome>,
    /// The input that replaces the one of the call, and where the hook is configured that gave it.
    pub updated: Option<(Value, Origin)>,
    /// Every hook that ran, in the order of the settings.
    pub ran: Vec<Ran>,
    /// Notices for people, one line each: consequences and failures.
    pub notices: Vec<String>,
    /// Texts of hooks for the agent.
    pub context: Vec<String>,
    /// Texts of hooks for the person.
    pub messages: Vec<String>,
    /// A hook ends the agent's turn, for this reason.
    pub stop: Option<String>,
    /// Why hooks find fault with what was done.
    pub blocks: Vec<String>,
    /// A refused call may be tried again.
    pub retry: bool,
}

/// Where hooks run, and what reads their texts.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The scene of the call.
    pub scene: &'a Scene,
    /// Reads texts.
    pub scanner: &'a Scanner,
}

/// Returns the indices of the hooks of `event` whose matcher matches a subject.
pub fn matching(hooks: &[Hook], event: HookEvent, subject: &str) -> Vec<usize> {
    let matches = |(index, hook): (usize, &Hook)| {
        (hook.event == event && matches_subject(&hook.matcher, subject)).then_some(index)
    };
    hooks.iter().enumerate().filter_map(matches).collect()
}

/// Runs the hooks that match a call, without those of `but`.
pub async fn run(
    around: Around<'_>,
    means: &Means,
    call: &Call<'_>,
    but: &[usize],
) -> Result<Vec<Ran>, Failure> {
    let (event, settings) = (call.event, around.scene.snapshot.rules.settings());
    let hooks = &settings.hooks;
    let farewell = farewell(hooks, event);
    let (mut tasks, mut ran) = (Vec::new(), Vec::new());
    for index in matching(hooks, event, call.subject) {
        let Some(hook) = hooks.get(index) else { continue };
        if but.contains(&index) || !(call.covers)(hook) || is_own(hook) {
            continue;
        }
        let limit = farewell.unwrap_or_else(|| hook.time_limit());
        let input = frame::input(call).to_string();
        let variables = frame::variables(hook, call)?;
        let executable = means.executable.clone();
        let (job, bound) = match &hook.handler {
            Handler::Command(command) => {
                let prepared =
                    Prepared::new(hook, command, variables, limit, input, around, means).await;
                let bound = prepared.bound;
                match prepared.task {
                    Task::Waited(task) => (task, bound),
                    Task::Beside(job) => {
                        let answer = beside::start(&job, event, means, call.context).await;
                        ran.push(Ran::new(event, index, hook, process::Ended::default(), answer));
                        continue;
                    }
                    Task::Left(answer) => {
                        let ended = process::Ended::default();
                        ran.push(Ran::new(event, index, hook, ended, Ok(answer)));
                        continue;
                    }
                }
            }
            Handler::Http(http) => {
                let job = http::Job::new(http, hook, settings, variables, call.context);
                (tokio::spawn(http::send(job, input, limit, executable)), None)
            }
        };
        tasks.push((index, hook, job, bound));
    }
    for (index, hook, task, bound) in tasks {
        let ended = match task.await {
            Ok(ended) => ended,
            Err(_) => process::Ended::failed("the gateway could not run it"),
        };
        let answer = heard(event, hook, &ended, bound);
        ran.push(Ran::new(event, index, hook, ended, answer));
    }
    Ok(ran)
}

/// Returns the answer of a hook that `ended`; `bound` says why it was sandboxed, if it was.
fn heard(
    event: HookEvent,
    hook: &Hook,
    ended: &process::Ended,
    bound: Option<String>,
) -> Result<HookAnswer, String> {
    let answer = match &ended.failure {
        // Nobody knows what the hook would have refused.
        Some(failure) if failure.starts_with(confined::UNCONFINABLE) => {
            let why = bound.as_deref().unwrap_or_default();
            let failure = format!("{failure}; {why}: keep the hook where commands cannot write");
            HookAnswer::unknown(event, hook.origin.layer, &failure)
        }
        Some(failure) => Err(failure.clone()),
        None => answer::read(event, ended.exit, &ended.stdout, &ended.stderr),
    };
    let answer = match bound {
        Some(reason) => answer.map(|it| it.of_bound(event, &reason, &describe(&hook.origin))),
        None => answer,
    };
    match hook.above {
        Some(_) => answer.map(HookAnswer::without_consent),
        None => answer,
    }
}

/// Says whether a hook is this very gate, as an agent calls it: settings of an agent that are read as ours name it, and
/// it would ask itself without end.
fn is_own(hook: &Hook) -> bool {
    match &hook.handler {
        Handler::Command(command) => {
            command.arguments.is_none() && own::own_hook(&command.command).is_some()
        }
        Handler::Http(_) => false,
    }
}

impl Ran {
    fn new(
        event: HookEvent,
        index: usize,
        hook: &Hook,
        ended: process::Ended,
        answer: Result<HookAnswer, String>,
    ) -> Ran {
        Ran {
            event,
            index,
            handler: hook.handler.text(),
            origin: hook.origin.clone(),
            exit: match &hook.handler {
                Handler::Command(_) => ended.exit,
                Handler::Http(_) => None,
            },
            milliseconds: ended.milliseconds,
            answer,
        }
    }
}

/// Returns what hooks that ran beside former calls of a session have to tell.
pub async fn earlier(means: &Means, context: &Context) -> (Vec<String>, Vec<String>) {
    beside::collect(means, context).await
}

/// Returns the time that hooks at the end of a session have; none at other events.
fn farewell(hooks: &[Hook], event: HookEvent) -> Option<Duration> {
    if event != HookEvent::SessionEnd {
        return None;
    }
    let own = hooks.iter().filter(|hook| hook.event == event).filter_map(|hook| hook.timeout).max();
    Some(own.unwrap_or(FAREWELL).clamp(FAREWELL, LONGEST_FAREWELL))
}

/// Returns the run that a recorded outcome stands for; `origin` is where the hook is said to be configured.
pub fn recorded(event: HookEvent, index: usize, origin: Origin, outcome: &Value) -> Ran {
    let status = outcome.get("exit").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
    let text = |key: &str| match outcome.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let stdout = if outcome.get("stdout").is_some() { text("stdout") } else { text("stdout_raw") };
    let http = outcome.get("type").and_then(Value::as_str) == Some("http");
    let answer = match (outcome.get("timed_out") == Some(&Value::Bool(true)), http) {
        (true, _) => Err("it did not end in time".into()),
        (false, true) => {
            let status = outcome.get("status").and_then(Value::as_i64).unwrap_or(200);
            let status = u16::try_from(status).unwrap_or_default();
            http::judged(status, stdout.as_bytes())
                .and_then(|()| answer::read(event, Some(0), stdout.as_bytes(), b""))
        }
        (false, false) => {
            let (status, stderr) = (status.or(Some(0)), text("stderr"));
            answer::read(event, status, stdout.as_bytes(), stderr.as_bytes())
        }
    };
    let handler = "hooks_inline".to_owned();
    Ran { event, index, handler, origin, exit: status, milliseconds: 0, answer }
}

/// Says whether a managed hook asks, which no hook of another layer answers.
pub fn is_asked_by_policy(report: &Report) -> bool {
    let asks = |it: &HookOutcome| matches!(it.verdict, HookVerdict::Ask | HookVerdict::Defer);
    report.outcome.as_ref().is_some_and(|it| asks(it) && it.origin.layer == Layer::Policy)
}

/// Returns where a hook stands, as people read it.
pub fn describe(origin: &Origin) -> String {
    format!("in {}:{}:{}", origin.file.display(), origin.line, origin.column)
}

/// Returns a hook that ran as front doors show it.
pub fn view(ran: &Ran) -> HookView {
    let origin = &ran.origin;
    HookView {
        event: ran.event.name().into(),
        handler: ran.handler.clone(),
        source: origin.layer.name().into(),
        file: origin.file.display().to_string(),
        line: origin.line,
        column: origin.column,
        exit: ran.exit,
        milliseconds: ran.milliseconds,
        decision: decision(ran).map(str::to_owned),
        reason: ran.answer.as_ref().map(|answer| answer.reason.clone()).unwrap_or_default(),
        changes_input: ran.answer.as_ref().is_ok_and(|answer| answer.updated.is_some()),
        error: ran.answer.as_ref().err().cloned(),
    }
}

/// Returns the hooks that ran as lines of an explanation.
pub fn explain(ran: &[Ran]) -> String {
    let mut text = String::new();
    for run in ran {
        let did = match (&run.answer, decision(run)) {
            (Err(failure), _) => format!("failed: {failure}"),
            (Ok(answer), None) if answer.updated.is_some() => "changed the input".to_owned(),
            (Ok(_), None) => "had no answer".to_owned(),
            (Ok(answer), Some(decision)) => {
                let changed = if answer.updated.is_some() { ", changed the input" } else { "" };
                let reason = if answer.reason.is_empty() { "" } else { ": " };
                format!("{decision}{changed}{reason}{}", answer.reason)
            }
        };
        let exit = run.exit.map(|exit| format!("exit {exit}, ")).unwrap_or_default();
        text.push_str(&format!(
            "\nhook {} `{}` of {} {} ({exit}{} ms): {did}",
            run.event.name(),
            run.handler,
            run.origin.layer.name(),
            describe(&run.origin),
            run.milliseconds
        ));
    }
    text
}

/// Returns what a hook decided, as records and people have it.
pub fn decision(ran: &Ran) -> Option<&'static str> {
    let before = matches!(ran.event, HookEvent::PreToolUse | HookEvent::PermissionRequest);
    Some(match ran.answer.as_ref().ok()?.verdict? {
        HookVerdict::Allow => "allow",
        HookVerdict::Ask => "ask",
        HookVerdict::Defer => "defer",
        HookVerdict::Deny if before => "deny",
        HookVerdict::Deny => "block",
    })
}

/// Says whether a matcher matches the name of a tool, or what else an event has. One that cannot be read matches
/// everything.
fn matches_subject(matcher: &str, subject: &str) -> bool {
    if matcher.is_empty() || matcher == "*" {
        return true;
    }
    let name = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
    if matcher.chars().all(name) {
        return matcher.split(['|', ',']).any(|one| one.trim() == subject);
    }
    Regex::new(matcher).map_or(true, |expression| expression.is_match(subject))
}

#[cfg(test)]
mod tests;
