//! A running session: turns, one after the other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use stockade_door::Door;
use stockade_model::{Block, Event, Ledger, Message, Request, Role, Stop, Usage};
use stockade_sdk::{Ended, Frames, LEVEL, Partial, Result as Outcome, identity};
use stockade_turn::{End, Hands as _, Interrupt, Limits, Step, Turn};

use super::compact;
use super::context;
use super::display::Display;
use super::progress::Steps;
use super::rewind;
use super::room::Room;
use super::transcript::Transcript;
use crate::flags::Flags;
use crate::models::{self, Asks};
use crate::prompt::Prompt;

/// Most tokens of one answer, unless the model has less.
const OUTPUT: u64 = 32_000;

/// A running session.
pub(crate) struct Conversation {
    pub(super) flags: Flags,
    pub(super) asks: Asks,
    pub(super) prompt: Prompt,
    pub(crate) door: Arc<Door>,
    pub(super) messages: Vec<Message>,
    pub(super) ledger: Ledger,
    /// The part that is recorded.
    noted: Ledger,
    /// The part of which the gateway was told.
    pub(super) reported: Ledger,
    pub(super) steps: Steps,
    /// When the model answered last.
    pub(super) answered: Option<Instant>,
    pub(super) transcript: Transcript,
    pub(super) room: Room,
    pub(super) frames: Frames,
    /// Inputs with which files are read anew after a compaction, as far as the messages do not have them any more.
    pub(super) files: Vec<Value>,
    servers: Vec<String>,
    failed: Vec<String>,
    pub(super) started: Option<&'static str>,
    /// Files of instructions that were read, with their layers.
    pub(super) instructions: Vec<(String, String)>,
    /// Blocks that stand behind the first words of the user, by which a list of sessions knows it.
    pub(super) opening: Vec<Block>,
    /// Identity that a host gave the next message of the user.
    pub(crate) uuid: Option<String>,
    /// The next message is words alone, whatever it looks like.
    pub(crate) is_verbatim: bool,
    /// Servers that the host took away.
    pub(crate) removed: BTreeSet<String>,
    /// The effort of the options.
    effort: Option<String>,
    /// Plugins by name and directory.
    pub(super) plugins: Vec<(String, PathBuf)>,
}

impl Conversation {
    pub(super) fn new(
        (flags, asks, prompt): (Flags, Asks, Prompt),
        door: Door,
        (messages, transcript): (Vec<Message>, Transcript),
        (frames, servers, failed): (Frames, Vec<String>, Vec<String>),
        (source, instructions, compacts): (&'static str, Vec<(String, String)>, bool),
    ) -> Conversation {
        let started = Some(source);
        let (ledger, door) = (Ledger::default(), Arc::new(door));
        let effort = flags.effort.clone();
        Conversation {
            flags,
            asks,
            prompt,
            door,
            messages,
            ledger,
            noted: Ledger::default(),
            reported: Ledger::default(),
            steps: Steps::default(),
            answered: None,
            transcript,
            room: Room::new(compacts),
            frames,
            files: Vec::new(),
            servers,
            failed,
            started,
            instructions,
            opening: Vec::new(),
            uuid: None,
            is_verbatim: false,
            removed: BTreeSet::new(),
            effort,
            plugins: Vec::new(),
        }
    }

    /// The model that is asked.
    pub(crate) fn model(&self) -> &str {
        &self.asks.model
    }

    /// Changes the tokens for thinking from the next request on: none, with 0, or as many as the options say.
    pub(crate) fn think(&mut self, tokens: Option<u64>) {
        self.flags.thinking = (tokens == Some(0)).then(|| "disabled".to_owned());
        self.flags.max_thinking_tokens = tokens;
    }

    /// Changes how thinking comes back, from the next request on.
    pub(crate) fn show_thinking(&mut self, display: Option<String>) {
        self.flags.thinking_display = display;
    }

    /// Changes the effort from the next request on; none is that of the options.
    pub(crate) fn wish(&mut self, effort: Option<&str>) {
        self.flags.effort = effort.map(str::to_owned).or_else(|| self.effort.clone());
    }

    /// Returns the state of the servers, in the form of the protocol.
    pub(crate) fn servers(&self) -> Value {
        let there = self.servers.iter().filter(|name| !self.removed.contains(*name));
        let connected = there.map(|name| {
            let status = if self.door.is_off(name) { "disabled" } else { "connected" };
            json!({ "name": name, "status": status })
        });
        connected
            .chain(self.failed.iter().map(|name| json!({ "name": name, "status": "failed" })))
            .collect()
    }

    fn init(&self) -> Value {
        let tools: Vec<&str> = self.door.tools().iter().map(|tool| tool.name.as_str()).collect();
        let plugins = self.plugins.iter();
        let plugins: Vec<Value> =
            plugins.map(|(name, path)| json!({ "name": name, "path": path })).collect();
        self.frames.system("init", json!({
            "cwd": self.door.session().home(), "tools": tools, "mcp_servers": self.servers(), "model": self.asks.model,
            "permissionMode": self.door.session().mode(), "slash_commands": [], "apiKeySource": self.asks.key_source,
            "claude_code_version": LEVEL, "stockade_version": env!("CARGO_PKG_VERSION"), "output_style": "default",
            "agents": [], "skills": [], "plugins": plugins,
        }))
    }

    /// Runs a turn that a message begins; without one, what came up meanwhile does. Tells each frame, the result last.
    pub(crate) async fn turn(
        &mut self,
        message: Option<Vec<Block>>,
        interrupt: &Interrupt,
        emit: &mut (dyn FnMut(Value) + Send),
    ) -> Ended {
        let begun = Instant::now();
        self.door.begin_turn();
        emit(self.init());
        self.tell_turn().await;
        let mut blocks = message.unwrap_or_default();
        let is_command = !std::mem::take(&mut self.is_verbatim);
        if is_command && let Some(end) = self.commanded(&blocks, interrupt, emit).await {
            return self.told((&end, 0), (begun, Usage::default(), 0), emit).await;
        }
        let text = text_of(&blocks);
        self.open().await;
        self.tell_turn().await;
        if let Some(reason) = self.finish_pending(blocks.is_empty(), interrupt, emit).await {
            return self.told((&End::Ended(reason), 0), (begun, Usage::default(), 0), emit).await;
        }
        if !blocks.is_empty() {
            let said = self.door.event("UserPromptSubmit", "", json!({ "prompt": text })).await;
            if let Some(reason) = said.stops() {
                let end = End::Ended(format!("a hook blocked the prompt: {reason}"));
                return self.told((&end, 0), (begun, Usage::default(), 0), emit).await;
            }
            blocks.extend(said.blocks_of_text());
        }
        blocks.extend(std::mem::take(&mut self.opening));
        self.say(blocks, emit);
        self.transcript.changes(self.door.session());
        let (end, asked, usage, api) = self.work(interrupt, emit).await;
        self.note_usage();
        let wants = self.door.tools().iter().any(|tool| tool.name == "StructuredOutput");
        let is_finished = matches!(end, End::Finished { .. });
        let lacks = is_finished && wants && self.door.session().structured().is_none();
        let end = if lacks { End::Ended(self.door.no_output()) } else { end };
        if let End::Failed(_) = &end {
            let Ended { class, text, .. } = Ended::of(&end);
            let more = json!({ "error_details": text });
            // The turn is over, whatever a hook says.
            let _ = self.door.event("StopFailure", class, more).await;
        }
        self.told((&end, asked), (begun, usage, api), emit).await
    }

    /// Does what a message commands, such as `/compact`; none for a message that is no command.
    async fn commanded(
        &mut self,
        blocks: &[Block],
        interrupt: &Interrupt,
        emit: &mut (dyn FnMut(Value) + Send),
    ) -> Option<End> {
        let done = if let Some(command) = rewind::command(blocks) {
            self.rewound(command).await
        } else if context::is_command(blocks) {
            Ok(self.context())
        } else {
            let words = compact::command(blocks)?;
            let done = match self.messages.is_empty() {
                true => Err("there is nothing to sum up yet".to_owned()),
                false => self.compact(("manual", &words), interrupt, emit).await,
            };
            self.note_usage();
            done.map(|()| "The conversation is summed up.".to_owned())
        };
        Some(match done {
            Ok(text) => End::Finished { text, stop: Stop::EndTurn },
            Err(reason) => End::Ended(reason),
        })
    }

    /// Records the usage since the last record.
    fn note_usage(&mut self) {
        let used = self.ledger.since(&self.noted);
        self.noted = self.ledger.clone();
        self.answered =
            Some(Instant::now()).filter(|_| !used.aggregate().is_empty()).or(self.answered);
        self.transcript.used(&used);
    }

    /// Tells the hooks that the session ends.
    pub(crate) async fn end(&self) {
        self.tell_end().await;
        // The session is over, whatever a hook says.
        let _ = self.door.event("SessionEnd", "other", json!({})).await;
    }

    /// Puts words of hooks into the conversation.
    pub(super) fn add_silently(&mut self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.transcript.add(Role::User, &blocks, None);
            self.append(blocks);
        }
    }

    fn append(&mut self, blocks: Vec<Block>) {
        match self.messages.last_mut().filter(|last| last.role == Role::User) {
            Some(last) => last.blocks.extend(blocks),
            None => self.messages.push(Message { role: Role::User, blocks }),
        }
    }

    /// Puts blocks of the user into the conversation.
    fn say(&mut self, blocks: Vec<Block>, emit: &mut (dyn FnMut(Value) + Send)) {
        let uuid = self.uuid.take().unwrap_or_else(identity);
        if blocks.is_empty() {
            return;
        }
        self.transcript.add_as(uuid.clone(), (Role::User, &blocks), None);
        if self.flags.replay_user_messages {
            emit(self.frames.replayed(&uuid, &blocks));
        }
        self.append(blocks);
    }

    /// Returns the request of a turn, without messages and tools.
    fn request(&self) -> Request {
        let (_, limit) = models::windows(&self.asks.model);
        let max_output_tokens = limit.min(OUTPUT);
        let thinking_tokens =
            models::thinking(&self.flags).map(|it| it.min(max_output_tokens.saturating_sub(1_024)));
        Request {
            model: self.asks.model.clone(),
            system: self.prompt.system.clone(),
            tools: Vec::new(),
            messages: Vec::new(),
            max_output_tokens,
            thinking_tokens,
            thinking_display: self.flags.thinking_display.clone(),
        }
    }

    /// Runs the turn until it ends or pauses; `before` are its requests so far.
    pub(super) async fn go(
        &mut self,
        before: u64,
        interrupt: &Interrupt,
        emit: &mut (dyn FnMut(Value) + Send),
    ) -> (End, u64, Usage, u64) {
        let turn = Turn {
            client: &self.asks.client,
            request: self.request(),
            fallback: self.asks.fallback.clone(),
            limits: Limits {
                turns: self.flags.max_turns.map(|most| most.saturating_sub(before)),
                dollars: self.flags.max_budget_usd,
                context: self.room.limit(self.asks.window),
            },
            prices: models::prices,
        };
        let (frames, transcript) = (&self.frames, &mut self.transcript);
        let (door, room) = (Arc::clone(&self.door), &mut self.room);
        let partial = self.flags.include_partial_messages;
        let (mut raw, mut usage, mut api, mut asked) =
            (Partial::default(), Usage::default(), 0, Instant::now());
        let display = Display::begin(Arc::clone(&self.door));
        let mut report = |step: Step| match step {
            Step::Asked { .. } => asked = Instant::now(),
            Step::Arrived(event) => {
                frames.retry(&event).into_iter().for_each(&mut *emit);
                if partial {
                    raw.take(&event).into_iter().map(|it| frames.raw(it)).for_each(&mut *emit);
                    if matches!(event, Event::Ended(_)) {
                        raw.end().into_iter().map(|it| frames.raw(it)).for_each(&mut *emit);
                    }
                }
            }
            Step::Answered(answer) => {
                api += u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                usage = sum(usage, answer.usage);
                let Usage { input, cache_write, cache_read, output } = answer.usage;
                room.tokens = input + cache_write + cache_read + output;
                transcript.add(Role::Assistant, &answer.message.blocks, None);
                frames.answer(&answer).into_iter().for_each(&mut *emit);
                display.shows(&answer);
            }
            Step::Done(done) => {
                let outcome = [Block::Outcome(done.outcome.clone())];
                transcript.add(Role::User, &outcome, Some(&done.result));
                transcript.changes(door.session());
                emit(frames.done(&done));
            }
            Step::Added(blocks) => {
                transcript.add(Role::User, &blocks, None);
                emit(frames.added(&blocks));
            }
            Step::FellBack { from, to } => {
                emit(frames.system("model_fallback", json!({ "from": from, "to": to })));
            }
        };
        let state = (&mut self.ledger, interrupt);
        let (end, turns) =
            turn.run(&mut self.messages, self.door.as_ref(), state, &mut report).await;
        display.finish(interrupt).await;
        (end, turns, usage, api)
    }

    async fn told(
        &mut self,
        (end, turns): (&End, u64),
        (begun, usage, api): (Instant, Usage, u64),
        emit: &mut (dyn FnMut(Value) + Send),
    ) -> Ended {
        self.tell_turn_end(end).await;
        let ended = Ended::of(end);
        if !ended.class.is_empty() {
            emit(self.frames.no_answer(ended.text.as_deref().unwrap_or_default(), ended.class));
        }
        let denials = self.door.session().take_denials().into_iter();
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome = Outcome {
            end,
            took: (took, api),
            turns,
            ledger: &self.ledger,
            usage,
            denials: denials.map(|it| (it.tool, it.call_id, it.input)).collect(),
            structured: self.door.session().structured(),
            windows: models::windows,
        };
        emit(self.frames.plain(outcome.frame()));
        ended
    }
}

/// Returns the text of a message.
fn text_of(blocks: &[Block]) -> String {
    let text =
        |block: &Block| if let Block::Text(text) = block { Some(text.clone()) } else { None };
    blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

pub(super) fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input + other.input,
        cache_write: one.cache_write + other.cache_write,
        cache_read: one.cache_read + other.cache_read,
        output: one.output + other.output,
    }
}
