//! Usage of sessions, by day, session, project or model.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::error::Error;
use crate::event::{Event, Kind};
use crate::log::each;
use crate::store::{Found, Store};

/// The subject of the rows of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Days (UTC), `2026-11-28`.
    Day,
    /// Identities of sessions.
    Session,
    /// Roots of repositories, or working directories.
    Project,
    /// Names of models.
    Model,
}

/// Tokens and US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// Answers of a model.
    pub answers: u64,
    /// Input tokens that no cache held.
    pub input: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Output tokens.
    pub output: u64,
    /// US dollars.
    pub dollars: f64,
}

impl Amount {
    /// Reads what an event says of one model. A number that is none, negative or infinite is 0.
    fn of(value: &Value) -> Amount {
        let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let dollars = value.get("dollars").and_then(Value::as_f64);
        Amount {
            answers: count("answers"),
            input: count("input"),
            cache_write: count("cache_write"),
            cache_read: count("cache_read"),
            output: count("output"),
            dollars: dollars.filter(|it| it.is_finite() && *it > 0.0).unwrap_or_default(),
        }
    }

    /// Adds `other` to this.
    pub fn add(&mut self, other: &Amount) {
        self.answers = self.answers.saturating_add(other.answers);
        self.input = self.input.saturating_add(other.input);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.output = self.output.saturating_add(other.output);
        self.dollars += other.dollars;
    }

    /// Returns it as an object.
    #[must_use]
    pub fn object(&self) -> Value {
        json!({
            "answers": self.answers, "input_tokens": self.input, "cache_write_tokens": self.cache_write,
            "cache_read_tokens": self.cache_read, "output_tokens": self.output, "cost_usd": self.dollars,
        })
    }
}

/// Usage of the agent of a session, without and with its sub-agents.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Without sub-agents.
    pub root: Amount,
    /// With sub-agents.
    pub aggregate: Amount,
}

/// A report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Rows by what they are about.
    pub rows: BTreeMap<String, Used>,
    /// Sessions that could not be read, one line each.
    pub left_out: Vec<String>,
}

impl Report {
    /// Adds the events of one session that are not older than `since`. A copy of another session has the events of that one,
    /// marked: they are counted there.
    pub fn add(&mut self, by: By, found: &Found, events: &[Event], since: Option<&str>) {
        let workspace = &found.workspace;
        let project = workspace.git_root.as_ref().unwrap_or(&workspace.cwd);
        // An imported session counts usage from its import on.
        let elsewhere = events.iter().rposition(|event| event.kind == Kind::HandOff);
        let here = events.get(elsewhere.unwrap_or_default()..).unwrap_or_default();
        for event in here.iter().filter(|event| event.kind == Kind::Usage) {
            if event.data.get("copied").is_some() || since.is_some_and(|it| event.at.as_str() < it)
            {
                continue;
            }
            let day = event.at.get(..10).unwrap_or(&event.at);
            for (model, used) in models(&event.data) {
                let row = match by {
                    By::Day => day,
                    By::Session => &found.id,
                    By::Project => project,
                    By::Model => &model,
                };
                let row = self.rows.entry(row.to_owned()).or_default();
                row.root.add(&used.root);
                row.aggregate.add(&used.aggregate);
            }
        }
    }
}

/// Returns what an event says, by model. An event of an earlier version has the dollars alone.
fn models(data: &Value) -> BTreeMap<String, Used> {
    let mut found: BTreeMap<String, Used> = BTreeMap::new();
    let bucket = |name: &str| data.get(name).and_then(Value::as_object).into_iter().flatten();
    for (model, value) in bucket("root") {
        found.entry(model.clone()).or_default().root = Amount::of(value);
    }
    for (model, value) in bucket("aggregate") {
        found.entry(model.clone()).or_default().aggregate = Amount::of(value);
    }
    if found.is_empty() {
        let dollars = Amount { dollars: Amount::of(data).dollars, ..Amount::default() };
        found.insert("unknown".to_owned(), Used { root: dollars, aggregate: dollars });
    }
    found
}

impl Store {
    /// Returns what all sessions used since a time.
    #[must_use]
    pub fn usage(&self, by: By, since: Option<SystemTime>) -> Report {
        let since = since.map(crate::event::at);
        let mut report = Report::default();
        for found in self.list() {
            // Of a long log nothing else is kept.
            let mut events = Vec::new();
            let read = each(&Store::log(&found.folder), |event| {
                if event.kind == Kind::HandOff {
                    events.clear();
                } else if event.kind == Kind::Usage {
                    events.push(event);
                }
            });
            match read {
                Ok(_) => report.add(by, &found, &events, since.as_deref()),
                Err(error) => report.left_out.push(left_out(&found, &error)),
            }
        }
        report
    }
}

fn left_out(found: &Found, error: &Error) -> String {
    format!("{}: {error}", found.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn event(at: &str, data: Value) -> Event {
        Event { at: at.to_owned(), ..Event::now(None, Kind::Usage, data) }
    }

    fn found() -> Found {
        let workspace = Workspace {
            cwd: "/p/below".to_owned(),
            git_root: Some("/p".to_owned()),
            ..Workspace::default()
        };
        Found {
            id: "s1".to_owned(),
            folder: "/nowhere".into(),
            workspace,
            bytes: 0,
            written: SystemTime::UNIX_EPOCH,
        }
    }

    type Row = (String, (u64, f64), (u64, f64));

    fn rows(by: By, since: Option<&str>) -> Vec<Row> {
        let spent = |answers: u64, dollars: f64| json!({ "answers": answers, "output": answers, "dollars": dollars });
        let events = [
            event(
                "2026-11-27T23:59:59.000Z",
                json!({ "dollars": 1.5, "root": { "large": spent(1, 1.0) }, "aggregate": { "large": spent(1, 1.0), "small": spent(2, 0.5) } }),
            ),
            event("2026-11-28T00:00:00.000Z", json!({ "dollars": 0.25 })),
            // A copied event, and invalid numbers.
            event("2026-11-28T00:00:00.000Z", json!({ "dollars": 8.0, "copied": true })),
            event(
                "2026-11-28T00:00:00.000Z",
                json!({ "dollars": -8.0, "root": { "large": { "answers": -1, "dollars": "x" } } }),
            ),
        ];
        let mut report = Report::default();
        report.add(by, &found(), &events, since);
        let row = |(name, used): (String, Used)| {
            let Used { root, aggregate } = used;
            (name, (root.output, root.dollars), (aggregate.output, aggregate.dollars))
        };
        report.rows.into_iter().map(row).collect()
    }

    #[test]
    fn each_report_has_the_same_sums_in_other_rows() {
        let row = |name: &str, root, aggregate| (name.to_owned(), root, aggregate);
        assert_eq!(
            rows(By::Model, None),
            [
                row("large", (1, 1.0), (1, 1.0)),
                row("small", (0, 0.0), (2, 0.5)),
                row("unknown", (0, 0.25), (0, 0.25))
            ]
        );
        assert_eq!(
            rows(By::Day, None),
            [row("2026-11-27", (1, 1.0), (3, 1.5)), row("2026-11-28", (0, 0.25), (0, 0.25))]
        );
        assert_eq!(rows(By::Session, None), [row("s1", (1, 1.25), (3, 1.75))]);
        assert_eq!(rows(By::Project, None), [row("/p", (1, 1.25), (3, 1.75))]);
        assert_eq!(
            rows(By::Project, Some("2026-11-28T00:00:00.000Z")),
            [row("/p", (0, 0.25), (0, 0.25))]
        );
    }
}
