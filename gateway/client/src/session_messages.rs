//! Messages of both sides about one command that runs behind a socket.

use serde_json::{Value, json};

use super::message::{Message, message, nonsense};
use stockade_wire::conversation::WINDOW;
use stockade_wire::errors::Failure;
use stockade_wire::frames;
use stockade_wire::types::{Answer, Control, Event, Input, Question, RunOutcome};

/// One command that runs on the other side.
#[derive(Debug)]
pub(super) struct Talk {
    id: u64,
    /// Lines for which the socket had no room yet.
    pub(super) unsent: Vec<u8>,
    /// Pieces of input that the gateway has not taken yet.
    on_the_way: usize,
    input_open: bool,
}

/// Message of the gateway.
#[derive(Debug)]
pub(super) enum Said {
    /// Something that happened.
    Event(Event),
    /// A question, with the identity under which it is answered; none that this side understands can only be withdrawn.
    Question(Value, Option<Box<Question>>),
    /// The command is over, or was never run.
    Ended(Box<RunOutcome>),
    /// Nothing that anybody waits for.
    Nothing,
}

impl Talk {
    /// Begins with the request of identity `id`, of which `unsent` is to be sent.
    pub(super) fn new(id: u64, unsent: Vec<u8>) -> Talk {
        Talk { id, unsent, on_the_way: 0, input_open: true }
    }

    /// Says whether a piece of input may be sent now.
    pub(super) fn takes_input(&self) -> bool {
        self.input_open && self.unsent.is_empty() && self.on_the_way < WINDOW
    }

    /// Reads a line of the gateway.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<Said, Failure> {
        let message: Message<RunOutcome> = message(line)?;
        let Message { id, method, params, .. } = &message;
        Ok(match (method.as_deref(), id) {
            (Some("event"), None) => {
                let event = message.params.and_then(|params| params.event);
                event.map_or(Said::Nothing, Said::Event)
            }
            (Some("stdin_taken"), None) => {
                self.on_the_way = self.on_the_way.saturating_sub(1);
                Said::Nothing
            }
            // A later minor version may send further notifications.
            (Some(_), None) => Said::Nothing,
            (Some(method), Some(id)) => {
                let question = params.as_ref().and_then(|params| params.question.clone());
                let question = question.filter(|_| method == "question");
                Said::Question(id.clone(), question.map(Box::new))
            }
            (None, _) => {
                let outcome = message.answers(self.id).transpose()?;
                outcome.map_or(Said::Nothing, |outcome| Said::Ended(Box::new(outcome)))
            }
        })
    }

    /// Sends a piece of input, or its end.
    pub(super) fn input(&mut self, piece: Input) -> Result<(), Failure> {
        self.input_open = matches!(piece, Input::Stdin(_));
        self.on_the_way += 1;
        self.notify("stdin", &json!({"run": self.id, "input": piece}))
    }

    /// Sends what is to be done to the command.
    pub(super) fn control(&mut self, control: Control) -> Result<(), Failure> {
        self.notify("control", &json!({"run": self.id, "control": control}))
    }

    /// Sends the answer to question `id`.
    pub(super) fn answer(&mut self, id: &Value, answer: Answer) -> Result<(), Failure> {
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
