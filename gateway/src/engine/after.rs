//! The hooks that run when a command has ended.

use serde_json::{Value, json};
use stockade_policy::HookEvent;

use crate::hooks::{self, Call};
use crate::judge::{Judged, Scene};
use crate::protocol::types::Context;
use crate::run::Execution;

/// Runs the hooks for the way in which a command ended, and returns what they have to tell.
pub(super) async fn hooks(
    context: &Context,
    scene: &Scene,
    judged: &Judged,
    execution: &Execution,
) -> Vec<String> {
    let (event, further) = end(execution);
    let call = Call {
        tool: "Bash",
        input: &judged.input,
        id: &judged.id,
        mode: scene.mode.name(),
        place: &scene.place,
        context,
    };
    hooks::after(&scene.snapshot.rules.settings().hooks, event, &call, &further).await
}

/// Returns the event of an end, with what its hooks get to know besides the call.
fn end(execution: &Execution) -> (HookEvent, Value) {
    let exit = execution.exit.unwrap_or_default();
    let duration = u64::try_from(execution.took.as_millis()).unwrap_or(u64::MAX);
    let stopped = execution.timed_out || execution.interrupted;
    if exit.code == Some(0) && !stopped {
        let response =
            json!({ "stdout": execution.output.text, "stderr": "", "interrupted": false });
        return (
            HookEvent::PostToolUse,
            json!({ "tool_response": response, "duration_ms": duration }),
        );
    }
    let error = match (execution.timed_out, exit.code, exit.signal) {
        (true, _, _) => "it did not end in time".to_owned(),
        (false, Some(code), _) => format!("it ended with status {code}"),
        (false, None, Some(signal)) => format!("it was ended by signal {signal}"),
        (false, None, None) => "how it ended is not known".to_owned(),
    };
    let is_interrupt = execution.interrupted;
    (
        HookEvent::PostToolUseFailure,
        json!({ "error": error, "is_interrupt": is_interrupt, "duration_ms": duration }),
    )
}
