//! Counters and distributions, cumulative since this process began.

use std::collections::BTreeMap;

use crate::record::Record;

/// Most series of one metric; what is beyond them is counted in one that says so.
const MOST: usize = 200;
/// Bounds of the buckets of times, in seconds.
pub(crate) const BOUNDS: [f64; 16] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
    7200.0,
];

/// Subject of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) text: &'static str,
    /// So many of what is counted are one of the unit.
    pub(crate) parts: u32,
}

const DECISIONS: About = about("stockade.decisions", "{call}", "Decisions about calls");
const JUDGED: About = about("stockade.decision.duration", "s", "Time to decide about a call");
const ANSWERS: About = about("stockade.answers", "{answer}", "Answers to questions");
const ANSWERED: About = about("stockade.answer.duration", "s", "Time until a question is answered");
const RUNS: About = about("stockade.runs", "{command}", "Commands that ended, or never started");
const RAN: About = about("stockade.run.duration", "s", "Time that a command runs");
const OUTPUT: About = about("stockade.run.output", "By", "Output of commands");
const REFUSALS: About =
    about("stockade.sandbox.refusals", "{refusal}", "Acts that the sandbox refused");
const CONNECTIONS: About = about("stockade.connections", "{connection}", "Connections of commands");
const TASKS: About =
    about("stockade.tasks", "{task}", "Commands that were asked to run in the background");
const SESSIONS: About = about("stockade.sessions", "{session}", "Sessions that agents began");
const TURNS: About = about("stockade.turns", "{turn}", "Turns of agents that ended");
const TURN: About = about("stockade.turn.duration", "s", "Time of a turn");
const TOKENS: About = about("stockade.tokens", "{token}", "Tokens of models, as agents say");
const COST: About = About {
    parts: 1_000_000,
    ..about("stockade.cost", "{USD}", "US dollars for models, as agents say")
};
const COMPLETED: About =
    about("stockade.task.completed", "{task}", "Sessions whose task is completed");
const GAPS: About = about("stockade.log.gaps", "{gap}", "Gaps that the log names");
const LOST: About =
    about("stockade.telemetry.lost", "{record}", "Records that were not sent as telemetry");

const fn about(name: &'static str, unit: &'static str, text: &'static str) -> About {
    About { name, unit, text, parts: 1 }
}

/// The attributes of a series.
pub(crate) type Series = Vec<(&'static str, String)>;

/// How often values were in each bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Distribution {
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    pub(crate) sum: f64,
}

/// All that is counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metrics {
    pub(crate) sums: BTreeMap<About, BTreeMap<Series, u64>>,
    pub(crate) distributions: BTreeMap<About, BTreeMap<Series, Distribution>>,
}

impl Metrics {
    /// Counts a record.
    pub(crate) fn take(&mut self, record: Record<'_>) {
        let word =
            |keys: &[&str]| record.text(keys).unwrap_or_default().chars().take(128).collect();
        let seconds = |keys: &[&str], of: f64| record.whole(keys).map(|it| it as f64 / of);
        match record.kind() {
            "decision" => {
                let decision = ("stockade.decision", word(&["verdict", "decision"]));
                let by = ("stockade.by", word(&["verdict", "by"]));
                let tool = ("stockade.tool", word(&["request", "tool"]));
                let door = ("stockade.door", word(&["agent", "door"]));
                self.add(DECISIONS, vec![decision.clone(), by, tool, door], 1);
                if record.is(&["request", "background"]) {
                    self.add(TASKS, vec![decision.clone()], 1);
                }
                self.measure(JUDGED, vec![decision], seconds(&["verdict", "eval_us"], 1e6));
            }
            "approval" => {
                let answer = ("stockade.answer", word(&["answer"]));
                let channel = ("stockade.channel", word(&["channel"]));
                self.add(ANSWERS, vec![answer.clone(), channel], 1);
                self.measure(ANSWERED, vec![answer], seconds(&["waited_ms"], 1e3));
            }
            "connection" => {
                let action = ("stockade.connection.action", word(&["action"]));
                let count = record.whole(&["count"]).unwrap_or(1);
                self.add(CONNECTIONS, vec![action], count);
            }
            "result" => {
                let outcome = ("stockade.outcome", record.outcome().to_owned());
                self.add(RUNS, vec![outcome.clone()], 1);
                self.measure(RAN, vec![outcome], seconds(&["duration_us"], 1e6));
                for name in ["stdout", "stderr"] {
                    let stream = ("stockade.stream", name.to_owned());
                    self.add(OUTPUT, vec![stream], record.bytes_of(name));
                }
                for denial in record.list(&["touched", "denials"]).iter().map(Record) {
                    let blocker = denial.text(&["blocker"]).unwrap_or_default();
                    let blocker = blocker.chars().take(128).collect();
                    self.add(REFUSALS, vec![("stockade.blocker", blocker)], 1);
                }
            }
            "session" => self.session(record),
            "gap" => self.add(GAPS, vec![("stockade.gap.reason", word(&["reason"]))], 1),
            _ => {}
        }
    }

    fn session(&mut self, record: Record<'_>) {
        let word = |record: Record<'_>, key: &str| {
            record.text(&[key]).unwrap_or_default().chars().take(128).collect::<String>()
        };
        match record.text(&["action"]) {
            Some("start") => {
                let source = ("stockade.session.source", word(record, "source"));
                self.add(SESSIONS, vec![source], 1);
            }
            Some("turn_end") => {
                let outcome = ("stockade.turn.outcome", word(record, "outcome"));
                self.add(TURNS, vec![outcome], 1);
            }
            Some(_) | None => {}
        }
        for used in record.list(&["usage"]).iter().map(Record) {
            let model = ("stockade.model", word(used, "model"));
            for kind in ["input", "cache_write", "cache_read", "output"] {
                let count = used.whole(&[kind]).unwrap_or_default();
                let kind = ("stockade.token.type", kind.to_owned());
                self.add(TOKENS, vec![model.clone(), kind], count);
            }
            self.add(COST, vec![model], used.whole(&["micro_dollars"]).unwrap_or_default());
        }
    }

    /// Counts a session whose task is completed.
    pub(crate) fn completed(&mut self, source: &str) {
        self.add(COMPLETED, vec![("source", source.to_owned())], 1);
    }

    /// Counts the seconds of a turn, if one is over.
    pub(crate) fn turn(&mut self, seconds: Option<f64>) {
        self.measure(TURN, Vec::new(), seconds);
    }

    /// Adds what another one has counted.
    pub(crate) fn add_all(&mut self, more: &Metrics) {
        for (about, all) in &more.sums {
            let own = self.sums.entry(*about).or_default();
            for (series, count) in all {
                let own = within(own, series.clone());
                *own = own.saturating_add(*count);
            }
        }
        for (about, all) in &more.distributions {
            let own = self.distributions.entry(*about).or_default();
            for (series, it) in all {
                let own = within(own, series.clone());
                own.sum += it.sum;
                own.buckets.iter_mut().zip(&it.buckets).for_each(|(own, more)| *own += more);
            }
        }
    }

    /// Counts records that are not sent.
    pub(crate) fn lost(&mut self, reason: &str, records: u64) {
        self.add(LOST, vec![("stockade.gap.reason", reason.to_owned())], records);
    }

    fn add(&mut self, about: About, series: Series, count: u64) {
        if count > 0 {
            // An agent may say any number.
            let sum = within(self.sums.entry(about).or_default(), series);
            *sum = sum.saturating_add(count);
        }
    }

    fn measure(&mut self, about: About, series: Series, value: Option<f64>) {
        let Some(value) = value else { return };
        let distribution = within(self.distributions.entry(about).or_default(), series);
        let bucket = BOUNDS.iter().take_while(|bound| value > **bound).count();
        if let Some(count) = distribution.buckets.get_mut(bucket) {
            *count += 1;
        }
        distribution.sum += value;
    }
}

/// Returns the value of a series, or of the one for all that are too many.
fn within<T: Default>(all: &mut BTreeMap<Series, T>, series: Series) -> &mut T {
    let fits = all.len() < MOST || all.contains_key(&series);
    let series = if fits { series } else { vec![("otel.metric.overflow", "true".to_owned())] };
    all.entry(series).or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_that_holds_it() {
        let mut metrics = Metrics::default();
        for (us, bucket) in
            [(0, 0), (100, 0), (101, 1), (7_200_000_000_u64, 15), (7_200_000_001, 16)]
        {
            metrics.take(Record(
                &json!({ "kind": "result", "agreement": "not_run", "duration_us": us }),
            ));
            let series =
                &metrics.distributions[&RAN][&vec![("stockade.outcome", "not_run".to_owned())]];
            assert!(series.buckets[bucket] > 0, "{us}");
        }
        assert_eq!(metrics.sums[&RUNS].values().sum::<u64>(), 5);
    }

    #[test]
    fn series_that_a_front_end_makes_up_are_bounded() {
        let mut metrics = Metrics::default();
        for number in 0..1000 {
            let tool = format!("tool-{number}");
            metrics.take(Record(&json!({ "kind": "decision", "request": { "tool": tool } })));
        }
        let series = &metrics.sums[&DECISIONS];
        assert_eq!(series.len(), MOST + 1);
        assert_eq!(series[&vec![("otel.metric.overflow", "true".to_owned())]], 800);
        assert_eq!(series.values().sum::<u64>(), 1000);
    }
}
