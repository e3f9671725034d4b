//! A gateway behind a socket: requests out, answers, events and questions in.
//!
//! The greeting goes out with the first request, in one piece, and its answer is read first: a gateway of another
//! version refuses both. What is only judged is waited for without a runtime.

use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attended::Attended;
use super::exchange::Exchange;
use super::talk::Talk;
use super::{Conversation, peer};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Lines, RpcError};
use crate::protocol::tasks::{TaskAnswer, TaskRequest};
use crate::protocol::types::{
    CheckRequest, CommandRequest, DecisionView, Event, EventRequest, EventView, Question,
    RunOutcome, VERSION,
};

/// How long a gateway may take to say hello.
pub(super) const HELLO: Duration = Duration::from_secs(5);
/// Identity of the greeting; requests count on from it.
const GREETING: u64 = 1;
/// A connection to a gateway of this user.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    path: PathBuf,
    /// What was read and not looked at yet.
    lines: Lines,
    last_id: u64,
}

/// A message of a gateway to one that waits for a result of type `R`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "R: DeserializeOwned")]
pub(super) struct Message<R> {
    jsonrpc: String,
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    pub(super) params: Option<Params>,
    result: Option<R>,
    error: Option<RpcError>,
}

/// What comes with a notification or a question; a later minor version may tell more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    pub(super) event: Option<Event>,
    pub(super) question: Option<Question>,
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
    pub(super) fn answers(self, id: u64) -> Option<Result<R, Failure>> {
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

    /// Asks about background tasks.
    pub(super) fn task(&mut self, request: &TaskRequest) -> Result<TaskAnswer, Failure> {
        self.call("task", request)
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

    /// Asks for one command to be run, behind the greeting: nothing is sent yet.
    pub(crate) fn attend(mut self, request: &CommandRequest) -> Result<Attended, Failure> {
        let (id, lines) = self.written("run", request)?;
        let Connection { stream, path, lines: received, .. } = self;
        Ok(Attended::new(stream, path, received, Talk::new(id, lines)))
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

    /// Returns the identity of a request and its line, the first one behind the greeting.
    fn written(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(u64, Vec<u8>), Failure> {
        let mut lines = Vec::new();
        if self.last_id == 0 {
            self.last_id = GREETING;
            let hello = Hello { protocol: VERSION, version: env!("CARGO_PKG_VERSION") };
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
        Ok((self.last_id, lines))
    }

    /// Sends a request, the first one behind the greeting; returns its identity when the gateway has greeted, too.
    fn request(&mut self, method: &str, params: &impl Serialize) -> Result<u64, Failure> {
        let greets = self.last_id == 0;
        let (id, lines) = self.written(method, params)?;
        // One that closed the connection may have said why.
        let sent = self.stream.write_all(&lines);
        if greets {
            self.greeted()?;
        }
        sent.map_err(|_| gone())?;
        Ok(id)
    }

    /// Waits for the answer to the greeting.
    fn greeted(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + HELLO;
        let line = loop {
            match self.lines.next_line() {
                Ok(Some(line)) => break line,
                Ok(None) => {}
                Err(error) => return Err(nonsense(&error.to_string())),
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(silent(&self.path));
            }
            self.fill(Some(rest))?;
        };
        greeting(&line)
    }

    /// Reads a piece when it is there, or nothing when `limit` is over before.
    fn fill(&mut self, limit: Option<Duration>) -> Result<(), Failure> {
        // A read that waits would also be woken when the gateway takes what was sent.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = [PollFd::new(&self.stream, PollFlags::IN)];
        match poll(&mut events, limit.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(_) => return Err(gone()),
        }
        match self.lines.fill(&mut self.stream) {
            Ok(0) => Err(gone()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(gone()),
        }
    }

    /// Waits for the next message.
    fn message<R: DeserializeOwned>(&mut self) -> Result<Message<R>, Failure> {
        loop {
            if let Some(line) =
                self.lines.next_line().map_err(|error| nonsense(&error.to_string()))?
            {
                return message(&line);
            }
            self.fill(None)?;
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// What the gateway is told first.
#[derive(Serialize)]
struct Hello {
    protocol: u32,
    version: &'static str,
}

/// Reads the answer to the greeting.
pub(super) fn greeting(line: &[u8]) -> Result<(), Failure> {
    let answer = message::<IgnoredAny>(line)?.answers(GREETING);
    answer.ok_or_else(|| nonsense("it answers before it greets"))?.map(drop)
}

pub(super) fn message<R: DeserializeOwned>(line: &[u8]) -> Result<Message<R>, Failure> {
    let message: Message<R> =
        serde_json::from_slice(line).map_err(|error| nonsense(&error.to_string()))?;
    match message.jsonrpc.as_str() {
        "2.0" => Ok(message),
        _ => Err(nonsense("it speaks another JSON-RPC")),
    }
}

pub(super) fn silent(path: &Path) -> Failure {
    unreachable(path, "it does not say hello")
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

/// Returns why the outcome of a command that was told to end is not known here.
pub(crate) fn left() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "told to end, this program did not wait any longer for what the gateway says of the command",
        "`stockade audit tail` shows what became of it",
    )
}

pub(super) fn gone() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "the gateway went away before it answered",
        "`stockade audit tail` shows whether the command ran",
    )
}

pub(super) fn nonsense(reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("the gateway and this program do not understand each other: {reason}"),
        "stop the gateway and start it again from this version",
    )
}
