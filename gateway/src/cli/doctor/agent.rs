//! `stockade doctor --agent AGENT`: whether the gate is really in force there.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::cli::exit::ExitCode;
use crate::serve::shell::wrapping::is_refusing_line;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{args, context, failure, setup};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::hook::Agent;
use crate::setup::inspect::{Finding, State, inspect};

/// A command that nothing should stop, and one that nothing lets through unasked.
const HARMLESS: &str = "echo stockade";
const DANGEROUS: &str = "rm -rf /";
/// How long a hook may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at the agent's files, tries its hook, and tells the outcome; exit status 0 when the gate is in force.
pub(super) fn doctor(options: &args::Doctor, agent: Agent) -> Result<ExitCode, Failure> {
    let call = context::call(&options.common, "doctor")?;
    let around = setup::surroundings(&call)?;
    let mut inspected = inspect(agent, &around)?;
    for command in &inspected.commands {
        let cwd = around.project.to_string_lossy();
        inspected.findings.extend(tried(command, &inspected.frame, &cwd));
    }
    let findings = &inspected.findings;
    let broken = findings.iter().find(|finding| finding.state == State::Bad);
    let failed = broken.map(|finding| {
        let message = format!(
            "the gate is not in force for {}: {}: {}",
            agent.name(),
            finding.name,
            finding.detail
        );
        Failure::new(Code::AgentUnguarded, message, finding.help.clone())
    });
    let text = match options.common.json {
        true => failure::with_error(object(agent, findings), failed.as_ref()).to_string(),
        false => report(findings),
    };
    failure::print(&text).map_err(failure::unwritable)?;
    Ok(failed.map_or(ExitCode::SUCCESS, |failed| failure::fail(&failed).into()))
}

fn mark(state: State) -> &'static str {
    match state {
        State::Good => "good",
        State::Note => "note",
        State::Bad => "bad",
    }
}

fn report(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let detail = words::one_line(&finding.detail);
        let line = format!("{:13} {:5} {detail}", finding.name, mark(finding.state));
        match finding.help.is_empty() {
            true => line,
            false => format!("{line}\n    try: {}", words::one_line(&finding.help)),
        }
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn object(agent: Agent, findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "name": finding.name,
            "state": mark(finding.state),
            "detail": finding.detail,
            "help": finding.help,
        })
    };
    json!({
        "ok": findings.iter().all(|finding| finding.state != State::Bad),
        "agent": agent.name(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// How an agent would read an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Allowed,
    Asked,
    Refused,
    /// The agent would take it for nothing, and run the command.
    Nothing,
}

/// Gives the hook's command line, as the agent does, three frames; nothing of them runs.
fn tried(command: &str, frame: &str, cwd: &str) -> Vec<Finding> {
    let name = "hook answers";
    let framed = |text: &str| filled(frame, text, cwd);
    let help = "run `stockade doctor` and `stockade check` here";
    let harmless = match answered(command, &framed(HARMLESS)) {
        Ok(Read::Allowed) => Finding::good(name, format!("`{HARMLESS}` is allowed")),
        Ok(Read::Asked | Read::Refused) => {
            Finding::note(name, format!("your rules do not allow `{HARMLESS}` without a question"))
        }
        Ok(Read::Nothing) => Finding::bad(name, format!("no answer to `{HARMLESS}`"), help),
        Err(reason) => Finding::bad(name, reason, help),
    };
    let dangerous = match answered(command, &framed(DANGEROUS)) {
        Ok(Read::Refused) => Finding::good(name, format!("`{DANGEROUS}` is refused")),
        Ok(Read::Asked) => Finding::good(name, format!("`{DANGEROUS}` needs a person")),
        Ok(Read::Allowed | Read::Nothing) => {
            Finding::bad(name, format!("`{DANGEROUS}` is allowed"), help)
        }
        Err(reason) => Finding::bad(name, reason, help),
    };
    let garbage = match answered(command, "{\"cut off\": ") {
        Ok(Read::Refused) => Finding::good(name, "a truncated frame is refused"),
        Ok(Read::Allowed | Read::Asked | Read::Nothing) => {
            Finding::bad(name, "a truncated frame is allowed", help)
        }
        Err(reason) => Finding::bad(name, reason, help),
    };
    vec![harmless, dangerous, garbage]
}

/// Puts a command and a directory into a frame of the table.
fn filled(frame: &str, command: &str, cwd: &str) -> String {
    let text = |value: &str| Value::from(value).to_string();
    frame.replace("\"COMMAND\"", &text(command)).replace("\"CWD\"", &text(cwd))
}

/// Runs a command line as agents do, and reads its answer as they do.
#[expect(
    clippy::disallowed_methods,
    reason = "the shell that an agent would start, asked for its environment alone"
)]
fn answered(command: &str, frame: &str) -> Result<Read, String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn().map_err(|error| format!("`/bin/sh` does not start: {error}"))?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the hook has no input or output".into());
    };
    // A hook that does not read its input is told by its answer.
    let _ = stdin.write_all(frame.as_bytes());
    drop(stdin);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.read_to_string(&mut text).map(|_| text);
        drop(sender.send(read)); // nobody waits any more only after the time below
    });
    let received = receiver.recv_timeout(PATIENCE);
    if received.is_err() {
        let _ = child.kill(); // one that is gone already needs none
    }
    let status = child.wait().map_err(|error| format!("the hook cannot be waited for: {error}"))?;
    let text = received.map_err(|_| format!("no answer in {} s", PATIENCE.as_secs()))?;
    let text = text.map_err(|error| format!("invalid answer, not text: {error}"))?;
    match status.code() {
        Some(2) => Ok(Read::Refused),
        Some(0) => Ok(read(&text)),
        Some(_) | None => Err(format!("the hook `{command}` ended with {status}")),
    }
}

fn read(text: &str) -> Read {
    if text.trim().is_empty() {
        // One agent takes silence with status 0 for consent; its hook says so on purpose.
        return Read::Allowed;
    }
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return Read::Nothing };
    let inner = answer.get("hookSpecificOutput").unwrap_or(&answer);
    let lines = answer.pointer("/overrideInput/commands").and_then(Value::as_array);
    let refuses = |line: &Value| line.as_str().is_some_and(is_refusing_line);
    if lines.is_some_and(|lines| !lines.is_empty() && lines.iter().all(refuses)) {
        return Read::Refused;
    }
    let keys = ["permissionDecision", "decision", "permission"];
    let word = keys.iter().find_map(|key| inner.get(key).or_else(|| answer.get(key))?.as_str());
    match (word, answer.get("cancel").and_then(Value::as_bool)) {
        (Some("allow"), _) | (None, Some(false)) => Read::Allowed,
        (Some("ask" | "force_ask"), _) => Read::Asked,
        (Some("deny"), _) | (None, Some(true)) => Read::Refused,
        (Some(_), _) | (None, None) => Read::Nothing,
    }
}
