//! The line that a person sees under a command that is quiet for long: time, bytes, and the last line of output that goes
//! elsewhere. It stands at the terminal of standard error alone, on a line of its own, and goes before anything else is written.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::termios::{isatty, tcgetpgrp};

use super::{Show, thread, window};
use crate::cli::tasks::progress::{CLEAR, USUAL_COLUMNS, can_go_back, last_line, line};
use crate::cli::tasks::shown::{size, span};
use crate::protocol::types::Stream;

/// Time without output after which it is shown.
const QUIET: Duration = Duration::from_secs(2);
/// Pause between two lines.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of output in which the last line is looked for.
const TAIL: usize = 4 << 10;

/// The line of a command. Dropping it takes it away.
#[derive(Debug)]
pub(super) struct Status(Pen);

/// The way to the line for who writes to the terminal.
#[derive(Debug, Clone)]
pub(super) struct Pen(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Held by who writes to the terminal, which may take long: whether the line is shown.
    terminal: Mutex<bool>,
    /// A person reads a question.
    waits: AtomicBool,
    is_over: AtomicBool,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    began: Option<Instant>,
    /// When something was written to the terminal.
    last: Option<Instant>,
    bytes: u64,
    /// The end of what went elsewhere than to a terminal.
    tail: VecDeque<u8>,
    /// True if the last output of the command to the terminal ends no line: nothing may be printed behind it.
    in_a_line: bool,
}

impl Status {
    /// Begins where `show` is all and a person sees standard error; none where nobody does, or the terminal cannot go back in
    /// a line.
    pub(super) fn begin(show: Show) -> Option<Status> {
        if show != Show::All || !can_go_back() || !isatty(rustix::stdio::stderr()) {
            return None;
        }
        let pen = Pen(Arc::default());
        pen.restart();
        let draws = pen.clone();
        thread("status", move || draws.draw()).ok()?;
        Some(Status(pen))
    }

    /// Returns the way to it.
    pub(super) fn pen(&self) -> Pen {
        self.0.clone()
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Pen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restart(&self) {
        let mut state = self.state();
        (state.began, state.last) = (Some(Instant::now()), Some(Instant::now()));
    }

    /// Writes output of the command by `write`, and takes note of it.
    pub(super) fn output<T>(&self, stream: Stream, bytes: &[u8], write: impl FnOnce() -> T) -> T {
        let to = match stream {
            Stream::Stdout => rustix::stdio::stdout(),
            Stream::Stderr => rustix::stdio::stderr(),
        };
        if !isatty(to) {
            self.went_elsewhere(bytes);
            return write();
        }
        let mut shown = self.0.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        clear(&mut shown);
        let written = write();
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(bytes.len() as u64);
        state.last = Some(Instant::now());
        state.in_a_line = bytes.last().map_or(state.in_a_line, |last| *last != b'\n');
        written
    }

    /// Takes note of output that no terminal shows.
    pub(super) fn went_elsewhere(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(bytes.len() as u64);
        state.tail.extend(bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default());
        let surplus = state.tail.len().saturating_sub(TAIL);
        state.tail.drain(..surplus);
    }

    /// Takes the line away, for something that is not of the command. Who writes to a terminal that takes nothing is not
    /// waited for: the line is gone then.
    pub(super) fn clear(&self) {
        if let Ok(mut shown) = self.0.terminal.try_lock() {
            clear(&mut shown);
        }
    }

    /// Shows nothing while a person reads a question, or goes on; the time of the question is none of the command's.
    pub(super) fn pause(&self, holds: bool) {
        let waited = self.0.waits.swap(holds, Ordering::SeqCst);
        self.clear();
        if waited && !holds {
            self.restart();
        }
    }

    /// Shows nothing any more.
    pub(super) fn end(&self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.clear();
        self.0.changed.notify_all();
    }

    /// Shows the line now and then until it is over.
    fn draw(&self) {
        while !self.0.is_over.load(Ordering::SeqCst) {
            self.show();
            let waited = self.0.changed.wait_timeout(self.state(), AGAIN);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn show(&self) {
        let mut shown = self.0.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        let line = {
            let mut state = self.state();
            let is_quiet = state.last.is_some_and(|last| last.elapsed() >= QUIET);
            let is_none_of_ours =
                [&self.0.waits, &self.0.is_over].iter().any(|it| it.load(Ordering::SeqCst));
            // A command that a shell runs in the background leaves the terminal to the one in front.
            if !is_quiet || state.in_a_line || is_none_of_ours || !is_in_front() {
                return;
            }
            let took = state.began.map_or(Duration::ZERO, |began| began.elapsed());
            let took = span(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            let columns = window().map_or(USUAL_COLUMNS, |window| window.columns.into());
            let (bytes, last) = (size(state.bytes), last_line(state.tail.make_contiguous()));
            line(&took, &bytes, &last, columns)
        };
        *shown = true;
        tell(&format!("{CLEAR}{line}"));
    }
}

fn clear(shown: &mut bool) {
    if std::mem::take(shown) && is_in_front() {
        tell(CLEAR);
    }
}

fn is_in_front() -> bool {
    tcgetpgrp(rustix::stdio::stderr()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()); // nobody sees it then
}
