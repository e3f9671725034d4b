//! The boundary: each tool call goes validate → hooks of the host → decision → run → hooks after it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use stockade_model::{Block, Outcome, Tool as Shown};
use stockade_turn::{Call, Done, Hands};

use crate::catalogue::Kind;
use crate::door::Door;
use crate::output::{Output, framed};
use crate::schema::Valid;
use crate::stages::{Heard, Ran, Refused};
use crate::{decided, own, through};

/// Tries to give a structured output.
const OUTPUTS: u32 = 3;

impl Door {
    /// Returns how often the model could have given a structured output in this turn and did not.
    fn tries(&self) -> u32 {
        [&self.wrong_outputs, &self.without_output]
            .iter()
            .map(|it| it.load(Ordering::Relaxed))
            .sum()
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
