//! Events at which hooks run: those of the settings, which the gateway runs, and those of the host.

use serde_json::{Map, Value, json};
use stockade_model::Block;
use stockade_wire::types::{EventRequest, EventView};

use crate::door::Door;
use crate::host::{Asked, Note, Reply};
use crate::output::{Output, framed, worded};
use crate::stages::Ran;

/// Events that keep something from going on where it is not known what their hooks would have said.
const HOLDING: [&str; 6] = [
    "UserPromptSubmit",
    "PostToolBatch",
    "PreCompact",
    "TaskCreated",
    "TaskCompleted",
    "PreModelSwitch",
];

/// Answers of hooks at an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Texts that they add for the model.
    pub context: Vec<String>,
    /// Why they block what the event is about, or find fault with it.
    pub blocks: Option<String>,
    /// The turn ends, for this reason.
    pub ends: Option<String>,
}

impl Said {
    /// Returns why what the event is about does not go on.
    #[must_use]
    pub fn stops(&self) -> Option<&String> {
        self.ends.as_ref().or(self.blocks.as_ref())
    }

    /// Returns what they add, framed so that it is nobody else's word.
    #[must_use]
    pub fn blocks_of_text(&self) -> Vec<Block> {
        self.context.iter().map(|text| framed(text)).collect()
    }

    fn of(view: EventView) -> Said {
        Said {
            context: view.context,
            blocks: (!view.blocks.is_empty()).then(|| worded(&view.blocks.join("; "))),
            ends: view.stop.map(|reason| worded(&reason)),
        }
    }
}

impl Door {
    /// Runs the hooks of an event that is not about the call of a tool, those of the settings first. `subject` is what
    /// matchers are held against, `more` what its frame has besides.
    pub async fn event(&self, event: &str, subject: &str, more: Value) -> Said {
        let mut said = self.of_settings(event, subject, &more).await;
        let mut frame = self.frame(event);
        for (key, value) in fields(event, subject, more) {
            frame.entry(key).or_insert(value);
        }
        for output in self.host.hooks(event, subject, Value::Object(frame), None).await {
            let mut output = Output::of(output);
            if event == "PreModelSwitch" && output.asks() {
                output.blocks = Some(worded(output.reason.as_deref().unwrap_or_default()));
            }
            let reason = output.blocks.filter(|_| said.stops().is_none());
            if output.ends {
                said.ends = reason.or(said.ends)
            } else {
                said.blocks = reason.or(said.blocks)
            }
            said.context.extend(output.context);
        }
        said
    }

    async fn of_settings(&self, event: &str, subject: &str, more: &Value) -> Said {
        let request = EventRequest {
            event: event.to_owned(),
            subject: subject.to_owned(),
            further: more.clone(),
            cwd: self.session.cwd(),
            context: self.session.context(false),
            ..EventRequest::default()
        };
        match self.tell(&request).await {
            Ok(said) => said,
            Err(reason) => {
                let blocks = HOLDING.contains(&event).then_some(reason);
                Said { blocks, ..Said::default() }
            }
        }
    }

    /// Has the gateway run the hooks of an event, and shows which ran.
    async fn tell(&self, request: &EventRequest) -> Result<Said, String> {
        match self.gateway.tell(request).await {
            Ok(view) => {
                let ran = view.hooks.iter().cloned();
                ran.for_each(|hook| self.host.note(Note::Hook(Box::new(hook))));
                let failed = view.notices.iter().filter(|it| !view.context.contains(it));
                failed.for_each(|line| self.host.note(Note::Said(line.clone())));
                Ok(Said::of(view))
            }
            Err(failure) => {
                self.host.note(Note::Said(failure.message.clone()));
                Err(failure.message)
            }
        }
    }

    /// Tells the hooks of the settings how a call of a tool ended that the gateway did not run, and adds what they say.
    pub(crate) async fn tell_end(&self, (name, input, id): (&str, &Value, &str), ran: &mut Ran) {
        let (event, further) = match ran.is_error {
            true => ("PostToolUseFailure", json!({ "error": ran.result, "is_interrupt": false })),
            false => ("PostToolUse", json!({ "tool_response": ran.result })),
        };
        let request = EventRequest {
            event: event.into(),
            subject: name.to_owned(),
            input: input.clone(),
            further,
            call_id: Some(id.to_owned()),
            cwd: self.session.cwd(),
            context: self.session.context(false),
        };
        // The call is over: what hooks cannot hear changes nothing about that.
        let said = self.tell(&request).await.unwrap_or_default();
        ran.content.extend(said.context.iter().chain(&said.blocks).map(|text| framed(text)));
        ran.ends = ran.ends.take().or(said.ends);
    }

    /// Puts a question to the host: its hooks of PermissionRequest may answer it. Meanwhile, those of Notification hear that
    /// a person is wanted.
    pub(crate) async fn ask(&self, asked: Asked) -> Reply {
        if let Some(reply) = self.requested(&asked).await {
            return reply;
        }
        let message = format!("Your permission is needed to use {}", asked.tool);
        let wanted = async {
            let more = json!({ "message": message, "title": "Permission needed" });
            self.event("Notification", "permission_prompt", more).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            reply = self.host.ask(asked) => reply,
            () = wanted => unreachable_answer(),
        }
    }

    /// Makes changes of the session that the answer to a question brings; hooks hear of directories among them.
    pub(crate) async fn update(&self, changes: &[Value]) {
        for change in changes {
            match self.session.update(change) {
                Ok(Some(mode)) => self.host.note(Note::Mode(mode)),
                Ok(None) => {}
                Err(reason) => self.host.note(Note::Said(reason)),
            }
            if change.get("type").and_then(Value::as_str) == Some("addDirectories") {
                let added = change.get("directories").and_then(Value::as_array);
                for directory in added.into_iter().flatten() {
                    let more = json!({ "directory": directory });
                    self.event("DirectoryAdded", "register_repo_root", more).await;
                }
            }
        }
    }

    /// Returns the answer of the host's hooks to a question, if they have one. One no is enough; a hook that failed is one.
    async fn requested(&self, asked: &Asked) -> Option<Reply> {
        let event = "PermissionRequest";
        let mut frame = self.frame(event);
        frame.insert("tool_name".into(), json!(asked.tool));
        frame.insert("tool_input".into(), asked.input.clone());
        frame.insert("permission_suggestions".into(), json!(asked.suggestions));
        let call = Some(asked.call_id.as_str());
        let said = self.host.hooks(event, &asked.tool, Value::Object(frame), call).await;
        let mut allows = None;
        for output in said {
            match answered(output) {
                Some(deny @ Reply::Deny { .. }) => return Some(deny),
                Some(allow @ Reply::Allow { .. }) => allows = allows.or(Some(allow)),
                None => {}
            }
        }
        allows
    }
}

fn unreachable_answer() -> Reply {
    Reply::Deny { message: "The question was not answered.".into(), interrupt: false }
}

/// Returns what a hook of PermissionRequest decided.
fn answered(output: Result<Value, String>) -> Option<Reply> {
    let deny = |message: String| Some(Reply::Deny { message, interrupt: false });
    let output = match output {
        Ok(output) => output,
        Err(reason) => return deny(format!("A PermissionRequest hook failed: {reason}")),
    };
    if let Some(reason) = Output::of(Ok(output.clone())).blocks {
        return deny(reason);
    }
    let decision = output.get("hookSpecificOutput")?.get("decision").filter(|it| !it.is_null())?;
    let text = |key: &str| decision.get(key).and_then(Value::as_str);
    match text("behavior") {
        Some("allow") => Some(Reply::Allow {
            input: decision.get("updatedInput").filter(|it| it.is_object()).cloned(),
            updates: decision
                .get("updatedPermissions")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        }),
        Some("deny") => Some(Reply::Deny {
            message: text("message").unwrap_or("A hook of the host said no.").to_owned(),
            interrupt: decision.get("interrupt").and_then(Value::as_bool).unwrap_or_default(),
        }),
        _ => deny("The answer of a PermissionRequest hook was not understood.".into()),
    }
}

/// Returns the members of an event's frame: `more`, and the subject under its name.
fn fields(event: &str, subject: &str, more: Value) -> Map<String, Value> {
    let mut fields = more.as_object().cloned().unwrap_or_default();
    let key = match event {
        "SessionStart" => Some("source"),
        "SessionEnd" => Some("reason"),
        "PreCompact" | "PostCompact" | "Setup" => Some("trigger"),
        "Notification" => Some("notification_type"),
        "StopFailure" => Some("error"),
        "InstructionsLoaded" => Some("load_reason"),
        "DirectoryAdded" => Some("source"),
        _ => None,
    };
    if let Some(key) = key {
        fields.insert(key.into(), json!(subject));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_no_of_a_hook_is_enough_and_rubbish_is_one() {
        let of = |decision: Value| {
            answered(Ok(json!({ "hookSpecificOutput": { "decision": decision } })))
        };
        assert_eq!(answered(Ok(json!({}))), None);
        assert!(matches!(of(json!({ "behavior": "allow" })), Some(Reply::Allow { .. })));
        for no in [
            json!({ "behavior": "deny" }),
            json!({ "behavior": "perhaps" }),
            json!("allow"),
            json!(1),
        ] {
            assert!(matches!(of(no.clone()), Some(Reply::Deny { .. })), "{no}");
        }
        for no in [Err("late".to_owned()), Ok(json!("yes")), Ok(json!({ "continue": false }))] {
            assert!(matches!(answered(no), Some(Reply::Deny { .. })));
        }
    }
}
