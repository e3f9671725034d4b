//! `stockade policy show`: the merged rules, hooks and settings, each with its place.

use crate::cli::exit::ExitCode;

use serde_json::{Value, json};
use stockade_policy::{
    Condition, Hook, Origin, Problem, Rule, SettingsText, SettingsValue, settings_values,
};

use super::super::args::policy::Show;
use super::{Court, print};
use crate::protocol::errors::Failure;
use crate::protocol::words;
use crate::settings::{self, Snapshot};

/// Shows what counts for a call in this directory.
pub(super) fn show(options: &Show) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let snapshot = settings::read(&court.sources())?;
    let problems = stockade_policy::load(&snapshot.texts).problems;
    let mut values = settings_values(&snapshot.texts);
    values.retain(|value| !problems.iter().any(|problem| speaks_of(problem, &value.origin)));
    match options.common.json {
        true => print(&object(&snapshot, &values).to_string())?,
        false => print(&table(&court, &snapshot, &values))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says whether what a problem is about holds the value: it is told as a warning and does not count.
fn speaks_of(problem: &Problem, value: &Origin) -> bool {
    let origin = &problem.origin;
    let below = value.pointer.strip_prefix(&origin.pointer);
    origin.layer == value.layer
        && origin.file == value.file
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn table(court: &Court, snapshot: &Snapshot, values: &[SettingsValue]) -> String {
    let mut rows: Vec<(String, &Origin)> = Vec::new();
    for rule in snapshot.rules.rules() {
        rows.push((
            format!("{:5} {}", rule.effect.name(), words::one_line(&rule.text)),
            &rule.origin,
        ));
    }
    for hook in &snapshot.rules.settings().hooks {
        let matcher = if hook.matcher.is_empty() { "*" } else { &hook.matcher };
        let condition = hook.condition.as_ref().map(Condition::text);
        let condition = condition.map(|rule| format!(" if {}", words::one_line(rule)));
        let text = format!(
            "hook  {} {}{} {}",
            hook.event.name(),
            words::one_line(matcher),
            condition.unwrap_or_default(),
            words::one_line(&hook.handler.text())
        );
        rows.push((text, &hook.origin));
    }
    for value in values {
        let text =
            format!("set   {} {}", words::one_line(&value.key), words::one_line(&value.text));
        rows.push((text, &value.origin));
    }
    let width = rows.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(60);
    let mut lines: Vec<String> = snapshot.texts.iter().map(file).collect();
    lines.extend(rows.iter().map(|(text, origin)| {
        format!("{text:width$}  {:7} {}", origin.layer.name(), court.named(origin))
    }));
    lines.extend(
        snapshot.warnings.iter().map(|warning| format!("warning: {}", words::one_line(warning))),
    );
    lines.push(format!("settings {}", snapshot.sha256));
    lines.join("\n")
}

/// Names a settings file, and says whether what it permits waits.
fn file(text: &SettingsText) -> String {
    let waits = match (text.above, text.trusted) {
        (true, _) => "  from a directory above: only restrictions apply",
        (false, true) => "",
        (false, false) => "  is not trusted yet",
    };
    let name = words::one_line(&text.file.to_string_lossy());
    format!("file  {:7} {name}{waits}", text.layer.name())
}

fn object(snapshot: &Snapshot, values: &[SettingsValue]) -> Value {
    let rule = |rule: &Rule| {
        let mut object = place(&rule.origin);
        put(&mut object, "effect", json!(rule.effect.name()));
        put(&mut object, "rule", json!(rule.text));
        object
    };
    let hook = |hook: &Hook| {
        let mut object = place(&hook.origin);
        put(&mut object, "event", json!(hook.event.name()));
        put(&mut object, "matcher", json!(hook.matcher));
        put(&mut object, "handler", json!(hook.handler.text()));
        put(&mut object, "if", json!(hook.condition.as_ref().map(Condition::text)));
        put(&mut object, "async", json!(hook.runs_beside));
        put(&mut object, "timeout", json!(hook.timeout.map(|limit| limit.as_secs_f64())));
        put(&mut object, "statusMessage", json!(hook.status));
        object
    };
    let value = |value: &SettingsValue| {
        let mut object = place(&value.origin);
        let read = serde_json::from_str(&value.text).unwrap_or(Value::String(value.text.clone()));
        put(&mut object, "key", json!(value.key));
        put(&mut object, "value", read);
        object
    };
    let file = |text: &SettingsText| json!({"layer": text.layer.name(), "file": text.file.to_string_lossy(), "trusted": text.trusted});
    json!({
        "files": snapshot.texts.iter().map(file).collect::<Vec<_>>(),
        "rules": snapshot.rules.rules().iter().map(rule).collect::<Vec<_>>(),
        "hooks": snapshot.rules.settings().hooks.iter().map(hook).collect::<Vec<_>>(),
        "settings": values.iter().map(value).collect::<Vec<_>>(),
        "warnings": snapshot.warnings,
        "settings_sha256": snapshot.sha256,
    })
}

/// Returns an object that says where something stands.
pub(super) fn place(origin: &Origin) -> Value {
    json!({
        "source": origin.layer.name(),
        "file": origin.file,
        "line": origin.line,
        "column": origin.column,
        "pointer": origin.pointer,
    })
}

/// Adds a member to an object.
pub(super) fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}
