//! One connection to a gateway, for many calls at once.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::frames::{self, Frame, Id};
use stockade_wire::tasks::{TaskAct, TaskAnswer, TaskRequest};
use stockade_wire::types::{
    Answer, CheckRequest, CommandRequest, Control, DecisionView, Event, EventRequest, EventView,
    Question, RunOutcome, VERSION,
};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// A connection to a gateway. Clones share it.
#[derive(Debug, Clone)]
pub struct Gateway {
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u64, oneshot::Sender<Result<Value, Failure>>>,
    runs: HashMap<u64, mpsc::UnboundedSender<Heard>>,
    is_gone: bool,
}

/// A message of the gateway about a running command.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened.
    Event(Event),
    /// A question, with the identity under which it is answered.
    Question(Id, Box<Question>),
    /// The command is over, or was never run.
    Ended(Box<RunOutcome>),
}

/// A command that was asked for. Dropping it ends the command.
#[derive(Debug)]
pub(crate) struct Run {
    id: u64,
    gateway: Gateway,
    told: mpsc::UnboundedReceiver<Heard>,
    answer: oneshot::Receiver<Result<Value, Failure>>,
    is_over: bool,
}

fn gone() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "the gateway went away before it answered",
        "`stockade audit tail` shows what ran",
    )
}

/// Connects to a socket. An address holds 107 bytes (unix(7)), so that of a longer path begins at its directory.
async fn dial(path: &Path) -> std::io::Result<UnixStream> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return UnixStream::connect(path).await;
    };
    if directory.as_os_str().is_empty() {
        return UnixStream::connect(path).await;
    }
    let directory = std::fs::File::open(directory)?;
    UnixStream::connect(
        Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name),
    )
    .await
}

impl Gateway {
    /// Connects to the gateway at `path`. Needs a runtime.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or a gateway of another version.
    pub async fn connect(path: &Path) -> Result<Gateway, Failure> {
        let unusable = |error: std::io::Error| {
            let message = format!("the gateway at `{}` cannot be reached: {error}", path.display());
            Failure::new(Code::GatewayUnreachable, message, "start the agent with `stockade agent`")
        };
        let stream = dial(path).await.map_err(unusable)?;
        let (reading, mut writing) = stream.into_split();
        let (outgoing, mut lines) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if writing.write_all(&line).await.is_err() {
                    return;
                }
            }
        });
        let waiting = Arc::<Mutex<Waiting>>::default();
        let gateway = Gateway { outgoing, waiting, next: Arc::new(AtomicU64::new(1)) };
        let reader = gateway.clone();
        tokio::spawn(async move {
            let mut input = BufReader::with_capacity(64 << 10, reading);
            while let Ok(Some(line)) = frames::next_line(&mut input).await {
                reader.line(&line);
            }
            reader.end();
        });
        let hello = json!({ "protocol": VERSION, "version": env!("CARGO_PKG_VERSION") });
        let _: Value = gateway.call("hello", &hello).await?;
        Ok(gateway)
    }

    /// Judges one call.
    ///
    /// # Errors
    ///
    /// The gateway cannot judge it.
    pub async fn check(&self, request: &CheckRequest) -> Result<DecisionView, Failure> {
        self.call("check", request).await
    }

    /// Tells of an event at which hooks run.
    ///
    /// # Errors
    ///
    /// The gateway does not know the event, or cannot record it.
    pub async fn tell(&self, request: &EventRequest) -> Result<EventView, Failure> {
        self.call("tell", request).await
    }

    /// Asks about a background task.
    pub(crate) async fn task(&self, act: TaskAct) -> Result<TaskAnswer, Failure> {
        self.call("task", &TaskRequest { session: None, act }).await
    }

    /// Asks for a command to be run.
    pub(crate) fn run(&self, request: &CommandRequest) -> Result<Run, Failure> {
        let (telling, told) = mpsc::unbounded_channel();
        let (id, answer) = self.send("run", request, Some(telling))?;
        Ok(Run { id, gateway: self.clone(), told, answer, is_over: false })
    }

    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        let (_, answer) = self.send(method, params, None)?;
        let result = answer.await.map_err(|_| gone())??;
        serde_json::from_value(result).map_err(|error| unclear(&error.to_string()))
    }

    fn send(
        &self,
        method: &str,
        params: &impl Serialize,
        telling: Option<mpsc::UnboundedSender<Heard>>,
    ) -> Result<(u64, oneshot::Receiver<Result<Value, Failure>>), Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line =
            frames::request(id, method, params).map_err(|error| unclear(&error.to_string()))?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_gone {
                return Err(gone());
            }
            waiting.answers.insert(id, sender);
            waiting.runs.extend(telling.map(|telling| (id, telling)));
        }
        self.outgoing.send(line).map_err(|_| gone())?;
        Ok((id, receiver))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, method: &str, params: &Value) {
        if let Ok(line) = frames::notification(method, params) {
            let _ = self.outgoing.send(line); // a gateway that is gone has ended the command
        }
    }

    fn line(&self, line: &[u8]) {
        match frames::decode(line) {
            Ok(Frame::Answer { id: Some(Id::Number(id)), result }) => {
                let mut waiting = self.waiting();
                waiting.runs.remove(&id);
                if let Some(answer) = waiting.answers.remove(&id) {
                    let _ = answer.send(result.map_err(frames::RpcError::into_failure)); // nobody waits any more
                }
            }
            Ok(Frame::Notification { method, params }) if method == "event" => {
                let event =
                    params.get("event").cloned().and_then(|it| serde_json::from_value(it).ok());
                if let (Some(run), Some(event)) = (self.of(&params), event) {
                    let _ = run.send(Heard::Event(event)); // nobody listens any more
                }
            }
            Ok(Frame::Request { id, method, params }) => {
                let question = params.get("question").cloned().filter(|_| method == "question");
                let question = question.and_then(|it| serde_json::from_value(it).ok());
                let sent = match (self.of(&params), question) {
                    (Some(run), Some(question)) => {
                        run.send(Heard::Question(id.clone(), question)).is_ok()
                    }
                    (_, _) => false,
                };
                if !sent {
                    self.answer(&id, Answer::Withdrawn);
                }
            }
            // An answer to a message that it could not read, or something of a later version.
            Ok(Frame::Answer { .. } | Frame::Notification { .. }) | Err(_) => {}
        }
    }

    fn of(&self, params: &Value) -> Option<mpsc::UnboundedSender<Heard>> {
        let id = params.get("run").and_then(Value::as_u64)?;
        self.waiting().runs.get(&id).cloned()
    }

    fn answer(&self, id: &Id, answer: Answer) {
        if let Ok(line) = frames::answer(&id.value(), &answer) {
            let _ = self.outgoing.send(line); // a gateway that is gone asks nothing
        }
    }

    fn end(&self) {
        let mut waiting = self.waiting();
        waiting.is_gone = true;
        waiting.answers.clear();
        waiting.runs.clear();
    }
}

fn unclear(reason: &str) -> Failure {
    let message = format!("the gateway and the agent do not understand each other: {reason}");
    Failure::new(Code::GatewayUnreachable, message, "install both from one version")
}

impl Run {
    /// Waits for what is next. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(heard) = self.told.recv().await {
            return heard;
        }
        let answer = (&mut self.answer).await.unwrap_or_else(|_| Err(gone()));
        self.is_over = true;
        let outcome = answer
            .and_then(|it| serde_json::from_value(it).map_err(|error| unclear(&error.to_string())));
        Heard::Ended(Box::new(outcome.unwrap_or_else(RunOutcome::Failed)))
    }

    /// Answers a question.
    pub(crate) fn answer(&self, id: &Id, answer: Answer) {
        self.gateway.answer(id, answer);
    }

    /// Orders the command to end.
    pub(crate) fn stop(&self) {
        self.gateway.notify("control", &json!({ "run": self.id, "control": Control::Stop }));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.stop();
        }
    }
}
