//! `stockade policy test`: written cases, and those that are decided otherwise.

use crate::cli::exit::ExitCode;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::args::policy::Test;
use super::super::check;
use super::{Court, FOUND, print};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::DecisionView;
use crate::protocol::words;
use crate::route::Route;

/// Longest case file, in bytes.
const LONGEST_FILE: u64 = 64 << 20;

/// Decides the cases of the files.
pub(super) async fn test(options: Test) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let files = match options.files.is_empty() {
        true => beside_settings(&court.place.project)?,
        false => options.files.iter().map(|file| Path::new(&court.call.cwd).join(file)).collect(),
    };
    let mut client = Route::connect(court.call.options.clone()).await?;
    let (mut count, mut misses) = (0u64, 0u64);
    for file in &files {
        for (number, line) in read(file)?.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let place = format!("{}:{}", file.display(), number + 1);
            let invalid = |reason: String| {
                let help = "a case is an object with `tool`, `input` and `expect`";
                Failure::new(Code::InvalidRequest, format!("{place}: {reason}"), help)
            };
            let request = check::request(line.as_bytes(), &court.call, options.run_hooks)
                .map_err(|failure| invalid(failure.message))?;
            let case = check::strict(line.as_bytes()).map_err(invalid)?;
            let shown = request.input.get("command").and_then(Value::as_str);
            let shown = shown.map_or_else(|| request.tool.clone(), str::to_owned);
            if case.get("expect").and_then(Value::as_str).is_none() {
                return Err(invalid("missing `expect`".into()));
            }
            let decision = client.check(request).await.map_err(|failure| Failure {
                message: format!("{place}: {}", failure.message),
                ..failure
            })?;
            count += 1;
            if let Some(wrong) = differs(&case, &decision) {
                misses += 1;
                print(&words::one_line(&format!("{place}: `{shown}` {wrong}")))?;
            }
        }
    }
    if !options.common.quiet {
        super::failure::tell(&format!("stockade: {count} cases, {misses} decided differently"));
    }
    Ok(if misses == 0 { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// Says how an answer differs from what the case expects.
fn differs(case: &Value, decision: &DecisionView) -> Option<String> {
    let wanted = |key: &str| case.get(key).and_then(Value::as_str);
    let found = |wanted: Option<&str>, is: &str, what: &str| match wanted {
        Some(wanted) if wanted != is => Some(format!("{what} {is}, not {wanted}")),
        Some(_) | None => None,
    };
    let rule = decision.rule.as_deref().unwrap_or("none");
    found(wanted("expect"), &decision.decision, "is decided")
        .or_else(|| found(wanted("expect_rule"), rule, "is decided by rule"))
        .or_else(|| found(wanted("expect_source"), &decision.source, "is decided by"))
        .map(|difference| format!("{difference}: {}", decision.reason))
}

/// Returns the case files of a project, in order.
fn beside_settings(project: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = project.join(".stockade/cases");
    let none = |reason: String| {
        let message = format!("no cases in `{}`: {reason}", folder.display());
        Failure::new(Code::InvalidRequest, message, "write some, or specify a file of cases")
    };
    let entries = std::fs::read_dir(&folder).map_err(|error| none(error.to_string()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| none(error.to_string()))?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(none("no name ends in `.jsonl`".into())),
        false => Ok(files),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let unreadable = |reason: String| {
        let message = format!("the cases in `{}` cannot be read: {reason}", file.display());
        Failure::new(Code::InvalidRequest, message, "")
    };
    let found = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?;
    if !found.is_file() || found.len() > LONGEST_FILE {
        return Err(unreadable(format!("not a file of at most {LONGEST_FILE} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))
}
