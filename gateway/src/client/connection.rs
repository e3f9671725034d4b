//! A gateway behind a socket: requests out, answers, events and questions in.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Conversation, PendingQuestion};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Frame, Id, RpcError};
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, Control, DecisionView, Event, EventRequest, EventView,
    Input, RunOutcome, VERSION,
};

/// How long a gateway may take to say hello.
const HELLO: Duration = Duration::from_secs(5);
/// Pieces of standard input that may be on the way; the gateway says when it has taken one.
pub(crate) const WINDOW: usize = 8;

/// A connection to a gateway of this user and version.
#[derive(Debug)]
pub(super) struct Connection {
    incoming: mpsc::Receiver<Result<Frame, Failure>>,
    outgoing: mpsc::Sender<Vec<u8>>,
    tasks: [JoinHandle<()>; 2],
    last_id: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects to the gateway at `path` and agrees on the version.
    pub(super) async fn open(path: &Path) -> Result<Connection, Failure> {
        let unreachable = |reason: String| {
            Failure::new(
                Code::GatewayUnreachable,
                format!("no gateway of yours answers at `{}`: {reason}", path.display()),
                "start one with `stockade serve`, or leave `--socket` out",
            )
        };
        let stream =
            UnixStream::connect(path).await.map_err(|error| unreachable(error.to_string()))?;
        let peer = stream.peer_cred().map_err(|error| unreachable(error.to_string()))?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            return Err(unreachable(format!("uid {} listens there", peer.uid())));
        }
        let (reading, writing) = stream.into_split();
        let (frames_in, incoming) = mpsc::channel(32);
        let (outgoing, lines_out) = mpsc::channel(4);
        let tasks = [
            tokio::spawn(read_frames(reading, frames_in)),
            tokio::spawn(write_lines(writing, lines_out)),
        ];
        let mut connection = Connection { incoming, outgoing, tasks, last_id: 0 };
        let hello = json!({"protocol": VERSION, "version": env!("CARGO_PKG_VERSION")});
        match tokio::time::timeout(HELLO, connection.call("hello", hello)).await {
            Ok(Ok(_)) => Ok(connection),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(unreachable("it does not say hello".into())),
        }
    }

    /// Judges one call.
    pub(super) async fn check(&mut self, request: CheckRequest) -> Result<DecisionView, Failure> {
        let params =
            serde_json::to_value(&request).map_err(|error| nonsense(&error.to_string()))?;
        let result = self.call("check", params).await?;
        serde_json::from_value(result).map_err(|error| nonsense(&error.to_string()))
    }

    /// Tells of an event.
    pub(super) async fn tell(&mut self, request: EventRequest) -> Result<EventView, Failure> {
        let params =
            serde_json::to_value(&request).map_err(|error| nonsense(&error.to_string()))?;
        let result = self.call("tell", params).await?;
        serde_json::from_value(result).map_err(|error| nonsense(&error.to_string()))
    }

    /// Runs one command to its end.
    pub(super) async fn run(&mut self, request: CommandRequest, talk: Conversation) -> RunOutcome {
        let params = match serde_json::to_value(&request) {
            Ok(params) => params,
            Err(error) => return RunOutcome::Failed(nonsense(&error.to_string())),
        };
        match self.request("run", params).await {
            Ok(id) => {
                Exchange::new(self, id, talk).finish().await.unwrap_or_else(RunOutcome::Failed)
            }
            Err(failure) => RunOutcome::Failed(failure),
        }
    }

    /// Sends a request and waits for its answer.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.request(method, params).await?;
        loop {
            match self.incoming.recv().await.ok_or_else(gone)?? {
                Frame::Answer { id: Some(of), result } if of == id => {
                    return result.map_err(RpcError::into_failure);
                }
                Frame::Answer { result: Err(error), .. } => return Err(error.into_failure()),
                // Left over from a former call.
                Frame::Answer { .. } | Frame::Notification { .. } => {}
                Frame::Request { id, .. } => self.refuse(id).await?,
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Id, Failure> {
        self.last_id += 1;
        let id = Id::Number(self.last_id);
        self.send(&Frame::Request { id: id.clone(), method: method.into(), params }).await?;
        Ok(id)
    }

    async fn refuse(&mut self, id: Id) -> Result<(), Failure> {
        let error = RpcError::new(frames::METHOD_NOT_FOUND, "nothing is asked of this side");
        self.send(&Frame::Answer { id: Some(id), result: Err(error) }).await
    }

    async fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        let line = frames::encode(frame);
        if line.len() > frames::LONGEST_LINE {
            let message = format!("the request is longer than {} bytes", frames::LONGEST_LINE);
            return Err(Failure::new(Code::InvalidRequest, message, ""));
        }
        self.outgoing.send(line).await.map_err(|_| gone())
    }
}

/// One command that runs on the other side.
struct Exchange<'a> {
    connection: &'a mut Connection,
    id: Id,
    talk: Conversation,
    /// An event that the front end has no room for yet; nothing more is read until it has.
    event: Option<Event>,
    /// Lines for which the socket has no room yet.
    lines: VecDeque<Vec<u8>>,
    /// Questions in the order asked; the first is waited for.
    asked: VecDeque<(Id, oneshot::Receiver<Answer>)>,
    /// Pieces of input that the gateway has not taken yet.
    on_the_way: usize,
    input_open: bool,
    control_open: bool,
}

/// What happens next.
enum Happened {
    Frame(Option<Result<Frame, Failure>>),
    EventRoom,
    LineRoom,
    Input(Option<Input>),
    Control(Option<Control>),
    Answered(Answer),
}

impl<'a> Exchange<'a> {
    fn new(connection: &'a mut Connection, id: Id, talk: Conversation) -> Exchange<'a> {
        Exchange {
            connection,
            id,
            talk,
            event: None,
            lines: VecDeque::new(),
            asked: VecDeque::new(),
            on_the_way: 0,
            input_open: true,
            control_open: true,
        }
    }

    async fn finish(mut self) -> Result<RunOutcome, Failure> {
        loop {
            match self.next().await? {
                Happened::Frame(frame) => {
                    if let Some(outcome) = self.frame(frame.ok_or_else(gone)??).await? {
                        return Ok(outcome);
                    }
                }
                Happened::EventRoom | Happened::LineRoom => {}
                Happened::Input(piece) => {
                    self.input_open = matches!(piece, Some(Input::Stdin(_)));
                    let piece = piece.unwrap_or(Input::StdinEnd);
                    self.on_the_way += 1;
                    self.notify("stdin", json!({"run": self.id.value(), "input": piece}));
                }
                Happened::Control(Some(control)) => {
                    self.notify("control", json!({"run": self.id.value(), "control": control}));
                }
                Happened::Control(None) => self.control_open = false,
                Happened::Answered(answer) => {
                    if let Some((id, _)) = self.asked.pop_front() {
                        self.answer(id, answer);
                    }
                }
            }
        }
    }

    /// Waits for the next thing. Every branch is safe to cancel.
    async fn next(&mut self) -> Result<Happened, Failure> {
        let Exchange { connection, talk, event, lines, asked, .. } = self;
        let accepts_input = self.input_open && lines.is_empty() && self.on_the_way < WINDOW;
        tokio::select! {
            permit = connection.outgoing.reserve(), if !lines.is_empty() => {
                let permit = permit.map_err(|_| gone())?;
                if let Some(line) = lines.pop_front() {
                    permit.send(line);
                }
                Ok(Happened::LineRoom)
            }
            permit = talk.events.reserve(), if event.is_some() => {
                if let (Ok(permit), Some(event)) = (permit, event.take()) {
                    permit.send(event);
                }
                Ok(Happened::EventRoom)
            }
            frame = connection.incoming.recv(), if event.is_none() => Ok(Happened::Frame(frame)),
            control = talk.control.recv(), if self.control_open => Ok(Happened::Control(control)),
            piece = talk.input.recv(), if accepts_input => Ok(Happened::Input(piece)),
            answer = first_answer(asked), if !asked.is_empty() => Ok(Happened::Answered(answer)),
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<Option<RunOutcome>, Failure> {
        match frame {
            Frame::Answer { id: Some(id), result } if id == self.id => {
                let result = result.map_err(RpcError::into_failure)?;
                serde_json::from_value(result)
                    .map(Some)
                    .map_err(|error| nonsense(&error.to_string()))
            }
            Frame::Answer { id: None, result: Err(error) } => Err(error.into_failure()),
            Frame::Answer { .. } => Ok(None),
            Frame::Notification { method, params } => {
                self.notification(&method, params).map(|()| None)
            }
            Frame::Request { id, method, params } => {
                self.question(id, &method, params).await;
                Ok(None)
            }
        }
    }

    fn notification(&mut self, method: &str, mut params: Value) -> Result<(), Failure> {
        match (method, params.get_mut("event").map(Value::take)) {
            ("event", Some(event)) => {
                self.event = Some(
                    serde_json::from_value(event).map_err(|error| nonsense(&error.to_string()))?,
                );
            }
            ("stdin_taken", None) => self.on_the_way = self.on_the_way.saturating_sub(1),
            // What a later minor version may tell besides.
            (_, _) => {}
        }
        Ok(())
    }

    async fn question(&mut self, id: Id, method: &str, mut params: Value) {
        let question = params.get_mut("question").map(Value::take);
        let question = question.and_then(|question| serde_json::from_value(question).ok());
        let (Some(question), Some(questions), "question") =
            (question, &self.talk.questions, method)
        else {
            return self.answer(id, Answer::Withdrawn);
        };
        let (answer, receiver) = oneshot::channel();
        // A front end that no longer listens drops the sender, which withdraws the question.
        let _ = questions.send(PendingQuestion { question, answer }).await;
        self.asked.push_back((id, receiver));
    }

    fn answer(&mut self, id: Id, answer: Answer) {
        let result = Ok(serde_json::to_value(answer).unwrap_or(Value::from("withdrawn")));
        self.lines.push_back(frames::encode(&Frame::Answer { id: Some(id), result }));
    }

    fn notify(&mut self, method: &str, params: Value) {
        let method = method.to_owned();
        self.lines.push_back(frames::encode(&Frame::Notification { method, params }));
    }
}

/// Waits for the answer to the first question; one that went away withdraws it.
async fn first_answer(asked: &mut VecDeque<(Id, oneshot::Receiver<Answer>)>) -> Answer {
    match asked.front_mut() {
        Some((_, receiver)) => receiver.await.unwrap_or(Answer::Withdrawn),
        None => std::future::pending().await,
    }
}

async fn read_frames(reading: OwnedReadHalf, frames_in: mpsc::Sender<Result<Frame, Failure>>) {
    let mut input = BufReader::with_capacity(64 << 10, reading);
    loop {
        let frame = match frames::next_line(&mut input).await {
            Ok(Some(line)) => frames::decode(&line).map_err(|error| nonsense(&error.message)),
            Ok(None) => return,
            Err(error) => Err(nonsense(&error.to_string())),
        };
        let last = frame.is_err();
        if frames_in.send(frame).await.is_err() || last {
            return;
        }
    }
}

async fn write_lines(mut writing: OwnedWriteHalf, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if writing.write_all(&line).await.is_err() {
            return;
        }
    }
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
