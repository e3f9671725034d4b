//! Spans of sessions and turns, by the word of their agents: a session over its turns, a turn over its calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::record::{Attributes, Include, Record};
use crate::span::{Span, Trace, span};

/// Most sessions that are known at once; the one that was not heard of for longest makes room.
const MOST: usize = 1024;
/// The source of a completion: the agent said so, or its session ended.
const AGENT: &str = "agent";
const END: &str = "end";
/// Millionths of a US dollar.
const MICRO: f64 = 1e6;

/// The sessions that are known, by user and identity.
pub(crate) type Known = BTreeMap<String, Session>;

/// A session. One that is over is known on, so that its completion is told once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    trace: Trace,
    /// Number of its last record.
    seq: u64,
    /// The session, from its beginning to its end.
    whole: Option<Begun>,
    turn: Option<Begun>,
    is_completed: bool,
}

/// A span that is not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Begun {
    id: String,
    start: u64,
    attributes: Attributes,
}

/// Changes that a record about a session brings besides spans.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Step {
    /// Trace and span to which the record belongs.
    pub(crate) belongs: Option<(Trace, String)>,
    /// The task of the session is completed: the source of that.
    pub(crate) completed: Option<&'static str>,
    /// Seconds of a turn that is over.
    pub(crate) turn: Option<f64>,
}

impl Session {
    fn new(trace: Trace) -> Session {
        Session { trace, seq: 0, whole: None, turn: None, is_completed: false }
    }

    /// Returns the span that is open: the turn, else the session.
    fn open(&self) -> Option<&Begun> {
        self.turn.as_ref().or(self.whole.as_ref())
    }

    /// Ends the turn; an end that nobody told of is marked.
    fn end_turn(
        &mut self,
        end: u64,
        told: Option<Record<'_>>,
        spans: &mut Vec<Span>,
    ) -> Option<f64> {
        let mut turn = self.turn.take()?;
        let mut error = None;
        match told {
            Some(record) => {
                turn.attributes.extend(used(record));
                let outcome = record.text(&["outcome"]).unwrap_or_default();
                let failed = ["failed", "wrong_calls"].contains(&outcome);
                error = failed.then(|| outcome.to_owned());
            }
            None => turn.attributes.push(unfinished()),
        }
        let parent = self.whole.as_ref().map(|whole| whole.id.clone());
        let seconds = Some(end.saturating_sub(turn.start) as f64 / 1e9).filter(|_| told.is_some());
        spans.push(turn.span("turn", (&self.trace, parent), end, error));
        seconds
    }

    /// Ends the session with its turn.
    fn end(&mut self, end: u64, is_told: bool, spans: &mut Vec<Span>) -> bool {
        self.end_turn(end, None, spans);
        let Some(mut whole) = self.whole.take() else { return false };
        if !is_told {
            whole.attributes.push(unfinished());
        }
        spans.push(whole.span("session", (&self.trace, None), end, None));
        true
    }
}

impl Begun {
    fn of(name: &str, record: Record<'_>, start: u64, include: &[Include]) -> Begun {
        Begun { id: span(name, record.id()), start, attributes: record.attributes(include) }
    }

    /// Makes the span. Without a parent of its own it goes on from the span of the caller.
    fn span(
        self,
        name: &'static str,
        (trace, parent): (&Trace, Option<String>),
        end: u64,
        error: Option<String>,
    ) -> Span {
        let Begun { id, start, attributes } = self;
        let is_remote = parent.is_none() && trace.parent.is_some();
        let (trace, parent) = (trace.clone(), parent.or_else(|| trace.parent.clone()));
        Span { name, trace, id, parent, is_remote, start, end: end.max(start), attributes, error }
    }
}

fn unfinished() -> (String, Value) {
    ("stockade.unfinished".to_owned(), json!(true))
}

/// Returns how a turn ended and what it used, all models together.
fn used(record: Record<'_>) -> Attributes {
    let models = record.list(&["usage"]);
    let sum = |name: &str| -> u64 {
        models.iter().filter_map(|it| Record(it).whole(&[name])).fold(0, u64::saturating_add)
    };
    let mut all = record.attributes(&[]);
    all.retain(|(name, _)| name == "stockade.turn.outcome");
    for name in ["input", "cache_write", "cache_read", "output"] {
        all.push((format!("stockade.tokens.{name}"), json!(sum(name))));
    }
    all.push(("stockade.cost".to_owned(), json!(sum("micro_dollars") as f64 / MICRO)));
    all
}

/// Returns the name by which a session is known: of its user and of nobody else.
fn name(record: Record<'_>) -> Option<String> {
    let session = record.text(&["agent", "session"])?;
    Some(format!("{}/{session}", record.whole(&["caller", "uid"])?))
}

/// Returns the span of a session under which a call is, if it is of the same trace.
pub(crate) fn above(known: &Known, record: Record<'_>, trace: &Trace) -> Option<String> {
    let session = known.get(&name(record)?).filter(|it| it.trace.id == trace.id)?;
    session.open().map(|open| open.id.clone())
}

/// Takes in a record about a session.
pub(crate) fn take(
    known: &mut Known,
    record: Record<'_>,
    include: &[Include],
    spans: &mut Vec<Span>,
) -> Step {
    let Some(name) = name(record) else { return Step::default() };
    let time = record.time(&["time"]).unwrap_or_default();
    let trace = Trace::of(record);
    let session = known.entry(name).or_insert_with(|| Session::new(trace.clone()));
    session.seq = record.seq();
    let mut step = Step::default();
    match record.text(&["action"]).unwrap_or_default() {
        "start" => {
            // An agent that was killed told of no end.
            session.end(time, false, spans);
            session.trace = trace;
            session.whole = Some(Begun::of("session", record, time, include));
        }
        "turn" => {
            session.end_turn(time, None, spans);
            session.turn = Some(Begun::of("turn", record, time, include));
        }
        _ => {}
    }
    step.belongs = session.open().map(|open| (session.trace.clone(), open.id.clone()));
    match record.text(&["action"]).unwrap_or_default() {
        "turn_end" => step.turn = session.end_turn(time, Some(record), spans),
        "completed" if !session.is_completed => step.completed = Some(AGENT),
        // Of a session whose beginning was not seen it is not known whether it was told before.
        "end" if session.end(time, true, spans) && !session.is_completed => {
            step.completed = Some(END);
        }
        _ => {}
    }
    session.is_completed |= step.completed.is_some();
    while known.len() > MOST {
        let oldest = known.iter().min_by_key(|(_, it)| it.seq).map(|(name, _)| name.clone());
        let Some(mut session) = oldest.and_then(|name| known.remove(&name)) else { break };
        session.end(time, false, spans);
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, session: &str, action: &str) -> Value {
        json!({ "kind": "session", "seq": seq, "id": format!("r{seq}"), "chain": "c",
            "time": format!("2026-01-01T00:00:{:02}Z", seq % 60), "action": action,
            "agent": { "session": session }, "caller": { "uid": 7 } })
    }

    /// Names of spans, whether each is unfinished, and the sources of completions.
    fn told(
        known: &mut Known,
        records: &[Value],
    ) -> (Vec<(&'static str, bool)>, Vec<&'static str>) {
        let (mut spans, mut completed) = (Vec::new(), Vec::new());
        for record in records {
            completed.extend(take(known, Record(record), &[], &mut spans).completed);
        }
        let is_open = |span: &Span| span.attributes.contains(&unfinished());
        (spans.iter().map(|it| (it.name, is_open(it))).collect(), completed)
    }

    fn steps(actions: &[&str], from: u64) -> Vec<Value> {
        (from..).zip(actions).map(|(seq, action)| record(seq, "s", action)).collect()
    }

    #[test]
    fn completion_is_told_once_by_the_agent_or_at_the_end() {
        let mut known = Known::new();
        let said = steps(&["start", "turn", "completed", "turn_end", "completed", "end"], 1);
        let spans = vec![("turn", false), ("session", false)];
        assert_eq!(told(&mut known, &said), (spans.clone(), vec!["agent"]));
        // The session goes on, and was completed before.
        let again = steps(&["start", "turn", "turn_end", "end"], 10);
        assert_eq!(told(&mut known, &again), (spans.clone(), vec![]));
        assert_eq!(told(&mut Known::new(), &again), (spans, vec!["end"]));
        // Its beginning was not seen.
        let rest = steps(&["turn_end", "end"], 20);
        assert_eq!(told(&mut Known::new(), &rest), (vec![], vec![]));
    }

    #[test]
    fn what_nobody_ended_is_ended_by_what_follows_and_marked() {
        let killed = steps(&["start", "turn", "start", "turn", "turn", "end"], 1);
        let spans = vec![
            ("turn", true),
            ("session", true),
            ("turn", true),
            ("turn", true),
            ("session", false),
        ];
        assert_eq!(told(&mut Known::new(), &killed), (spans, vec!["end"]));
    }

    #[test]
    fn sessions_that_are_too_many_make_room_with_their_spans() {
        let mut known = Known::new();
        let most = u64::try_from(MOST).expect("a number");
        let all: Vec<Value> =
            (0..=most).map(|seq| record(seq, &format!("s{seq}"), "start")).collect();
        assert_eq!(told(&mut known, &all), (vec![("session", true)], vec![]));
        assert!(!known.contains_key("7/s0") && known.contains_key("7/s1"));
    }
}
