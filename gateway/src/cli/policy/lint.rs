//! `stockade policy lint`: what is wrong with the settings, and what the rules let through.

use crate::cli::exit::ExitCode;

use serde_json::{Value, json};
use stockade_policy::{By, Decision, Layer, Origin, Problem, SandboxState, SettingsText, Severity};

use std::io::IsTerminal as _;

use super::super::args::policy::Lint;
use super::super::color;
use super::show::{place, put};
use super::witnesses::{Witness, witnesses};
use super::{Court, FOUND, own, print};
use crate::judge::Scene;
use crate::protocol::errors::Failure;
use crate::protocol::words;
use crate::settings::{self, Snapshot};

/// Looks through the settings of this directory.
pub(super) async fn lint(options: Lint) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let mut texts = settings::collect(&court.sources())?;
    let waiting = waiting(&texts);
    // Files that wait for trust are looked through as well: their author is asking.
    texts.iter_mut().for_each(|text| text.trusted = true);
    let loaded = stockade_policy::load(&texts);
    let mut problems = loaded.problems;
    problems.extend(stockade_policy::lint(&loaded.rules));
    if problems.iter().all(|problem| problem.severity != Severity::Refusal) {
        let shown = shown(&court, settings::merge(texts)?).await?;
        problems.retain(|known| !shown.iter().any(|better| is_better(better, known)));
        problems.extend(shown);
    }
    problems.retain(|problem| !settings::is_foreign(problem));
    // A rule is not wrong because nobody has trusted its file yet, as in a fresh clone.
    let is_clean = problems.is_empty();
    problems.extend(waiting);
    problems.sort_by(|a, b| {
        let key = |problem: &Problem| {
            let origin = &problem.origin;
            (problem.severity == Severity::Warning, origin.file.clone(), origin.line, origin.column)
        };
        key(a).cmp(&key(b))
    });
    match options.common.json {
        true => print(&json!(problems.iter().map(object).collect::<Vec<_>>()).to_string())?,
        false => tell(&court, &problems)?,
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// Returns one warning for each file with entries that wait for trust.
fn waiting(texts: &[SettingsText]) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for problem in stockade_policy::load(texts).problems.into_iter().filter(settings::waits) {
        let is_known = |it: &Problem| it.origin.file == problem.origin.file;
        if !found.iter().any(is_known) {
            let origin = Origin { line: 1, column: 1, pointer: String::new(), ..problem.origin };
            found.push(Problem {
                origin,
                text: String::new(),
                message: "this file is not trusted, so entries that allow more are ignored"
                    .to_owned(),
                ..problem
            });
        }
    }
    found
}

/// A witness that was judged says more than a guess about the same rule.
fn is_better(better: &Problem, known: &Problem) -> bool {
    better.origin == known.origin && known.message.contains(", such as `")
}

/// Judges the witnesses and what the rules themselves spell out without the sandbox, and returns for each allow rule
/// the worst that it let through.
async fn shown(court: &Court, snapshot: std::sync::Arc<Snapshot>) -> Result<Vec<Problem>, Failure> {
    let made = Scene::with(court.place.clone(), snapshot, court.context(), &court.places)?;
    let scene = Scene { sandbox: SandboxState::Off, root: false, ..made };
    let mut found: Vec<Problem> = Vec::new();
    for witness in witnesses()? {
        let input = json!({ "command": witness.command });
        let verdict = court.judge(&scene, "Bash", input).await?;
        if verdict.decision != Decision::Allow || verdict.by != By::Rule {
            continue;
        }
        let Some(rule) = verdict.decisive_rule() else { continue };
        // A rule that holds without a settings file is not the reader's to mend.
        if rule.origin.layer == Layer::Builtin {
            continue;
        }
        let shown = problem(&witness, &rule.text, rule.origin.clone());
        match found.iter_mut().find(|known| known.origin == rule.origin) {
            Some(known) if known.severity < shown.severity => *known = shown,
            Some(_) => {}
            None => found.push(shown),
        }
    }
    for own in own::reached(court, &scene).await? {
        match found.iter_mut().find(|known| known.origin == own.origin) {
            Some(known) if known.severity < own.severity => *known = own,
            Some(_) => {}
            None => found.push(own),
        }
    }
    Ok(found)
}

fn problem(witness: &Witness, rule: &str, origin: Origin) -> Problem {
    Problem {
        severity: if witness.escape { Severity::Error } else { Severity::Warning },
        origin,
        text: rule.to_owned(),
        message: format!("this allows `{}`, which {}", witness.command, witness.shows),
        help: "make the rule narrower, or move it to `ask`".to_owned(),
    }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error | Severity::Refusal => "error",
    }
}

fn tell(court: &Court, problems: &[Problem]) -> Result<(), Failure> {
    for problem in problems {
        let line = format!("{}: {}", name(problem.severity), words::one_line(&problem.message));
        colored(&line)?;
        print(&format!("  --> {}", court.named(&problem.origin)))?;
        if !problem.text.is_empty() {
            print(&format!("   |  {}", words::one_line(&problem.text)))?;
        }
        if !problem.help.is_empty() {
            colored(&format!("   = help: {}", words::one_line(&problem.help)))?;
        }
    }
    Ok(())
}

fn colored(line: &str) -> Result<(), Failure> {
    print(&color::paint(line, std::io::stdout().is_terminal()))
}

fn object(problem: &Problem) -> Value {
    let mut object = place(&problem.origin);
    put(&mut object, "severity", json!(name(problem.severity)));
    put(&mut object, "message", json!(problem.message));
    put(&mut object, "text", json!(problem.text));
    put(&mut object, "help", json!(problem.help));
    object
}
