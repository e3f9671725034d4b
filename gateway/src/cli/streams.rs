//! Threads between the descriptors of this process and a command: a full pipe holds up the one that
//! writes to it, never the clock or the signals.

use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::failure;
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

/// The thread that prints.
#[derive(Debug)]
pub(crate) struct Printer(JoinHandle<Option<std::io::Error>>);

impl Printer {
    /// Waits until everything is printed. Returns why some of it could not be, but for a reader that went away.
    pub(crate) fn join(self) -> Option<std::io::Error> {
        self.0
            .join()
            .unwrap_or_else(|_| Some(std::io::Error::other("the thread that prints broke off")))
    }
}

/// Says whether standard input is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Prints events until their senders are gone. A reader of standard output that went away is told to
/// the command by the signal that it would have got, had it written itself; the rest is dropped.
pub(crate) fn print_events(
    mut events: mpsc::Receiver<Event>,
    control: mpsc::Sender<Control>,
    show: Show,
) -> Result<Printer, Failure> {
    let print = move || {
        let (mut gone, mut lost) = (false, None);
        while let Some(event) = events.blocking_recv() {
            match (event, show) {
                (_, Show::Nothing) | (Event::Notice(_), Show::Output) => {}
                (Event::Notice(text), Show::All) => {
                    failure::tell(&format!("stockade: {}", words::one_line(&text)));
                }
                (Event::Output { .. }, Show::All | Show::Output) if gone => {}
                (Event::Output { stream, bytes }, Show::All | Show::Output) => {
                    match write(stream, &bytes) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                            gone = true;
                            let _ = control.try_send(Control::Signal(SIGPIPE)); // a full channel already ends it
                        }
                        Err(error) => lost = lost.or(Some(error)),
                    }
                }
            }
        }
        lost
    };
    thread("print", print).map(Printer)
}

/// Reads standard input to its end and hands it on. Nobody joins this thread: nothing can end a read
/// from a terminal or pipe, so it ends with the process.
pub(crate) fn read_stdin(input: mpsc::Sender<Input>) -> Result<(), Failure> {
    let read = move || {
        let mut piece = vec![0; PIECE];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default().to_vec();
                    if input.blocking_send(Input::Stdin(bytes)).is_err() {
                        return;
                    }
                }
            }
        }
        let _ = input.blocking_send(Input::StdinEnd); // the command ended first
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
