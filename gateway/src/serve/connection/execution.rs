//! One command of a connection: started, fed, shown and answered.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Message, answer, deliver, refusal};
use crate::Gateway;
use crate::engine::calling::Calling;
use crate::protocol::frames::{self, Frame, Id};
use crate::protocol::types::{CommandRequest, Control, Event, Input, RunOutcome};
use crate::tasks::live::{Stopping, Ways};
use stockade_wire::conversation::{Conversation, PendingQuestion};

/// One command of a connection, from request to answer, and on to its end if it becomes a task.
pub(super) struct Execution {
    pub(super) id: Id,
    pub(super) caller: Calling,
    pub(super) outgoing: mpsc::Sender<Vec<u8>>,
    pub(super) messages: mpsc::Sender<Message>,
}

/// Input for a command, and both ends of what is done to it.
pub(super) struct Channels {
    pub(super) feeding: mpsc::Receiver<Input>,
    pub(super) control_in: mpsc::Sender<Control>,
    pub(super) control: mpsc::Receiver<Control>,
}

impl Execution {
    pub(super) async fn run(
        self,
        gateway: Arc<Gateway>,
        request: CommandRequest,
        Channels { feeding, control_in, control }: Channels,
        answered: oneshot::Sender<()>,
    ) {
        let (events_in, events) = mpsc::channel(16);
        let (asking, asked) = mpsc::channel(1);
        let (input_in, input) = mpsc::channel(1);
        let interactive = request.context.interactive;
        let talk = Conversation {
            events: events_in,
            questions: interactive.then_some(asking),
            input,
            control,
        };
        let ways = Ways {
            control: control_in,
            // Nobody types at a pipe once its run is answered.
            input: request.pty.then(|| input_in.clone()),
            stopping: Stopping::default(),
            session: request.context.session.clone(),
            outlives_session: false,
        };
        let mut beside = JoinSet::new();
        beside.spawn(feed(self.id.clone(), feeding, input_in, self.outgoing.clone()));
        beside.spawn(hand_on_questions(self.id.clone(), asked, self.messages.clone()));
        let running = gateway.run_for(self.caller.clone(), request, talk);
        let show = self.show(&gateway, events, ways, beside, answered);
        let (outcome, told) = tokio::join!(running, show);
        match told {
            Told::Events(answered) => {
                self.answer(&outcome).await;
                drop(answered);
            }
            Told::Task(id) => gateway.tasks().remove(&id),
        }
    }

    /// Tells what happens, up to the end of the command or until it is a task; then the rest is in its file.
    async fn show(
        &self,
        gateway: &Gateway,
        mut events: mpsc::Receiver<Event>,
        ways: Ways,
        mut beside: JoinSet<()>,
        answered: oneshot::Sender<()>,
    ) -> Told {
        let run = self.id.value();
        while let Some(event) = events.recv().await {
            if let Event::Background(view) = event {
                let outlives_session = view.outlives_session;
                gateway.tasks().add(&view.task_id, Ways { outlives_session, ..ways });
                let id = view.task_id.clone();
                self.answer(&RunOutcome::Background(view)).await;
                beside.abort_all();
                drop(answered);
                while events.recv().await.is_some() {}
                return Told::Task(id);
            }
            // Bytes and texts can always be written; one that cannot would be missed by nobody but this reader.
            if let Ok(line) = frames::notification("event", &Shown { run: &run, event: &event }) {
                deliver(&self.outgoing, line).await;
            }
        }
        beside.abort_all();
        Told::Events(answered)
    }

    /// Answers the request. The connection forgets the command first: its end is not that of a task.
    async fn answer(&self, outcome: &RunOutcome) {
        let _ = self.messages.send(Message::Ended(self.id.clone())).await; // the connection may be gone
        let line = match outcome {
            RunOutcome::Failed(failure) => refusal(self.id.clone(), failure),
            RunOutcome::Ran(_)
            | RunOutcome::Background(_)
            | RunOutcome::Denied(_)
            | RunOutcome::NeedsPerson(_) => answer(&self.id, outcome),
        };
        deliver(&self.outgoing, line).await;
    }
}

/// How far a command was shown.
enum Told {
    /// To its end; the request has to be answered.
    Events(oneshot::Sender<()>),
    /// Until it became this task; the request is answered.
    Task(String),
}

/// An event of a run, on the wire.
#[derive(serde::Serialize)]
struct Shown<'a> {
    run: &'a Value,
    event: &'a Event,
}

/// Hands input on to the command and tells the client of each piece taken.
async fn feed(
    run: Id,
    mut feeding: mpsc::Receiver<Input>,
    input: mpsc::Sender<Input>,
    outgoing: mpsc::Sender<Vec<u8>>,
) {
    while let Some(piece) = feeding.recv().await {
        if input.send(piece).await.is_err() {
            return;
        }
        let params = json!({"run": run.value()});
        let taken = Frame::Notification { method: "stdin_taken".into(), params };
        deliver(&outgoing, frames::encode(&taken)).await;
    }
}

async fn hand_on_questions(
    run: Id,
    mut asked: mpsc::Receiver<PendingQuestion>,
    messages: mpsc::Sender<Message>,
) {
    while let Some(pending) = asked.recv().await {
        if messages.send(Message::Asked(run.clone(), Box::new(pending))).await.is_err() {
            return;
        }
    }
}
