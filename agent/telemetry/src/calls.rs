//! Spans of calls: `call` over `judge`, `ask` and `run`, put together from the records of one decision. A call of an agent that
//! tells of its turns is below the span of its turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::record::{Attributes, Include, Record};
use crate::sessions::{self, Known, Step};
use crate::span::{SAMPLED, Span, Trace, span};

/// Most calls that are known at once.
const MOST: usize = 4096;

/// A call that may have more records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) trace: Trace,
    /// The span of its turn or session.
    #[serde(default)]
    above: Option<String>,
    start: u64,
    runs: String,
    attributes: Attributes,
    error: Option<String>,
    /// Its span `call` is made.
    is_told: bool,
}

/// The calls that are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    pub(crate) open: BTreeMap<String, Open>,
    pub(crate) sessions: Known,
}

impl Calls {
    /// Takes a record in, and returns the spans that it completes, and what it says besides.
    pub(crate) fn take(&mut self, record: Record<'_>, include: &[Include]) -> (Vec<Span>, Step) {
        let mut spans = Vec::new();
        if record.kind() == "session" {
            let step = sessions::take(&mut self.sessions, record, include, &mut spans);
            spans.retain(|span| span.trace.flags & SAMPLED != 0);
            return (spans, step);
        }
        let time = record.time(&["time"]).unwrap_or_default();
        let id = match record.kind() {
            "decision" => {
                // A call that is judged anew goes on as another one.
                if let Some(before) = record.reference() {
                    self.finish(before, time, &mut spans);
                }
                self.decision(record, time, include, &mut spans);
                record.id()
            }
            _ => record.reference().unwrap_or_default(),
        };
        match record.kind() {
            "approval" => self.approval(record, time, include, &mut spans),
            "result" => self.result(record, time, include, &mut spans),
            _ => {}
        }
        let belongs = self.open.get(id).map(|open| (open.trace.clone(), span("call", id)));
        if record.kind() == "result" {
            self.open.remove(id);
        }
        spans.retain(|span| span.trace.flags & SAMPLED != 0);
        (spans, Step { belongs, ..Step::default() })
    }

    fn decision(
        &mut self,
        record: Record<'_>,
        time: u64,
        include: &[Include],
        spans: &mut Vec<Span>,
    ) {
        let judged = record.whole(&["verdict", "eval_us"]).unwrap_or_default();
        let start = time.saturating_sub(judged.saturating_mul(1000));
        let verdict = record.text(&["verdict", "decision"]).unwrap_or_default();
        let code = record.text(&["verdict", "code"]).unwrap_or_default();
        let trace = Trace::of(record);
        let open = Open {
            above: sessions::above(&self.sessions, record, &trace),
            trace,
            start,
            runs: record.text(&["runs"]).unwrap_or_default().to_owned(),
            attributes: record.attributes(include),
            error: (verdict == "deny").then(|| format!("denied: {code}")),
            is_told: false,
        };
        let judge = ["stockade.decision", "stockade.by", "stockade.code"];
        let attributes = open.attributes.iter().filter(|(name, _)| judge.contains(&name.as_str()));
        spans.push(Span {
            name: "judge",
            trace: open.trace.clone(),
            id: span("judge", record.id()),
            parent: Some(span("call", record.id())),
            is_remote: false,
            start,
            end: time,
            attributes: attributes.cloned().collect(),
            error: None,
        });
        self.open.insert(record.id().to_owned(), open);
        let goes_on = match verdict {
            "ask" => true,
            "allow" => record.text(&["runs"]) == Some("gateway"),
            _ => false,
        };
        if !goes_on {
            self.finish(record.id(), time, spans);
        }
        while self.open.len() > MOST {
            let Some(oldest) = self.open.keys().next().cloned() else { break };
            if let Some(open) = self.open.get_mut(&oldest) {
                open.attributes.push(("stockade.unfinished".to_owned(), json!(true)));
            }
            self.finish(&oldest, time, spans);
            self.open.remove(&oldest);
        }
    }

    fn approval(
        &mut self,
        record: Record<'_>,
        time: u64,
        include: &[Include],
        spans: &mut Vec<Span>,
    ) {
        let Some((id, open)) = self.of(record) else { return };
        let waited = record.whole(&["waited_ms"]).unwrap_or_default();
        let answer = record.text(&["answer"]).unwrap_or_default();
        let is_over = answer != "allow" || open.runs != "gateway";
        if !open.is_told {
            open.attributes.push(("stockade.answer".to_owned(), json!(answer)));
        }
        if answer == "deny" {
            open.error = Some("denied: person".to_owned());
        }
        spans.push(Span {
            name: "ask",
            trace: open.trace.clone(),
            id: span("ask", record.id()),
            parent: Some(span("call", &id)),
            is_remote: false,
            start: time.saturating_sub(waited.saturating_mul(1_000_000)),
            end: time,
            attributes: record.attributes(include),
            error: None,
        });
        if is_over {
            self.finish(&id, time, spans);
        }
    }

    fn result(
        &mut self,
        record: Record<'_>,
        time: u64,
        include: &[Include],
        spans: &mut Vec<Span>,
    ) {
        let Some((id, open)) = self.of(record) else { return };
        let error = match record.outcome() {
            "success" | "not_run" | "unknown" => None,
            outcome => Some(outcome.to_owned()),
        };
        if let (Some(start), Some(end)) = (record.time(&["started"]), record.time(&["ended"])) {
            spans.push(Span {
                name: "run",
                trace: open.trace.clone(),
                id: span("run", record.id()),
                parent: Some(span("call", &id)),
                is_remote: false,
                start,
                end,
                attributes: record.attributes(include),
                error: error.clone(),
            });
        }
        if open.error.is_none() {
            open.error = error;
        }
        self.finish(&id, time, spans);
    }

    fn of(&mut self, record: Record<'_>) -> Option<(String, &mut Open)> {
        let id = record.reference()?;
        Some((id.to_owned(), self.open.get_mut(id)?))
    }

    /// Makes the span of a call that is over.
    fn finish(&mut self, id: &str, end: u64, spans: &mut Vec<Span>) {
        let Some(open) = self.open.get_mut(id).filter(|open| !open.is_told) else { return };
        open.is_told = true;
        spans.push(Span {
            name: "call",
            trace: open.trace.clone(),
            id: span("call", id),
            parent: open.above.clone().or_else(|| open.trace.parent.clone()),
            is_remote: open.above.is_none() && open.trace.parent.is_some(),
            start: open.start,
            end: end.max(open.start),
            attributes: std::mem::take(&mut open.attributes),
            error: open.error.take(),
        });
    }
}
