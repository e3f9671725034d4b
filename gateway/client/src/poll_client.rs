//! One command behind a socket, for a front end that waits with poll(2): nothing here waits.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};
use serde_json::Value;

use super::message::{HELLO, gone, greeting, nonsense, silent};
use super::session_messages::{Said, Talk};
use super::speaker;
use stockade_wire::errors::Failure;
use stockade_wire::frames::Lines;
use stockade_wire::types::{Answer, Control, Input};

/// One command that runs on the other side.
#[derive(Debug)]
pub struct Attended {
    stream: UnixStream,
    path: PathBuf,
    /// Bytes that were read and not looked at yet.
    lines: Lines,
    talk: Talk,
    /// Until when the gateway has to greet; none when it has.
    greeting: Option<Instant>,
}

impl Attended {
    pub(super) fn new(stream: UnixStream, path: PathBuf, lines: Lines, talk: Talk) -> Attended {
        let greeting = Some(Instant::now() + HELLO);
        Attended { stream, path, lines, talk, greeting }
    }

    /// Returns the socket, and what is waited for there; without `hears` not for what the gateway says.
    pub fn waits_for(&self, hears: bool) -> (BorrowedFd<'_>, PollFlags) {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, hears);
        events.set(PollFlags::OUT, !self.talk.unsent.is_empty());
        (self.stream.as_fd(), events)
    }

    /// Returns how long can be waited until the gateway is too late; none for ever.
    pub fn patience(&self) -> Option<Duration> {
        self.greeting.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Says whether a piece of input may be sent now.
    pub fn takes_input(&self) -> bool {
        self.talk.takes_input()
    }

    /// Sends a piece of input, or its end.
    pub fn input(&mut self, piece: Input) -> Result<(), Failure> {
        self.talk.input(piece)?;
        self.send();
        Ok(())
    }

    /// Sends what is to be done to the command.
    pub fn control(&mut self, control: Control) -> Result<(), Failure> {
        self.talk.control(control)?;
        self.send();
        Ok(())
    }

    /// Sends the answer to question `id`.
    pub fn answer(&mut self, id: &Value, answer: Answer) -> Result<(), Failure> {
        self.talk.answer(id, answer)?;
        self.send();
        Ok(())
    }

    /// Sends what the socket has room for. One that is closed takes all of it: what was said before can still be read.
    pub fn send(&mut self) {
        while !self.talk.unsent.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, &self.talk.unsent, flags) {
                Ok(count) => drop(self.talk.unsent.drain(..count.min(self.talk.unsent.len()))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.talk.unsent.clear(),
            }
        }
    }

    /// Receives a piece that is there.
    pub fn receive(&mut self) -> Result<(), Failure> {
        let stream = &self.stream;
        let received =
            self.lines.fill_from(|buffer| speaker::read(stream, buffer, RecvFlags::DONTWAIT));
        match received {
            Ok(0) => Err(gone()),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(()),
                _ => Err(speaker::failure(&error)),
            },
        }
    }

    /// Returns the next of what was received; none when it is all.
    pub fn said(&mut self) -> Result<Option<Said>, Failure> {
        loop {
            let line = self.lines.next_line().map_err(|error| nonsense(&error.to_string()))?;
            match (line, self.greeting) {
                (Some(line), None) => return self.talk.read(&line).map(Some),
                (Some(line), Some(_)) => {
                    greeting(&line)?;
                    self.greeting = None;
                }
                (None, Some(until)) if until <= Instant::now() => return Err(silent(&self.path)),
                (None, _) => return Ok(None),
            }
        }
    }
}
