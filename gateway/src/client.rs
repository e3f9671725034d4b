//! The one way in: a gateway in this process, or one behind a socket, through the same calls.

mod attended;
mod connection;
mod exchange;
mod peer;
pub(crate) mod start;
mod talk;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::{TaskAnswer, TaskRequest};
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, Control, DecisionView, Event, EventRequest, EventView,
    Input, Question, RunOutcome,
};
use crate::{Gateway, Spare, places};
pub(crate) use attended::Attended;
use connection::Unreached;
pub(crate) use connection::{Connection, left};
pub(crate) use talk::{Said, WINDOW};

/// Within so long further orders to end are the same one: a terminal that is closed gives it, and so does its shell.
pub(crate) const SAME_ORDER: Duration = Duration::from_millis(250);
/// How long the outcome is waited for after the order to end. A gateway that lives takes less, even for a command that
/// hangs.
pub(crate) const LONGEST_END: Duration = Duration::from_secs(20);

/// Most characters of a reason that are recorded.
const LONGEST_REASON: usize = 1000;

/// Which gateway a client uses, and where it keeps its things.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--socket`: use the gateway that listens there, or fail.
    pub socket: Option<PathBuf>,
    /// The place where a gateway may listen; without one, be the gateway.
    pub default_socket: Option<PathBuf>,
    /// `--no-daemon`: be the gateway even if one listens.
    pub embedded: bool,
    /// `--audit-dir`.
    pub audit_directory: Option<PathBuf>,
    /// `--state-dir`.
    pub state_directory: Option<PathBuf>,
    /// The `stockade` executable, which is also launcher and scan worker; none means this process's own.
    pub executable: Option<PathBuf>,
    /// Commands will be run, not only judged: a launcher is made ready meanwhile.
    pub runs: bool,
    /// What was forked when the process began.
    pub spare: Spare,
}

/// A question with the channel for its answer; dropping the channel withdraws it.
#[derive(Debug)]
pub struct PendingQuestion {
    /// What is asked.
    pub question: Question,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Answer>,
}

/// What a front end gives along with a command, to see it run and to act on it.
#[derive(Debug)]
pub struct Conversation {
    /// Output and notices go here; a full channel holds the command up.
    pub events: mpsc::Sender<Event>,
    /// Questions go here; without a receiver nobody can be asked.
    pub questions: Option<mpsc::Sender<PendingQuestion>>,
    /// Input for the command comes from here; its end is the end of standard input.
    pub input: mpsc::Receiver<Input>,
    /// Signals for the command come from here, also while its input is full; its end means nothing.
    pub control: mpsc::Receiver<Control>,
}

/// A gateway, in this process or behind a socket.
#[derive(Debug)]
pub struct Client {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Embedded(Box<Gateway>),
    Socket(Box<Connection>),
}

impl Options {
    /// Returns the options of a call without any: the place of the socket from `XDG_RUNTIME_DIR`.
    pub fn from_environment() -> Options {
        Options {
            default_socket: default_socket(|name| std::env::var_os(name)),
            ..Options::default()
        }
    }

    /// Says whether this process will be the gateway, as far as can be seen without asking: nothing listens.
    pub(crate) fn stays_embedded(&self) -> bool {
        let named_places = self.audit_directory.is_some() || self.state_directory.is_some();
        let listens = self.default_socket.as_ref().is_some_and(|path| path.exists());
        self.socket.is_none() && (self.embedded || named_places || !listens)
    }

    /// Returns the real path of a socket; the gateway there finds it in the same way.
    pub(crate) fn real(&self, socket: &Path) -> Result<PathBuf, Failure> {
        places::socket(socket, self, |name| std::env::var_os(name))
    }

    /// Returns the `stockade` executable, to be started as launcher and as scan worker.
    pub(crate) fn executable(&self) -> Result<PathBuf, Failure> {
        match &self.executable {
            Some(executable) => Ok(executable.clone()),
            None => std::env::current_exe().map_err(|error| {
                let message = format!("the executable of this process cannot be found: {error}");
                Failure::new(Code::Internal, message, "mount `/proc`")
            }),
        }
    }
}

/// Returns where a gateway of this user listens: `stockade/gateway.sock` in `XDG_RUNTIME_DIR`, else in
/// `run/` of the state directory. None when there is neither.
pub(crate) fn default_socket(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(runtime) = absolute("XDG_RUNTIME_DIR") {
        return Some(runtime.join("stockade/gateway.sock"));
    }
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("stockade/run/gateway.sock"))
}

impl Client {
    /// Connects to the running gateway, or makes one in this process.
    ///
    /// A named socket must answer. At the default place a gateway is used if one of the same user listens, and if neither
    /// the log nor the state directory is named: those are the gateway's. What listens as this user but is confined, as a command of an agent is,
    /// and what takes no connections is an error at either place. Versions are compared with the first call, which
    /// fails when they differ: nothing is tried elsewhere then, for that gateway holds the log.
    pub async fn connect(options: Options) -> Result<Client, Failure> {
        match Client::reach(&options)? {
            Some(client) => Ok(client),
            None => Client::embedded(options).await,
        }
    }

    /// Connects to the gateway that runs, as [`Client::connect`] does; none when this process is to be the gateway.
    pub(crate) fn reach(options: &Options) -> Result<Option<Client>, Failure> {
        Ok(Connection::reach(options)?.map(Client::through))
    }

    fn through(connection: Connection) -> Client {
        Client { way: Way::Socket(Box::new(connection)) }
    }

    /// Runs one command to its end.
    pub async fn run(&mut self, request: CommandRequest, conversation: Conversation) -> RunOutcome {
        match &mut self.way {
            Way::Embedded(gateway) => gateway.run(request, conversation).await,
            Way::Socket(connection) => connection.run(request, conversation).await,
        }
    }

    /// Judges one call without running anything.
    pub async fn check(&mut self, request: CheckRequest) -> Result<DecisionView, Failure> {
        match &mut self.way {
            Way::Embedded(gateway) => gateway.check(request).await,
            Way::Socket(connection) => connection.check(&request),
        }
    }

    /// Has it recorded that the front end refused a call by itself because of `failure`, and returns what the caller is told:
    /// that, or that it cannot be recorded.
    pub(crate) async fn refuse(&mut self, request: CheckRequest, failure: Failure) -> Failure {
        let message = failure.message.chars().take(LONGEST_REASON).collect();
        let refused = Some(Failure { message, ..failure.clone() });
        match self.check(CheckRequest { record: true, refused, ..request }).await {
            Err(unrecorded) if unrecorded.code == Code::AuditUnavailable => unrecorded,
            Ok(_) | Err(_) => failure,
        }
    }

    /// Tells of an event, and returns what the hooks that run at it say.
    pub async fn event(&mut self, request: EventRequest) -> Result<EventView, Failure> {
        match &mut self.way {
            Way::Embedded(gateway) => gateway.event(request).await,
            Way::Socket(connection) => connection.tell(&request),
        }
    }

    /// Asks about background tasks: of the gateway behind the socket. A gateway in this process has none.
    pub fn task(&mut self, request: &TaskRequest) -> Result<TaskAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Err(Failure::new(
                Code::TaskUnknown,
                "this process has no background tasks: no gateway stays to run them",
                "start one with `stockade serve`",
            )),
            Way::Socket(connection) => connection.task(request),
        }
    }

    /// Makes a gateway in this process.
    pub(crate) async fn embedded(options: Options) -> Result<Client, Failure> {
        let gateway = Gateway::open(options).await?;
        Ok(Client { way: Way::Embedded(Box::new(gateway)) })
    }

    /// Ends what this process was the gateway with, and leaves nobody behind.
    pub(crate) async fn close(self) {
        match self.way {
            Way::Embedded(gateway) => gateway.close().await,
            Way::Socket(_) => {}
        }
    }
}

impl Connection {
    /// Connects to the gateway that runs, as [`Client::connect`] does; none when this process is to be the gateway.
    pub(crate) fn reach(options: &Options) -> Result<Option<Connection>, Failure> {
        let named_places = options.audit_directory.is_some() || options.state_directory.is_some();
        match (&options.socket, &options.default_socket) {
            (Some(_), _) if options.embedded || named_places => Err(Failure::new(
                Code::InvalidRequest,
                "`--socket` goes neither with `--no-daemon` nor with `--audit-dir` or `--state-dir`",
                "a gateway that runs has its own log and state; leave one of the options out",
            )),
            (Some(path), _) => Ok(Some(Connection::open(&options.real(path)?)?)),
            (None, Some(path)) if !options.embedded && !named_places => {
                // Nobody listens there, or a stranger: this process is the gateway, with the same rules and the same log.
                match Connection::open(&options.real(path)?) {
                    Ok(connection) => Ok(Some(connection)),
                    Err(Unreached::Nobody(_)) => Ok(None),
                    Err(Unreached::Refused(failure)) => Err(failure),
                }
            }
            (None, _) => Ok(None),
        }
    }
}
