//! The file worker: `stockade-agent files`, started confined like a command of the session, so that the kernel decides
//! about links and races. It does one call of a file tool and ends. The gateway chooses the program and writes its input
//! from the call that was judged; a front end adds conditions, which can only make the worker refuse.

use std::path::Path;

use serde_json::{Value, json};
use stockade_policy::HookEvent;
use tokio::sync::mpsc;

use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{FILE_TOOLS, Input, ToolCall};
use crate::request::Command;
use crate::run::Execution;

/// Words of the worker's command line, as the record has them.
pub(crate) const WORDS: [&str; 2] = [PROGRAM, "files"];
/// The executable beside this one that is the worker.
const PROGRAM: &str = "stockade-agent";
/// Most bytes of a call.
const MAX_CALL: usize = 4 << 20;
/// Bytes of one piece of input.
const PIECE: usize = 64 << 10;

/// Returns the call as one line for people: name of the tool, and the path or pattern that it is about.
pub(crate) fn text(call: &ToolCall) -> Result<String, Failure> {
    let refuse = |message: String, help: &str| Failure::new(Code::InvalidRequest, message, help);
    if !FILE_TOOLS.contains(&call.name.as_str()) {
        let message = format!("the file worker has no tool `{}`", call.name.escape_debug());
        return Err(refuse(message, &format!("it has {}", FILE_TOOLS.join(", "))));
    }
    if !call.input.is_object() {
        let message = format!("the input of `{}` is not a JSON object", call.name);
        return Err(refuse(message, "give an object with the fields of the tool"));
    }
    let length = call.input.to_string().len() + call.conditions.to_string().len();
    if length > MAX_CALL {
        let message = format!("the call of `{}` is longer than {MAX_CALL} bytes", call.name);
        return Err(refuse(message, "write the file in parts"));
    }
    let about = ["file_path", "notebook_path", "path", "pattern"];
    let about = about.iter().find_map(|key| call.input.get(*key).and_then(Value::as_str));
    Ok(format!("{}({})", call.name, about.unwrap_or_default().escape_debug()))
}

/// Returns the command with the worker's real place: beside the executable of the gateway.
pub(crate) fn find(mut command: Command, executable: &Path) -> Command {
    if !command.is_worker {
        return command;
    }
    let program = executable.with_file_name(PROGRAM).to_string_lossy().into_owned();
    let rest = WORDS.iter().skip(1).map(|word| (*word).to_owned());
    command.words = Some(std::iter::once(program).chain(rest).collect());
    command
}

/// Returns the worker's input: the call as it was judged, hooks included.
pub(crate) fn input(call: &ToolCall, judged: &Value) -> mpsc::Receiver<Input> {
    let call = json!({ "tool": call.name, "input": judged, "conditions": call.conditions });
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
pub(crate) fn end(execution: &Execution) -> (HookEvent, Value) {
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
    let error = told.unwrap_or("the file worker did not end well").to_owned();
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
    fn a_call_is_told_by_tool_and_path() {
        let read = call("Read", json!({ "file_path": "/x/a.rs", "limit": 3 }));
        assert_eq!(text(&read), Ok("Read(/x/a.rs)".into()));
        assert_eq!(text(&call("Glob", json!({ "pattern": "*.rs" }))), Ok("Glob(*.rs)".into()));
        let other = text(&call("Bash", json!({ "command": "id" }))).unwrap_err();
        assert_eq!(other.message, "the file worker has no tool `Bash`");
        assert!(text(&call("Read", json!([]))).is_err());
    }

    #[test]
    fn the_worker_is_given_what_was_judged() {
        let asked = call("Edit", json!({ "file_path": "/x/a.rs" }));
        let mut input = input(&asked, &json!({ "file_path": "/x/b.rs" }));
        let Ok(Input::Stdin(line)) = input.try_recv() else { panic!("no input") };
        let line: Value = serde_json::from_slice(&line).unwrap();
        let expected =
            json!({ "tool": "Edit", "input": { "file_path": "/x/b.rs" }, "conditions": null });
        assert_eq!(line, expected);
        assert_eq!(input.try_recv(), Ok(Input::StdinEnd));
    }
}
