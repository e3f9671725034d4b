//! Runs the command hooks before and after a call: all that match, at once, each in its own process group, with bounded
//! time and output, and gone afterwards with everything it started.
//!
//! A managed hook that fails in any way blocks the call. Another one that fails is reported and ignored.

mod answer;
mod process;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use stockade_policy::{CommandHook, Hook, HookEvent, HookOutcome, HookVerdict, Layer, Origin};

use crate::environment;
use crate::facts::Place;
use crate::protocol::errors::Failure;
use crate::protocol::types::Context;

pub(crate) use answer::Answer;

/// A call that hooks look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Name of the tool.
    pub(crate) tool: &'a str,
    /// Its input.
    pub(crate) input: &'a Value,
    /// Identity of the call.
    pub(crate) id: &'a str,
    /// Name of the mode.
    pub(crate) mode: &'a str,
    /// Where it happens.
    pub(crate) place: &'a Place,
    /// What came with it.
    pub(crate) context: &'a Context,
}

/// One hook that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Its place in the list of hooks.
    pub(crate) index: usize,
    /// Exit status, if it exited.
    pub(crate) exit: Option<i32>,
    /// How long it took.
    pub(crate) milliseconds: u64,
    /// What it said, or how it failed.
    pub(crate) answer: Result<Answer, String>,
}

/// What came of all hooks of one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// The merged outcome; none when no hook spoke.
    pub(crate) outcome: Option<HookOutcome>,
    /// The input that replaces the one of the call, and the index of the hook that gave it.
    pub(crate) updated: Option<(Value, usize)>,
    /// Every hook that ran, in the order of the settings.
    pub(crate) ran: Vec<Ran>,
    /// What to tell the person, one line each.
    pub(crate) notices: Vec<String>,
}

/// Returns the indices of the hooks of `event` that match a tool.
pub(crate) fn matching(hooks: &[Hook], event: HookEvent, tool: &str) -> Vec<usize> {
    let matches = |(index, hook): (usize, &Hook)| {
        (hook.event == event && matches_tool(&hook.matcher, tool)).then_some(index)
    };
    hooks.iter().enumerate().filter_map(matches).collect()
}

/// Runs the PreToolUse hooks that match, and merges what they say.
pub(crate) async fn before(hooks: &[Hook], call: &Call<'_>) -> Result<Report, Failure> {
    let ran = run_all(hooks, HookEvent::PreToolUse, call, &Value::Null).await?;
    Ok(merge(hooks, ran))
}

/// Runs the hooks of `event`, which comes after a call, and returns what they have to tell, one text each.
/// What was done is done: a hook that fails is told of and changes nothing.
pub(crate) async fn after(
    hooks: &[Hook],
    event: HookEvent,
    call: &Call<'_>,
    further: &Value,
) -> Vec<String> {
    let ran = match run_all(hooks, event, call, further).await {
        Ok(ran) => ran,
        Err(failure) => return vec![format!("hooks did not run: {}", failure.message)],
    };
    let mut notices = Vec::new();
    for run in &ran {
        match (&run.answer, hooks.get(run.index)) {
            (Ok(answer), _) => {
                notices.extend(answer.message.clone());
                notices.extend(answer.context.clone());
                if answer.verdict == Some(HookVerdict::Deny) && !answer.reason.is_empty() {
                    notices.push(answer.reason.clone());
                }
            }
            (Err(failure), Some(hook)) => {
                notices.push(format!("hook {} failed: {failure}", describe(hook)));
            }
            (Err(failure), None) => notices.push(format!("a hook failed: {failure}")),
        }
    }
    notices
}

/// Starts all hooks of `event` that match, and waits for each of them.
async fn run_all(
    hooks: &[Hook],
    event: HookEvent,
    call: &Call<'_>,
    further: &Value,
) -> Result<Vec<Ran>, Failure> {
    let mut tasks = Vec::new();
    for index in matching(hooks, event, call.tool) {
        let Some(hook) = hooks.get(index) else { continue };
        let job = process::Job {
            command: hook.command.clone(),
            variables: variables(hook, call)?,
            cwd: call.place.cwd.clone(),
            input: input(event, call, further).to_string(),
        };
        tasks.push((index, tokio::spawn(process::run(job))));
    }
    let mut ran = Vec::new();
    for (index, task) in tasks {
        let ended = match task.await {
            Ok(ended) => ended,
            Err(_) => process::Ended::failed("the gateway could not run it"),
        };
        let answer = match &ended.failure {
            Some(failure) => Err(failure.clone()),
            None => answer::read(event, ended.exit, &ended.stdout, &ended.stderr),
        };
        ran.push(Ran { index, exit: ended.exit, milliseconds: ended.milliseconds, answer });
    }
    Ok(ran)
}

/// Returns what a recorded outcome of hook `index` says.
pub(crate) fn recorded(index: usize, outcome: &Value) -> Ran {
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
            let good = outcome.get("status").and_then(Value::as_i64).is_none_or(|it| it / 100 == 2);
            if good {
                answer::read(HookEvent::PreToolUse, Some(0), stdout.as_bytes(), b"")
            } else {
                Err("its status".into())
            }
        }
        (false, false) => {
            let (status, stderr) = (status.or(Some(0)), text("stderr"));
            answer::read(HookEvent::PreToolUse, status, stdout.as_bytes(), stderr.as_bytes())
        }
    };
    Ran { index, exit: status, milliseconds: 0, answer }
}

/// Returns a hook that stands for a recorded outcome.
pub(crate) fn stand_in(origin: Origin) -> Hook {
    Hook {
        event: HookEvent::PreToolUse,
        matcher: String::new(),
        origin,
        command: CommandHook {
            command: String::new(),
            arguments: None,
            timeout: Duration::from_secs(1),
        },
    }
}

/// Merges what hooks said: the strictest wins, whatever the order in which they ended.
pub(crate) fn merge(hooks: &[Hook], ran: Vec<Ran>) -> Report {
    let mut report = Report::default();
    for run in &ran {
        let Some(hook) = hooks.get(run.index) else { continue };
        let (verdict, reason) = match &run.answer {
            Ok(answer) => {
                report.notices.extend(answer.message.clone());
                report.notices.extend(answer.context.clone());
                (answer.verdict, answer.reason.clone())
            }
            Err(failure) => {
                let name = describe(hook);
                report.notices.push(format!("hook {name} failed: {failure}"));
                let managed = hook.origin.layer == Layer::Policy;
                (managed.then_some(HookVerdict::Deny), format!("a managed hook failed: {failure}"))
            }
        };
        let Some(verdict) = verdict else { continue };
        let stricter =
            report.outcome.as_ref().is_none_or(|known| rank(verdict) > rank(known.verdict));
        if stricter {
            let origin = hook.origin.clone();
            report.outcome = Some(HookOutcome { verdict, reason, origin });
        }
    }
    update(&mut report, &ran, hooks);
    report.ran = ran;
    report
}

/// Takes the new input of the hooks; two that differ make a question of it.
fn update(report: &mut Report, ran: &[Ran], hooks: &[Hook]) {
    let given = |run: &Ran| {
        let updated = run.answer.as_ref().ok()?.updated.clone()?;
        Some((updated, run.index))
    };
    let given: Vec<(Value, usize)> = ran.iter().filter_map(given).collect();
    let Some((first, rest)) = given.split_first() else { return };
    report.updated = Some(first.clone());
    let Some(other) = rest.iter().find(|(input, _)| *input != first.0) else { return };
    let strict =
        report.outcome.as_ref().is_some_and(|known| rank(known.verdict) >= rank(HookVerdict::Ask));
    if let (false, Some(hook)) = (strict, hooks.get(other.1)) {
        let reason = "two hooks gave different inputs".to_string();
        let origin = hook.origin.clone();
        report.outcome = Some(HookOutcome { verdict: HookVerdict::Ask, reason, origin });
    }
}

fn rank(verdict: HookVerdict) -> u8 {
    match verdict {
        HookVerdict::Allow => 0,
        HookVerdict::Ask => 1,
        HookVerdict::Defer => 2,
        HookVerdict::Deny => 3,
    }
}

/// Returns a hook's place as people read it.
pub(crate) fn describe(hook: &Hook) -> String {
    format!("in {}:{}", hook.origin.file.display(), hook.origin.line)
}

/// Says whether a matcher matches the name of a tool. One that cannot be read matches everything.
fn matches_tool(matcher: &str, tool: &str) -> bool {
    if matcher.is_empty() || matcher == "*" {
        return true;
    }
    let name = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
    if matcher.chars().all(name) {
        return matcher.split(['|', ',']).any(|one| one.trim() == tool);
    }
    Regex::new(matcher).map_or(true, |expression| expression.is_match(tool))
}

/// Returns what a hook gets on standard input: what holds for each event, and the members of `further`.
fn input(event: HookEvent, call: &Call<'_>, further: &Value) -> Value {
    let mut input = json!({
        "session_id": call.context.session.as_deref().unwrap_or(call.id),
        "transcript_path": "",
        "cwd": call.place.cwd,
        "permission_mode": call.mode,
        "hook_event_name": event.name(),
        "tool_name": call.tool,
        "tool_input": call.input,
        "tool_use_id": call.id,
    });
    if let (Some(input), Some(further)) = (input.as_object_mut(), further.as_object()) {
        input.extend(further.clone());
    }
    input
}

/// Returns the environment of a hook. The caller's variables may not lead a managed hook astray, so it gets
/// none of them.
fn variables(hook: &Hook, call: &Call<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = match hook.origin.layer {
        Layer::Policy => {
            let home = crate::places::home(|_| None).unwrap_or_else(|_| Path::new("/").into());
            BTreeMap::from([
                ("PATH".to_string(), environment::DEFAULT_PATH.to_string()),
                ("HOME".to_string(), home.to_string_lossy().into_owned()),
                ("LANG".to_string(), "C.UTF-8".to_string()),
            ])
        }
        Layer::Builtin | Layer::User | Layer::Project | Layer::Local | Layer::Flag => {
            environment::without_effects(&call.context.environment)?
        }
    };
    variables.retain(|name, _| !name.starts_with("OTEL_"));
    let project = call.place.project.to_string_lossy().into_owned();
    variables.insert("CLAUDE_PROJECT_DIR".into(), project.clone());
    variables.insert("STOCKADE_PROJECT_DIR".into(), project);
    variables.insert("PWD".into(), call.place.cwd.to_string_lossy().into_owned());
    Ok(variables)
}

#[cfg(test)]
mod tests;
