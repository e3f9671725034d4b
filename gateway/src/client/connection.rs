//! A gateway behind a socket: requests out, answers, events and questions in.
//!
//! The greeting goes out with the first request, in one piece, and its answer is read first: a gateway of another
//! version refuses both. What is only judged is waited for without a runtime.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Conversation, PendingQuestion, peer};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Lines, RpcError};
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, Control, DecisionView, Event, EventRequest, EventView,
    Input, Question, RunOutcome, VERSION,
};

/// How long a gateway may take to say hello.
const HELLO: Duration = Duration::from_secs(5);
/// Identity of the greeting; requests count on from it.
const GREETING: u64 = 1;
/// Pieces of standard input that may be on the way; the gateway says when it has taken one.
pub(crate) const WINDOW: usize = 8;

/// A connection to a gateway of this user.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    path: PathBuf,
    /// What was read and not looked at yet.
    lines: Lines,
    last_id: u64,
}

/// A message of a gateway to one that waits for a result of type `R`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "R: DeserializeOwned")]
struct Message<R> {
    jsonrpc: String,
    id: Option<Value>,
    method: Option<String>,
    params: Option<Params>,
    result: Option<R>,
    error: Option<RpcError>,
}

/// What comes with a notification or a question; a later minor version may tell more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Params {
    event: Option<Event>,
    question: Option<Question>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Unreached {
    /// No gateway of this user is there.
    Nobody(Failure),
    /// Something of this user is there that is not to be believed.
    Refused(Failure),
}

impl From<Unreached> for Failure {
    fn from(why: Unreached) -> Failure {
        match why {
            Unreached::Nobody(failure) | Unreached::Refused(failure) => failure,
        }
    }
}

/// Connects, and waits no longer than for the greeting where nobody takes connections.
fn dial(path: &Path) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    set_socket_timeout(&socket, Timeout::Send, Some(HELLO))?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

impl<R> Message<R> {
    /// Returns the result if this is the answer to request `id`, or its failure; none for all else.
    fn answers(self, id: u64) -> Option<Result<R, Failure>> {
        let of_it = self.id.as_ref().and_then(Value::as_u64) == Some(id);
        match (self.method, self.result, self.error) {
            (None, Some(result), None) if of_it => Some(Ok(result)),
            // What the gateway could not read has no identity.
            (None, None, Some(error)) => Some(Err(error.into_failure())),
            (_, _, _) => None,
        }
    }
}

impl Connection {
    /// Connects to the gateway at `path`.
    pub(super) fn open(path: &Path) -> Result<Connection, Unreached> {
        let nobody = |reason: &str| Unreached::Nobody(unreachable(path, reason));
        let stream = dial(path).map_err(std::io::Error::from);
        let stream = stream.map_err(|error| match is_late(&error) {
            true => Unreached::Refused(unreachable(path, "it takes no more connections")),
            false => nobody(&error.to_string()),
        })?;
        let peer = socket_peercred(&stream).map_err(|error| nobody(&error.to_string()))?;
        if peer.uid != rustix::process::geteuid() {
            return Err(nobody(&format!("uid {} listens there", peer.uid.as_raw())));
        }
        peer::check(&stream, peer.pid, path)
            .map_err(|reason| Unreached::Refused(untrusted(path, &reason)))?;
        let (path, lines) = (path.to_owned(), Lines::default());
        Ok(Connection { stream, path, lines, last_id: 0 })
    }

    /// Judges one call.
    pub(super) fn check(&mut self, request: &CheckRequest) -> Result<DecisionView, Failure> {
        self.call("check", request)
    }

    /// Tells of an event.
    pub(super) fn tell(&mut self, request: &EventRequest) -> Result<EventView, Failure> {
        self.call("tell", request)
    }

    /// Runs one command to its end.
    pub(super) async fn run(&mut self, request: CommandRequest, talk: Conversation) -> RunOutcome {
        let outcome = match self.request("run", &request) {
            Ok(id) => self.exchange(id, talk).await,
            Err(failure) => Err(failure),
        };
        outcome.unwrap_or_else(RunOutcome::Failed)
    }

    async fn exchange(&mut self, id: u64, talk: Conversation) -> Result<RunOutcome, Failure> {
        let shared = |error: std::io::Error| unreachable(&self.path, &error.to_string());
        self.stream.set_nonblocking(true).map_err(shared)?;
        let stream = self.stream.try_clone().and_then(tokio::net::UnixStream::from_std);
        let stream = stream.map_err(shared)?;
        let outcome = Exchange::new(&stream, &mut self.lines, id, talk).finish().await;
        drop(stream);
        self.stream.set_nonblocking(false).map_err(|_| gone())?;
        outcome
    }

    /// Sends a request and waits for its answer.
    fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        let id = self.request(method, params)?;
        loop {
            let message: Message<R> = self.message()?;
            // Nothing is asked of this side, and what else comes is left over from a former call.
            if let Some(result) = message.answers(id) {
                return result;
            }
        }
    }

    /// Sends a request, the first one behind the greeting; returns its identity when the gateway has greeted, too.
    fn request(&mut self, method: &str, params: &impl Serialize) -> Result<u64, Failure> {
        let greets = self.last_id == 0;
        let mut lines = Vec::new();
        if greets {
            self.last_id = GREETING;
            let hello = json!({"protocol": VERSION, "version": env!("CARGO_PKG_VERSION")});
            let hello = frames::request(GREETING, "hello", &hello);
            lines = hello.map_err(|error| nonsense(&error.to_string()))?;
        }
        self.last_id += 1;
        let line = frames::request(self.last_id, method, params);
        let line = line.map_err(|error| nonsense(&error.to_string()))?;
        if line.len() > frames::LONGEST_LINE {
            let message = format!("the request is longer than {} bytes", frames::LONGEST_LINE);
            return Err(Failure::new(Code::InvalidRequest, message, ""));
        }
        lines.extend_from_slice(&line);
        // One that closed the connection may have said why.
        let sent = self.stream.write_all(&lines);
        if greets {
            self.greeted()?;
        }
        sent.map_err(|_| gone())?;
        Ok(self.last_id)
    }

    /// Waits for the answer to the greeting.
    fn greeted(&mut self) -> Result<(), Failure> {
        let silent = || unreachable(&self.path, "it does not say hello");
        self.stream.set_read_timeout(Some(HELLO)).map_err(|_| gone())?;
        let line = loop {
            match self.lines.next() {
                Ok(Some(line)) => break line,
                Ok(None) => {}
                Err(error) => return Err(nonsense(&error.to_string())),
            }
            match self.lines.fill(&mut self.stream) {
                Ok(0) => return Err(gone()),
                Err(error) if is_late(&error) => return Err(silent()),
                Ok(_) => {}
                Err(_) => return Err(gone()),
            }
        };
        self.stream.set_read_timeout(None).map_err(|_| gone())?;
        let answer = message::<Value>(&line)?.answers(GREETING);
        answer.ok_or_else(|| nonsense("it answers before it greets"))?.map(drop)
    }

    /// Waits for the next message.
    fn message<R: DeserializeOwned>(&mut self) -> Result<Message<R>, Failure> {
        loop {
            if let Some(line) = self.lines.next().map_err(|error| nonsense(&error.to_string()))? {
                return message(&line);
            }
            match self.lines.fill(&mut self.stream) {
                Ok(0) => return Err(gone()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(gone()),
            }
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn message<R: DeserializeOwned>(line: &[u8]) -> Result<Message<R>, Failure> {
    let message: Message<R> =
        serde_json::from_slice(line).map_err(|error| nonsense(&error.to_string()))?;
    match message.jsonrpc.as_str() {
        "2.0" => Ok(message),
        _ => Err(nonsense("it speaks another JSON-RPC")),
    }
}

/// One command that runs on the other side.
struct Exchange<'a> {
    stream: &'a tokio::net::UnixStream,
    lines: &'a mut Lines,
    id: u64,
    talk: Conversation,
    /// An event that the front end has no room for yet; nothing more is read until it has.
    event: Option<Event>,
    /// Lines for which the socket has no room yet.
    unsent: Vec<u8>,
    /// Questions in the order asked; the first is waited for.
    asked: VecDeque<(Value, oneshot::Receiver<Answer>)>,
    /// Pieces of input that the gateway has not taken yet.
    on_the_way: usize,
    input_open: bool,
    control_open: bool,
}

/// What happens next.
enum Happened {
    Message(Box<Message<RunOutcome>>),
    Progress,
    Input(Option<Input>),
    Control(Option<Control>),
    Answered(Answer),
}

impl<'a> Exchange<'a> {
    fn new(
        stream: &'a tokio::net::UnixStream,
        lines: &'a mut Lines,
        id: u64,
        talk: Conversation,
    ) -> Exchange<'a> {
        Exchange {
            stream,
            lines,
            id,
            talk,
            event: None,
            unsent: Vec::new(),
            asked: VecDeque::new(),
            on_the_way: 0,
            input_open: true,
            control_open: true,
        }
    }

    async fn finish(mut self) -> Result<RunOutcome, Failure> {
        loop {
            match self.next().await? {
                Happened::Message(message) => {
                    if let Some(outcome) = self.message(*message).await? {
                        return Ok(outcome);
                    }
                }
                Happened::Progress => {}
                Happened::Input(piece) => {
                    self.input_open = matches!(piece, Some(Input::Stdin(_)));
                    let piece = piece.unwrap_or(Input::StdinEnd);
                    self.on_the_way += 1;
                    self.notify("stdin", &json!({"run": self.id, "input": piece}))?;
                }
                Happened::Control(Some(control)) => {
                    self.notify("control", &json!({"run": self.id, "control": control}))?;
                }
                Happened::Control(None) => self.control_open = false,
                Happened::Answered(answer) => {
                    if let Some((id, _)) = self.asked.pop_front() {
                        self.answer(&id, answer)?;
                    }
                }
            }
        }
    }

    /// Waits for the next thing. Every branch is safe to cancel.
    async fn next(&mut self) -> Result<Happened, Failure> {
        let Exchange { stream, lines, talk, event, unsent, asked, .. } = self;
        let accepts_input = self.input_open && unsent.is_empty() && self.on_the_way < WINDOW;
        tokio::select! {
            () = send(stream, unsent), if !unsent.is_empty() => Ok(Happened::Progress),
            permit = talk.events.reserve(), if event.is_some() => {
                if let (Ok(permit), Some(event)) = (permit, event.take()) {
                    permit.send(event);
                }
                Ok(Happened::Progress)
            }
            line = receive(stream, lines), if event.is_none() => {
                Ok(Happened::Message(Box::new(message(&line?)?)))
            }
            control = talk.control.recv(), if self.control_open => Ok(Happened::Control(control)),
            piece = talk.input.recv(), if accepts_input => Ok(Happened::Input(piece)),
            answer = first_answer(asked), if !asked.is_empty() => Ok(Happened::Answered(answer)),
        }
    }

    async fn message(
        &mut self,
        message: Message<RunOutcome>,
    ) -> Result<Option<RunOutcome>, Failure> {
        let Message { id, method, params, .. } = &message;
        match (method.as_deref(), id) {
            (Some("event"), None) => self.event = message.params.and_then(|params| params.event),
            (Some("stdin_taken"), None) => self.on_the_way = self.on_the_way.saturating_sub(1),
            // What a later minor version may tell besides.
            (Some(_), None) => {}
            (Some(method), Some(id)) => {
                let question = params.as_ref().and_then(|params| params.question.clone());
                let question = question.filter(|_| method == "question");
                self.question(id.clone(), question).await?;
            }
            (None, _) => return message.answers(self.id).transpose(),
        }
        Ok(None)
    }

    async fn question(&mut self, id: Value, question: Option<Question>) -> Result<(), Failure> {
        let (Some(question), Some(questions)) = (question, &self.talk.questions) else {
            return self.answer(&id, Answer::Withdrawn);
        };
        let (answer, receiver) = oneshot::channel();
        // A front end that no longer listens drops the sender, which withdraws the question.
        let _ = questions.send(PendingQuestion { question, answer }).await;
        self.asked.push_back((id, receiver));
        Ok(())
    }

    fn answer(&mut self, id: &Value, answer: Answer) -> Result<(), Failure> {
        self.put(frames::answer(id, &answer))
    }

    fn notify(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        self.put(frames::notification(method, params))
    }

    fn put(&mut self, line: serde_json::Result<Vec<u8>>) -> Result<(), Failure> {
        self.unsent.extend(line.map_err(|error| nonsense(&error.to_string()))?);
        Ok(())
    }
}

/// Sends what the socket has room for. One that is closed takes all of it: what was said before can still be read.
async fn send(stream: &tokio::net::UnixStream, unsent: &mut Vec<u8>) {
    if stream.writable().await.is_err() {
        return unsent.clear();
    }
    match stream.try_write(unsent) {
        Ok(count) => drop(unsent.drain(..count.min(unsent.len()))),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => unsent.clear(),
    }
}

/// Waits for the next line. Dropping the future loses nothing.
async fn receive(stream: &tokio::net::UnixStream, lines: &mut Lines) -> Result<Vec<u8>, Failure> {
    loop {
        if let Some(line) = lines.next().map_err(|error| nonsense(&error.to_string()))? {
            return Ok(line);
        }
        stream.readable().await.map_err(|_| gone())?;
        match lines.fill_from(|buffer| stream.try_read(buffer)) {
            Ok(0) => return Err(gone()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Err(gone()),
        }
    }
}

/// Waits for the answer to the first question; one that went away withdraws it.
async fn first_answer(asked: &mut VecDeque<(Value, oneshot::Receiver<Answer>)>) -> Answer {
    match asked.front_mut() {
        Some((_, receiver)) => receiver.await.unwrap_or(Answer::Withdrawn),
        None => std::future::pending().await,
    }
}

fn unreachable(path: &Path, reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("no gateway of yours answers at `{}`: {reason}", path.display()),
        "start one with `stockade serve`, or leave `--socket` out",
    )
}

fn untrusted(path: &Path, reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("what listens at `{}` is not taken for a gateway: {reason}", path.display()),
        "end that process and remove the socket; no command may write where it lies",
    )
}

fn gone() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "the gateway went away before it answered",
        "`stockade audit tail` shows whether the command ran",
    )
}

fn nonsense(reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("the gateway and this program do not understand each other: {reason}"),
        "stop the gateway and start it again from this version",
    )
}
