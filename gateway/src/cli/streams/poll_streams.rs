//! Input and output of one who waits with poll(2).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::task::Poll;

use rustix::event::{EventfdFlags, eventfd};

use super::at_once::{self, Kind};
use super::{Keys, PIECE, Pages, Pause, Quiet, SIGPIPE, Show, Status, broken, read_to_end, thread};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Control, Event, Input, Stream};

/// Events that the thread that prints may have before it.
const EVENTS: usize = 64;
/// Pieces of input that the thread that reads may have before it.
const PIECES: usize = 4;

/// By it threads tell that there is something to look at.
#[derive(Debug, Clone)]
pub(in super::super) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(in super::super) fn new() -> Result<Bell, Failure> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let descriptor = descriptor.map_err(|error| {
            Failure::new(Code::Internal, format!("cannot receive from threads: {error}"), "")
        })?;
        Ok(Bell(Arc::new(descriptor)))
    }

    /// Has the one who waits look.
    pub(in super::super) fn ring(&self) {
        // One that was rung very often and not heard is readable, too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Forgets that it was rung.
    pub(in super::super) fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]); // nothing to read: it was not rung
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Prints events: at once as long as nothing waits, and from the first that would on a thread.
#[derive(Debug)]
pub(in super::super) struct Printing {
    bell: Bell,
    way: Way,
    /// Those for which the thread has no room, or that come while nothing is printed.
    waiting: VecDeque<Event>,
    /// Nothing is printed for now.
    holds: bool,
    pause: Arc<Pause>,
    keys: Option<Keys>,
    status: Option<Status>,
    /// A reader of standard output went away, and nobody has been told.
    left: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Way {
    AtOnce {
        pages: Pages,
        stdout: Option<Kind>,
        stderr: Option<Kind>,
    },
    /// A thread takes events until there is no sender, and tells then why some could not be printed.
    Thread {
        events: Option<SyncSender<Event>>,
        ended: Receiver<Option<std::io::Error>>,
    },
}

impl Printing {
    pub(in super::super) fn new(show: Show, keys: Option<Keys>, bell: Bell) -> Printing {
        let status = Status::begin(show);
        let pages = Pages::new(show, keys.clone(), status.as_ref().map(Status::pen));
        let way = Way::AtOnce { pages, stdout: None, stderr: None };
        let (waiting, left, pause) = (VecDeque::new(), Arc::default(), Arc::default());
        Printing { bell, way, waiting, holds: false, pause, keys, status, left }
    }

    /// Says whether there is room for an event.
    pub(in super::super) fn has_room(&self) -> bool {
        self.waiting.is_empty() || (self.holds && self.waiting.len() < EVENTS)
    }

    /// Prints an event, in its turn. Fails where it would need a thread and gets none.
    pub(in super::super) fn print(&mut self, event: Event) -> Result<(), Failure> {
        self.waiting.push_back(event);
        self.go_on()
    }

    /// Prints nothing more for now.
    pub(in super::super) fn pause(&mut self) -> Result<(), Failure> {
        self.hold(true)
    }

    /// Goes on.
    pub(in super::super) fn resume(&mut self) -> Result<(), Failure> {
        self.hold(false)
    }

    fn hold(&mut self, holds: bool) -> Result<(), Failure> {
        self.holds = holds;
        self.pause.set(holds);
        self.status.iter().for_each(|status| status.pen().pause(holds));
        if let Some(keys) = &self.keys {
            keys.pause(holds);
        }
        self.go_on()
    }

    /// Prints what waits, as far as there is room for it now.
    pub(in super::super) fn go_on(&mut self) -> Result<(), Failure> {
        while !self.holds {
            let Some(event) = self.waiting.pop_front() else { break };
            let rest = match &mut self.way {
                Way::AtOnce { pages, stdout, stderr } => {
                    let (rest, left) = at_once(pages, [stdout, stderr], event);
                    self.left.fetch_or(left, Ordering::Relaxed);
                    rest
                }
                Way::Thread { .. } => Some(event),
            };
            let Some(event) = rest else { continue };
            if let Some(event) = self.hand_over(event)? {
                self.waiting.push_front(event);
                break;
            }
        }
        Ok(())
    }

    /// Returns what the command is to be told, once: the signal that it would have got, had it itself written to a reader
    /// of standard output that went away. The rest of what it writes is dropped.
    pub(in super::super) fn message(&self) -> Option<Control> {
        let left = self.left.swap(false, Ordering::Relaxed);
        left.then_some(Control::Signal(SIGPIPE))
    }

    /// Gives the thread an event; returns it if there is no room for it.
    fn hand_over(&mut self, event: Event) -> Result<Option<Event>, Failure> {
        if let Way::AtOnce { pages, .. } = &mut self.way {
            let pages = std::mem::replace(pages, Pages::new(Show::Nothing, None, None));
            let (left, pause) = (Arc::clone(&self.left), Arc::clone(&self.pause));
            self.way = print_on_a_thread(pages, self.bell.clone(), left, pause)?;
        }
        let Way::Thread { events: Some(events), .. } = &self.way else { return Ok(None) };
        match events.try_send(event) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(event)) => Ok(Some(event)),
            // The thread broke off, which is told at the end.
            Err(TrySendError::Disconnected(_)) => Ok(None),
        }
    }

    /// Returns by what a question waits for the terminal.
    pub(in super::super) fn quiet(&self) -> Quiet {
        Quiet(Arc::clone(&self.pause))
    }

    /// Tells when everything is printed, nothing more being to come: why some of it could not be, but for a reader that
    /// went away. Until then the bell rings at each change.
    pub(in super::super) fn end(&mut self) -> Poll<Option<std::io::Error>> {
        if let Err(failure) = self.go_on() {
            return Poll::Ready(Some(std::io::Error::other(failure.message)));
        }
        match &mut self.way {
            Way::AtOnce { pages, .. } => Poll::Ready(pages.lost.take()),
            Way::Thread { events, ended } => {
                if self.waiting.is_empty() {
                    *events = None;
                }
                match ended.try_recv() {
                    Ok(lost) => Poll::Ready(lost),
                    Err(TryRecvError::Empty) => Poll::Pending,
                    Err(TryRecvError::Disconnected) => Poll::Ready(Some(broken())),
                }
            }
        }
    }
}

fn print_on_a_thread(
    mut pages: Pages,
    bell: Bell,
    left: Arc<AtomicBool>,
    pause: Arc<Pause>,
) -> Result<Way, Failure> {
    let (events, printed) = sync_channel(EVENTS);
    let (end, ended) = sync_channel(1);
    let print = move || {
        while let Ok(event) = printed.recv() {
            let is_left = pause.print(pages.is_shown(&event), || pages.print(event));
            left.fetch_or(is_left == Some(true), Ordering::Relaxed);
            bell.ring();
        }
        let _ = end.send(pages.lost); // nobody waits for it any more
        bell.ring();
    };
    thread("print", print)?;
    Ok(Way::Thread { events: Some(events), ended })
}

/// Prints what of an event goes without waiting. Returns the rest of it, and whether it turned out that the reader of it
/// went away.
pub(super) fn at_once(
    pages: &mut Pages,
    [stdout, stderr]: [&mut Option<Kind>; 2],
    event: Event,
) -> (Option<Event>, bool) {
    let (stream, bytes, counts) = match (event, pages.show) {
        (Event::Terminal, _) => {
            pages.begin();
            return (None, false);
        }
        (Event::Background(_), _) | (_, Show::Nothing) | (Event::Notice(_), Show::Output) => {
            return (None, false);
        }
        (Event::Output { .. }, Show::All | Show::Output) if pages.gone => return (None, false),
        (Event::Output { stream, bytes }, Show::All | Show::Output) => (stream, bytes, true),
        (Event::Notice(text), Show::All) => (Stream::Stderr, pages.line(&text).into_bytes(), false),
    };
    let (to, kind) = match stream {
        Stream::Stdout => (rustix::stdio::stdout(), stdout),
        Stream::Stderr => (rustix::stdio::stderr(), stderr),
    };
    let kind = *kind.get_or_insert_with(|| Kind::of(to));
    let written = match at_once::write(to, kind, &bytes) {
        None => 0,
        Some(Ok(written)) => {
            if let Some(pen) = &pages.pen {
                pen.went_elsewhere(bytes.get(..written).unwrap_or_default());
            }
            written
        }
        // A notice that nobody reads changes nothing.
        Some(Err(_)) if !counts => return (None, false),
        Some(Err(error)) => return (None, pages.printed(Err(error.into()))),
    };
    match bytes.get(written..).filter(|rest| !rest.is_empty()) {
        Some(rest) => (Some(Event::Output { stream, bytes: rest.to_vec() }), false),
        None => (None, false),
    }
}

/// Takes a piece of input, and says whether more is wanted.
type HandOn = Box<dyn Fn(Input) -> bool + Send>;

/// Standard input of a command.
#[derive(Debug)]
pub(in super::super) enum Source {
    /// There is none, or no more.
    Nothing,
    /// The input is read when there is something to read.
    AtOnce(Kind),
    /// A thread reads it.
    Thread(Receiver<Input>),
}

impl Source {
    /// Returns standard input of this process, if the command `reads` it.
    pub(in super::super) fn new(
        reads: bool,
        keys: Option<Keys>,
        bell: &Bell,
    ) -> Result<Source, Failure> {
        if let Some(keys) = keys {
            return Source::thread(bell.clone(), |hand_on| keys.read(hand_on));
        }
        if !reads {
            return Ok(Source::Nothing);
        }
        match Kind::of(rustix::stdio::stdin()) {
            Kind::Other => Source::thread(bell.clone(), read_to_end),
            kind @ (Kind::File | Kind::Pipe | Kind::Socket) => Ok(Source::AtOnce(kind)),
        }
    }

    fn thread(
        bell: Bell,
        start: impl FnOnce(HandOn) -> Result<(), Failure>,
    ) -> Result<Source, Failure> {
        let (pieces, read) = sync_channel(PIECES);
        start(Box::new(move |piece| {
            let wanted = pieces.send(piece).is_ok();
            bell.ring();
            wanted
        }))?;
        Ok(Source::Thread(read))
    }

    /// Returns the descriptor to wait for, if it is one.
    pub(in super::super) fn waits_for(&self) -> Option<BorrowedFd<'static>> {
        matches!(self, Source::AtOnce(_)).then(rustix::stdio::stdin)
    }

    /// Returns the next piece that is there.
    pub(in super::super) fn take(&mut self, bell: &Bell) -> Result<Option<Input>, Failure> {
        let piece = match self {
            Source::Nothing => None,
            Source::AtOnce(kind) => {
                let mut buffer = vec![0; PIECE];
                match at_once::read(rustix::stdio::stdin(), *kind, &mut buffer) {
                    at_once::Read::Bytes(0) => Some(Input::StdinEnd),
                    at_once::Read::Bytes(length) => {
                        buffer.truncate(length);
                        Some(Input::Stdin(buffer))
                    }
                    at_once::Read::Nothing => None,
                    at_once::Read::Waits => {
                        *self = Source::thread(bell.clone(), read_to_end)?;
                        None
                    }
                }
            }
            Source::Thread(pieces) => match pieces.try_recv() {
                Ok(piece) => Some(piece),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Input::StdinEnd),
            },
        };
        if piece == Some(Input::StdinEnd) {
            *self = Source::Nothing;
        }
        Ok(piece)
    }
}
