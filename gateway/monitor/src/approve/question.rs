//! The question about a call: what a person is shown, and what they can choose.

use serde_json::Value;

use crate::audit::query::{self, Filter, Order};
use crate::protocol::types::{AlwaysOffer, Question, WiderRule};
use crate::response::Case;
use stockade_base::places::LogPlaces;

/// How many of the newest decisions are looked through for what a wider rule would have matched.
const NEWEST: usize = 300;
/// How many of those are shown.
const SHOWN: usize = 3;

/// Returns the question about a call, with what "always" would write, and what `session` would keep. Blocks on the log.
pub fn question(case: &Case, command: &str, log: &LogPlaces, session: Option<String>) -> Question {
    let Case { scene, judged, view, .. } = case;
    let settings = scene.snapshot.rules.settings();
    let rule = view.suggestion.clone().filter(|_| !settings.managed_rules_only);
    let file = stockade_approvals::remember::local_file(&scene.place.project).display().to_string();
    let always = rule.map(|rule| {
        let wider = judged.wider_rule(scene).map(|rule| seen(rule, command, log));
        AlwaysOffer { rule, file, wider }
    });
    Question {
        decision: view.clone(),
        command: command.into(),
        always,
        connection: None,
        session,
        mode: judged.facts.mode.name().to_owned(),
    }
}

/// Returns a rule with other commands of the newest records that it matches. A log that cannot be read has none.
fn seen(rule: String, command: &str, log: &LogPlaces) -> WiderRule {
    let filter = Filter { kind: Some("decision".into()), ..Filter::default() };
    let records = query::search(log, &filter, Order::Newest(NEWEST));
    let records = records.map(|answer| answer.records).unwrap_or_default();
    let mut examples: Vec<String> = Vec::new();
    for record in records {
        let Ok(line) = serde_json::from_slice::<Value>(&record.bytes) else { continue };
        let Some(text) = line.pointer("/request/command").and_then(Value::as_str) else { continue };
        if text != command && !examples.iter().any(|it| it == text) && matches(&rule, &line) {
            examples.push(text.to_owned());
        }
    }
    let others = examples.len() as u64;
    examples.truncate(SHOWN);
    WiderRule { rule, others, examples }
}

fn matches(rule: &str, line: &Value) -> bool {
    let commands = line.pointer("/parsed/commands").and_then(Value::as_array);
    commands.into_iter().flatten().any(|command| {
        let words = command.get("argv").and_then(Value::as_array);
        let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
        stockade_propose::rule_matches(rule, &words)
    })
}
