//! Room in the context window: when it is made, and what stays of the conversation.

use serde_json::{Value, json};
use stockade_model::{Block, Error, Message, Refusal, Request, Usage};
use stockade_turn::{End, Interrupt};

use super::compact::{self, FAILURES, FULL, SMALL};
use super::conversation::{Conversation, sum};
use crate::models;

/// Most tokens of a summary.
const SUMMARY: u64 = 8_000;
/// Part of the window, in percent, by which it may fill further after a summary that failed.
const FURTHER: u64 = 5;

/// How full the window is, and from where on room is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Tokens of the last request and its answer, as the provider counted them.
    pub(super) tokens: u64,
    /// Part of the window, in percent, from which room is made.
    from: u64,
    failures: u32,
    /// Room is made without being asked for.
    is_automatic: bool,
}

impl Room {
    pub(super) fn new(is_automatic: bool) -> Room {
        Room { tokens: 0, from: SMALL, failures: 0, is_automatic }
    }

    /// Returns the tokens from which a turn pauses.
    pub(super) fn limit(&self, window: u64) -> Option<u64> {
        self.is_automatic.then(|| window.saturating_mul(self.from) / 100)
    }

    fn percent(&self, window: u64) -> u64 {
        self.tokens.saturating_mul(100) / window.max(1)
    }
}

/// Takes a frame for the host.
type Emit<'a> = &'a mut (dyn FnMut(Value) + Send);

impl Conversation {
    /// Runs the turn to its end, and makes room where the window fills up meanwhile.
    pub(super) async fn work(
        &mut self,
        interrupt: &Interrupt,
        emit: Emit<'_>,
    ) -> (End, u64, Usage, u64) {
        let (mut asked, mut usage, mut api, mut retried) = (0, Usage::default(), 0, false);
        loop {
            let (end, turns, used, took) = self.go(asked, interrupt, emit).await;
            (asked, usage, api) = (asked + turns, sum(usage, used), api + took);
            match end {
                End::Full if interrupt.is_given() => {
                    return (End::Interrupted { in_tools: false }, asked, usage, api);
                }
                End::Full => self.make_room(interrupt, emit).await,
                End::Failed(Error::Refused { refusal: Refusal::TooLong, .. }) if !retried => {
                    retried = true;
                    if let Err(reason) = self.compact(("auto", ""), interrupt, emit).await {
                        self.inform(&reason, emit);
                        return (end, asked, usage, api);
                    }
                }
                End::Finished { .. }
                | End::Turns
                | End::Budget
                | End::Interrupted { .. }
                | End::Ended(_)
                | End::Failed(_)
                | End::Wrong(_) => return (end, asked, usage, api),
            }
        }
    }

    fn inform(&self, text: &str, emit: Emit<'_>) {
        emit(self.frames.system("informational", json!({ "content": text })));
    }

    async fn make_room(&mut self, interrupt: &Interrupt, emit: Emit<'_>) {
        if let Some(lines) = compact::small(&self.messages) {
            compact::take_out(&mut self.messages, &lines);
            self.transcript.taken_out(&lines);
            self.room.from = SMALL;
            return;
        }
        let percent = self.room.percent(self.asks.window);
        if percent < FULL {
            self.room.from = FULL;
            return;
        }
        if let Err(reason) = self.compact(("auto", ""), interrupt, emit).await {
            self.room.failures += 1;
            self.room.from = percent + FURTHER;
            self.room.is_automatic = self.room.failures < FAILURES;
            self.inform(&reason, emit);
        }
    }

    /// Puts a summary in the place of all messages. What fails leaves them as they are.
    pub(super) async fn compact(
        &mut self,
        (trigger, words): (&str, &str),
        interrupt: &Interrupt,
        emit: Emit<'_>,
    ) -> Result<(), String> {
        let wish = Some(words).filter(|words| !words.is_empty());
        let heard =
            self.door.event("PreCompact", trigger, json!({ "custom_instructions": wish })).await;
        if let Some(reason) = heard.stops() {
            return Err(format!("a hook keeps the conversation as it is: {reason}"));
        }
        emit(self.frames.system("status", json!({ "status": "compacting" })));
        let summary = self.summary(words, interrupt).await;
        emit(self.frames.system("status", json!({ "status": null })));
        let failed = |reason: String| format!("the conversation was not summed up: {reason}");
        let summary = summary.map_err(failed)?;
        let session = self.door.session();
        let lists = (session.todos(), session.task_list());
        let anew = self.read_anew(interrupt).await;
        let text = compact::message(&summary, &self.messages, (&lists.0, &lists.1), &anew.shown());
        self.transcript.summed_up(&text, &self.files);
        self.messages = vec![Message::user(text)];
        let before = self.room.tokens;
        self.room = Room { tokens: 0, from: SMALL, failures: 0, ..self.room };
        emit(self.frames.system("compact_boundary", compact::boundary(trigger, before)));
        if let Some(told) = anew.told() {
            self.inform(&told, emit);
        }
        // The compaction is done: the answer of a hook changes nothing about that.
        let _ =
            self.door.event("PostCompact", trigger, json!({ "compact_summary": summary })).await;
        let said =
            self.door.event("SessionStart", "compact", json!({ "model": self.asks.model })).await;
        self.add_silently(said.blocks_of_text());
        Ok(())
    }

    /// Has the model sum the conversation up.
    async fn summary(&mut self, words: &str, interrupt: &Interrupt) -> Result<String, String> {
        let (system, question) = compact::question(&self.messages, words, self.asks.window);
        let (_, limit) = models::windows(&self.asks.model);
        let request = Request {
            model: self.asks.model.clone(),
            system: vec![system],
            tools: Vec::new(),
            messages: vec![question],
            max_output_tokens: limit.min(SUMMARY),
            thinking_tokens: None,
            thinking_display: None,
        };
        let mut ignored = |_| {};
        let answer = tokio::select! {
            answer = self.asks.client.ask(&request, &mut ignored) => {
                answer.map_err(|error| error.to_string())?
            }
            () = interrupt.given() => return Err("it was interrupted".to_owned()),
        };
        self.ledger.add(&request.model, answer.usage, &models::prices(&request.model));
        let texts = answer.message.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
        });
        let summary = texts.collect::<Vec<_>>().join("\n");
        compact::check(&summary, &self.messages)?;
        Ok(summary)
    }
}
