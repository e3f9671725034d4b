//! `stockade parse`: what a text could start, write and read.

use std::io::{BufReader, Stdin, Write as _};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};
use stockade_parser::{
    CommandTree, Limits, Opaque, Reason, SimpleCommand, SourcePosition, StartState, Target, Word,
    explain,
};

use super::check::{read_line, strict};
use super::{args, context, failure};
use crate::parse::Scanner;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

/// Most texts that go to the worker in one trip.
const BATCH: usize = 256;

/// Prints the tree of what `options` names.
pub(crate) async fn parse(options: args::Parse) -> Result<ExitCode, Failure> {
    let executable = crate::client::Options::default().executable()?;
    let scanner = Scanner::new(executable);
    if options.jsonl {
        return texts(&scanner).await;
    }
    let text = context::shown(&context::command_text(options.command)?);
    let tree = scanner.parse(text.as_bytes(), &StartState::default(), &Limits::default()).await;
    if options.common.json {
        print(&answer(&Value::Null, &tree))?;
    } else {
        failure::print(&explain::tree(&tree)).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line of `parse --jsonl`.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    id: Value,
    command: String,
}

/// Answers one text a line, in order. Lines that are there already are read together; nothing waits for
/// more. A line that holds no text is answered as unknown and makes the exit status 122.
async fn texts(scanner: &Scanner) -> Result<ExitCode, Failure> {
    let mut input = BufReader::with_capacity(256 << 10, std::io::stdin());
    let mut number = 0u64;
    let mut unread = None;
    loop {
        let lines = next_lines(&mut input)?;
        if lines.is_empty() {
            break;
        }
        let mut read = Vec::with_capacity(lines.len());
        for line in &lines {
            number += 1;
            read.push(text(line));
            if let (Some(Err(reason)), None) = (read.last(), &unread) {
                unread = Some(format!("line {number} is no text: {reason}"));
            }
        }
        let sources =
            read.iter().flatten().map(|line| line.command.clone().into_bytes()).collect::<Vec<_>>();
        let start = StartState::default();
        let trees = scanner.parse_batch(sources, &start, &Limits::default()).await;
        print_all(&read, trees)?;
    }
    match unread {
        None => Ok(ExitCode::SUCCESS),
        Some(message) => Ok(failure::fail(&Failure::new(
            Code::InvalidRequest,
            message,
            "a text is an object with `command` and, if you like, `id`",
        ))),
    }
}

/// Waits for one line and takes those that were read along with it, without empty ones.
fn next_lines(input: &mut BufReader<Stdin>) -> Result<Vec<Vec<u8>>, Failure> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if read_line(input, &mut line)? == 0 {
            return Ok(lines);
        }
        if !line.trim_ascii().is_empty() {
            lines.push(line);
        }
        let more = input.buffer().contains(&b'\n');
        if !lines.is_empty() && (!more || lines.len() >= BATCH) {
            return Ok(lines);
        }
    }
}

fn text(line: &[u8]) -> Result<Line, String> {
    serde_json::from_value(strict(line)?).map_err(|error| error.to_string())
}

fn print_all(read: &[Result<Line, String>], trees: Vec<CommandTree>) -> Result<(), Failure> {
    let mut trees = trees.into_iter();
    let mut text = Vec::new();
    for line in read {
        let value = match line {
            Ok(line) => match trees.next() {
                Some(tree) => answer(&line.id, &tree),
                None => nothing(&line.id, "the text was not read"),
            },
            Err(reason) => nothing(&Value::Null, reason),
        };
        text.extend_from_slice(value.to_string().as_bytes());
        text.push(b'\n');
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&text).and_then(|()| stdout.flush()).map_err(failure::unwritable)
}

/// The answer to a text: nothing is left out, and what is not understood makes it dynamic.
fn answer(id: &Value, tree: &CommandTree) -> Value {
    let starts = tree.commands().iter().filter(|command| !command.words.is_empty());
    json!({
        "id": id,
        "commands": starts.map(command).collect::<Vec<_>>(),
        "writes": tree.writes().iter().map(target).collect::<Vec<_>>(),
        "reads": tree.reads().iter().map(target).collect::<Vec<_>>(),
        "dynamic": tree.is_dynamic(),
        "error": tree.opaque_spans().iter().find(|opaque| is_parse_matter(opaque.reason)).map(|opaque| error(tree, opaque)),
    })
}

fn nothing(id: &Value, reason: &str) -> Value {
    json!({"id": id, "commands": [], "writes": [], "reads": [], "dynamic": true, "error": reason})
}

fn command(command: &SimpleCommand) -> Value {
    let argv: Vec<Value> = command.words.iter().map(word).collect();
    let dynamic = argv.first().is_none_or(Value::is_null);
    let via: Vec<&str> = command.via.iter().map(|via| via.program.as_str()).collect();
    json!({
        "argv": argv,
        "dynamic": dynamic,
        "via": via,
        "span": [command.span.start, command.span.end],
    })
}

fn target(target: &Target) -> Value {
    word(&target.word)
}

/// A word whose value the text tells, as a string; any other, and one that is not UTF-8, as null.
fn word(word: &Word) -> Value {
    let exact = word.exact().and_then(|bytes| std::str::from_utf8(bytes).ok());
    exact.map_or(Value::Null, Value::from)
}

/// Says whether a reason is about reading the text, rather than about what the text does when it runs.
fn is_parse_matter(reason: Reason) -> bool {
    let code = reason.code();
    code.starts_with("limit-")
        || code.starts_with("witness-")
        || matches!(
            reason,
            Reason::Syntax
                | Reason::Version
                | Reason::Dialect
                | Reason::ArithOrSubshell
                | Reason::ControlByte
                | Reason::HiddenText
                | Reason::NotUtf8
                | Reason::Nul
        )
}

fn error(tree: &CommandTree, opaque: &Opaque) -> String {
    let at = SourcePosition::at(tree.source(), opaque.span.start as usize);
    let code = opaque.reason.code();
    let detail = if opaque.detail.is_empty() { opaque.reason.help() } else { &opaque.detail };
    let detail = words::one_line(detail.trim_end_matches('.'));
    format!("{code} at line {}, column {}: {detail}", at.line, at.column)
}

fn print(value: &Value) -> Result<(), Failure> {
    failure::print(&value.to_string()).map_err(failure::unwritable)
}
