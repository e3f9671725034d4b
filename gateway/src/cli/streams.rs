//! Between the descriptors of this process and a command: a full pipe holds up the one that writes to it, never the
//! clock or the signals. So what may wait is done by a thread; what cannot wait is done at once (`streams/at_once.rs`).

mod at_once;
mod background_key;
mod keyboard;
mod printer;
mod status;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::fstat;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::isatty;
use tokio::sync::mpsc;

use super::failure;
pub(super) use background_key::BackgroundKey;
pub(super) use keyboard::{Keyboard, Keys, has_keys, window};
pub(super) use printer::Printer;
use status::{Pen, Status};

use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Event, Input, Stream};
use crate::protocol::words;

const SIGPIPE: i32 = 13;
const PIECE: usize = 64 << 10;

/// Selection of what is shown while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Output and notices.
    All,
    /// Output only.
    Output,
    /// Nothing.
    Nothing,
}

/// Whether something may be printed, and whether that is just being done.
#[derive(Debug, Default)]
struct Pause {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// Nothing is printed for now.
    holds: bool,
    /// Nothing is printed any more.
    left: bool,
    /// Something is on its way to a terminal.
    shows: bool,
}

impl Pause {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Has what prints wait, or go on.
    fn set(&self, holds: bool) {
        self.change(|state| state.holds = holds);
    }

    /// Prints by `print` when something may be printed; none when nothing is any more.
    fn print<T>(&self, is_shown: bool, print: impl FnOnce() -> T) -> Option<T> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |state| state.holds && !state.left);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.left {
            return None;
        }
        state.shows = is_shown;
        drop(state);
        let printed = print();
        self.change(|state| state.shows = false);
        Some(printed)
    }
}

/// Waits until a terminal shows nothing of the command any more: what was begun before it had to wait is written to its
/// end, else that would stand behind a question.
#[derive(Debug, Clone)]
pub(super) struct Quiet(Arc<Pause>);

impl Quiet {
    /// Waits, while nothing more may be printed.
    pub(super) fn wait(&self) {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.changed.wait_while(state, |state| state.holds && state.shows));
    }
}

/// Returns the message about output that was not passed on.
pub(super) fn unread() -> std::io::Error {
    std::io::Error::other("nobody read it before this program was stopped")
}

fn broken() -> std::io::Error {
    std::io::Error::other("the thread that prints failed")
}

/// Says whether standard output and standard error of this process are the same file: what goes there keeps its order only
/// if it comes as one stream.
pub(super) fn are_one_place() -> bool {
    let of = |descriptor: BorrowedFd<'_>| fstat(descriptor).map(|it| (it.st_dev, it.st_ino));
    match (of(rustix::stdio::stdout()), of(rustix::stdio::stderr())) {
        (Ok(stdout), Ok(stderr)) => stdout == stderr,
        (Ok(_) | Err(_), _) => false,
    }
}

/// Says whether standard input and output of this process are a terminal.
pub(super) fn is_terminal() -> bool {
    isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout())
}

/// State of the printing.
#[derive(Debug)]
struct Pages {
    show: Show,
    /// The keyboard, if it is the command's while that runs.
    keys: Option<Keys>,
    /// The line under a quiet command, if a person sees it.
    pen: Option<Pen>,
    /// Nobody reads any more.
    gone: bool,
    /// Why something could not be printed.
    lost: Option<std::io::Error>,
}

impl Pages {
    fn new(show: Show, keys: Option<Keys>, pen: Option<Pen>) -> Pages {
        Pages { show, keys, pen, gone: false, lost: None }
    }

    /// Says whether a terminal shows an event.
    fn is_shown(&self, event: &Event) -> bool {
        match (event, self.show) {
            (Event::Terminal | Event::Background(_), _)
            | (_, Show::Nothing)
            | (Event::Notice(_), Show::Output) => false,
            (Event::Output { stream: Stream::Stdout, .. }, Show::All | Show::Output) => {
                isatty(rustix::stdio::stdout())
            }
            (Event::Output { stream: Stream::Stderr, .. }, Show::All | Show::Output)
            | (Event::Notice(_), Show::All) => isatty(rustix::stdio::stderr()),
        }
    }

    /// Prints an event, and says whether it turned out that the reader went away.
    fn print(&mut self, event: Event) -> bool {
        match (event, self.show) {
            (Event::Terminal, _) => {
                self.begin();
                false
            }
            (Event::Background(_), _) | (_, Show::Nothing) | (Event::Notice(_), Show::Output) => {
                false
            }
            (Event::Notice(text), Show::All) => {
                self.pen.iter().for_each(Pen::clear);
                failure::tell(self.line(&text).trim_end_matches('\n'));
                false
            }
            (Event::Output { .. }, Show::All | Show::Output) if self.gone => false,
            (Event::Output { stream, bytes }, Show::All | Show::Output) => {
                let written = match &self.pen {
                    Some(pen) => pen.output(stream, &bytes, || write(stream, &bytes)),
                    None => write(stream, &bytes),
                };
                self.printed(written)
            }
        }
    }

    /// The command has begun.
    fn begin(&self) {
        // Its terminal is this one: nothing else may stand there.
        self.pen.iter().for_each(Pen::end);
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

    /// Takes note of the outcome of printing, and says whether it turned out that the reader went away.
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
    !isatty(stdin) && !is_empty_device(stdin)
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
        let _ = input.blocking_send(Input::StdinEnd); // nobody waits for it any more
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_question_waits_for_what_is_just_being_shown() {
        let pause = Arc::new(Pause::default());
        let (say, order) = channel();
        let (begin, begun) = channel();
        let (go_on, may_go_on) = channel();
        let (printing, says) = (Arc::clone(&pause), say.clone());
        let printer = std::thread::spawn(move || {
            let print = |text| {
                begin.send(()).unwrap();
                may_go_on.recv().unwrap();
                says.send(text).unwrap();
            };
            printing.print(true, || print("output"));
            printing.print(true, || print("more output"));
        });
        begun.recv().unwrap();
        pause.set(true);
        let quiet = Quiet(Arc::clone(&pause));
        let asking = std::thread::spawn(move || {
            quiet.wait();
            say.send("question").unwrap();
        });
        assert!(order.recv_timeout(Duration::from_millis(100)).is_err());
        go_on.send(()).unwrap();
        asking.join().unwrap();
        pause.set(false);
        go_on.send(()).unwrap();
        printer.join().unwrap();
        assert_eq!(order.iter().collect::<Vec<_>>(), ["output", "question", "more output"]);
    }

    #[test]
    fn what_goes_elsewhere_than_to_a_terminal_holds_no_question_up() {
        let pause = Arc::new(Pause::default());
        let quiet = Quiet(Arc::clone(&pause));
        // A print to a terminal would wait for ever here.
        let printed = pause.print(false, || {
            pause.set(true);
            quiet.wait();
        });
        assert_eq!(printed, Some(()));
        pause.change(|state| state.left = true);
        assert_eq!(pause.print(true, || ()), None);
    }
}
