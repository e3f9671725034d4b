//! The recorder's end: takes the records of one user, and believes none of them.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, sync_channel};

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::board::{Board, Known, Reply};
use super::ledger::Ledger;
use super::{Asked, Following, LONGEST, Told, Wanted, receive, send};
use crate::clock::is_ulid;
use crate::error::Error;
use crate::hash::hex;
use crate::query::along::{self, LogPosition, Owners, Start, Whose};
use crate::record::{Agreement, Body, Outcome};
use crate::wire::{self, Follow, Prepared};
use crate::writer::Job;
use crate::{Log, Receipt, line, schema};

/// Most records of one connection that wait to be written.
const WAITING: usize = 64;

/// Kinds of records that come from a gateway; the others are the recorder's own.
const KINDS: [&str; 8] =
    ["policy_load", "decision", "approval", "connection", "result", "grant", "hooks", "session"];

/// Members that name a user: they have to name the one that the connection is for.
const USERS: [&str; 2] = ["/caller/uid", "/who/uid"];

/// A request that is answered in its turn.
enum Pending {
    Record(Handed),
    Begin(Start),
    Read(LogPosition),
    Told(Told),
}

/// A record that was handed to the writer, or was not.
struct Handed {
    follow: Following,
    reference: Option<String>,
    /// Room was made for its command.
    begins: bool,
    answer: Result<oneshot::Receiver<Result<Receipt, Error>>, String>,
}

/// The user of a connection, as root told.
#[derive(Debug)]
pub struct User {
    /// The number of the user.
    pub uid: u32,
    /// Users whose records this one may read.
    pub whose: Whose,
    /// The name and groups of the user, where no file has them.
    pub known: Option<Known>,
}

/// Serves the gateway of `user` at the other end of `stream` until it leaves. Commands of which no end was told get a result
/// that says so.
///
/// # Errors
///
/// The error of the socket; records that came before it are written.
pub fn serve(log: &Log, ledger: &Ledger, stream: &UnixStream, user: &User) -> io::Result<()> {
    let (uid, known) = (user.uid, user.known.clone());
    let shared = &log.shared;
    let redact = hex(&shared.redactor.key_bytes());
    send(stream, &Told::Hello { redact, head: shared.head.clone(), known })?;
    let (handed, pending) = sync_channel(WAITING);
    let (mut open, mut posted) = (Vec::new(), Vec::new());
    let ended = std::thread::scope(|scope| {
        let answering = scope.spawn(move || answer(log, ledger, stream, user, &pending));
        let ended = loop {
            let pending = match receive(stream) {
                Ok(Asked::Write(wanted)) => Pending::Record(take(log, ledger, wanted, uid)),
                Ok(Asked::Begin(start)) => Pending::Begin(start),
                Ok(Asked::Read(place)) => Pending::Read(place),
                Ok(asked) => Pending::Told(asked_of_board(&ledger.1, user, asked, &mut posted)),
                Err(error) => break error,
            };
            if handed.send(pending).is_err() {
                break io::Error::other("nobody answers");
            }
        };
        drop(handed);
        open = answering.join().unwrap_or_default();
        ended
    });
    for id in &posted {
        ledger.1.close(uid, id);
    }
    for id in open.iter().filter(|id| ledger.runs(uid, id)) {
        let body = Body::Result(Box::new(Outcome::bare(id, Agreement::Unknown, "nobody")));
        let record = wire::prepare(&body, &shared.head, &shared.redactor);
        let answer = record.and_then(|record| give(log, record));
        // A result that cannot be written now is made from the mark of the command when the log is opened again.
        let _ = answer.map(oneshot::Receiver::blocking_recv);
        ledger.end(id);
    }
    match ended.kind() {
        io::ErrorKind::UnexpectedEof => Ok(()),
        _ => Err(ended),
    }
}

/// Answers in order, and returns the decisions whose commands may have run.
fn answer(
    log: &Log,
    ledger: &Ledger,
    stream: &UnixStream,
    user: &User,
    pending: &Receiver<Pending>,
) -> Vec<String> {
    let mut open = Vec::new();
    let mut owners = Owners::default();
    let mut is_gone = false;
    for pending in pending {
        let told = match pending {
            Pending::Record(handed) => written(ledger, user.uid, handed, &mut open),
            Pending::Begin(_) | Pending::Read(_) if is_gone => continue,
            Pending::Told(told) => told,
            Pending::Begin(start) => {
                told(along::begin(&log.shared.directory, &start).map(Told::Begun))
            }
            Pending::Read(place) => {
                let known = |id: &str| ledger.owner(id);
                let directory = &log.shared.directory;
                told(along::read(directory, place, user.whose, &mut owners, known).map(Told::Read))
            }
        };
        is_gone = is_gone || send(stream, &told).is_err();
    }
    open
}

/// Answers what is about the board; `posted` are the questions of this connection.
fn asked_of_board(board: &Board, user: &User, asked: Asked, posted: &mut Vec<String>) -> Told {
    let uid = user.uid;
    let done = |done: Result<(), String>| match done {
        Ok(()) => Told::Done,
        Err(cause) => Told::Refused { cause },
    };
    match asked {
        Asked::Post(question) => {
            let id = question.id.clone();
            let told = board.post(uid, question);
            if told.is_ok() && !posted.contains(&id) {
                posted.push(id);
            }
            done(told)
        }
        Asked::Close(id) => {
            board.close(uid, &id);
            posted.retain(|it| *it != id);
            Told::Done
        }
        Asked::Replies(id) => Told::Replies(board.replies(uid, &id)),
        Asked::Posted => Told::Posted(board.shown_to(uid, user.known.as_ref())),
        Asked::Reply { id, digest, answer } => {
            let known = user.known.clone();
            done(board.reply(&id, &digest, Reply { uid, known, answer }))
        }
        Asked::Write(_) | Asked::Begin(_) | Asked::Read(_) => {
            Told::Refused { cause: "not a question".to_owned() }
        }
    }
}

fn told(read: Result<Told, Error>) -> Told {
    read.unwrap_or_else(|error| Told::Refused { cause: error.cause() })
}

/// Waits until a record is on disk, or is known not to be.
fn written(ledger: &Ledger, uid: u32, handed: Handed, open: &mut Vec<String>) -> Told {
    let Handed { follow, reference, begins, answer } = handed;
    let written = match answer {
        Ok(answer) => match answer.blocking_recv() {
            Ok(written) => written.map_err(|error| error.cause()),
            Err(_) => Err("the writer has ended".to_owned()),
        },
        Err(cause) => Err(cause),
    };
    if begins {
        ledger.begun(uid);
    }
    if let Ok(receipt) = &written {
        ledger.note(uid, &receipt.id, follow);
        match (follow, reference) {
            (Following::Opens, _) => open.push(receipt.id.clone()),
            (Following::Closes, Some(reference)) => ledger.end(&reference),
            (Following::Closes | Following::None, _) => {}
        }
    }
    match written {
        Ok(Receipt { sequence, id }) => Told::Written { sequence, id },
        Err(cause) => Told::Refused { cause },
    }
}

fn take(log: &Log, ledger: &Ledger, wanted: Wanted, uid: u32) -> Handed {
    let (follow, reference) = (wanted.follow, wanted.reference.clone());
    let checked = checked(log, ledger, wanted, uid);
    let begins = follow == Following::Opens && checked.is_ok();
    let answer = checked.and_then(|record| give(log, record));
    Handed { follow, reference, begins, answer }
}

/// Hands a record to the writer.
fn give(log: &Log, record: Prepared) -> Result<oneshot::Receiver<Result<Receipt, Error>>, String> {
    let (answer, answered) = oneshot::channel();
    let jobs = log.shared.jobs.as_ref().ok_or("the writer has ended")?;
    jobs.blocking_send(Job { record, answer }).map_err(|_| "the writer has ended")?;
    Ok(answered)
}

/// Returns the record as it may be written for `uid`, or why it may not.
fn checked(log: &Log, ledger: &Ledger, wanted: Wanted, uid: u32) -> Result<Prepared, String> {
    let Wanted { kind, reference, members, follow } = wanted;
    let kind = KINDS.into_iter().find(|it| *it == kind).ok_or("no gateway writes that kind")?;
    if members.len() > LONGEST / 2 {
        return Err("the record is too long".into());
    }
    ledger.spend(uid, members.len())?;
    if let Some(reference) = &reference {
        if !is_ulid(reference) {
            return Err("its reference is not an identifier".into());
        }
        if ledger.is_anothers(uid, reference) {
            return Err("it refers to another user's decision".into());
        }
    }
    let members: Map<String, Value> = serde_json::from_str(&format!("{{{members}}}"))
        .map_err(|error| format!("its members cannot be read: {error}"))?;
    let mut members = Value::Object(members);
    for pointer in USERS {
        match members.pointer(pointer) {
            None => {}
            Some(named) if named.as_u64() == Some(u64::from(uid)) => {}
            Some(_) => return Err("it names another user".into()),
        }
    }
    // A person who approved has said so on a connection of that person's own.
    let question = members.pointer("/question").and_then(Value::as_str).unwrap_or_default();
    for approver in members.pointer("/approvers").and_then(Value::as_array).into_iter().flatten() {
        let named =
            approver.get("uid").and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
        let has = |it: u32| it == uid || ledger.1.has_answered(uid, question, it);
        if !named.is_some_and(has) {
            return Err("it names a person who has not answered".into());
        }
    }
    // The consequence for a command is read off the record, and not believed.
    if follow != followed(kind, &members) {
        return Err("it means something else for its command".into());
    }
    match follow {
        Following::Closes if kind == "result" => {
            let runs = reference.as_ref().is_some_and(|id| ledger.runs(uid, id));
            if !runs {
                return Err("no command of that decision runs".into());
            }
        }
        Following::Opens | Following::Closes | Following::None => {}
    }
    if kind == "decision" {
        stamp(&log.shared.head, &mut members);
    }
    let text = serde_json::to_string(&members).map_err(|error| error.to_string())?;
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    fits(kind, reference.as_deref(), inner)?;
    let members = inner.as_bytes().to_vec();
    if follow == Following::Opens {
        ledger.begin(uid)?;
    }
    Ok(Prepared { kind, reference, members, follow: Follow::from(follow) })
}

/// Returns what a record of `kind` means for the command that it is about.
fn followed(kind: &str, members: &Value) -> Following {
    let text = |pointer: &str| members.pointer(pointer).and_then(Value::as_str);
    match (kind, text("/runs"), text("/answer")) {
        ("decision", Some("gateway"), _) => Following::Opens,
        ("approval", _, Some("deny" | "withdrawn")) | ("result", _, _) => Following::Closes,
        _ => Following::None,
    }
}

/// Puts in what the recorder knows of this machine; of the gateway its own process number stays.
fn stamp(head: &Map<String, Value>, members: &mut Value) {
    let pid = members.pointer("/gateway/pid").and_then(Value::as_u64);
    for (name, value) in head {
        if let Some(member) = members.get_mut(name) {
            *member = value.clone();
        }
    }
    if let (Some(pid), Some(member)) = (pid, members.pointer_mut("/gateway/pid")) {
        *member = pid.into();
    }
}

/// Checks a record against the table of members, with stand-ins for what its place in the chain gives it.
fn fits(kind: &str, reference: Option<&str>, inner: &str) -> Result<(), String> {
    let reference = reference.map(|id| format!(r#""ref":"{id}","#)).unwrap_or_default();
    let line = format!(
        r#"{{"v":1,"kind":"{kind}","chain":"{}","seq":0,"prev":"{}","id":"{}",{reference}"time":"{}","mono_us":0,"boot":"-",{inner}}}"#,
        "0".repeat(32),
        "0".repeat(64),
        "0".repeat(26),
        "2000-01-01T00:00:00.000000000Z",
    );
    let (_, record) = line::read(line.as_bytes())?;
    schema::check(kind, &record)
}
