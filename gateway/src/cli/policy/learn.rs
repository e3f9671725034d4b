//! `stockade learn`: runs a command, and proposes the settings under which nothing of it is refused.

use serde_json::Value;

use super::amend::{self, Effect, Entry};
use super::{Court, context, failure, wait};
use crate::cli::args;
use crate::cli::args::amend::Learn;
use crate::cli::exit::ExitCode;
use crate::cli::run::{People, perform};
use crate::cli::streams::{self, Show};
use crate::protocol::errors::Failure;
use crate::protocol::status;
use crate::protocol::types::{AtLimit, CommandRequest, DecisionView, RunOutcome};
use crate::protocol::words;
use crate::route::Options;

/// Runs the command, shows what was refused as settings, and adds them after a yes.
pub(crate) fn learn(options: Learn) -> Result<ExitCode, Failure> {
    let Learn { common, dry_run, command } = options;
    let (outcome, shown, cwd) = run(&common, command)?;
    let entries = needed(&outcome);
    if let RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) = &outcome {
        failure::tell(&words::verdict(&refusal.decision, &shown, &cwd));
    }
    if let RunOutcome::Failed(failed) = &outcome {
        return Err(failed.clone());
    }
    let ended = ExitCode::from(status::of(&outcome));
    if entries.is_empty() {
        let is_clean = matches!(&outcome, RunOutcome::Ran(result) if result.violations.is_empty());
        failure::tell(match is_clean {
            true => "stockade: nothing was refused",
            false => "stockade: no setting would have allowed what was refused",
        });
        return Ok(ended);
    }
    let court = Court::new(&common)?;
    let added = wait(amend::add(&court, &entries, Effect::Allow, dry_run))??;
    Ok(if added == ExitCode::SUCCESS { ended } else { added })
}

fn run(
    common: &args::Common,
    command: Vec<String>,
) -> Result<(RunOutcome, String, String), Failure> {
    let call = context::call(common, "run")?;
    let command = context::command_text(command)?;
    let (shown, cwd) = (context::shown(&command), call.shown_directory());
    let request = CommandRequest {
        command,
        cwd: call.cwd.clone(),
        timeout_ms: None,
        background: false,
        at_limit: AtLimit::Stop,
        one_stream: streams::are_one_place(),
        pty: false,
        window: None,
        description: None,
        unsandboxed: false,
        stdin: streams::has_stdin(),
        report_cwd: false,
        carry_cwd: false,
        call_id: None,
        context: call.context,
    };
    // Nobody is asked meanwhile: each refusal becomes an entry.
    let options = Options { ..call.options };
    let (outcome, _) = perform(options, request, Show::All, People::Nobody)?;
    Ok((outcome, shown, cwd))
}

/// Returns the entries that would have allowed what was refused, each once.
fn needed(outcome: &RunOutcome) -> Vec<Entry> {
    let mut found = Vec::new();
    match outcome {
        RunOutcome::Ran(result) => found.extend(result.violations.iter().flat_map(opened)),
        RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
            found.extend(allowed(&refusal.decision));
        }
        RunOutcome::Background(_) | RunOutcome::Failed(_) => {}
    }
    let mut entries: Vec<Entry> = Vec::new();
    for entry in found {
        let keys: Vec<&str> = entry.keys.iter().map(String::as_str).collect();
        if !entries.contains(&entry) && amend::checked(&keys, &entry.text).is_ok() {
            entries.push(entry);
        }
    }
    entries
}

/// Returns the allow rule for a call that needs one.
fn allowed(decision: &DecisionView) -> Option<Entry> {
    let keys = ["permissions", "allow"].map(str::to_owned).to_vec();
    decision.suggestion.clone().map(|text| Entry { keys, text })
}

/// Returns the entries that the remedy of a refusal adds.
fn opened(violation: &Value) -> Vec<Entry> {
    let remedy = violation.get("remedy").unwrap_or(&Value::Null);
    let Some(setting) = remedy
        .get("setting")
        .and_then(Value::as_str)
        .filter(|_| remedy.get("change").is_some_and(|it| it == "add"))
    else {
        return Vec::new();
    };
    let keys: Vec<String> = setting.split('.').map(str::to_owned).collect();
    let values = remedy
        .get("value")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    values.map(|text| Entry { keys: keys.clone(), text: text.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_remedy_is_an_entry_for_each_value() {
        let remedy = json!({"change": "add", "setting": "sandbox.filesystem.allowWrite", "value": ["/a", "/b"]});
        let found = opened(&json!({ "remedy": remedy }));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].keys, ["sandbox", "filesystem", "allowWrite"]);
        assert!(opened(&json!({ "remedy": null })).is_empty());
        let removed = json!({"change": "remove", "setting": "permissions.deny", "value": ["x"]});
        assert!(opened(&json!({ "remedy": removed })).is_empty());
    }
}
