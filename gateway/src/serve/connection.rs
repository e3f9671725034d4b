//! One connection: requests in, answers, events and questions out. It owns the commands that it
//! started; when the other side goes away they are ended, and their records are written.

mod execution;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::execution::{Channels, Execution};
use super::subscribed;
use crate::Gateway;
use crate::engine::calling::Calling;
use crate::engine::sessions::lasts_with_connection;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Frame, Id, RpcError};
use crate::protocol::tasks::TaskRequest;
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, Context, Control, EventRequest, Input, VERSION,
};
use stockade_wire::approvals::{AnsweredRequest, ApprovalRequest, GrantRequest};
use stockade_wire::conversation::{PendingQuestion, WINDOW};
use stockade_wire::progress::ProgressRequest;
use stockade_wire::sessions::SessionRequest;
use stockade_wire::subscriptions::SubscribeRequest;

/// Most requests at once on one connection.
const MOST_REQUESTS: usize = 64;
/// Places for messages to a command that are kept for signals.
const ROOM: usize = 8;
/// How long a client may take to greet: who never does would hold one of few places.
const GREETING: Duration = Duration::from_secs(10);
/// How long a client may take to read its last answers when the gateway ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Message to the owner of a connection.
enum Message {
    /// The line as it came, for its parsed form may be much larger. Its room is free again when it is done with.
    Line(Vec<u8>, OwnedSemaphorePermit),
    Closed,
    Asked(Id, Box<PendingQuestion>),
    Ended(Id),
}

/// A command of this connection.
struct Running {
    input: mpsc::Sender<Input>,
    control: mpsc::Sender<Control>,
}

struct Connection {
    gateway: Arc<Gateway>,
    caller: Calling,
    outgoing: mpsc::Sender<Vec<u8>>,
    messages: mpsc::Sender<Message>,
    running: HashMap<Id, Running>,
    questions: HashMap<Id, oneshot::Sender<Answer>>,
    requests: JoinSet<()>,
    /// They end with the connection, and nothing waits for them.
    subscriptions: JoinSet<()>,
    /// Sessions that last as long as this connection.
    sessions: BTreeSet<String>,
    greeted: bool,
    last_question: u64,
}

/// Serves one connection to its end.
pub(super) async fn serve(
    stream: UnixStream,
    gateway: Arc<Gateway>,
    mut ending: watch::Receiver<bool>,
) {
    // A peer that the kernel does not name gets nothing.
    let Some(caller) = caller_of(&stream) else { return };
    // At once: later another process may have its number, and the connection be in other hands.
    caller.look_up();
    let (reading, writing) = stream.into_split();
    let (messages, mut inbox) = mpsc::channel(32);
    let (outgoing, lines) = mpsc::channel(16);
    let mut ends = JoinSet::new();
    ends.spawn(read_lines(reading, messages.clone()));
    let writer = tokio::spawn(write_lines(writing, lines));
    let mut connection = Connection {
        gateway,
        caller,
        outgoing,
        messages,
        running: HashMap::new(),
        questions: HashMap::new(),
        requests: JoinSet::new(),
        subscriptions: JoinSet::new(),
        sessions: BTreeSet::new(),
        greeted: false,
        last_question: 0,
    };
    let late = tokio::time::sleep(GREETING);
    tokio::pin!(late);
    let told_to_end = loop {
        tokio::select! {
            message = inbox.recv() => match message {
                None | Some(Message::Closed) => break false,
                // A client that reads nothing holds its own connection up, and not the end of the gateway.
                Some(message) => tokio::select! {
                    () = connection.message(message) => {}
                    () = told(&mut ending) => break true,
                },
            },
            () = told(&mut ending) => break true,
            () = &mut late, if !connection.greeted => break false,
            Some(_) = connection.requests.join_next(), if !connection.requests.is_empty() => {}
        }
    };
    ends.abort_all();
    if !told_to_end {
        // Nobody reads any more; what a command still writes must not hold its end up.
        writer.abort();
    }
    inbox.close();
    connection.end(writer).await;
}

/// Returns who is on the other side, as the kernel tells it.
fn caller_of(stream: &UnixStream) -> Option<Calling> {
    let peer = stream.peer_cred().ok()?;
    let pid = u32::try_from(peer.pid()?).ok()?;
    Some(Calling::peer(pid, peer.uid(), peer.gid()))
}

/// Waits until the gateway is told to end, or is gone.
async fn told(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await; // a gateway that is gone ends as well
}

impl Connection {
    async fn message(&mut self, message: Message) {
        match message {
            Message::Line(line, _room) => {
                if let Some(refusal) = self.line(&line) {
                    self.send(refusal).await;
                }
            }
            Message::Asked(run, pending) => self.ask(&run, *pending).await,
            Message::Ended(id) => drop(self.running.remove(&id)),
            Message::Closed => {}
        }
    }

    /// Does what a line says, and returns what is to be answered at once.
    fn line(&mut self, line: &[u8]) -> Option<Frame> {
        let (id, done) = match frames::decode(line) {
            Ok(Frame::Request { id, method, params }) => {
                let done = self.request(&id, &method, params);
                (Some(id), done)
            }
            Ok(Frame::Notification { method, params }) => {
                (None, self.notification(&method, params))
            }
            Ok(Frame::Answer { id, result }) => {
                self.answered(id, result);
                (None, Ok(()))
            }
            Err(error) => (None, Err(error)),
        };
        done.err().map(|error| Frame::Answer { id, result: Err(error) })
    }

    /// Starts what is asked for; its answer is sent when it is there.
    fn request(&mut self, id: &Id, method: &str, params: Value) -> Result<(), RpcError> {
        if self.requests.len() >= MOST_REQUESTS || self.running.contains_key(id) {
            let message = "too many requests at once, or a request with this `id` is still open";
            return Err(RpcError::new(frames::INVALID_REQUEST, message));
        }
        match method {
            "hello" => self.hello(id, params),
            _ if !self.greeted => {
                let message = "the first request must be `hello` with the `protocol` version";
                Err(RpcError::failure(&Failure::new(Code::VersionMismatch, message, "")))
            }
            "check" => {
                let request: CheckRequest = typed(params)?;
                self.note_session(&request.context);
                self.answered_by(id, |it, who| async move { it.check_for(who, request).await })
            }
            "answered" => {
                let request: AnsweredRequest = typed(params)?;
                self.answered_by(id, |it, who| async move {
                    it.answered_by_front_end(&who, request).await
                })
            }
            "run" => self.run(id, typed(params)?),
            "tell" => {
                let request: EventRequest = typed(params)?;
                self.answered_by(id, |it, who| async move { it.event_for(who, request).await })
            }
            "progress" => {
                let request: ProgressRequest = typed(params)?;
                self.note_session(&request.context);
                self.answered_by(id, |it, who| async move { it.progress(who, request).await })
            }
            "task" => {
                let request: TaskRequest = typed(params)?;
                self.answered_by(id, |it, _| async move { it.about_tasks(request).await })
            }
            "session" => {
                let request: SessionRequest = typed(params)?;
                self.answered_by(
                    id,
                    |it, who| async move { it.about_sessions(&who, request).await },
                )
            }
            "approval" => {
                let request: ApprovalRequest = typed(params)?;
                self.answered_by(
                    id,
                    |it, who| async move { it.about_approvals(&who, request).await },
                )
            }
            "grant" => {
                let request: GrantRequest = typed(params)?;
                self.answered_by(id, |it, who| async move { it.about_grants(&who, request).await })
            }
            "subscribe" => {
                self.subscribe(id, typed(params)?);
                Ok(())
            }
            _ => Err(RpcError::new(frames::METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
        }
    }

    /// Tells of records until the subscription or the connection ends.
    fn subscribe(&mut self, id: &Id, request: SubscribeRequest) {
        while self.subscriptions.try_join_next().is_some() {}
        let (gateway, outgoing) = (Arc::clone(&self.gateway), self.outgoing.clone());
        self.subscriptions.spawn(subscribed::serve(id.clone(), gateway, request, outgoing));
    }

    fn hello(&mut self, id: &Id, params: Value) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        struct Hello {
            protocol: u32,
            version: Option<String>,
        }
        let hello: Hello = typed(params)?;
        let own = env!("CARGO_PKG_VERSION");
        if hello.protocol != VERSION
            || hello.version.as_deref().is_some_and(|version| version != own)
        {
            return Err(RpcError::failure(&Failure::new(
                Code::VersionMismatch,
                format!("this gateway is version {own} and speaks protocol {VERSION}"),
                "stop the gateway and start it again from the same version",
            )));
        }
        self.greeted = true;
        let pid = std::process::id();
        self.reply(answer(id, &json!({"protocol": VERSION, "version": own, "pid": pid})));
        Ok(())
    }

    fn note_session(&mut self, context: &Context) {
        if let Some(name) = context.session.as_ref().filter(|_| lasts_with_connection(context))
            && self.sessions.insert(name.clone())
        {
            self.gateway.hold_session(name);
        }
    }

    /// Sends what comes of `asked` as the answer to request `id`, when it is there.
    fn answered_by<R, F>(
        &mut self,
        id: &Id,
        asked: impl FnOnce(Arc<Gateway>, Calling) -> F,
    ) -> Result<(), RpcError>
    where
        R: serde::Serialize,
        F: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        let (outgoing, id) = (self.outgoing.clone(), id.clone());
        let answering = asked(Arc::clone(&self.gateway), self.caller.clone());
        self.requests.spawn(async move {
            let line = match answering.await {
                Ok(result) => answer(&id, &result),
                Err(failure) => refusal(id, &failure),
            };
            deliver(&outgoing, line).await;
        });
        Ok(())
    }

    fn run(&mut self, id: &Id, request: CommandRequest) -> Result<(), RpcError> {
        self.note_session(&request.context);
        let (input, feeding) = mpsc::channel(WINDOW);
        let (control_in, control) = mpsc::channel(16);
        self.running.insert(id.clone(), Running { input, control: control_in.clone() });
        let execution = Execution {
            id: id.clone(),
            caller: self.caller.clone(),
            outgoing: self.outgoing.clone(),
            messages: self.messages.clone(),
        };
        let gateway = Arc::clone(&self.gateway);
        let (answered, done) = oneshot::channel();
        let channels = Channels { feeding, control_in, control };
        let carrier = Arc::clone(&gateway);
        carrier.tasks().carry(execution.run(gateway, request, channels, answered));
        // A task goes on when its run is answered.
        self.requests.spawn(async move { drop(done.await) });
        Ok(())
    }

    fn notification(&mut self, method: &str, params: Value) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        struct Piece {
            run: Value,
            input: Option<Input>,
            control: Option<Control>,
        }
        if !matches!(method, "stdin" | "control") {
            return Err(RpcError::new(
                frames::METHOD_NOT_FOUND,
                format!("unknown method `{method}`"),
            ));
        }
        let piece: Piece = typed(params)?;
        // A command that is over has no use for it.
        let Some(running) = id_of(&piece.run).and_then(|id| self.running.get(&id)) else {
            return Ok(());
        };
        match (method, piece.input, piece.control) {
            ("stdin", Some(input), None) => match running.input.try_send(input) {
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => {
                    // Input that is lost must not look like its end.
                    let _ = running.control.try_send(Control::Stop); // a full channel ends it already
                    let message = format!("more than {WINDOW} pieces of input are unread");
                    Err(RpcError::new(frames::INVALID_REQUEST, message))
                }
            },
            // Sizes must not stand in the way of signals; one that is taken later would be old.
            ("control", None, Some(Control::Resize(_))) if running.control.capacity() <= ROOM => {
                Ok(())
            }
            ("control", None, Some(control)) => {
                let _ = running.control.try_send(control); // sixteen that nobody took are enough
                Ok(())
            }
            (_, _, _) => Err(RpcError::new(
                frames::INVALID_PARAMS,
                "`stdin` has `input`, `control` has `control`",
            )),
        }
    }

    async fn ask(&mut self, run: &Id, pending: PendingQuestion) {
        self.last_question += 1;
        let id = Id::Text(format!("question-{}", self.last_question));
        let params = json!({"run": run.value(), "question": pending.question});
        self.questions.insert(id.clone(), pending.answer);
        self.send(Frame::Request { id, method: "question".into(), params }).await;
    }

    fn answered(&mut self, id: Option<Id>, result: Result<Value, RpcError>) {
        let Some(question) = id.and_then(|id| self.questions.remove(&id)) else { return };
        let answer = result.ok().and_then(|answer| serde_json::from_value(answer).ok());
        let _ = question.send(answer.unwrap_or(Answer::Withdrawn)); // the command may be gone
    }

    async fn send(&self, frame: Frame) {
        deliver(&self.outgoing, frames::encode(&frame)).await;
    }

    /// Sends without waiting in the loop.
    fn reply(&mut self, line: Vec<u8>) {
        if let Err(mpsc::error::TrySendError::Full(line)) = self.outgoing.try_send(line) {
            let outgoing = self.outgoing.clone();
            self.requests.spawn(async move { deliver(&outgoing, line).await });
        }
    }

    /// Ends every command of this connection and waits until each is recorded.
    async fn end(mut self, writer: tokio::task::JoinHandle<()>) {
        self.subscriptions.shutdown().await;
        self.questions.clear();
        for Running { control, .. } in std::mem::take(&mut self.running).into_values() {
            // One that is over needs no end. None waits for another that takes nothing yet.
            tokio::spawn(async move { control.send(Control::Stop).await });
        }
        let abort = writer.abort_handle();
        let farewell = tokio::spawn(async move {
            tokio::time::sleep(FAREWELL).await;
            abort.abort();
        });
        while self.requests.join_next().await.is_some() {}
        for session in std::mem::take(&mut self.sessions) {
            self.gateway.leave_session(&session).await;
        }
        drop(self);
        let _ = writer.await; // ended by itself or by the farewell
        farewell.abort();
    }
}

/// Sends a line; a client that is gone misses it.
pub(super) async fn deliver(outgoing: &mpsc::Sender<Vec<u8>>, line: Vec<u8>) {
    let _ = outgoing.send(line).await;
}

/// Returns the line that answers request `id`.
pub(super) fn answer(id: &Id, result: &impl serde::Serialize) -> Vec<u8> {
    frames::answer(&id.value(), result).unwrap_or_else(|error| {
        let message = format!("cannot write the answer: {error}");
        refusal(id.clone(), &Failure::new(Code::Internal, message, ""))
    })
}

/// Returns the line that says why request `id` has no result.
pub(super) fn refusal(id: Id, failure: &Failure) -> Vec<u8> {
    frames::encode(&Frame::Answer { id: Some(id), result: Err(RpcError::failure(failure)) })
}

async fn read_lines(reading: OwnedReadHalf, messages: mpsc::Sender<Message>) {
    let mut input = BufReader::with_capacity(64 << 10, reading);
    let room = Arc::new(Semaphore::new(frames::LONGEST_LINE));
    // A line that is cut or too long ends the connection: what follows it cannot be understood.
    while let Ok(Some(line)) = frames::next_line(&mut input).await {
        let taken = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let Ok(taken) = Arc::clone(&room).acquire_many_owned(taken).await else { return };
        if messages.send(Message::Line(line, taken)).await.is_err() {
            return;
        }
    }
    let _ = messages.send(Message::Closed).await; // the owner may be gone already
}

async fn write_lines(mut writing: OwnedWriteHalf, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if writing.write_all(&line).await.is_err() {
            return;
        }
    }
}

fn typed<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params)
        .map_err(|error| RpcError::new(frames::INVALID_PARAMS, error.to_string()))
}

fn id_of(value: &Value) -> Option<Id> {
    match value {
        Value::String(text) => Some(Id::Text(text.clone())),
        Value::Number(number) => number.as_u64().map(Id::Number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
