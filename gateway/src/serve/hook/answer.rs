//! The answer to a pre-tool hook, in the one form that each agent reads.
//!
//! Each form holds only keys that its reader knows: an unknown key makes one of them run the command.

use serde_json::{Value, json};

use super::Agent;

/// Decision of the gate about all calls of a frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ruling {
    /// The calls may run; with an input that replaces the agent's, where that is wanted.
    Allow {
        /// Why.
        reason: String,
        /// The whole new input.
        rewritten: Option<Value>,
    },
    /// A person must decide.
    Ask {
        /// Why.
        reason: String,
        /// The whole new input that runs after a yes, where the agent takes one with a question.
        rewritten: Option<Value>,
    },
    /// The calls must not run.
    Deny(String),
    /// The call must not run. Where the agent's run would end with a refusal, an input of ours runs in its place.
    Replace {
        /// Why.
        reason: String,
        /// The whole input that only prints the reason.
        input: Value,
    },
    /// Nothing waits for an answer.
    NoObjection,
}

/// Output and exit status of the hook process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error, one line.
    pub stderr: String,
    /// Exit status.
    pub status: u8,
}

impl HookOutput {
    /// Says whether every agent takes this for a refusal, as [`blocked`] makes it.
    pub(super) fn refuses(&self) -> bool {
        let refuses = |body: Value| {
            body.get("cancel").and_then(Value::as_bool) == Some(true)
                || body.get("decision").and_then(Value::as_str) == Some("deny")
        };
        self.status == 2 || serde_json::from_str(&self.stdout).is_ok_and(refuses)
    }
}

/// Returns the answer for `ruling` at `event`.
pub(crate) fn answer(agent: Agent, event: &str, ruling: &Ruling) -> HookOutput {
    let ruling = &downgraded(agent, event, ruling);
    match (agent, event, ruling) {
        // These read a refusal from the status alone, or other readers of the same file do.
        (Agent::Copilot, "permissionRequest", Ruling::Deny(reason))
        | (Agent::VsCode | Agent::Windsurf, _, Ruling::Deny(reason)) => {
            return blocked(agent, reason);
        }
        (_, _, _) => {}
    }
    let body = match (agent, event) {
        (_, _) if *ruling == Ruling::NoObjection => None,
        (Agent::Claude | Agent::Codex, "PermissionRequest") => permission_request(ruling),
        (Agent::Claude | Agent::OpenCode, _) => pre_tool_use(ruling, true),
        (Agent::Codex, _) => pre_tool_use(ruling, false),
        (Agent::Gemini, _) => gemini(ruling),
        // Without an answer it puts its own question.
        (Agent::Copilot, "permissionRequest") => None,
        (Agent::Copilot, _) => copilot(ruling),
        (Agent::Cline, _) => cline(ruling),
        (Agent::Cursor, _) => cursor(event, ruling),
        (Agent::VsCode | Agent::Droid | Agent::Qwen, _) => pre_tool_use(ruling, true),
        (Agent::Antigravity, _) => antigravity(ruling),
        // Silence with status 0 is consent.
        (Agent::Windsurf, _) => None,
    };
    let stdout = body.map(|body| format!("{body}\n")).unwrap_or_default();
    HookOutput { stdout, stderr: String::new(), status: 0 }
}

/// Says whether the agent takes a new input at `event`; elsewhere what it sent is what it runs.
pub(crate) fn takes_new_input(agent: Agent, event: &str) -> bool {
    match agent {
        Agent::Claude | Agent::Codex | Agent::OpenCode => event == "PreToolUse",
        Agent::Gemini => event == "BeforeTool",
        Agent::Copilot | Agent::Cursor => event == "preToolUse",
        Agent::Cline => event == "tool_call",
        Agent::Antigravity | Agent::VsCode | Agent::Droid | Agent::Qwen | Agent::Windsurf => false,
    }
}

/// Says whether the agent takes a new input at its event for tools.
pub(crate) fn is_rewritten(agent: Agent) -> bool {
    ["PreToolUse", "BeforeTool", "preToolUse", "tool_call"]
        .iter()
        .any(|event| takes_new_input(agent, event))
}

/// Returns the explicit refusal that stands for every failure of ours.
///
/// Status 2 with a line on standard error means "blocked" to all but Cline, which wants a cancel.
pub(crate) fn blocked(agent: Agent, reason: &str) -> HookOutput {
    let reason = spoken(reason);
    match agent {
        Agent::Cline => HookOutput {
            stdout: format!("{}\n", json!({ "cancel": true, "errorMessage": reason })),
            stderr: String::new(),
            status: 0,
        },
        // Antigravity also refuses where no decision came, but reads the reason here.
        Agent::Antigravity => HookOutput {
            stdout: format!("{}\n", json!({ "decision": "deny", "reason": reason })),
            stderr: String::new(),
            status: 0,
        },
        Agent::Claude
        | Agent::Codex
        | Agent::Gemini
        | Agent::Copilot
        | Agent::OpenCode
        | Agent::Cursor
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => HookOutput {
            stdout: String::new(),
            stderr: format!("stockade: blocked: {reason}\n"),
            status: 2,
        },
    }
}

/// Turns a question into a refusal where the agent would run the command, hang, or knows no question; and a replaced
/// command where the agent takes a plain refusal.
fn downgraded(agent: Agent, event: &str, ruling: &Ruling) -> Ruling {
    let holds = match ruling {
        Ruling::Ask { .. } => asks(agent, event),
        Ruling::Replace { .. } => ends_with_refusal(agent),
        Ruling::Allow { .. } | Ruling::Deny(_) | Ruling::NoObjection => true,
    };
    match ruling {
        Ruling::Ask { reason, .. } | Ruling::Replace { reason, .. } if !holds => {
            Ruling::Deny(reason.clone())
        }
        Ruling::Ask { .. }
        | Ruling::Replace { .. }
        | Ruling::Allow { .. }
        | Ruling::Deny(_)
        | Ruling::NoObjection => ruling.clone(),
    }
}

/// Says whether a refusal ends the whole run of the agent.
pub(crate) fn ends_with_refusal(agent: Agent) -> bool {
    agent == Agent::Cline
}

/// Says whether the agent takes a new input with a question as well: what it shows its person is then what runs. Of the
/// others nobody has seen that they do.
pub(crate) fn takes_new_input_with_question(agent: Agent, event: &str) -> bool {
    match agent {
        Agent::Claude => event == "PreToolUse",
        Agent::Codex
        | Agent::Gemini
        | Agent::Copilot
        | Agent::OpenCode
        | Agent::Cline
        | Agent::Cursor
        | Agent::Antigravity
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => false,
    }
}

/// Says whether the agent puts a question to its person at `event`, and goes on only after a yes.
pub(crate) fn asks(agent: Agent, event: &str) -> bool {
    match agent {
        Agent::Claude | Agent::Copilot | Agent::Cursor | Agent::Antigravity | Agent::VsCode => true,
        // At this event no answer means that the agent puts its own question.
        Agent::Codex => event == "PermissionRequest",
        Agent::Gemini
        | Agent::OpenCode
        | Agent::Cline
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => false,
    }
}

/// A reason is never blank and stands on one line.
fn spoken(reason: &str) -> String {
    let line = reason.trim().replace(['\n', '\r'], "; ");
    if line.is_empty() { "not allowed by stockade".into() } else { line }
}

fn pre_tool_use(ruling: &Ruling, plain_allow: bool) -> Option<Value> {
    let decided = |decision: &str, reason: &str| {
        json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": spoken(reason)
        })
    };
    let mut output = match ruling {
        Ruling::Allow { rewritten: None, .. } if !plain_allow => return None,
        Ruling::Allow { reason, .. } => decided("allow", reason),
        Ruling::Ask { reason, .. } => decided("ask", reason),
        Ruling::Deny(reason) | Ruling::Replace { reason, .. } => decided("deny", reason),
        Ruling::NoObjection => return None,
    };
    let rewritten = match ruling {
        Ruling::Allow { rewritten, .. } | Ruling::Ask { rewritten, .. } => rewritten.as_ref(),
        Ruling::Deny(_) | Ruling::Replace { .. } | Ruling::NoObjection => None,
    };
    if let (Some(input), Some(output)) = (rewritten, output.as_object_mut()) {
        output.insert("updatedInput".to_owned(), input.clone());
    }
    Some(json!({ "hookSpecificOutput": output }))
}

fn permission_request(ruling: &Ruling) -> Option<Value> {
    let decision = match ruling {
        Ruling::Allow { .. } => json!({ "behavior": "allow" }),
        Ruling::Deny(reason) | Ruling::Replace { reason, .. } => {
            json!({ "behavior": "deny", "message": spoken(reason) })
        }
        Ruling::Ask { .. } | Ruling::NoObjection => return None,
    };
    Some(
        json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } }),
    )
}

fn gemini(ruling: &Ruling) -> Option<Value> {
    match ruling {
        Ruling::Allow { rewritten: Some(input), .. } => Some(json!({
            "decision": "allow",
            "hookSpecificOutput": { "hookEventName": "BeforeTool", "tool_input": input }
        })),
        Ruling::Allow { rewritten: None, .. } => Some(json!({ "decision": "allow" })),
        Ruling::Ask { reason, .. } | Ruling::Deny(reason) | Ruling::Replace { reason, .. } => {
            Some(json!({ "decision": "deny", "reason": spoken(reason) }))
        }
        Ruling::NoObjection => None,
    }
}

fn copilot(ruling: &Ruling) -> Option<Value> {
    match ruling {
        Ruling::Allow { rewritten: Some(input), .. } => {
            Some(json!({ "permissionDecision": "allow", "modifiedArgs": input }))
        }
        Ruling::Allow { rewritten: None, .. } => Some(json!({ "permissionDecision": "allow" })),
        Ruling::Ask { reason, .. } => {
            Some(json!({ "permissionDecision": "ask", "permissionDecisionReason": spoken(reason) }))
        }
        Ruling::Deny(reason) | Ruling::Replace { reason, .. } => Some(
            json!({ "permissionDecision": "deny", "permissionDecisionReason": spoken(reason) }),
        ),
        Ruling::NoObjection => None,
    }
}

/// `ask` would be skipped where its person once chose "always allow"; `force_ask` is not.
fn antigravity(ruling: &Ruling) -> Option<Value> {
    match ruling {
        Ruling::Allow { .. } => Some(json!({ "decision": "allow" })),
        Ruling::Ask { reason, .. } => {
            Some(json!({ "decision": "force_ask", "reason": spoken(reason) }))
        }
        Ruling::Deny(reason) | Ruling::Replace { reason, .. } => {
            Some(json!({ "decision": "deny", "reason": spoken(reason) }))
        }
        Ruling::NoObjection => None,
    }
}

/// A cancel ends the run, so a command that must not run is replaced where that is possible.
fn cline(ruling: &Ruling) -> Option<Value> {
    match ruling {
        Ruling::Allow { rewritten: Some(input), .. } | Ruling::Replace { input, .. } => {
            Some(json!({ "cancel": false, "overrideInput": input }))
        }
        Ruling::Allow { rewritten: None, .. } => Some(json!({ "cancel": false })),
        Ruling::Ask { reason, .. } | Ruling::Deny(reason) => {
            Some(json!({ "cancel": true, "errorMessage": spoken(reason) }))
        }
        Ruling::NoObjection => None,
    }
}

fn cursor(event: &str, ruling: &Ruling) -> Option<Value> {
    match ruling {
        Ruling::Allow { rewritten: Some(input), .. } if event == "preToolUse" => {
            Some(json!({ "permission": "allow", "updated_input": input }))
        }
        Ruling::Allow { .. } => Some(json!({ "permission": "allow" })),
        Ruling::Ask { reason, .. } => Some(json!({
            "permission": "ask", "user_message": spoken(reason), "agent_message": spoken(reason)
        })),
        Ruling::Deny(reason) | Ruling::Replace { reason, .. } => Some(json!({
            "permission": "deny", "user_message": spoken(reason), "agent_message": spoken(reason)
        })),
        Ruling::NoObjection => None,
    }
}
