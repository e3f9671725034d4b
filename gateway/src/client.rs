//! The one way in: a gateway in this process, or one behind a socket, through the same calls.

use std::path::PathBuf;

use tokio::sync::{mpsc, oneshot};

use crate::protocol::errors::Failure;
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, Control, DecisionView, Event, Input, Question, RunOutcome,
};

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

/// A connection to a gateway.
#[derive(Debug)]
pub struct Client {
    #[allow(dead_code)]
    options: Options,
}

impl Client {
    /// Connects to the running gateway, or makes one in this process.
    pub async fn connect(options: Options) -> Result<Client, Failure> {
        Ok(Client { options })
    }

    /// Runs one command to its end.
    pub async fn run(&mut self, request: CommandRequest, conversation: Conversation) -> RunOutcome {
        let _ = (request, conversation);
        RunOutcome::Failed(Failure::new(crate::protocol::errors::Code::Internal, "not built", ""))
    }

    /// Judges one call without running anything.
    pub async fn check(&mut self, request: CheckRequest) -> Result<DecisionView, Failure> {
        let _ = request;
        Err(Failure::new(crate::protocol::errors::Code::Internal, "not built", ""))
    }
}
