//! A call passes stages: hooks have heard it, then it was refused, or it ran.

use serde_json::{Value, json};
use stockade_model::Block;
use stockade_wire::errors::Failure;
use stockade_wire::types::DecisionView;

use crate::door::Door;
use crate::host::Note;
use crate::schema::Valid;
use crate::session::Denial;

/// A call that the hooks of the host have heard.
#[derive(Debug, Clone)]
pub(crate) struct Heard<'a> {
    pub(crate) valid: Valid<'a>,
    /// A hook of the host allows it.
    pub(crate) allows: bool,
    /// A hook of the host wants it asked.
    pub(crate) asks: bool,
    /// Why, as that hook says.
    pub(crate) reason: Option<String>,
}

/// A call that did not run.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Why, for the model.
    pub(crate) message: String,
    /// The turn ends.
    pub(crate) ends: bool,
}

/// A call that ran.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) content: Vec<Block>,
    pub(crate) is_error: bool,
    pub(crate) result: Value,
    /// A hook ends the turn for this reason.
    pub(crate) ends: Option<String>,
}

impl Refused {
    pub(crate) fn invalid(message: String) -> Refused {
        Refused { message, ends: false }
    }

    pub(crate) fn failure(failure: &Failure) -> Refused {
        let help = if failure.help.is_empty() {
            String::new()
        } else {
            format!(" Try: {}.", failure.help)
        };
        Refused {
            message: format!("stockade could not do this: {}.{help}", failure.message),
            ends: false,
        }
    }

    pub(crate) fn by_host(
        door: &Door,
        valid: &Valid<'_>,
        message: String,
        interrupt: bool,
    ) -> Refused {
        note_denial(door, valid);
        Refused { message, ends: interrupt }
    }
}

fn note_denial(door: &Door, valid: &Valid<'_>) {
    door.session.deny(Denial {
        tool: valid.tool().name.clone(),
        call_id: valid.call_id().to_owned(),
        input: valid.input().clone(),
    });
}

/// Says whether a rule of the user wants the call asked, whatever hooks say.
pub(crate) fn is_ask_rule(view: &DecisionView) -> bool {
    view.rules.iter().any(|rule| rule.effect == "ask")
}

/// Returns the refusal of a decision: reason, rule with file and line, and what would help.
pub(crate) fn refusal(door: &Door, valid: &Valid<'_>, view: &DecisionView) -> Refused {
    let mut message = match view.decision.as_str() {
        "deny" => format!("Permission denied: {}.", view.reason),
        _ => format!("This needs a person's yes, and nobody can be asked: {}.", view.reason),
    };
    if let (Some(rule), Some(file), Some(line)) = (&view.rule, &view.file, view.line) {
        message.push_str(&format!(" Rule `{rule}` ({file}:{line})."));
    }
    if !view.help.is_empty() {
        message.push_str(&format!(" {}.", view.help));
    }
    note_denial(door, valid);
    let kind = match view.source.as_str() {
        "mode" | "hook" => view.source.clone(),
        _ if view.rule.is_some() => "rule".into(),
        _ => "other".into(),
    };
    door.host.note(Note::Denied {
        tool: valid.tool().name.clone(),
        call_id: valid.call_id().to_owned(),
        kind,
        message: message.clone(),
    });
    Refused { message, ends: false }
}

/// Returns the changes of permissions that would answer a question for good.
pub(crate) fn suggestions(view: &DecisionView) -> Vec<Value> {
    let Some(rule) = &view.suggestion else { return Vec::new() };
    let (tool, content) = match rule.split_once('(') {
        Some((tool, content)) => (tool, Some(content.strip_suffix(')').unwrap_or(content))),
        None => (rule.as_str(), None),
    };
    let rule = match content {
        Some(content) => json!({ "toolName": tool, "ruleContent": content }),
        None => json!({ "toolName": tool }),
    };
    let mut changes = vec![json!({
        "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings",
    })];
    if matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit") {
        changes.push(json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" }));
    }
    changes
}

/// Shows which hooks of the settings ran.
pub(crate) fn show_hooks(door: &Door, view: &DecisionView) {
    view.hooks.iter().for_each(|hook| door.host.note(Note::Hook(Box::new(hook.clone()))));
}
