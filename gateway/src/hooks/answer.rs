//! Reads what a hook answered: an exit status and perhaps JSON.

use serde_json::Value;
use stockade_policy::{HookEvent, HookVerdict};

/// Longest text that is kept of a hook, in characters.
const MAX_TEXT: usize = 10_000;

/// What a hook said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// Its decision; none lets the call go its normal way.
    pub(crate) verdict: Option<HookVerdict>,
    /// Why.
    pub(crate) reason: String,
    /// The input that replaces the one of the call.
    pub(crate) updated: Option<Value>,
    /// What to tell the person.
    pub(crate) message: Option<String>,
    /// What to tell the agent.
    pub(crate) context: Option<String>,
}

/// Reads an answer; the error says how the hook failed. Exit status 2 blocks whatever else was said; for any
/// other, JSON alone counts, and a failure without JSON is a failure of the hook.
pub(crate) fn read(
    event: HookEvent,
    exit: Option<i32>,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<Answer, String> {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim();
    let object = match text.starts_with('{') {
        true => serde_json::from_str::<Value>(text).ok().filter(Value::is_object),
        false => None,
    };
    let answer = object.map(|object| from_json(event, &object));
    if exit == Some(2) {
        let said = String::from_utf8_lossy(stderr);
        let said = said.trim();
        let reason = if said.is_empty() { "a hook blocked it" } else { said };
        let (verdict, reason) = (Some(HookVerdict::Deny), shorten(reason));
        return Ok(Answer { verdict, reason, ..Answer::default() });
    }
    match (answer, exit) {
        (Some(answer), _) => answer,
        (None, Some(0)) if text.starts_with('{') => Err("its answer is no valid JSON".into()),
        (None, Some(0)) => Ok(Answer::default()),
        (None, Some(status)) => Err(format!("it ended with status {status}")),
        (None, None) => Err("it was ended by a signal".into()),
    }
}

fn from_json(event: HookEvent, object: &Value) -> Result<Answer, String> {
    let text = |value: &Value, key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` of its answer is no string")),
    };
    let mut answer = Answer { message: text(object, "systemMessage")?, ..Answer::default() };
    answer.verdict = match text(object, "decision")?.as_deref() {
        None => None,
        Some("approve") => Some(HookVerdict::Allow),
        Some("block") => Some(HookVerdict::Deny),
        Some(_) => return Err("`decision` of its answer is not known".into()),
    };
    answer.reason = text(object, "reason")?.unwrap_or_default();
    if let Some(specific) = object.get("hookSpecificOutput") {
        if specific.get("hookEventName").and_then(Value::as_str) != Some(event.name()) {
            return Err(format!("`hookEventName` of its answer is not `{}`", event.name()));
        }
        answer.context = text(specific, "additionalContext")?.map(|context| shorten(&context));
        let said = text(specific, "permissionDecision")?;
        if let Some(said) = said {
            answer.verdict = Some(match said.as_str() {
                "allow" => HookVerdict::Allow,
                "deny" => HookVerdict::Deny,
                "ask" => HookVerdict::Ask,
                "defer" => HookVerdict::Defer,
                _ => return Err("`permissionDecision` of its answer is not known".into()),
            });
        }
        answer.reason = text(specific, "permissionDecisionReason")?.unwrap_or(answer.reason);
        answer.updated = match specific.get("updatedInput") {
            None | Some(Value::Null) => None,
            Some(input) if input.is_object() => Some(input.clone()),
            Some(_) => return Err("`updatedInput` of its answer is no object".into()),
        };
    }
    match object.get("continue") {
        None | Some(Value::Null | Value::Bool(true)) => {}
        Some(Value::Bool(false)) => {
            answer.verdict = Some(HookVerdict::Deny);
            answer.reason = text(object, "stopReason")?.unwrap_or(answer.reason);
        }
        Some(_) => return Err("`continue` of its answer is no truth value".into()),
    }
    answer.reason = shorten(&answer.reason);
    answer.message = answer.message.map(|message| shorten(&message));
    Ok(answer)
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
