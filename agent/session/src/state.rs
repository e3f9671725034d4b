//! The state of a session: a fold over its events.

use serde_json::{Map, Value};

use crate::change::Change;
use crate::event::{Event, Kind};

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Identity.
    pub uuid: String,
    /// The model said it.
    pub by_model: bool,
    /// Blocks or text, in the form of the Messages API.
    pub content: Value,
}

/// A message of the user, as a place to which a session can be rewound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Identity of the message.
    pub uuid: String,
    /// Its first words.
    pub words: String,
    /// How many changes of files there were before it.
    pub changes: usize,
}

/// The state of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Identity of the session.
    pub session: String,
    /// Directory in which it began.
    pub cwd: String,
    /// Name, if a person gave one.
    pub name: Option<String>,
    /// Messages in order.
    pub messages: Vec<Said>,
    /// Permission mode.
    pub mode: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// The list of things to do, as TodoWrite has it.
    pub todos: Value,
    /// The list of things to do, as the Task list tools have it.
    pub list: Value,
    /// Changes of files by file tools, in order, without those that were taken back.
    pub changes: Vec<Change>,
    /// Words of the user: the identity of each message, its beginning, and how many changes there were before.
    pub marks: Vec<Mark>,
    /// Bytes of the list of changes that the events tell of.
    pub seen: u64,
    /// Inputs of Read for the files that were in use at the last compaction, the last one first.
    pub files: Vec<Value>,
    /// Cost in US dollars.
    pub dollars: f64,
    /// Identity of the session from which this one is a copy.
    pub forked_from: Option<String>,
    /// Identity of the last event.
    pub last: Option<String>,
    /// When the first event was, and the last.
    pub times: Option<(String, String)>,
    /// How many events there are.
    pub events: u64,
}

impl State {
    /// Takes one more event. Pure: nothing is read but the event.
    pub fn apply(&mut self, event: &Event) {
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).map(str::to_owned);
        match &event.kind {
            Kind::Start => {
                self.session = text("session").unwrap_or_default();
                self.cwd = text("cwd").unwrap_or_default();
            }
            Kind::User | Kind::Assistant | Kind::Compaction => {
                if event.kind == Kind::Compaction {
                    self.messages.clear();
                    let files = event.data.get("files").and_then(Value::as_array);
                    self.files = files.cloned().unwrap_or_default();
                }
                let said = Said {
                    uuid: text("uuid").unwrap_or_else(|| event.id.clone()),
                    by_model: event.kind == Kind::Assistant,
                    content: event.data.get("content").cloned().unwrap_or_default(),
                };
                if event.kind == Kind::User && !is_result(&said.content) {
                    let (uuid, words) = (said.uuid.clone(), words(&said.content));
                    self.marks.push(Mark { uuid, words, changes: self.changes.len() });
                }
                self.messages.push(said);
            }
            Kind::TakenOut => {
                if let Some(lines) = event.data.get("results").and_then(Value::as_object) {
                    self.take_out(lines);
                }
            }
            Kind::Mode => self.mode = text("mode"),
            Kind::Model => self.model = text("model"),
            Kind::Todos => {
                for (kept, key) in [(&mut self.todos, "todos"), (&mut self.list, "list")] {
                    if let Some(value) = event.data.get(key) {
                        kept.clone_from(value);
                    }
                }
            }
            Kind::Usage => {
                let dollars = event.data.get("dollars").and_then(Value::as_f64);
                self.dollars += dollars.filter(|it| it.is_finite() && *it > 0.0).unwrap_or(0.0);
            }
            Kind::Name => self.name = text("name").filter(|name| !name.is_empty()),
            Kind::Fork => self.forked_from = text("from").or(self.forked_from.take()),
            Kind::Changed => {
                self.changes.extend(Change::of(&event.data));
                let seen = event.data.get("seen").and_then(Value::as_u64);
                self.seen = self.seen.max(seen.unwrap_or_default());
            }
            Kind::Rewind => self.rewind(&event.data),
            // Of a later version: its meaning is not known here.
            Kind::HandOff | Kind::Other(_) => {}
        }
        self.events += 1;
        self.last = Some(event.id.clone());
        let begun = self.times.take().map_or_else(|| event.at.clone(), |times| times.0);
        self.times = Some((begun, event.at.clone()));
    }

    /// Puts lines in the place of results of calls, in one pass.
    fn take_out(&mut self, lines: &Map<String, Value>) {
        let blocks = self.messages.iter_mut().filter_map(|said| said.content.as_array_mut());
        for block in blocks.flatten() {
            let id = block.get("tool_use_id").and_then(Value::as_str);
            if let Some(line) = id.and_then(|id| lines.get(id))
                && let Some(content) = block.get_mut("content")
            {
                content.clone_from(line);
            }
        }
    }

    /// Forgets the messages behind one, or from one on, and changes of files. One that is not there changes nothing.
    fn rewind(&mut self, data: &Value) {
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let flag = |key: &str| data.get(key).and_then(Value::as_bool);
        let (uuid, kept) = match text("before") {
            Some(uuid) => (uuid, 0),
            None => (text("uuid").unwrap_or_default(), 1),
        };
        let mark = self.marks.iter().position(|mark| mark.uuid == uuid);
        if let Some(mark) = mark.filter(|_| flag("files") == Some(true)) {
            let changes = self.marks.get(mark).map_or(0, |mark| mark.changes);
            self.changes.truncate(changes);
            self.marks.iter_mut().for_each(|mark| mark.changes = mark.changes.min(changes));
        }
        if flag("conversation") == Some(false) {
            return;
        }
        if let Some(place) = self.messages.iter().position(|said| said.uuid == uuid) {
            self.messages.truncate(place + kept);
            self.marks.truncate(mark.map_or(usize::MAX, |mark| mark + kept));
        }
    }

    /// Folds events into a state.
    #[must_use]
    pub fn of(events: &[Event]) -> State {
        let mut state = State::default();
        events.iter().for_each(|event| state.apply(event));
        state
    }

    /// Returns the first words of the user, in one line.
    #[must_use]
    pub fn first_words(&self) -> String {
        let Some(said) = self.messages.iter().find(|said| !said.by_model) else {
            return String::new();
        };
        words(&said.content)
    }
}

/// Says whether a message in the role of the user is the result of a call.
fn is_result(content: &Value) -> bool {
    let blocks = content.as_array().into_iter().flatten();
    blocks.clone().next().is_some()
        && blocks.clone().all(|block| block.get("tool_use_id").is_some())
}

/// Returns the first words of a message, in one line.
fn words(content: &Value) -> String {
    let text = match content {
        Value::String(text) => text.clone(),
        content => {
            let blocks = content.as_array().into_iter().flatten();
            let texts = blocks.filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join(" ")
        }
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|it| !it.is_control()).take(80).collect()
}
