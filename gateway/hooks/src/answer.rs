//! Reads what a hook answered: an exit status and perhaps JSON.

use serde_json::Value;
use stockade_policy::{Blocking, HookEvent, HookVerdict, Layer};
use stockade_text::json;
use stockade_text::json::Dialect;

/// Longest text that is kept of a hook, in characters.
const MAX_TEXT: usize = 10_000;
/// Mark that some editors and shells put in front of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Longest piece of a hook's standard error in the words about its failure, in characters.
const MAX_EXCERPT: usize = 200;

/// Answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookAnswer {
    /// Its decision; none lets everything go its normal way. At an event that comes after a call, or before a
    /// change of settings, a refusal is `block`.
    pub verdict: Option<HookVerdict>,
    /// Why.
    pub reason: String,
    /// The input that replaces the one of the call.
    pub updated: Option<Value>,
    /// Text for the person.
    pub message: Option<String>,
    /// Text for the agent.
    pub context: Option<String>,
    /// `continue: false`: the agent's turn ends, for this reason.
    pub stop: Option<String>,
    /// `retry`: the agent may try a refused call again.
    pub retry: bool,
    /// True if the hook wanted to change rules, which no hook does here.
    pub wants_rules: bool,
}

impl HookAnswer {
    /// Returns what is left of it when its yes does not count.
    pub(super) fn without_consent(self) -> HookAnswer {
        let verdict = self.verdict.filter(|verdict| *verdict != HookVerdict::Allow);
        HookAnswer { verdict, ..self }
    }

    /// Returns what stands for the answer of a hook that cannot be heard here: before a call a question.
    pub(super) fn unknown(
        event: HookEvent,
        layer: Layer,
        failure: &str,
    ) -> Result<HookAnswer, String> {
        let reason = failure.to_owned();
        if event != HookEvent::PreToolUse || layer == Layer::Policy {
            return Err(reason);
        }
        Ok(HookAnswer { verdict: Some(HookVerdict::Ask), reason, ..HookAnswer::default() })
    }

    /// Returns what counts of what a hook says that may be what a command wrote, for this reason: what makes things
    /// stricter. `place` says where the hook stands.
    pub(super) fn of_bound(mut self, event: HookEvent, reason: &str, place: &str) -> HookAnswer {
        // To keep a change of settings from counting may keep a refusal from it.
        let keeps = event == HookEvent::ConfigChange && self.verdict == Some(HookVerdict::Deny);
        let allows = self.verdict == Some(HookVerdict::Allow) || keeps;
        if !allows && self.updated.is_none() && !self.retry {
            return self;
        }
        if allows {
            (self.verdict, self.reason) = (None, String::new());
        }
        (self.updated, self.retry) = (None, false);
        let words = format!(
            "the allow or change of the hook {place} is ignored, since {reason}; keep the hook where commands cannot write"
        );
        let said = self.message.take().map(|said| format!("{said}; {words}"));
        self.message = Some(said.unwrap_or(words));
        self
    }
}

/// Reads an answer; the error says how the hook failed. Exit status 2 blocks at events that can block, whatever
/// else was said; for any other, JSON alone counts, and a failure without JSON is a failure of the hook.
pub fn read(
    event: HookEvent,
    exit: Option<i32>,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<HookAnswer, String> {
    let Some(status) = exit else { return Err("it was ended by a signal".into()) };
    let answer = object(stdout).map(|object| object.and_then(|object| from_json(event, &object)));
    if status == 2 {
        return Ok(blocked(event, answer.and_then(Result::ok).unwrap_or_default(), stderr));
    }
    match (answer, status) {
        (Some(answer), _) => answer,
        (None, _) if let Some(refusal) = behind_text(event, stdout) => Ok(refusal),
        (None, 0) => Ok(plain(event, stdout)),
        (None, _) => Err(match excerpt(stderr) {
            said if said.is_empty() => format!("it ended with status {status}"),
            said => format!("it ended with status {status}: {said}"),
        }),
    }
}

/// Returns what a JSON object says that stands behind other text, where it is stricter than nothing: somebody meant
/// to refuse. A yes and a new input do not count.
fn behind_text(event: HookEvent, stdout: &[u8]) -> Option<HookAnswer> {
    let start = stdout.windows(2).position(|two| two == b"\n{")?;
    let value = object(stdout.get(start..)?)?.ok()?;
    let answer = from_json(event, &value).ok()?;
    let strict = match answer.verdict {
        Some(HookVerdict::Deny | HookVerdict::Ask | HookVerdict::Defer) => true,
        Some(HookVerdict::Allow) | None => answer.stop.is_some(),
    };
    strict.then_some(HookAnswer { updated: None, retry: false, ..answer })
}

/// Returns the JSON object of an answer, if it begins like one. A key that stands twice could mean one thing
/// here and another to whoever wrote the hook.
fn object(stdout: &[u8]) -> Option<Result<Value, String>> {
    let text = stdout.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stdout).trim_ascii();
    if !text.starts_with(b"{") {
        return None;
    }
    let strict = json::read(text, Dialect::Strict)
        .map_err(|error| format!("its answer is not valid JSON: {}", error.message));
    Some(strict.and_then(|_| {
        serde_json::from_slice(text).map_err(|_| "its answer is not valid JSON".to_owned())
    }))
}

/// Returns what exit status 2 means.
fn blocked(event: HookEvent, answer: HookAnswer, stderr: &[u8]) -> HookAnswer {
    let said = String::from_utf8_lossy(stderr);
    let said = shorten(said.trim());
    match event.blocking() {
        Blocking::Blocks => {
            let reason = match (said.is_empty(), answer.reason.is_empty()) {
                (false, _) => said,
                (true, false) => answer.reason,
                (true, true) => "a hook blocked it".to_owned(),
            };
            let verdict = Some(HookVerdict::Deny);
            HookAnswer { verdict, reason, updated: None, ..answer }
        }
        Blocking::Tells => {
            let message = answer.message.or((!said.is_empty()).then_some(said));
            HookAnswer { message, ..answer }
        }
        Blocking::Nothing => answer,
    }
}

/// Returns what text that is not JSON means: at some events it is for the agent.
fn plain(event: HookEvent, stdout: &[u8]) -> HookAnswer {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim();
    let context = (event.takes_plain_text() && !text.is_empty()).then(|| shorten(text));
    HookAnswer { context, ..HookAnswer::default() }
}

fn from_json(event: HookEvent, object: &Value) -> Result<HookAnswer, String> {
    use HookEvent::*;
    let mut answer = HookAnswer {
        message: text(object, "systemMessage")?,
        reason: text(object, "reason")?.unwrap_or_default(),
        ..HookAnswer::default()
    };
    truth(object, "suppressOutput")?;
    answer.verdict = match (event, text(object, "decision")?.as_deref()) {
        (_, None) => None,
        (HookEvent::PreToolUse, Some("approve")) => Some(HookVerdict::Allow),
        (_, Some("block")) if event.blocking() == Blocking::Blocks => Some(HookVerdict::Deny),
        (_, Some(_)) => return Err("`decision` of its answer is not known".into()),
    };
    if let Some(specific) = object.get("hookSpecificOutput").filter(|it| !it.is_null()) {
        if specific.get("hookEventName").and_then(Value::as_str) != Some(event.name()) {
            return Err(format!("`hookEventName` of its answer is not `{}`", event.name()));
        }
        answer.context = text(specific, "additionalContext")?;
        match event {
            PreToolUse => decided(specific, &mut answer)?,
            PermissionRequest => requested(specific, &mut answer)?,
            PreModelSwitch => switched(specific, &mut answer)?,
            PermissionDenied => answer.retry = truth(specific, "retry")?.unwrap_or(false),
            PostToolUse | PostToolUseFailure | SessionStart | SessionEnd | ConfigChange
            | UserPromptSubmit | PostToolBatch | Stop | StopFailure | PreCompact | PostCompact
            | Notification | TaskCreated | TaskCompleted | CwdChanged | FileChanged
            | DirectoryAdded | InstructionsLoaded | Setup | PostModelSwitch | MessageDisplay => {}
        }
    }
    if truth(object, "continue")? == Some(false) {
        stop(event, text(object, "stopReason")?, &mut answer);
    }
    answer.reason = shorten(&answer.reason);
    answer.message = answer.message.map(|message| shorten(&message));
    answer.context = answer.context.map(|context| shorten(&context));
    Ok(answer)
}

/// Takes `continue: false`: a call that is not decided yet does not run either.
fn stop(event: HookEvent, reason: Option<String>, answer: &mut HookAnswer) {
    let reason = shorten(reason.as_deref().unwrap_or_default());
    if matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest) {
        answer.verdict = Some(HookVerdict::Deny);
        if !reason.is_empty() {
            answer.reason = reason.clone();
        }
    }
    answer.stop = Some(reason);
}

/// Takes the fields of PreToolUse.
fn decided(specific: &Value, answer: &mut HookAnswer) -> Result<(), String> {
    if let Some(said) = text(specific, "permissionDecision")? {
        answer.verdict = Some(match said.as_str() {
            "allow" => HookVerdict::Allow,
            "deny" => HookVerdict::Deny,
            "ask" => HookVerdict::Ask,
            "defer" => HookVerdict::Defer,
            _ => return Err("`permissionDecision` of its answer is not known".into()),
        });
    }
    if let Some(reason) = text(specific, "permissionDecisionReason")? {
        answer.reason = reason;
    }
    answer.updated = input(specific)?;
    Ok(())
}

/// Takes the fields of PreModelSwitch. Nobody can be asked at this event, so a question is a no.
fn switched(specific: &Value, answer: &mut HookAnswer) -> Result<(), String> {
    decided(specific, answer)?;
    answer.updated = None;
    answer.verdict = match answer.verdict {
        None | Some(HookVerdict::Allow) => None,
        Some(HookVerdict::Ask | HookVerdict::Deny | HookVerdict::Defer) => Some(HookVerdict::Deny),
    };
    Ok(())
}

/// Takes the fields of PermissionRequest.
fn requested(specific: &Value, answer: &mut HookAnswer) -> Result<(), String> {
    let decision = match specific.get("decision") {
        None | Some(Value::Null) => return Ok(()),
        Some(decision) if decision.is_object() => decision,
        Some(_) => return Err("`decision` of its answer is not an object".into()),
    };
    answer.verdict = Some(match text(decision, "behavior")?.as_deref() {
        Some("allow") => HookVerdict::Allow,
        Some("deny") => HookVerdict::Deny,
        Some(_) | None => return Err("`behavior` of its answer is not `allow` or `deny`".into()),
    });
    if let Some(message) = text(decision, "message")? {
        answer.reason = message;
    }
    answer.updated = input(decision)?;
    answer.wants_rules = decision.get("updatedPermissions").is_some_and(|it| !it.is_null());
    if truth(decision, "interrupt")? == Some(true) && answer.verdict == Some(HookVerdict::Deny) {
        answer.stop = Some(answer.reason.clone());
    }
    Ok(())
}

fn input(value: &Value) -> Result<Option<Value>, String> {
    match value.get("updatedInput") {
        None | Some(Value::Null) => Ok(None),
        Some(input) if input.is_object() => Ok(Some(input.clone())),
        Some(_) => Err("`updatedInput` of its answer is not an object".into()),
    }
}

fn text(value: &Value, key: &str) -> Result<Option<String>, String> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` of its answer is not a string")),
    }
}

fn truth(value: &Value, key: &str) -> Result<Option<bool>, String> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(format!("`{key}` of its answer is not a Boolean")),
    }
}

/// Returns the first line of standard error that says something.
fn excerpt(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(MAX_EXCERPT).collect()
}

fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_TEXT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_TEXT).collect();
    format!("{kept}… ({length} characters in all)")
}
