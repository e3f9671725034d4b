//! `stockade policy diff`: commands that two settings files decide differently.

use crate::cli::exit::ExitCode;
use std::path::Path;

use serde_json::json;
use stockade_policy::{Layer, SandboxState, SettingsText, Verdict};

use super::super::args::policy::Diff;
use super::witnesses::{Sample, command, samples, witnesses};
use super::{Court, FOUND, print};
use crate::judge::Scene;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::settings;

/// Most calls that are compared.
const MOST_SAMPLES: usize = 20_000;

/// Compares two settings files, each as the only one, without the sandbox.
pub(super) async fn diff(options: Diff) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let before = scene(&court, &options.before)?;
    let after = scene(&court, &options.after)?;
    let mut calls: Vec<Sample> = samples(&before.snapshot.rules);
    calls.extend(samples(&after.snapshot.rules));
    calls.extend(witnesses()?.iter().map(|witness| command(&witness.command)));
    let mut seen = std::collections::HashSet::new();
    calls.retain(|call| seen.insert(call.shown.clone()));
    let left_out = calls.len().saturating_sub(MOST_SAMPLES);
    calls.truncate(MOST_SAMPLES);
    let mut changed = false;
    for call in &calls {
        let old = court.judge(&before, &call.tool, call.input.clone()).await?;
        let new = court.judge(&after, &call.tool, call.input.clone()).await?;
        if old.decision != new.decision {
            changed = true;
            print(&line(&options, &court, call, &old, &new))?;
        }
    }
    if left_out > 0 {
        let message =
            format!("{left_out} calls were not compared: the files contain too many rules");
        return Err(Failure::new(Code::InvalidRequest, message, "compare smaller files"));
    }
    Ok(if changed { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

fn line(options: &Diff, court: &Court, call: &Sample, old: &Verdict, new: &Verdict) -> String {
    if options.common.json {
        let side = |verdict: &Verdict| {
            let rule = verdict.decisive_rule();
            json!({
                "decision": verdict.decision.name(),
                "rule": rule.map(|rule| rule.text.clone()),
                "file": rule.map(|rule| rule.origin.file.clone()),
                "line": rule.map(|rule| rule.origin.line),
                "reason": verdict.reason,
            })
        };
        let (before, after) = (side(old), side(new));
        return json!({"tool": call.tool, "input": call.input, "before": before, "after": after})
            .to_string();
    }
    let side = |verdict: &Verdict| match verdict.decisive_rule() {
        Some(rule) => {
            format!(
                "{} (`{}` in {})",
                verdict.decision.name(),
                rule.text,
                court.named(&rule.origin)
            )
        }
        None => format!("{} ({})", verdict.decision.name(), verdict.reason),
    };
    let text = format!("{}: {} -> {}", call.shown, side(old), side(new));
    words::one_line(&text)
}

fn scene(court: &Court, path: &Path) -> Result<Scene, Failure> {
    let path = Path::new(&court.call.cwd).join(path);
    let text = std::fs::read(&path).map_err(|error| {
        let message = format!("the settings file `{}` cannot be read: {error}", path.display());
        Failure::new(Code::SettingsUnreadable, message, "specify two settings files")
    })?;
    let anchor = court.place.project.clone();
    let text =
        SettingsText { layer: Layer::User, file: path, text, anchor, trusted: true, above: false };
    let snapshot = settings::merge(vec![text])?;
    let made = Scene::with(court.place.clone(), snapshot, court.context(), &court.places)?;
    Ok(Scene { sandbox: SandboxState::Off, root: false, ..made })
}
