//! Decisions, counted by what they have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;
use stockade_text::json::Value;

use super::super::error::Error;
use super::{Filter, Reader, Record, programs};
use stockade_text::visible;

/// By what [`report`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Each rule that matched.
    Rule,
    /// The user who asked.
    User,
    /// The agent that asked.
    Agent,
    /// Each program of the command.
    Program,
    /// The decision.
    Verdict,
    /// The day, in UTC.
    Day,
    /// The machine.
    Host,
}

/// The decisions that have one thing in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    name: String,
    count: u64,
    first: String,
    last: String,
    /// The strictest verdict.
    worst: String,
}

/// All counts of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub(super) counts: Vec<Count>,
    /// Where the chain does not hold; what stands behind was still counted.
    pub broken: Option<String>,
}

/// Counts the decisions that `filter` lets through. What has no name by which to count is under an empty one.
pub fn report(directory: &Path, filter: &Filter, by: By) -> Result<Tally, Error> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut reader = Reader::new(directory);
    while let Some(record) = reader.next()? {
        if record.kind != "decision" || !filter.lets(&record) {
            continue;
        }
        let time = record.text(&["time"]).unwrap_or_default().to_owned();
        let verdict = record.text(&["verdict", "decision"]).unwrap_or_default();
        for name in names(&record, by) {
            let count = counts.entry(name.clone()).or_insert_with(|| Count {
                name,
                count: 0,
                first: time.clone(),
                last: String::new(),
                worst: String::new(),
            });
            count.count += 1;
            count.last.clone_from(&time);
            if severity(verdict) >= severity(&count.worst) {
                verdict.clone_into(&mut count.worst);
            }
        }
    }
    Ok(Tally { counts: counts.into_values().collect(), broken: reader.broken })
}

impl Tally {
    /// Says that nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns one object a line.
    pub fn json(&self) -> String {
        let mut text = String::new();
        for Count { name, count, first, last, worst } in &self.counts {
            let line = json!({ "name": name, "count": count, "first": first, "last": last, "worst": worst });
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    /// Returns a table in which text from outside is escaped.
    pub fn table(&self) -> String {
        let mut text =
            format!("{:>7}  {:7}  {:20}  {:20}  NAME\n", "COUNT", "WORST", "FIRST", "LAST");
        for it in &self.counts {
            let second = |time: &str| match time.get(..19) {
                Some(time) => format!("{}Z", visible(time)),
                None => visible(time),
            };
            let name = if it.name.is_empty() { "-".to_owned() } else { visible(&it.name) };
            text.push_str(&format!(
                "{:>7}  {:7}  {:20}  {:20}  {name}\n",
                it.count,
                visible(&it.worst),
                second(&it.first),
                second(&it.last)
            ));
        }
        text
    }
}

/// Returns how strict a verdict is; one that is not known counts as less than all others.
fn severity(verdict: &str) -> u8 {
    match verdict {
        "allow" => 1,
        "ask" => 2,
        "deny" => 3,
        _ => 0,
    }
}

/// Returns each name of a decision once.
fn names(record: &Record, by: By) -> BTreeSet<String> {
    let one = |keys: &[&str]| record.text(keys).unwrap_or_default().to_owned();
    let mut names: BTreeSet<String> = match by {
        By::Rule => {
            let text = |rule: &Value| Some(rule.get("text")?.text()?.to_owned());
            record.list(&["rules"]).iter().filter_map(text).collect()
        }
        By::Program => programs(record).map(str::to_owned).collect(),
        By::User => {
            record.whole(&["caller", "uid"]).iter().map(std::string::ToString::to_string).collect()
        }
        By::Agent => BTreeSet::from([one(&["agent", "name"])]),
        By::Verdict => BTreeSet::from([one(&["verdict", "decision"])]),
        By::Day => BTreeSet::from([one(&["time"]).get(..10).unwrap_or_default().to_owned()]),
        By::Host => BTreeSet::from([one(&["host", "name"])]),
    };
    if names.is_empty() {
        names.insert(String::new());
    }
    names
}
