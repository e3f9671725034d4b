//! The terminal of this process while a command has one of its own: every key goes to the command as it is, but for a
//! person who is asked something meanwhile.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{
    OptionalActions, QueueSelector, SpecialCodeIndex, Termios, isatty, tcflush, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::{PIECE, thread};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CommandRequest, Input, Window};

/// The keyboard at standard input. Dropping it gives the terminal back as it was.
#[derive(Debug)]
pub(in super::super) struct Keyboard(Keys);

/// Shared state that says who has the keys.
#[derive(Debug, Clone)]
pub(in super::super) struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The terminal as it was.
    plain: Termios,
    /// The terminal as the command needs it.
    raw: Termios,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    phase: Phase,
    /// A person is asked something.
    asks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The command does not run yet.
    Before,
    /// The command runs.
    Meanwhile,
    /// The command is over.
    After,
}

impl State {
    fn is_the_commands(self) -> bool {
        self == State { phase: Phase::Meanwhile, asks: false }
    }
}

impl Keyboard {
    /// Takes the keyboard for the command of `request`, if that is to have it. It is the command's when that has begun.
    pub(in super::super) fn of(request: &CommandRequest) -> Result<Option<Keyboard>, Failure> {
        if !request.pty || !request.stdin || !has_keys() {
            return Ok(None);
        }
        let plain = tcgetattr(stdin()).map_err(|error| {
            let message = format!("cannot read the modes of the terminal: {error}");
            Failure::new(Code::Internal, message, "pass the input through a pipe")
        })?;
        let mut raw = plain.clone();
        raw.make_raw();
        // A read waits for nothing: who reads must be able to stop before the next key.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let state = Mutex::new(State { phase: Phase::Before, asks: false });
        let shared = Shared { state, changed: Condvar::new(), plain, raw };
        Ok(Some(Keyboard(Keys(Arc::new(shared)))))
    }

    pub(in super::super) fn keys(&self) -> Keys {
        self.0.clone()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.0.change(|state| state.phase = Phase::After);
    }
}

impl Keys {
    /// From now on the keys are the command's.
    pub(super) fn begin(&self) {
        self.change(|state| {
            if state.phase == Phase::Before {
                state.phase = Phase::Meanwhile;
            }
        });
    }

    /// Has the keys be those of a person who is asked something, or the command's again. After this returns no key is
    /// taken from the person.
    pub(super) fn pause(&self, asks: bool) {
        self.change(|state| state.asks = asks);
    }

    /// Says whether a line feed goes down and nothing else.
    pub(super) fn are_raw(&self) -> bool {
        self.state().is_the_commands()
    }

    /// Has a thread read the keys that are the command's and hand them on. Nobody joins it: it ends with the process.
    pub(in super::super) fn read(self, input: mpsc::Sender<Input>) -> Result<(), Failure> {
        let read = move || {
            while let Some(keys) = self.next() {
                if !keys.is_empty() && input.blocking_send(Input::Stdin(keys)).is_err() {
                    return;
                }
            }
            let _ = input.blocking_send(Input::StdinEnd); // nobody waits for it any more
        };
        thread("keys", read).map(drop)
    }

    /// Waits for keys of the command, perhaps in vain; none when the terminal is gone.
    fn next(&self) -> Option<Vec<u8>> {
        let waits = self.state();
        drop(self.0.changed.wait_while(waits, |state| !state.is_the_commands()));
        let mut polled = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let [seen] = polled.map(|one| one.revents());
        // The owner of the keys cannot change while they are read.
        let state = self.state();
        if !state.is_the_commands() {
            return Some(Vec::new());
        }
        let mut keys = vec![0; PIECE];
        match rustix::io::read(stdin(), &mut keys) {
            Ok(0) if seen.contains(PollFlags::HUP) => None,
            Ok(count) => {
                keys.truncate(count);
                Some(keys)
            }
            Err(Errno::INTR | Errno::AGAIN) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let before = state.is_the_commands();
        change(&mut state);
        let modes = match (before, state.is_the_commands()) {
            (false, true) => &self.0.raw,
            (true, false) => &self.0.plain,
            (true, true) | (false, false) => return,
        };
        // In the background the terminal is another process's, which would be disturbed, and this process stopped
        // (termios(3)).
        if tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp()) {
            // A terminal that is gone has no modes.
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
            if before {
                // Keys typed for the command, and answers of the terminal to its output, are for nobody else.
                let _ = tcflush(stdin(), QueueSelector::IFlush);
            }
        }
        self.0.changed.notify_all();
    }
}

/// Says whether standard input is a keyboard.
pub(in super::super) fn has_keys() -> bool {
    isatty(stdin())
}

/// Returns the size of the terminal of this process, if it has one.
pub(in super::super) fn window() -> Option<Window> {
    let streams = [rustix::stdio::stdout(), stdin(), rustix::stdio::stderr()];
    let mut sizes = streams.into_iter().filter_map(|stream| tcgetwinsize(stream).ok());
    let size = sizes.find(|size| size.ws_row > 0 && size.ws_col > 0)?;
    Some(Window { rows: size.ws_row, columns: size.ws_col })
}

fn stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}
