//! Hooks before a session begins, and around a change of its model.

use std::time::Duration;

use serde_json::{Value, json};
use stockade_model::{Block, Role, Usage};
use stockade_turn::{Done, Finished, Interrupt, finish};

use super::Conversation;
use crate::models;

/// How long a provider keeps what it cached.
const CACHED: Duration = Duration::from_secs(300);

impl Conversation {
    /// Tells the hooks what is prepared, that the session begins, and which instructions were read for it. A hook that fails or
    /// blocks keeps no session from beginning.
    pub(crate) async fn open(&mut self) {
        let Some(source) = self.started.take() else { return };
        self.opening
            .extend(self.prompt.first.take().filter(|_| self.messages.is_empty()).map(Block::Text));
        if let Some(trigger) = self.flags.trigger() {
            let said = self.door.event("Setup", trigger, json!({})).await;
            self.opening.extend(said.blocks_of_text());
        }
        let said =
            self.door.event("SessionStart", source, json!({ "model": self.asks.model })).await;
        self.opening.extend(said.blocks_of_text());
        self.tell_start(source).await;
        for (file, layer) in std::mem::take(&mut self.instructions) {
            let more = json!({ "file_path": file, "memory_type": layer });
            let _ = self.door.event("InstructionsLoaded", "session_start", more).await;
        }
    }

    /// Does the calls that had no result when the session broke off, where the options want that: once, and each through the
    /// door like a new one. Returns why the turn ends without asking the model; `is_alone` says that the person said nothing.
    pub(super) async fn finish_pending(
        &mut self,
        is_alone: bool,
        interrupt: &Interrupt,
        emit: &mut (dyn FnMut(Value) + Send),
    ) -> Option<String> {
        if !std::mem::take(&mut self.flags.continue_pending) {
            return None;
        }
        let (frames, transcript, door) = (&self.frames, &mut self.transcript, &self.door);
        let mut report = |done: &Done| {
            let outcome = [Block::Outcome(done.outcome.clone())];
            transcript.add(Role::User, &outcome, Some(&done.result));
            transcript.changes(door.session());
            emit(frames.done(done));
        };
        let Finished { names, ends } =
            finish(&mut self.messages, self.door.as_ref(), interrupt, &mut report).await;
        if names.is_empty() {
            let reason = "the session has no call that was left unfinished; give a prompt";
            return is_alone.then(|| reason.to_owned());
        }
        self.door.queue(&format!(
            "<reminder>\nThis is not a word of the user.\nThe session broke off before these calls were finished, and they were done now: {}. They may have run in part before.\n</reminder>",
            names.join(", ")
        ));
        ends
    }

    /// Asks another model from the next request on, unless a hook keeps the present one.
    pub(crate) async fn switch_model(&mut self, requested: &str) -> Result<(), String> {
        let (from, to) = (self.asks.model.clone(), models::whole(requested));
        if from == to {
            return Ok(());
        }
        let more = self.switch((&from, &to), requested);
        let said = self.door.event("PreModelSwitch", "", more.clone()).await;
        if let Some(reason) = said.stops() {
            return Err(format!("a hook keeps the model {from}: {reason}"));
        }
        self.asks.model = to;
        let said = self.door.event("PostModelSwitch", "", more).await;
        self.opening.extend(said.blocks_of_text());
        Ok(())
    }

    /// Returns the frame of a change of the model.
    fn switch(&self, (from, to): (&str, &str), requested: &str) -> Value {
        let tokens = self.room.tokens;
        let prices = models::prices(to);
        let is_warm = tokens > 0 && self.answered.is_some_and(|at| at.elapsed() < CACHED);
        json!({
            "from_model": from, "to_model": to,
            "requested_model": (requested != "default").then_some(requested),
            "source": "sdk", "context_tokens": tokens, "prompt_cache_warm": is_warm, "cache_ttl": "5m",
            "estimated_cache_write_usd": prices.of(Usage { cache_write: tokens, ..Usage::default() }),
            "pricing": if prices.output > 0.0 { "catalog" } else { "default" },
        })
    }
}
