//! The boundary: each tool call goes validate → hooks of the host → decision → run → hooks after it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};
use stockade_model::{Block, Outcome, Tool as Shown};
use stockade_turn::{Call, Done, Hands};

use crate::catalogue::{Kind, Tool, canonical};
use crate::events::framed;
use crate::gateway::Gateway;
use crate::host::Host;
use crate::schema::{self, Valid};
use crate::session::Session;
use crate::tasks::Tasks;
use crate::through::{self, Heard, Ran, Refused};
use crate::{decided, own};

/// Tries to give a structured output.
const OUTPUTS: u32 = 3;
/// How the reason of a turn begins that ends because of them; what went wrong follows.
const WRONG_OUTPUTS: &str = "error_max_structured_output_retries: ";

/// Does the tool calls of a session.
pub struct Door {
    pub(crate) gateway: Gateway,
    pub(crate) session: Arc<Session>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) tasks: Arc<Tasks>,
    tools: Vec<Tool>,
    shown: Vec<Shown>,
    validators: HashMap<String, Validator>,
    queued: Mutex<Vec<Block>>,
    /// The calls of one answer that are over, for hooks that hear of all of them at once.
    batch: Mutex<Vec<Value>>,
    /// Socket of whoever does statements of the `sql` tool.
    pub(crate) database: Option<PathBuf>,
    wrong_outputs: AtomicU32,
    /// Servers that the host switched off.
    off: Mutex<BTreeSet<String>>,
    /// Answers without a structured output.
    without_output: AtomicU32,
    stop_active: AtomicU32,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Door {
    /// Opens the door of a session with these tools.
    ///
    /// # Errors
    ///
    /// A schema is not a JSON Schema.
    pub fn new(
        gateway: Gateway,
        session: Arc<Session>,
        host: Arc<dyn Host>,
        tools: Vec<Tool>,
    ) -> Result<Door, String> {
        let mut validators = HashMap::new();
        for tool in &tools {
            let validator = schema::compile(&tool.schema)
                .map_err(|error| format!("the schema of `{}` is invalid: {error}", tool.name))?;
            validators.insert(tool.name.clone(), validator);
        }
        let shown = tools.iter().map(|tool| Shown {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input: tool.schema.clone(),
        });
        Ok(Door {
            tasks: Arc::new(Tasks::new(gateway.clone(), Arc::clone(&host))),
            gateway,
            session,
            host,
            shown: shown.collect(),
            tools,
            validators,
            queued: Mutex::default(),
            batch: Mutex::default(),
            database: None,
            off: Mutex::default(),
            wrong_outputs: AtomicU32::new(0),
            without_output: AtomicU32::new(0),
            stop_active: AtomicU32::new(0),
        })
    }

    /// Has statements of the `sql` tool done by whoever listens at this socket.
    #[must_use]
    pub fn with_database(self, socket: &Path) -> Door {
        Door { database: Some(socket.to_owned()), ..self }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Puts text into the conversation before the next request of the running turn.
    pub fn queue(&self, text: &str) {
        self.queue_all(vec![Block::Text(text.to_owned())]);
    }

    fn queue_all(&self, blocks: Vec<Block>) {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).extend(blocks);
    }

    /// Switches a server on or off: calls of its tools are refused while it is off. The tools stay in the model's list.
    pub fn switch(&self, server: &str, on: bool) {
        let mut off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        match on {
            true => drop(off.remove(server)),
            false => drop(off.insert(server.to_owned())),
        }
    }

    /// Says whether a server is switched off.
    #[must_use]
    pub fn is_off(&self, server: &str) -> bool {
        self.off.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
    }

    /// Ends a background command.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    pub fn stop_task(&self, id: &str) -> Result<(), String> {
        self.tasks.identity(id)?;
        let (tasks, id) = (Arc::clone(&self.tasks), id.to_owned());
        // How it ends is told like every end.
        tokio::spawn(async move { tasks.stop(&id).await });
        Ok(())
    }

    /// Forgets the structured output of the turn before.
    pub fn begin_turn(&self) {
        self.session.set_structured(None);
        self.wrong_outputs.store(0, Ordering::Relaxed);
        self.without_output.store(0, Ordering::Relaxed);
        self.stop_active.store(0, Ordering::Relaxed);
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns how often the model could have given a structured output in this turn and did not.
    fn tries(&self) -> u32 {
        [&self.wrong_outputs, &self.without_output]
            .iter()
            .map(|it| it.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the reason of a turn that has no structured output.
    #[must_use]
    pub fn no_output(&self) -> String {
        let count = |of: &AtomicU32, one: &str, more: &str| match of.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(format!("1 {one}")),
            many => Some(format!("{many} {more}")),
        };
        let wrong = count(
            &self.wrong_outputs,
            "call of StructuredOutput was invalid",
            "calls of StructuredOutput were invalid",
        );
        let without = count(&self.without_output, "answer had none", "answers had none");
        let parts: Vec<String> = wrong.into_iter().chain(without).collect();
        let why =
            if parts.is_empty() { "nothing was returned".to_owned() } else { parts.join(", ") };
        format!("{WRONG_OUTPUTS}the model returned no valid structured output: {why}")
    }

    /// Returns what every hook is told.
    #[must_use]
    pub fn frame(&self, event: &str) -> serde_json::Map<String, Value> {
        let frame = json!({
            "session_id": self.session.id(), "transcript_path": "", "cwd": self.session.cwd(),
            "permission_mode": self.session.mode(), "hook_event_name": event,
        });
        frame.as_object().cloned().unwrap_or_default()
    }

    pub(crate) async fn update(&self, changes: &[Value]) {
        for change in changes {
            match self.session.update(change) {
                Ok(Some(mode)) => self.host.note(crate::host::Note::Mode(mode)),
                Ok(None) => {}
                Err(reason) => self.host.note(crate::host::Note::Said(reason)),
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

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == canonical(name))
    }

    fn validate(&self, call: Call) -> Result<Valid<'_>, String> {
        let Some(tool) = self.tool(&call.name) else {
            return Err(format!("The tool `{}` does not exist.", call.name));
        };
        schema::validate(tool, self.validators.get(&tool.name), call)
    }

    /// Validates another input for a call.
    pub(crate) fn validate_again<'a>(
        &'a self,
        valid: &Valid<'_>,
        input: Value,
    ) -> Result<Valid<'a>, String> {
        let (id, name) = (valid.call_id().to_owned(), valid.tool().name.clone());
        self.validate(Call { id, name, input })
    }

    /// Lets the hooks of the host hear a call.
    async fn hear<'a>(&'a self, valid: Valid<'a>) -> Result<Heard<'a>, Refused> {
        let mut frame = self.frame("PreToolUse");
        let name = valid.tool().name.clone();
        frame.insert("tool_name".into(), json!(name));
        frame.insert("tool_input".into(), valid.input().clone());
        frame.insert("tool_use_id".into(), json!(valid.call_id()));
        let said =
            self.host.hooks("PreToolUse", &name, Value::Object(frame), Some(valid.call_id())).await;
        let mut heard = Heard { valid, allows: false, asks: false, reason: None };
        let mut changed = None;
        for output in said {
            let output = Output::of(output);
            if let Some(reason) = output.blocks {
                let refused = Refused::by_host(
                    self,
                    &heard.valid,
                    format!("PreToolUse:{name} hook error: {reason}"),
                    output.ends,
                );
                return Err(refused);
            }
            heard.allows |= output.decision.as_deref() == Some("allow");
            heard.asks |= output.decision.as_deref() == Some("ask");
            heard.reason = heard.reason.or(output.reason);
            changed = output.input.or(changed);
        }
        if let Some(input) = changed {
            heard.valid = self.validate_again(&heard.valid, input).map_err(Refused::invalid)?;
        }
        Ok(heard)
    }

    pub(crate) async fn go(&self, call: Call) -> Result<Ran, Refused> {
        let is_output = call.name == "StructuredOutput";
        let valid = self.validate(call).map_err(|message| {
            if is_output {
                self.wrong_outputs.fetch_add(1, Ordering::Relaxed);
            }
            Refused { message, ends: is_output && self.tries() >= OUTPUTS }
        })?;
        let heard = self.hear(valid).await?;
        let kind = &heard.valid.tool().kind;
        // Without a command of its own it touches nothing but a task of the session.
        let harmless = *kind == Kind::Shell && heard.valid.input().get("command").is_none();
        let kind = if harmless { Kind::Own { harmless } } else { kind.clone() };
        if let Kind::Mcp { server, .. } = &kind
            && self.is_off(server)
        {
            let message = format!("The server `{}` is switched off.", server.escape_debug());
            return Err(Refused { message, ends: false });
        }
        let changes = match &kind {
            Kind::Shell | Kind::File { writes: true } | Kind::Mcp { reads: false, .. } => true,
            Kind::File { writes: false } | Kind::Mcp { .. } | Kind::Own { .. } => false,
        };
        if let Some(reason) = self.session.hindrance().filter(|_| changes) {
            let message =
                format!("{reason}. Tools that change anything are refused until this is fixed.");
            return Err(Refused { message, ends: false });
        }
        match kind {
            Kind::Shell | Kind::File { .. } => through::run(self, heard).await,
            Kind::Own { .. } | Kind::Mcp { .. } => {
                let granted = decided::decide(self, heard).await?;
                let mut ran = own::run(self, &kind, &granted).await;
                let call = (granted.name(), granted.input(), granted.call_id());
                self.tell_end(call, &mut ran).await;
                Ok(ran)
            }
        }
    }

    /// Lets the hooks of the host hear how a call ended. Returns what they add, and whether the turn ends.
    pub(crate) async fn after(&self, call: &Call, ran: &Ran) -> (Vec<Block>, Option<String>) {
        let event = if ran.is_error { "PostToolUseFailure" } else { "PostToolUse" };
        let mut frame = self.frame(event);
        let key = if ran.is_error { "error" } else { "tool_response" };
        for (key, value) in [
            ("tool_name", json!(call.name)),
            ("tool_input", call.input.clone()),
            ("tool_use_id", json!(call.id)),
            (key, ran.result.clone()),
        ] {
            frame.insert(key.into(), value);
        }
        let said = self.host.hooks(event, &call.name, Value::Object(frame), Some(&call.id)).await;
        let (mut added, mut ends) = (Vec::new(), None);
        for output in said {
            let output = Output::of(output);
            let texts = output.context.into_iter().chain(output.blocks.clone());
            added.extend(texts.map(|text| framed(&text)));
            ends = ends.or(output.blocks.filter(|_| output.ends));
        }
        (added, ends)
    }
}

impl Hands for Door {
    fn tools(&self) -> &[Shown] {
        &self.shown
    }

    fn knows(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    fn is_concurrent(&self, call: &Call) -> bool {
        match self.tool(&call.name).map(|tool| &tool.kind) {
            Some(Kind::File { writes }) => !writes,
            Some(Kind::Mcp { reads, .. }) => *reads,
            Some(Kind::Shell | Kind::Own { .. }) | None => false,
        }
    }

    async fn run(&self, call: Call) -> Done {
        let ran = match self.go(call.clone()).await {
            Ok(ran) => ran,
            Err(refused) => {
                let failed = Done::failed(&call.id, &refused.message);
                let is_output = call.name == "StructuredOutput";
                let reason = if is_output { self.no_output() } else { refused.message.clone() };
                return Done { ends: refused.ends.then_some(reason), ..failed };
            }
        };
        let (added, ends) = self.after(&call, &ran).await;
        let ends = ran.ends.or(ends);
        let content: Vec<Block> = ran.content.into_iter().chain(added).collect();
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).push(json!({
            "tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id, "tool_response": texts(&content),
        }));
        let outcome = Outcome { id: call.id, content, is_error: ran.is_error };
        Done { outcome, result: ran.result, ends }
    }

    async fn between(&self) -> Vec<Block> {
        let queued =
            std::mem::take(&mut *self.queued.lock().unwrap_or_else(PoisonError::into_inner));
        let mut news = self.tasks.take_news();
        if let Some(mode) = self.session.take_new_mode() {
            news.push(format!("The permission mode is `{mode}` now."));
        }
        let reminder = (!news.is_empty()).then(|| {
            Block::Text(format!(
                "<reminder>\nThis is not a word of the user.\n{}\n</reminder>",
                news.join("\n")
            ))
        });
        queued.into_iter().chain(reminder).collect()
    }

    async fn finished(&self, text: &str) -> Option<String> {
        let wants_output = self.tools.iter().any(|tool| tool.name == "StructuredOutput");
        if wants_output && self.session.structured().is_none() {
            self.without_output.fetch_add(1, Ordering::Relaxed);
            return (self.tries() < OUTPUTS)
                .then(|| "Give the result with StructuredOutput.".to_owned());
        }
        let active = self.stop_active.fetch_add(1, Ordering::Relaxed) > 0;
        let more = json!({ "stop_hook_active": active, "last_assistant_message": text });
        let said = self.event("Stop", "", more).await;
        let goes_on = said.blocks.clone().filter(|_| said.ends.is_none());
        if goes_on.is_some() {
            self.queue_all(said.blocks_of_text());
        }
        goes_on
    }

    async fn batch(&self) -> Option<String> {
        let calls = std::mem::take(&mut *self.batch.lock().unwrap_or_else(PoisonError::into_inner));
        if calls.is_empty() {
            return None;
        }
        let said = self.event("PostToolBatch", "", json!({ "tool_calls": calls })).await;
        self.queue_all(said.blocks_of_text());
        said.stops().map(|reason| format!("a hook stopped the turn after these calls: {reason}"))
    }

    fn is_over(&self) -> bool {
        self.session.structured().is_some()
    }
}

/// Returns the text of blocks.
fn texts(blocks: &[Block]) -> String {
    let text =
        |block: &Block| if let Block::Text(text) = block { Some(text.clone()) } else { None };
    blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// The answer of a hook.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Output {
    /// Why it blocks.
    pub(crate) blocks: Option<String>,
    /// The turn ends.
    pub(crate) ends: bool,
    decision: Option<String>,
    pub(crate) reason: Option<String>,
    input: Option<Value>,
    pub(crate) context: Option<String>,
}

impl Output {
    /// Says whether the hook wants a person to decide.
    pub(crate) fn asks(&self) -> bool {
        self.decision.as_deref().is_some_and(|it| it == "ask" || it == "defer")
    }

    /// Reads the JSON of a hook. One that failed, or says what is not understood, blocks.
    pub(crate) fn of(output: Result<Value, String>) -> Output {
        let blocked = |reason: String| Output { blocks: Some(reason), ..Output::default() };
        let output = match output {
            Ok(Value::Null) => return Output::default(),
            Ok(Value::Object(output)) => Value::Object(output),
            Ok(_) => return blocked("the hook's answer is not an object".into()),
            Err(error) => return blocked(error),
        };
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let specific = output.get("hookSpecificOutput").cloned().unwrap_or_default();
        let decision = text(&specific, "permissionDecision");
        let reason =
            text(&specific, "permissionDecisionReason").or_else(|| text(&output, "reason"));
        let why = || reason.clone().unwrap_or_else(|| "no reason was given".into());
        let stops = output.get("continue").and_then(Value::as_bool) == Some(false);
        let blocks = match (stops, text(&output, "decision").as_deref(), decision.as_deref()) {
            (true, _, _) => Some(text(&output, "stopReason").unwrap_or_else(why)),
            (_, Some("block" | "deny"), _) | (_, _, Some("deny")) => Some(why()),
            (
                _,
                None | Some("approve" | "allow" | "ask"),
                None | Some("allow" | "ask" | "defer"),
            ) => None,
            (_, decision, other) => Some(format!(
                "the hook's decision is unknown: {}",
                other.or(decision).unwrap_or_default()
            )),
        };
        let older =
            text(&output, "decision").map(|it| if it == "approve" { "allow".into() } else { it });
        Output {
            blocks,
            ends: stops,
            decision: decision.or(older),
            reason,
            input: specific.get("updatedInput").filter(|it| it.is_object()).cloned(),
            context: text(&specific, "additionalContext"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_is_not_understood_blocks() {
        let of = |output: Value| Output::of(Ok(output));
        assert_eq!(of(json!({})), Output::default());
        assert_eq!(of(Value::Null), Output::default());
        let deny = json!({ "hookSpecificOutput": { "permissionDecision": "deny", "permissionDecisionReason": "no" } });
        assert_eq!(of(deny).blocks.as_deref(), Some("no"));
        assert_eq!(of(json!({ "decision": "block", "reason": "r" })).blocks.as_deref(), Some("r"));
        assert!(
            of(json!({ "hookSpecificOutput": { "permissionDecision": "perhaps" } }))
                .blocks
                .is_some()
        );
        assert!(of(json!("yes")).blocks.is_some());
        assert!(Output::of(Err("gone".into())).blocks.is_some());
        let stop = of(json!({ "continue": false, "stopReason": "enough" }));
        assert_eq!((stop.blocks.as_deref(), stop.ends), (Some("enough"), true));
        assert_eq!(of(json!({ "decision": "approve" })).decision.as_deref(), Some("allow"));
    }
}
