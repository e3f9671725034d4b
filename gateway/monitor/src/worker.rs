//! The file worker: `stockade-agent files`, started confined like a command of the session, so that the kernel decides
//! about links and races. It does one call of a file tool and ends. The gateway chooses the program and writes its input
//! from the call that was judged; a front end adds conditions, which can only make the worker refuse.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_policy::HookEvent;
use tokio::sync::mpsc;

use crate::protocol::types::{Input, ToolCall};
use crate::run::Execution;
use stockade_scene::file_call::{PROGRAM, WORDS};
use stockade_scene::request::Command;

/// Bytes of one piece of input.
const PIECE: usize = 64 << 10;

/// Returns the command with the worker's real place: beside the executable of the gateway.
pub fn find(mut command: Command, executable: &Path) -> Command {
    if !command.is_worker {
        return command;
    }
    let program = executable.with_file_name(PROGRAM).to_string_lossy().into_owned();
    let rest = WORDS.iter().skip(1).map(|word| (*word).to_owned());
    command.words = Some(std::iter::once(program).chain(rest).collect());
    command
}

/// Tools that change the file that they name, with the field that has its path.
const CHANGES: [(&str, &str); 4] = [
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("Write", "file_path"),
    ("NotebookEdit", "notebook_path"),
];

/// Returns the path of the file that a call of a file tool changes.
pub fn changed(tool: &str, input: &Value, cwd: &Path) -> Option<PathBuf> {
    let (_, field) = CHANGES.iter().find(|(name, _)| *name == tool)?;
    Some(cwd.join(input.get(*field)?.as_str()?))
}

/// Returns the worker's input: the call as it was judged, hooks included, and where it keeps what it changes.
pub fn input(call: &ToolCall, judged: &Value, keep: &Value) -> mpsc::Receiver<Input> {
    let call =
        json!({ "tool": call.name, "input": judged, "conditions": call.conditions, "keep": keep });
    let line = format!("{call}\n").into_bytes();
    let pieces = line.chunks(PIECE).map(|piece| Input::Stdin(piece.to_vec()));
    let pieces: Vec<Input> = pieces.chain([Input::StdinEnd]).collect();
    let (sender, receiver) = mpsc::channel(pieces.len().max(1));
    for piece in pieces {
        let _ = sender.try_send(piece); // there is room for each
    }
    receiver
}

/// Returns the event of the worker's end, with what its hooks get to know besides the call: the result of the tool, as far
/// as it was not shortened.
pub fn end(execution: &Execution) -> (HookEvent, Value) {
    let duration = u64::try_from(execution.took.as_millis()).unwrap_or(u64::MAX);
    let answer: Value = serde_json::from_str(&execution.output.text).unwrap_or_default();
    let code = execution.exit.and_then(|exit| exit.code);
    if code == Some(0) && !execution.timed_out && !execution.interrupted {
        let response = answer.get("result").cloned().unwrap_or_default();
        return (
            HookEvent::PostToolUse,
            json!({ "tool_response": response, "duration_ms": duration }),
        );
    }
    let told = answer.get("error").and_then(Value::as_str);
    let error = told.unwrap_or("the file worker failed").to_owned();
    let is_interrupt = execution.interrupted;
    (
        HookEvent::PostToolUseFailure,
        json!({ "error": error, "is_interrupt": is_interrupt, "duration_ms": duration }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { name: name.into(), input, conditions: Value::Null }
    }

    #[test]
    fn the_worker_is_given_what_was_judged() {
        let asked = call("Edit", json!({ "file_path": "/x/a.rs" }));
        let mut input = input(&asked, &json!({ "file_path": "/x/b.rs" }), &Value::Null);
        let Ok(Input::Stdin(line)) = input.try_recv() else { panic!("no input") };
        let line: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({ "tool": "Edit", "input": { "file_path": "/x/b.rs" }, "conditions": null, "keep": null });
        assert_eq!(line, expected);
        assert_eq!(input.try_recv(), Ok(Input::StdinEnd));
    }
}
