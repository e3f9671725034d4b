//! One command behind a socket.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use rustix::net::RecvFlags;
use serde_json::Value;
use tokio::io::Interest;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::message::{gone, greeting, left, nonsense, silent};
use super::session_messages::{Said, Talk};
use super::speaker;
use stockade_wire::conversation::{Conversation, PendingQuestion, Whom};

use super::{LONGEST_END, SAME_ORDER};
use stockade_wire::errors::Failure;
use stockade_wire::frames::Lines;
use stockade_wire::types::{Answer, Control, Event, Input, Question, RunOutcome};

/// A gateway that has not greeted yet.
pub(super) struct Awaited<'a> {
    pub(super) path: &'a Path,
    /// Until when it has to.
    pub(super) until: Instant,
}

/// One command that runs on the other side.
pub(super) struct Exchange<'a> {
    stream: &'a tokio::net::UnixStream,
    lines: &'a mut Lines,
    /// None when the gateway has greeted.
    greeting: Option<Awaited<'a>>,
    said: Talk,
    talk: Conversation,
    /// An event that the front end has no room for yet; nothing more is read until it has.
    event: Option<Event>,
    /// Questions in the order asked; the first is waited for.
    asked: VecDeque<(Value, oneshot::Receiver<Answer>)>,
    control_open: bool,
    /// When the command was told to end.
    told: Option<Instant>,
}

/// Event that the exchange waits for.
enum Happened {
    Line(Vec<u8>),
    Progress,
    Input(Option<Input>),
    Control(Option<Control>),
    Answered(Answer),
    /// The time to wait, for the greeting or for the end of the command, is over.
    Late,
}

impl<'a> Exchange<'a> {
    /// Begins with what `said` has to send.
    pub(super) fn new(
        stream: &'a tokio::net::UnixStream,
        lines: &'a mut Lines,
        greeting: Option<Awaited<'a>>,
        said: Talk,
        talk: Conversation,
    ) -> Exchange<'a> {
        let (event, asked, control_open, told) = (None, VecDeque::new(), true, None);
        Exchange { stream, lines, greeting, said, talk, event, asked, control_open, told }
    }

    pub(super) async fn finish(mut self) -> Result<RunOutcome, Failure> {
        loop {
            // A gateway that talks without end leaves the runtime time for all else, signals first of all.
            tokio::task::coop::consume_budget().await;
            match self.next().await? {
                Happened::Line(line) if self.greeting.is_some() => {
                    greeting(&line)?;
                    self.greeting = None;
                }
                Happened::Line(line) => match self.said.read(&line)? {
                    Said::Ended(outcome) => return Ok(*outcome),
                    Said::Event(event) => self.event = Some(event),
                    Said::Question(id, question) => {
                        self.question(id, question.map(|question| *question)).await?;
                    }
                    Said::Nothing => {}
                },
                Happened::Progress => {}
                Happened::Input(piece) => self.said.input(piece.unwrap_or(Input::StdinEnd))?,
                Happened::Control(Some(control)) => self.control(control)?,
                Happened::Control(None) => self.control_open = false,
                Happened::Late => return Err(self.late()),
                Happened::Answered(answer) => {
                    if let Some((id, _)) = self.asked.pop_front() {
                        self.said.answer(&id, answer)?;
                    }
                }
            }
        }
    }

    /// Waits for the next thing. Every branch is safe to cancel.
    async fn next(&mut self) -> Result<Happened, Failure> {
        let accepts_input = self.said.takes_input();
        let Exchange { stream, lines, greeting, talk, event, said, asked, told, .. } = self;
        let limits = [greeting.as_ref().map(|it| it.until), told.map(|told| told + LONGEST_END)];
        let limit = limits.into_iter().flatten().min();
        let late = limit.map(|limit| tokio::time::sleep_until(limit.into()));
        let unsent = &mut said.unsent;
        tokio::select! {
            () = send(stream, unsent), if !unsent.is_empty() => Ok(Happened::Progress),
            permit = talk.events.reserve(), if event.is_some() => {
                if let (Ok(permit), Some(event)) = (permit, event.take()) {
                    permit.send(event);
                }
                Ok(Happened::Progress)
            }
            line = receive(stream, lines), if event.is_none() => Ok(Happened::Line(line?)),
            control = talk.control.recv(), if self.control_open => Ok(Happened::Control(control)),
            piece = talk.input.recv(), if accepts_input => Ok(Happened::Input(piece)),
            () = until(late), if limit.is_some() => Ok(Happened::Late),
            answer = first_answer(asked), if !asked.is_empty() => Ok(Happened::Answered(answer)),
        }
    }

    /// Returns why nothing is waited for any more.
    fn late(&self) -> Failure {
        match &self.greeting {
            Some(awaited) if awaited.until <= Instant::now() => silent(awaited.path),
            Some(_) | None => left(),
        }
    }

    /// Sends what is to be done to the command. Told to end once more, it is not waited for.
    fn control(&mut self, control: Control) -> Result<(), Failure> {
        match (&control, self.told) {
            (Control::Stop, Some(told)) if told.elapsed() >= SAME_ORDER => return Err(left()),
            (Control::Stop, None) => self.told = Some(Instant::now()),
            (Control::Stop, Some(_))
            | (Control::Signal(_) | Control::Resize(_) | Control::Background, _) => {}
        }
        self.settled()?;
        self.said.control(control)
    }

    /// Sends the answers that are there: a question that was taken back before the command is told to end goes first.
    fn settled(&mut self) -> Result<(), Failure> {
        while let Some((id, receiver)) = self.asked.front_mut() {
            let answer = match receiver.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Closed) => Answer::Withdrawn,
                Err(TryRecvError::Empty) => break,
            };
            self.said.answer(id, answer)?;
            self.asked.pop_front();
        }
        Ok(())
    }

    async fn question(&mut self, id: Value, question: Option<Question>) -> Result<(), Failure> {
        let (Some(question), Some(questions)) = (question, &self.talk.questions) else {
            return self.said.answer(&id, Answer::Withdrawn);
        };
        let (answer, receiver) = oneshot::channel();
        // A front end that no longer listens drops the sender, which withdraws the question.
        let _ = questions.send(PendingQuestion { question, answer, whom: Whom::default() }).await;
        self.asked.push_back((id, receiver));
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
        if let Some(line) = lines.next_line().map_err(|error| nonsense(&error.to_string()))? {
            return Ok(line);
        }
        stream.readable().await.map_err(|_| gone())?;
        let read = |buffer: &mut [u8]| {
            stream.try_io(Interest::READABLE, || speaker::read(stream, buffer, RecvFlags::DONTWAIT))
        };
        match lines.fill_from(read) {
            Ok(0) => return Err(gone()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(speaker::failure(&error)),
        }
    }
}

async fn until(late: Option<tokio::time::Sleep>) {
    match late {
        Some(late) => late.await,
        None => std::future::pending().await,
    }
}

/// Waits for the answer to the first question; one that went away withdraws it.
async fn first_answer(asked: &mut VecDeque<(Value, oneshot::Receiver<Answer>)>) -> Answer {
    match asked.front_mut() {
        Some((_, receiver)) => receiver.await.unwrap_or(Answer::Withdrawn),
        None => std::future::pending().await,
    }
}
