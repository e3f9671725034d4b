//! `stockade check`: decides and explains, runs nothing.

use crate::cli::exit::ExitCode;
use std::io::BufRead as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::refused::Refused;
use super::{args, context, failure};
use crate::prefork::Prefork;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Case, CheckRequest, Context, DecisionView};
use crate::protocol::words;
use crate::route::Route;

/// Longest line of `--jsonl`, in bytes.
pub(super) const LONGEST_LINE: usize = 8 << 20;

/// Decides what `options` names and tells the answer; what cannot be decided is a denial for a program.
pub(crate) async fn check(options: args::Check, prefork: Prefork) -> Result<ExitCode, Failure> {
    let json = options.common.json && !options.jsonl;
    let failure = match decide(options, prefork).await {
        Err(failure) if json => failure,
        told => return told,
    };
    print(&failure::with_error(answer(&refusal(&failure)), Some(&failure)))?;
    Ok(failure::fail(&failure).into())
}

async fn decide(options: args::Check, prefork: Prefork) -> Result<ExitCode, Failure> {
    let mut call = match context::call(&options.common, "check") {
        Err(failure) if options.record => {
            let (tool, input) = match &options.tool {
                Some(tool) => (tool.as_str(), json!({})),
                None => ("Bash", json!({ "command": options.command.join(" ") })),
            };
            let refused = Refused { door: "check", agent: None, tool, input };
            return Err(refused.record(&options.common, prefork, failure).await);
        }
        call => call?,
    };
    call.options.prefork = prefork;
    // Whether a person could be asked is the run's matter; here a question stays one.
    call.context.interactive = true;
    let (tool, input, shown) = match (options.jsonl, &options.tool, &options.input) {
        (true, _, _) => return cases(call, &options).await,
        (false, Some(tool), Some(input)) => tool_call(tool, input)?,
        (false, _, _) => {
            let shown = context::shown(&context::command_text(options.command)?);
            ("Bash".to_owned(), json!({"command": shown}), shown)
        }
    };
    let here = call.shown_directory();
    let request = CheckRequest {
        tool,
        input,
        cwd: call.cwd.clone(),
        record: options.record,
        explain: options.explain,
        run_hooks: options.run_hooks,
        context: call.context,
        ..CheckRequest::default()
    };
    let mut client = Route::connect(call.options).await?;
    let decision = client.check(request).await?;
    failure::tell(&words::verdict(&decision, &shown, &here));
    if !decision.explanation.is_empty() {
        failure::tell(&words::lines(&decision.explanation));
    }
    if !options.common.quiet {
        for warning in &decision.warnings {
            failure::tell(&format!("stockade: warning: {}", words::one_line(warning)));
        }
    }
    if options.common.json {
        print(&answer(&decision))?;
    }
    Ok(ExitCode::from(match decision.decision.as_str() {
        "allow" => 0,
        "ask" => failure::NEEDS_PERSON,
        _ => failure::DENIED,
    }))
}

fn tool_call(tool: &str, input: &str) -> Result<(String, Value, String), Failure> {
    let text = if input == "-" { context::standard_input("the input")? } else { input.to_owned() };
    let value = strict(text.as_bytes()).map_err(|reason| {
        Failure::new(
            Code::InvalidRequest,
            format!("invalid `--input`: not a JSON object: {reason}"),
            "give an object, such as '{\"file_path\":\"notes.txt\"}'",
        )
    })?;
    let shown = match value.get("command") {
        Some(Value::String(command)) if tool == "Bash" => command.clone(),
        Some(_) | None => format!("{tool} {value}"),
    };
    Ok((tool.to_owned(), value, shown))
}

/// One line of `check --jsonl`. Members that only describe the case are not read.
#[derive(Debug, Deserialize)]
struct Line {
    tool: String,
    input: Value,
    layers: Option<Value>,
    mode: Option<String>,
    cwd: Option<String>,
    home: Option<String>,
    hooks_inline: Option<Vec<Value>>,
    trusted: Option<bool>,
    interactive: Option<bool>,
    sandbox_available: Option<bool>,
}

/// Answers one case a line. A line that cannot be judged is answered with a refusal, so that the order
/// holds, and makes the exit status 122.
async fn cases(call: context::Call, options: &args::Check) -> Result<ExitCode, Failure> {
    let mut client = Route::connect(call.options.clone()).await?;
    let mut lines = std::io::stdin().lock();
    let mut unanswered = None;
    for number in 1u64.. {
        let mut line = Vec::new();
        match read_line(&mut lines, &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(failure) => return Err(failure),
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let decided = match request(&line, &call, options.run_hooks) {
            Ok(request) => client.check(CheckRequest { explain: options.explain, ..request }).await,
            Err(failure) => Err(failure),
        };
        let decision = decided.unwrap_or_else(|failure| {
            let decision = refusal(&failure);
            unanswered.get_or_insert((number, failure));
            decision
        });
        print(&answer(&decision))?;
    }
    match unanswered {
        None => Ok(ExitCode::SUCCESS),
        Some((number, failure)) => {
            let message = format!("line {number}: {}", failure.message);
            Ok(failure::fail(&Failure { message, ..failure }).into())
        }
    }
}

/// Reads one line with a bound on its length; returns its length with the line feed.
pub(super) fn read_line(
    input: &mut impl std::io::BufRead,
    line: &mut Vec<u8>,
) -> Result<usize, Failure> {
    let unreadable = |reason: String| {
        Failure::new(Code::InvalidRequest, format!("standard input cannot be read: {reason}"), "")
    };
    let mut bounded = std::io::Read::take(input, LONGEST_LINE as u64 + 1);
    let length = bounded.read_until(b'\n', line).map_err(|error| unreadable(error.to_string()))?;
    if length > LONGEST_LINE {
        return Err(unreadable(format!("a line is longer than {LONGEST_LINE} bytes")));
    }
    Ok(length)
}

pub(super) fn request(
    line: &[u8],
    call: &context::Call,
    run_hooks: bool,
) -> Result<CheckRequest, Failure> {
    let invalid = |reason: String| {
        Failure::new(
            Code::InvalidRequest,
            format!("invalid case: {reason}"),
            "a case is an object with at least `tool` and `input`",
        )
    };
    let line: Line = serde_json::from_value(strict(line).map_err(invalid)?)
        .map_err(|error| invalid(error.to_string()))?;
    Ok(CheckRequest {
        tool: line.tool,
        input: line.input,
        cwd: line.cwd.unwrap_or_else(|| call.cwd.clone()),
        run_hooks,
        case: Some(Case {
            layers: line.layers,
            home: line.home,
            hooks_inline: line.hooks_inline,
            trusted: line.trusted,
            sandbox_available: line.sandbox_available,
        }),
        context: Context {
            mode: line.mode.or_else(|| call.context.mode.clone()),
            interactive: line.interactive.unwrap_or(true),
            ..call.context.clone()
        },
        ..CheckRequest::default()
    })
}

/// Reads a JSON object with the strict reader: bounded depth, no key twice.
pub(super) fn strict(text: &[u8]) -> Result<Value, String> {
    use stockade_text::json::{Dialect, read};
    read(text, Dialect::Strict).map_err(|error| format!("byte {}: {}", error.at, error.message))?;
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if value.is_object() { Ok(value) } else { Err("it must be an object".into()) }
}

fn refusal(failure: &Failure) -> DecisionView {
    DecisionView {
        decision: "deny".into(),
        source: "builtin".into(),
        reason: failure.message.clone(),
        code: failure.code.name().into(),
        ..DecisionView::default()
    }
}

/// Returns the answer as `--jsonl` and `--json` print it.
fn answer(decision: &DecisionView) -> Value {
    let part = |part: &crate::protocol::types::PartView| {
        json!({
            "text": part.text,
            "span": [part.span.0, part.span.1],
            "decision": part.decision,
            "rule": part.rule,
            "reason": part.reason,
        })
    };
    let mut told = json!({
        "decision": decision.decision,
        "rule": decision.rule,
        "source": decision.source,
        "file": decision.file,
        "line": decision.line,
        "column": decision.column,
        "commands": decision.commands.iter().map(part).collect::<Vec<_>>(),
        "reason": decision.reason,
        "settings_sha256": decision.settings_sha256,
        "input": decision.input,
    });
    if let (1.., Some(members)) = (decision.commands_unlisted, told.as_object_mut()) {
        members.insert("commands_unlisted".to_owned(), decision.commands_unlisted.into());
    }
    if let (false, Some(members)) = (decision.evidence.is_null(), told.as_object_mut()) {
        members.insert("explanation".to_owned(), decision.evidence.clone());
    }
    with_hooks(told, decision)
}

/// Adds what hooks did and said, where there were any.
pub(super) fn with_hooks(mut object: Value, decision: &DecisionView) -> Value {
    if let Some(members) = object.as_object_mut() {
        if !decision.hooks.is_empty() {
            members.insert("hooks".into(), json!(decision.hooks));
        }
        if !decision.context.is_empty() {
            members.insert("context".into(), json!(decision.context));
        }
    }
    object
}

fn print(value: &Value) -> Result<(), Failure> {
    failure::print(&value.to_string()).map_err(failure::unwritable)
}
