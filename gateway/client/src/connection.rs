//! A gateway behind a socket: requests out, answers, events and questions in.
//!
//! The greeting goes out with the first request, in one piece, and its answer is read first: a gateway of another
//! version refuses both. What is only judged is waited for without a runtime.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::exchange::{Awaited, Exchange};
use super::message::{
    GREETING, HELLO, Message, gone, greeting, message, nonsense, silent, unreachable, untrusted,
};
use super::session_messages::Talk;
use super::{peer, speaker};
use stockade_base::places::{Options, SYSTEM_SOCKET};
use stockade_base::sockets::{Address, left_by};
use stockade_wire::approvals::{
    AnsweredRequest, AnsweredView, ApprovalAnswer, ApprovalRequest, GrantAnswer, GrantRequest,
};
use stockade_wire::conversation::Conversation;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::frames::{self, Lines};
use stockade_wire::sessions::{SessionAnswer, SessionRequest};
use stockade_wire::subscriptions::{SubscribeAnswer, SubscribeRequest, Told};
use stockade_wire::tasks::{TaskAnswer, TaskRequest};
use stockade_wire::types::{
    CheckRequest, CommandRequest, DecisionView, EventRequest, EventView, RunOutcome, VERSION,
};

/// A connection to a gateway of this user.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    /// Bytes that were read and not looked at yet.
    lines: Lines,
    last_id: u64,
    /// True if the gateway may be of another version, as long as it speaks this protocol.
    is_older: bool,
}

/// Why there is no connection.
#[derive(Debug)]
enum Unreached {
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
    let named =
        Address::of(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let address = SocketAddrUnix::new(named.path())?;
    set_socket_timeout(&socket, Timeout::Send, Some(HELLO))?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    // Nothing was sent yet, so no answer can be on its way. Before, the kernel would give this end a name.
    if path == Path::new(SYSTEM_SOCKET) {
        speaker::noted(&socket)?;
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

impl Client {
    /// Connects to the gateway that runs, or starts one as a process of its own for this connection: `stockade serve` with
    /// its end of a socket pair as standard input, which ends with the connection.
    ///
    /// A named socket must answer. At the default place a gateway is used if one of the same user listens, and if neither
    /// the log nor the state directory is named: those are the gateway's. A confined process that listens as this user, as
    /// a command of an agent is, and one that takes no connections are errors at either place. Versions are compared with
    /// the first call, which fails when they differ: nothing is tried elsewhere then, for that gateway holds the log.
    pub fn connect(options: &Options) -> Result<Client, Failure> {
        match Client::reach(options)? {
            Some(client) => Ok(client),
            None => Client::start(options),
        }
    }

    /// Starts a gateway as a process that serves this connection alone.
    #[expect(
        clippy::disallowed_methods,
        reason = "this executable as the gateway of this connection alone"
    )]
    fn start(options: &Options) -> Result<Client, Failure> {
        let executable = options.executable()?;
        let failed = |error: std::io::Error| {
            let message = format!("`{}` cannot be started: {error}", executable.display());
            Failure::new(
                Code::GatewayUnreachable,
                message,
                "install `stockade` beside this program",
            )
        };
        let (own, its) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&executable);
        command.arg("serve").arg("--stdin").stdin(OwnedFd::from(its)).stdout(Stdio::null());
        for (name, value) in
            [("--audit-dir", &options.audit_directory), ("--state-dir", &options.state_directory)]
        {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        // Signals of a terminal reach this program, which tells the gateway what they mean.
        let mut gateway = command.process_group(0).spawn().map_err(failed)?;
        // Its end is waited for, so that the kernel forgets it.
        std::thread::Builder::new().spawn(move || gateway.wait()).map_err(failed)?;
        Ok(Client::through(own, &executable))
    }

    fn through(stream: UnixStream, path: &Path) -> Client {
        let lines = Lines::default();
        Client { stream, path: path.to_owned(), lines, last_id: 0, is_older: false }
    }

    /// Connects to the gateway that runs where `options` say, without starting one; none when nobody listens there.
    pub fn reach(options: &Options) -> Result<Option<Client>, Failure> {
        let named_places = options.audit_directory.is_some() || options.state_directory.is_some();
        match (&options.socket, &options.default_socket) {
            (Some(_), _) if options.embedded || named_places => Err(Failure::new(
                Code::InvalidRequest,
                "`--socket` cannot be combined with `--no-daemon`, `--audit-dir` or `--state-dir`",
                "a running gateway has its own log and state; remove one of the options",
            )),
            (Some(path), _) => Ok(Some(Client::open(&options.real(path)?)?)),
            (None, Some(path)) if !options.embedded && !named_places => {
                // Nobody listens there, or a stranger: this process is the gateway, with the same rules and the same log.
                match Client::open(&options.real(path)?) {
                    Ok(connection) => Ok(Some(connection)),
                    Err(Unreached::Nobody(_)) => Ok(None),
                    Err(Unreached::Refused(failure)) => Err(failure),
                }
            }
            (None, _) => Ok(None),
        }
    }

    /// Connects to gateway `pid`, which left the place where `options` say to one of a new executable and is there for its
    /// tasks; none where it did not.
    pub fn left_by(options: &Options, pid: u32) -> Result<Option<Client>, Failure> {
        let named = options.socket.as_ref().or(options.default_socket.as_ref());
        let Some(socket) = named.filter(|_| !options.embedded) else { return Ok(None) };
        match Client::open(&left_by(&options.real(socket)?, pid)) {
            Ok(client) => Ok(Some(Client { is_older: true, ..client })),
            Err(Unreached::Nobody(_)) => Ok(None),
            Err(Unreached::Refused(failure)) => Err(failure),
        }
    }

    /// Connects to the gateway at `path`.
    fn open(path: &Path) -> Result<Client, Unreached> {
        let nobody = |reason: &str| Unreached::Nobody(unreachable(path, reason));
        let stream = dial(path).map_err(std::io::Error::from);
        let stream = stream.map_err(|error| match is_late(&error) {
            true => Unreached::Refused(unreachable(path, "it accepts no more connections")),
            false => nobody(&error.to_string()),
        })?;
        let peer = socket_peercred(&stream).map_err(|error| nobody(&error.to_string()))?;
        if path == Path::new(SYSTEM_SOCKET) {
            // Nobody but root listens there, whose processes this one cannot look at.
            return match peer.uid.is_root() {
                true => Ok(Client::through(stream, path)),
                false => Err(Unreached::Refused(untrusted(path, "it is not the machine's"))),
            };
        }
        if peer.uid != rustix::process::geteuid() {
            return Err(nobody(&format!("uid {} listens there", peer.uid.as_raw())));
        }
        peer::check(&stream, peer.pid, path)
            .map_err(|reason| Unreached::Refused(untrusted(path, &reason)))?;
        // There the same path may be another file; a gateway of this side shares the log with it.
        match peer::sees_same_files(peer.pid) {
            Ok(true) => Ok(Client::through(stream, path)),
            Ok(false) => Err(nobody("it has another mount namespace, so its files differ")),
            Err(error) => Err(Unreached::Refused(untrusted(path, &error.to_string()))),
        }
    }

    /// Judges one call.
    pub fn check(&mut self, request: &CheckRequest) -> Result<DecisionView, Failure> {
        self.call("check", request)
    }

    /// Tells what a person said to the question of a check, which this front end put by itself.
    pub fn answered(&mut self, request: &AnsweredRequest) -> Result<AnsweredView, Failure> {
        self.call("answered", request)
    }

    /// Tells of an event.
    pub fn tell(&mut self, request: &EventRequest) -> Result<EventView, Failure> {
        self.call("tell", request)
    }

    /// Asks about background tasks.
    pub fn task(&mut self, request: &TaskRequest) -> Result<TaskAnswer, Failure> {
        self.call("task", request)
    }

    /// Asks about questions that wait, or answers one.
    pub fn approval(&mut self, request: &ApprovalRequest) -> Result<ApprovalAnswer, Failure> {
        self.call("approval", request)
    }

    /// Asks about grants of this user, or revokes them.
    pub fn grant(&mut self, request: &GrantRequest) -> Result<GrantAnswer, Failure> {
        self.call("grant", request)
    }

    /// Asks about the sessions of this user.
    pub fn session(&mut self, request: &SessionRequest) -> Result<SessionAnswer, Failure> {
        self.call("session", request)
    }

    /// Subscribes to records: [`Client::told`] returns what comes of it.
    pub fn subscribe(&mut self, request: &SubscribeRequest) -> Result<SubscribeAnswer, Failure> {
        self.call("subscribe", request)
    }

    /// Waits for what a subscription tells next, at most for `limit`; none where nothing came.
    pub fn told(&mut self, limit: Option<Duration>) -> Result<Option<Told>, Failure> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            while let Some(line) =
                self.lines.next_line().map_err(|error| nonsense(&error.to_string()))?
            {
                let message: Message<IgnoredAny> = message(&line)?;
                if let Some(told) = message.params.and_then(|params| params.told) {
                    return Ok(Some(told));
                }
            }
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return Ok(None);
            }
            self.fill(rest)?;
        }
    }

    /// Runs one command to its end.
    pub async fn run(&mut self, request: CommandRequest, talk: Conversation) -> RunOutcome {
        self.exchange(&request, talk).await.unwrap_or_else(RunOutcome::Failed)
    }

    async fn exchange(
        &mut self,
        request: &CommandRequest,
        talk: Conversation,
    ) -> Result<RunOutcome, Failure> {
        let greets = self.last_id == 0;
        let (id, unsent) = self.written("run", request)?;
        let shared = |error: std::io::Error| unreachable(&self.path, &error.to_string());
        self.stream.set_nonblocking(true).map_err(shared)?;
        let stream = self.stream.try_clone().and_then(tokio::net::UnixStream::from_std);
        let stream = stream.map_err(shared)?;
        let awaited = Awaited { path: &self.path, until: Instant::now() + HELLO };
        let (awaited, said) = (greets.then_some(awaited), Talk::new(id, unsent));
        let outcome = Exchange::new(&stream, &mut self.lines, awaited, said, talk).finish().await;
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

    /// Returns the identity of a request and its line, the first one behind the greeting.
    fn written(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(u64, Vec<u8>), Failure> {
        let mut lines = Vec::new();
        if self.last_id == 0 {
            self.last_id = GREETING;
            let version = (!self.is_older).then_some(env!("CARGO_PKG_VERSION"));
            let hello = Hello { protocol: VERSION, version };
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
        let stream = &self.stream;
        match self.lines.fill_from(|buffer| speaker::read(stream, buffer, RecvFlags::empty())) {
            Ok(0) => Err(gone()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(speaker::failure(&error)),
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

/// First message to the gateway.
#[derive(Serialize)]
struct Hello {
    protocol: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}
