//! `stockade parse`: what a text could start, write and read.

use crate::cli::exit::ExitCode;
use std::io::{BufRead as _, BufReader, Stdin, Write as _};

use serde::Deserialize;
use serde_json::{Value, json};
use stockade_parser::{
    CommandTree, Draft, Limits, Opaque, Programs, Reason, SimpleCommand, SourcePosition,
    StartState, Target, Word,
};
use tokio::sync::mpsc;

use super::check::{LONGEST_LINE, read_line, strict};
use super::{args, context, failure};
use crate::parse::Scanner;
use crate::prefork::Prefork;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

/// Most texts that go to the worker in one trip.
const BATCH: usize = 256;

/// Prints the tree of what `options` names.
pub(crate) async fn parse(options: args::Parse) -> Result<ExitCode, Failure> {
    let executable = stockade_client::Options::default().executable()?;
    let scanner = Scanner::new(executable, Prefork::default().scan_worker());
    if options.jsonl {
        return texts(&scanner).await;
    }
    let text = context::shown(&context::command_text(options.command)?);
    let tree = scanner.parse(text.as_bytes(), &StartState::default(), &Limits::default()).await;
    if options.common.json {
        print(&answer(&Value::Null, &tree))?;
    } else {
        failure::print(&stockade_explain::tree(&tree)).map_err(failure::unwritable)?;
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

/// How a line is to be written.
const A_LINE: &str = "use an object with `command` and, optionally, `id`";

/// Lines that were read together, and what the parser made of those that hold a text.
struct Batch {
    read: Vec<Result<Line, Unread>>,
    drafts: Vec<Draft>,
}

/// A line that holds no text: its id, if that can be told, and why.
struct Unread {
    id: Value,
    reason: String,
}

/// Batches that are parsed while the worker still reads the one before them.
const BATCHES_AHEAD: usize = 2;

/// Answers one text a line, in order. Lines that are there already are read together; nothing waits for
/// more. A line that holds no text is answered as unknown and makes the exit status 122.
///
/// A thread reads and parses lines while the worker, in its process, reads the texts of the batch before.
async fn texts(scanner: &Scanner) -> Result<ExitCode, Failure> {
    scanner.warm();
    let (sender, mut batches) = mpsc::channel(BATCHES_AHEAD);
    let reader = tokio::task::spawn_blocking(move || read_batches(&sender));
    let (mut number, mut unread) = (0_u64, None);
    while let Some(Batch { read, drafts }) = batches.recv().await {
        for line in &read {
            number += 1;
            if let (Err(Unread { reason, .. }), None) = (line, &unread) {
                unread = Some(format!("line {number} is invalid: {reason}"));
            }
        }
        let trees = scanner.confirm_all(drafts).await;
        print_all(&read, trees)?;
    }
    match reader.await {
        Ok(read) => read?,
        Err(error) => return Err(Failure::new(Code::Internal, error.to_string(), "")),
    }
    match unread {
        None => Ok(ExitCode::SUCCESS),
        Some(message) => {
            Ok(failure::fail(&Failure::new(Code::InvalidRequest, message, A_LINE)).into())
        }
    }
}

/// Reads lines to the end of standard input, parses them, and hands them on.
fn read_batches(batches: &mpsc::Sender<Batch>) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(256 << 10, std::io::stdin());
    let (start, limits) = (StartState::default(), Limits::default());
    loop {
        let lines = next_lines(&mut input)?;
        if lines.is_empty() {
            return Ok(());
        }
        let read: Vec<_> = lines
            .into_iter()
            .map(|line| match line {
                Ok(line) => text(&line),
                Err(reason) => Err(Unread { id: Value::Null, reason }),
            })
            .collect();
        let parse = |line: &Line| {
            stockade_parser::parse(line.command.as_bytes(), &start, Programs::builtin(), &limits)
        };
        let drafts = read.iter().flatten().map(parse).collect();
        // Nobody receives any more only when writing failed, and then that is the failure.
        if batches.blocking_send(Batch { read, drafts }).is_err() {
            return Ok(());
        }
    }
}

/// Waits for one line and takes those that were read along with it, without empty ones. Of a line that is too
/// long only that is kept, and why.
fn next_lines(input: &mut BufReader<Stdin>) -> Result<Vec<Result<Vec<u8>, String>>, Failure> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        match read_line(input, &mut line) {
            Ok(0) => return Ok(lines),
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => lines.push(Ok(line)),
            // Only a line that is cut short leaves something behind.
            Err(failure) if line.len() > LONGEST_LINE => {
                input.skip_until(b'\n').map_err(|_| failure.clone())?;
                lines.push(Err(failure.message));
            }
            Err(failure) => return Err(failure),
        }
        let more = input.buffer().contains(&b'\n');
        if !lines.is_empty() && (!more || lines.len() >= BATCH) {
            return Ok(lines);
        }
    }
}

fn text(line: &[u8]) -> Result<Line, Unread> {
    let value = match strict(line) {
        Ok(value) => value,
        Err(reason) => return Err(without_surrogates(line, reason)),
    };
    let id = value.get("id").cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| Unread { id, reason: error.to_string() })
}

/// Half of a surrogate pair is not text, but the line is answered with its id.
fn without_surrogates(line: &[u8], reason: String) -> Unread {
    let mut mended = line.to_vec();
    let mut at = 0;
    while let Some(byte) = mended.get(at).copied() {
        let escape = mended.get_mut(at..at + 6).filter(|_| byte == b'\\');
        at += match escape {
            Some([_, b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', _, _]) => {
                mended.splice(at..at + 6, *b"\\ufffd");
                6
            }
            _ if byte == b'\\' => 2,
            _ => 1,
        };
    }
    match strict(&mended) {
        Ok(value) => Unread {
            id: value.get("id").cloned().unwrap_or_default(),
            reason: format!("not-utf8: {reason}"),
        },
        Err(_) => Unread { id: Value::Null, reason },
    }
}

fn print_all(read: &[Result<Line, Unread>], trees: Vec<CommandTree>) -> Result<(), Failure> {
    let mut trees = trees.into_iter();
    let mut text = Vec::new();
    for line in read {
        let value = match line {
            Ok(line) => match trees.next() {
                Some(tree) => answer(&line.id, &tree),
                None => nothing(&line.id, "the text was not read"),
            },
            Err(Unread { id, reason }) => nothing(id, reason),
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
    let mut answer = json!({
        "id": id,
        "commands": starts.map(command).collect::<Vec<_>>(),
        "writes": tree.writes().iter().map(target).collect::<Vec<_>>(),
        "reads": tree.reads().iter().map(target).collect::<Vec<_>>(),
        "dynamic": tree.is_dynamic(),
        "error": tree.opaque_spans().iter().find(|opaque| is_parse_matter(opaque.reason)).map(|opaque| error(tree, opaque)),
    });
    let unknown: Vec<Value> = tree.opaque_spans().iter().map(unknown).collect();
    if let (false, Some(answer)) = (unknown.is_empty(), answer.as_object_mut()) {
        answer.insert("unknown".to_owned(), unknown.into());
    }
    let unread: Vec<Value> = tree.unread().iter().map(|unread| not_read(tree, unread)).collect();
    if let (false, Some(answer)) = (unread.is_empty(), answer.as_object_mut()) {
        answer.insert("unread".to_owned(), unread.into());
    }
    answer
}

/// One text of another language that is not read, and where it stands.
fn not_read(tree: &CommandTree, unread: &stockade_parser::Unread) -> Value {
    json!({
        "text": String::from_utf8_lossy(unread.span.of(tree.source())),
        "span": [unread.span.start, unread.span.end],
    })
}

/// One part that is not understood: what, where, and how to write it so that it is.
fn unknown(opaque: &Opaque) -> Value {
    json!({
        "code": opaque.reason.code(),
        "reason": opaque.reason.help().trim_end_matches('.'),
        "detail": opaque.detail,
        "span": [opaque.span.start, opaque.span.end],
        "help": opaque.instead(),
    })
}

/// The answer to a line that holds no text.
fn nothing(id: &Value, reason: &str) -> Value {
    let unknown = json!({
        "code": "no-text",
        "reason": "the line is empty",
        "detail": reason,
        "span": null,
        "help": A_LINE,
    });
    json!({
        "id": id, "commands": [], "writes": [], "reads": [], "dynamic": true, "error": reason,
        "unknown": [unknown],
    })
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
                | Reason::Zsh
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
