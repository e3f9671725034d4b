//! Messages of hooks, in the form of agents that read them. Other agents get the decision alone: a key that they do not
//! know would make some of them run the call.

use serde_json::{Map, Value, json};

use super::Agent;
use super::answer::{HookOutput, blocked};
use super::frame::Told;
use crate::protocol::types::{DecisionView, EventView};

/// Adds what hooks told about calls to the answer to them.
pub(super) fn beside(
    agent: Agent,
    event: &str,
    answer: HookOutput,
    decisions: &[DecisionView],
) -> HookOutput {
    if agent != Agent::Claude || answer.status != 0 {
        return answer;
    }
    let mut body: Value = serde_json::from_str(&answer.stdout).unwrap_or_else(|_| json!({}));
    let join = |texts: fn(&DecisionView) -> &Vec<String>| {
        decisions.iter().flat_map(texts).cloned().collect::<Vec<_>>().join("\n")
    };
    let context = join(|decision| &decision.context);
    // Of a question at its own event nothing is said, so that the agent puts it.
    if let Some(specific) = body.get_mut("hookSpecificOutput").and_then(Value::as_object_mut)
        && event == "PreToolUse"
        && !context.is_empty()
    {
        specific.insert("additionalContext".to_owned(), json!(context));
    }
    let stop = decisions.iter().find_map(|decision| decision.stop.clone());
    if let Some(members) = body.as_object_mut() {
        universal(members, join(|decision| &decision.messages), stop);
    }
    printed(body, answer)
}

/// Returns the answer to an event.
pub(super) fn of_event(agent: Agent, told: &Told, said: Result<EventView, String>) -> HookOutput {
    let silence = HookOutput { stdout: String::new(), stderr: String::new(), status: 0 };
    let reads = match agent {
        Agent::Claude | Agent::Codex => true,
        Agent::Gemini
        | Agent::Copilot
        | Agent::OpenCode
        | Agent::Cline
        | Agent::Cursor
        | Agent::Antigravity
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => false,
    };
    let said = match said {
        Ok(said) => said,
        // At these events it stops nothing, but is told.
        Err(reason) if reads => return blocked(agent, &reason),
        Err(reason) => return HookOutput { stderr: format!("stockade: {reason}\n"), ..silence },
    };
    if !reads {
        return silence;
    }
    let mut body = Map::new();
    let mut specific = Map::new();
    let after = matches!(told.ours.as_str(), "PostToolUse" | "PostToolUseFailure");
    if (after || told.ours == "SessionStart") && !said.context.is_empty() {
        specific.insert("additionalContext".to_owned(), json!(said.context.join("\n")));
    }
    if told.ours == "PermissionDenied" && said.retry {
        specific.insert("retry".to_owned(), json!(true));
    }
    if after && !said.blocks.is_empty() {
        let reason = said.blocks.join("\n");
        let reason = if reason.trim().is_empty() { "a hook blocked it".into() } else { reason };
        body.insert("decision".to_owned(), json!("block"));
        body.insert("reason".to_owned(), json!(reason));
    }
    if !specific.is_empty() {
        specific.insert("hookEventName".to_owned(), json!(told.event));
        body.insert("hookSpecificOutput".to_owned(), Value::Object(specific));
    }
    if agent == Agent::Claude {
        universal(&mut body, said.messages.join("\n"), said.stop);
    }
    printed(Value::Object(body), silence)
}

/// Adds what holds at every event.
fn universal(members: &mut Map<String, Value>, messages: String, stop: Option<String>) {
    if !messages.is_empty() {
        members.insert("systemMessage".to_owned(), json!(messages));
    }
    if let Some(reason) = stop {
        members.insert("continue".to_owned(), json!(false));
        if !reason.is_empty() {
            members.insert("stopReason".to_owned(), json!(reason));
        }
    }
}

fn printed(body: Value, answer: HookOutput) -> HookOutput {
    match body.as_object().is_some_and(Map::is_empty) {
        true => answer,
        false => HookOutput { stdout: format!("{body}\n"), ..answer },
    }
}
