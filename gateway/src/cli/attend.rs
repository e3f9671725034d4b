//! A command behind a socket is attended to: output, input, signals and questions are passed on, on one thread that waits
//! for all of them with poll(2). A runtime would cost more than all that is done here.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::task::Poll;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::Value;
use stockade_kernel::HeldSignals;

use super::ask::{Terminal, WITHDRAWAL, Withdrawal};
use super::interrupts::{Interrupts, Meant, SIGWINCH, heard};
use super::streams::{BackgroundKey, Bell, Keyboard, Printing, Show, Source, unread, window};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Answer, CommandRequest, Control, Question, RunOutcome};
use stockade_client::{Attended, Client, Said, left};

/// Has the gateway behind `connection` run `request`, with the person at `terminal` for its questions.
/// Also returns why output could not be passed on, if that was so.
pub(super) fn attend(
    connection: Client,
    request: &CommandRequest,
    terminal: Option<Terminal>,
    show: Show,
) -> Result<(RunOutcome, Option<std::io::Error>), Failure> {
    let unheard =
        |error| Failure::new(Code::Internal, format!("cannot receive signals: {error}"), "");
    let keyboard = Keyboard::of(request)?;
    let keys = || keyboard.as_ref().map(Keyboard::keys);
    // A write beyond the limit of a file's size fails, and does not end this process (setrlimit(2)).
    let background = terminal.as_ref().and_then(|_| BackgroundKey::of(request));
    let signals =
        HeldSignals::hold(&heard(keys().as_ref(), background.as_ref())).map_err(unheard)?;
    let bell = Bell::new()?;
    let mut attendance = Attendance {
        running: connection.attend(request)?,
        signals,
        interrupts: Interrupts::new(background),
        left: false,
        printing: Printing::new(show, keys(), bell.clone()),
        input: Source::new(request.stdin, keys(), &bell)?,
        has_terminal: request.pty,
        people: People { terminal, asked: VecDeque::new(), answering: None },
        bell,
    };
    let outcome = attendance.finish().unwrap_or_else(RunOutcome::Failed);
    attendance.people.answering.take().map(Answering::withdraw);
    Ok((outcome, attendance.printed()))
}

struct Attendance {
    running: Attended,
    signals: HeldSignals,
    interrupts: Interrupts,
    /// Nobody wants to wait any more.
    left: bool,
    /// The command has a terminal.
    has_terminal: bool,
    printing: Printing,
    input: Source,
    people: People,
    bell: Bell,
}

/// Questions, and who answers them.
struct People {
    terminal: Option<Terminal>,
    /// In the order asked.
    asked: VecDeque<(Value, Box<Question>)>,
    /// The one that a person is reading.
    answering: Option<Answering>,
}

/// A question that a person is reading.
struct Answering {
    id: Value,
    answer: Receiver<Answer>,
    withdrawal: Withdrawal,
}

impl Answering {
    /// Takes the question back, and returns its identity when the terminal is as it was.
    fn withdraw(self) -> Value {
        drop(self.withdrawal);
        // A terminal that takes nothing more is not waited for.
        let _ = self.answer.recv_timeout(WITHDRAWAL);
        self.id
    }
}

/// Sources that are ready.
struct Ready {
    socket: PollFlags,
    signal: bool,
    bell: bool,
    input: bool,
}

impl Ready {
    const NOTHING: Ready =
        Ready { socket: PollFlags::empty(), signal: false, bell: false, input: false };
}

impl Attendance {
    fn finish(&mut self) -> Result<RunOutcome, Failure> {
        self.running.send();
        loop {
            if self.interrupts.is_over() {
                self.left = true;
                return Err(left());
            }
            while self.printing.has_room() {
                match self.running.said()? {
                    None => break,
                    Some(Said::Ended(outcome)) => return Ok(*outcome),
                    Some(Said::Event(event)) => self.printing.print(event)?,
                    Some(Said::Question(id, question)) => self.question(id, question)?,
                    Some(Said::Nothing) => {}
                }
            }
            if let Some(control) = self.printing.message() {
                self.running.control(control)?;
            }
            let ready = self.wait()?;
            if ready.socket.intersects(!PollFlags::IN) {
                self.running.send();
            }
            if ready.socket.intersects(!PollFlags::OUT) && self.printing.has_room() {
                self.running.receive()?;
            }
            if ready.signal {
                self.signal()?;
            }
            if ready.bell {
                self.bell.hear();
                self.printing.go_on()?;
                self.answered()?;
            }
            if ready.input || self.input.waits_for().is_none() {
                self.input()?;
            }
        }
    }

    /// Waits until everything is printed: nothing more is to come. Returns why some of it could not be.
    fn printed(&mut self) -> Option<std::io::Error> {
        if self.left {
            return None;
        }
        if let Err(failure) = self.printing.resume() {
            return Some(std::io::Error::other(failure.message));
        }
        loop {
            if let Poll::Ready(lost) = self.printing.end() {
                return lost;
            }
            let mut waited =
                [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
            let polled = wait_for(&mut waited, self.interrupts.patience());
            self.bell.hear();
            let taken = self.signals.next().ok().flatten();
            let meant = taken.and_then(|signal| self.interrupts.meant(signal));
            let ends = matches!(meant, Some(Meant::Leave | Meant::Control(Control::Stop)));
            if polled.is_err() || ends || self.interrupts.is_over() {
                return Some(unread());
            }
        }
    }

    /// Sends what of the input is there, as far as it is taken.
    fn input(&mut self) -> Result<(), Failure> {
        while self.running.takes_input() {
            let Some(piece) = self.input.take(&self.bell)? else { return Ok(()) };
            self.running.input(piece)?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<Ready, Failure> {
        let (socket, events) = self.running.waits_for(self.printing.has_room());
        let signals = self.signals.as_fd();
        let mut waited = vec![
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        // The poll would report a broken socket even if no event of it is waited for.
        if !events.is_empty() {
            waited.push(PollFd::from_borrowed_fd(socket, events));
        }
        let takes_input = self.running.takes_input();
        let input = self.input.waits_for().filter(|_| takes_input);
        waited.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        let limits = [self.running.patience(), self.interrupts.patience()];
        match wait_for(&mut waited, limits.into_iter().flatten().min()) {
            Ok(()) => {}
            Err(Errno::INTR) => return Ok(Ready::NOTHING),
            Err(error) => {
                return Err(Failure::new(Code::Internal, format!("waiting failed: {error}"), ""));
            }
        }
        let mut found = waited.iter().map(PollFd::revents);
        let mut next = |is_waited: bool| match is_waited {
            true => found.next().unwrap_or(PollFlags::empty()),
            false => PollFlags::empty(),
        };
        let (signal, bell) = (next(true), next(true));
        let (socket, input) = (next(!events.is_empty()), next(input.is_some()));
        let [signal, bell, input] = [signal, bell, input].map(|events| !events.is_empty());
        Ok(Ready { socket, signal, bell, input })
    }

    fn signal(&mut self) -> Result<(), Failure> {
        let taken = self.signals.next();
        let taken = taken.map_err(|error| {
            Failure::new(Code::Internal, format!("cannot receive signals: {error}"), "")
        })?;
        if taken == Some(SIGWINCH) {
            let size = window().filter(|_| self.has_terminal);
            return size.map_or(Ok(()), |size| self.running.control(Control::Resize(size)));
        }
        let control = match taken.and_then(|signal| self.interrupts.meant(signal)) {
            None => return Ok(()),
            Some(Meant::Control(control)) => control,
            Some(Meant::Leave) => {
                self.left = true;
                return Err(left());
            }
        };
        if control == Control::Background {
            return self.running.control(control);
        }
        // Without a command yet the question goes away, and with it the request.
        if let Some(answering) = self.people.answering.take() {
            self.running.answer(&answering.withdraw(), Answer::Withdrawn)?;
            self.printing.resume()?;
        }
        self.running.control(control)?;
        self.ask()
    }

    fn question(&mut self, id: Value, question: Option<Box<Question>>) -> Result<(), Failure> {
        match (question, &self.people.terminal) {
            (Some(question), Some(_)) => {
                self.people.asked.push_back((id, question));
                self.ask()
            }
            (None, _) | (_, None) => self.running.answer(&id, Answer::Withdrawn),
        }
    }

    /// Shows the next question, if a person reads none now.
    fn ask(&mut self) -> Result<(), Failure> {
        let People { terminal, asked, answering } = &mut self.people;
        let (None, Some(terminal)) = (&answering, terminal) else { return Ok(()) };
        let Some((id, question)) = asked.pop_front() else { return Ok(()) };
        let (sender, answer) = sync_channel(1);
        let (terminal, bell) = (terminal.clone(), self.bell.clone());
        let Ok((withdrawal, withdrawn)) = Withdrawal::new() else {
            return self.running.answer(&id, Answer::Withdrawn);
        };
        // Output of the command must not look like the question meanwhile, or hide it; and the keys are the person's.
        self.printing.pause()?;
        let quiet = self.printing.quiet();
        let ask = move || {
            quiet.wait();
            let _ = sender.send(terminal.ask(&question, &withdrawn)); // a question withdrawn meanwhile needs no answer
            bell.ring();
        };
        match std::thread::Builder::new().name("ask".into()).spawn(ask) {
            Ok(_) => {
                *answering = Some(Answering { id, answer, withdrawal });
                Ok(())
            }
            Err(_) => {
                self.printing.resume()?;
                self.running.answer(&id, Answer::Withdrawn)
            }
        }
    }

    /// Passes on the answer of a person, if it is there.
    fn answered(&mut self) -> Result<(), Failure> {
        let Some(Answering { id, answer, .. }) = &self.people.answering else { return Ok(()) };
        let answer = match answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => Answer::Withdrawn,
        };
        let id = id.clone();
        self.people.answering = None;
        self.printing.resume()?;
        self.running.answer(&id, answer)?;
        self.ask()
    }
}

/// Waits for one of these, no longer than `limit`.
fn wait_for(waited: &mut [PollFd<'_>], limit: Option<Duration>) -> Result<(), Errno> {
    // A moment more, so that the limit is over then.
    let limit = limit.map(|limit| limit + Duration::from_millis(1));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    poll(waited, limit.as_ref()).map(drop)
}
