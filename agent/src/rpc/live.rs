//! One session that is open: its program, its last events, and its questions.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::hosted::Hosted;

/// Most bytes of events that are kept for those who come back: less than may wait for a client.
const KEPT: usize = 6 << 20;
/// Bytes that a notification has around its event.
const AROUND: usize = 256;

/// Events with their numbers.
#[derive(Debug, Default)]
struct Events {
    last: u64,
    kept: VecDeque<(u64, usize, Value)>,
    bytes: usize,
}

/// A session.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: String,
    pub(super) cwd: String,
    pub(super) hosted: Arc<Hosted>,
    events: Mutex<Events>,
    /// Open questions: the request of the session, by its identity.
    questions: Mutex<HashMap<String, Value>>,
    usage: Mutex<Value>,
    used: Mutex<Instant>,
    is_busy: Mutex<bool>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(super) fn new(id: &str, cwd: &str, hosted: Arc<Hosted>) -> Live {
        Live {
            id: id.to_owned(),
            cwd: cwd.to_owned(),
            hosted,
            events: Mutex::default(),
            questions: Mutex::default(),
            usage: Mutex::default(),
            used: Mutex::new(Instant::now()),
            // Until it has begun.
            is_busy: Mutex::new(true),
        }
    }

    /// Numbers an event, keeps it, and returns its notification.
    pub(super) fn event(&self, event: Value) -> Value {
        *locked(&self.used) = Instant::now();
        if event.get("type").and_then(Value::as_str) == Some("result") {
            *locked(&self.is_busy) = false;
            let field = |key: &str| event.get(key).cloned().unwrap_or_default();
            *locked(&self.usage) = json!({
                "usage": { "tokens": field("usage"), "cost_usd": field("root_cost_usd") },
                "aggregateUsage": { "models": field("modelUsage"), "cost_usd": field("total_cost_usd") },
            });
        }
        let mut events = locked(&self.events);
        events.last += 1;
        let number = events.last;
        let length = event.to_string().len() + AROUND;
        events.bytes += length;
        events.kept.push_back((number, length, event.clone()));
        while events.bytes > KEPT && events.kept.len() > 1 {
            let first = events.kept.pop_front().map_or(0, |first| first.1);
            events.bytes -= first;
        }
        self.told(number, &event)
    }

    fn told(&self, number: u64, event: &Value) -> Value {
        let params = json!({ "session": self.id, "seq": number, "event": event });
        json!({ "method": "session.event", "params": params })
    }

    /// Returns the notifications of the events behind a number, and whether some of them are not kept any more.
    pub(super) fn since(&self, after: u64) -> (Vec<Value>, bool) {
        let events = locked(&self.events);
        let first = events.kept.front().map_or(events.last + 1, |first| first.0);
        let behind = events.kept.iter().filter(|(number, _, _)| *number > after);
        let told = behind.map(|(number, _, event)| self.told(*number, event)).collect();
        (told, after + 1 < first)
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        locked(&self.events).last
    }

    /// Takes up a question, and returns the notification about it.
    pub(super) fn question(&self, id: &str, request: &Value) -> Value {
        locked(&self.questions).insert(id.to_owned(), request.clone());
        let params = json!({ "session": self.id, "question": id, "request": request });
        json!({ "method": "session.question", "params": params })
    }

    /// Returns the notifications about the questions that are open.
    pub(super) fn open_questions(&self) -> Vec<Value> {
        let questions = locked(&self.questions).clone().into_iter();
        questions.map(|(id, request)| self.question(&id, &request)).collect()
    }

    /// Takes a question away: the first answer counts. Returns what was asked.
    pub(super) fn answered(&self, id: &str) -> Option<Value> {
        locked(&self.questions).remove(id)
    }

    /// Says that a turn begins.
    pub(super) fn begin(&self) {
        *locked(&self.is_busy) = true;
        *locked(&self.used) = Instant::now();
    }

    /// Says that it waits for a message.
    pub(super) fn rest(&self) {
        *locked(&self.is_busy) = false;
        *locked(&self.used) = Instant::now();
    }

    /// Says whether a turn runs.
    pub(super) fn is_busy(&self) -> bool {
        *locked(&self.is_busy)
    }

    /// When something happened last.
    pub(super) fn used(&self) -> Instant {
        *locked(&self.used)
    }

    /// Tokens and cost of the session.
    pub(super) fn usage(&self) -> Value {
        locked(&self.usage).clone()
    }
}
