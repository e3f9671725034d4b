//! Between the descriptors of this process and a command: a full pipe holds up the one that writes to it, never the
//! clock or the signals. So what may wait is done by a thread; what cannot wait is done at once (`streams/at_once.rs`).

mod at_once;
mod attended;
mod keyboard;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

use super::failure;
pub(super) use attended::{Bell, Printing, Source};
pub(super) use keyboard::{Keyboard, Keys, has_keys, window};

use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Control, Event, Input, Stream};
use crate::protocol::words;

const SIGPIPE: i32 = 13;
const PIECE: usize = 64 << 10;

/// What is shown while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Output and notices.
    All,
    /// Output only.
    Output,
    /// Nothing.
    Nothing,
}

/// Prints events: on a thread of its own from the first one that comes while the command runs.
#[derive(Debug)]
pub(crate) struct Printer {
    show: Show,
    keys: Option<Keys>,
    control: mpsc::Sender<Control>,
    way: Way,
    pause: Arc<Pause>,
}

/// Whether nothing is printed for now.
#[derive(Debug, Default)]
struct Pause {
    holds: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    /// Has what prints wait, or go on.
    fn set(&self, holds: bool) {
        *self.holds.lock().unwrap_or_else(PoisonError::into_inner) = holds;
        self.changed.notify_all();
    }

    /// Waits until something may be printed.
    fn wait(&self) {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(holds, |holds| *holds));
    }
}

#[derive(Debug)]
enum Way {
    /// Nothing has come yet.
    Idle(mpsc::Receiver<Event>),
    Thread(JoinHandle<Option<std::io::Error>>),
    /// There is no thread, so that the gateway sees a front end that is gone, and ends the command.
    Broken(std::io::Error),
}

impl Printer {
    /// Makes one for `events`. A reader of standard output that went away is told to the command by the signal that it
    /// would have got, had it written itself; the rest is dropped.
    pub(crate) fn new(
        events: mpsc::Receiver<Event>,
        control: mpsc::Sender<Control>,
        (show, keys): (Show, Option<Keys>),
    ) -> Printer {
        Printer { show, keys, control, way: Way::Idle(events), pause: Arc::default() }
    }

    /// Has the thread wait before it prints more, or go on.
    pub(crate) fn pause(&self, holds: bool) {
        self.pause.set(holds);
        if let Some(keys) = &self.keys {
            keys.pause(holds);
        }
    }

    /// Starts the thread when the first event comes, and does nothing more after that. Dropping the future loses nothing.
    pub(crate) async fn wait(&mut self) {
        let Way::Idle(events) = &mut self.way else { return std::future::pending().await };
        let Some(first) = events.recv().await else { return std::future::pending().await };
        let (_, none) = mpsc::channel(1);
        let mut events = std::mem::replace(events, none);
        let mut pages = Pages::new(self.show, self.keys.clone());
        let control = self.control.clone();
        let pause = Arc::clone(&self.pause);
        let print = move || {
            let mut next = Some(first);
            while let Some(event) = next {
                pause.wait();
                if pages.print(event) {
                    let _ = control.try_send(Control::Signal(SIGPIPE)); // a full channel already ends it
                }
                next = events.blocking_recv();
            }
            pages.lost
        };
        self.way = match thread("print", print) {
            Ok(thread) => Way::Thread(thread),
            Err(failure) => Way::Broken(std::io::Error::other(failure.message)),
        };
    }

    /// Waits until everything is printed: nothing more is to come. Returns why some of it could not be, but for a reader
    /// that went away.
    pub(crate) fn join(self) -> Option<std::io::Error> {
        let broken = || Some(std::io::Error::other("the thread that prints broke off"));
        match self.way {
            Way::Thread(thread) => thread.join().unwrap_or_else(|_| broken()),
            Way::Broken(error) => Some(error),
            Way::Idle(mut events) => {
                let mut pages = Pages::new(self.show, self.keys);
                while let Ok(event) = events.try_recv() {
                    pages.print(event); // there is nothing left to be told of a reader that went away
                }
                pages.lost
            }
        }
    }
}

/// What was printed so far.
#[derive(Debug)]
struct Pages {
    show: Show,
    /// The keyboard, if it is the command's while that runs.
    keys: Option<Keys>,
    /// Nobody reads any more.
    gone: bool,
    /// Why something could not be printed.
    lost: Option<std::io::Error>,
}

impl Pages {
    fn new(show: Show, keys: Option<Keys>) -> Pages {
        Pages { show, keys, gone: false, lost: None }
    }

    /// Prints an event, and says whether it turned out that the reader went away.
    fn print(&mut self, event: Event) -> bool {
        match (event, self.show) {
            (Event::Terminal, _) => {
                self.begin();
                false
            }
            (_, Show::Nothing) | (Event::Notice(_), Show::Output) => false,
            (Event::Notice(text), Show::All) => {
                failure::tell(self.line(&text).trim_end_matches('\n'));
                false
            }
            (Event::Output { .. }, Show::All | Show::Output) if self.gone => false,
            (Event::Output { stream, bytes }, Show::All | Show::Output) => {
                self.printed(write(stream, &bytes))
            }
        }
    }

    /// The command has begun.
    fn begin(&self) {
        if let Some(keys) = &self.keys {
            keys.begin();
        }
        // The size may have changed since it was asked for: as if it did now.
        let _ = kill_process(getpid(), Signal::WINCH); // it is this process
    }

    /// Returns the line for a notice, with its end.
    fn line(&self, text: &str) -> String {
        let end = match self.keys.as_ref().is_some_and(Keys::are_raw) {
            true => "\r\n",
            false => "\n",
        };
        format!("stockade: {}{end}", words::one_line(text))
    }

    /// Takes note of what came of printing, and says whether it turned out that the reader went away.
    fn printed(&mut self, result: std::io::Result<()>) -> bool {
        match result {
            Ok(()) => false,
            // The second is what a socket says when something was left unread.
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
            {
                !std::mem::replace(&mut self.gone, true)
            }
            Err(error) => {
                self.lost = self.lost.take().or(Some(error));
                false
            }
        }
    }
}

/// Says whether a command is to be given what comes on standard input: not from a terminal, at which a person sits.
pub(crate) fn has_stdin() -> bool {
    let stdin = rustix::stdio::stdin();
    !rustix::termios::isatty(stdin) && !is_empty_device(stdin)
}

/// Says whether `descriptor` is the empty device, from which nothing ever comes.
fn is_empty_device(descriptor: BorrowedFd<'_>) -> bool {
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::fstat(descriptor).is_ok_and(|found| {
        rustix::fs::FileType::from_raw_mode(found.st_mode).is_char_device() && found.st_rdev == null
    })
}

/// Reads standard input to its end and hands it on. Nobody joins this thread: nothing can end a read
/// from a terminal or pipe, so it ends with the process.
pub(crate) fn read_stdin(input: mpsc::Sender<Input>) -> Result<(), Failure> {
    read_to_end(move |piece| input.blocking_send(piece).is_ok())
}

/// Has a thread read standard input and give each piece, and the end, to `hand_on`, which says whether more is wanted.
fn read_to_end(hand_on: impl Fn(Input) -> bool + Send + 'static) -> Result<(), Failure> {
    let read = move || {
        let mut piece = vec![0; PIECE];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default().to_vec();
                    if !hand_on(Input::Stdin(bytes)) {
                        return;
                    }
                }
            }
        }
        hand_on(Input::StdinEnd);
    };
    thread("stdin", read).map(drop)
}

fn write(stream: Stream, bytes: &[u8]) -> std::io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
        Stream::Stderr => std::io::stderr().lock().write_all(bytes),
    }
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(|error| {
        Failure::new(Code::Internal, format!("a thread cannot be started: {error}"), "")
    })
}
