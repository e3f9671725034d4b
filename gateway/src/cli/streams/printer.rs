//! Output of a command, for one who waits in a runtime.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::at_once::{Kind, write};
use super::{Keys, Pages, Pause, Pen, Quiet, SIGPIPE, Show, Status, broken, thread};
use crate::protocol::types::{Control, Event, Stream};

/// Prints events: on a thread of its own from the first one that comes while the command runs, or that has to wait.
#[derive(Debug)]
pub(in super::super) struct Printer {
    show: Show,
    keys: Option<Keys>,
    control: mpsc::Sender<Control>,
    way: Way,
    pause: Arc<Pause>,
    status: Option<Status>,
}

#[derive(Debug)]
enum Way {
    /// Nothing has come yet.
    Idle(mpsc::Receiver<Event>),
    /// A thread takes the events, and tells at their end why some could not be printed.
    Thread {
        events: Arc<Mutex<mpsc::Receiver<Event>>>,
        ended: oneshot::Receiver<Option<std::io::Error>>,
    },
    /// Nothing more is printed: the gateway sees a front end that is gone, and ends the command.
    Over(Option<std::io::Error>),
}

impl Printer {
    /// Makes one for `events`. A reader of standard output that went away is told to the command by the signal that it
    /// would have got, had it written itself; the rest is dropped.
    pub(in super::super) fn new(
        events: mpsc::Receiver<Event>,
        control: mpsc::Sender<Control>,
        show: Show,
        keys: Option<Keys>,
    ) -> Printer {
        let (way, status) = (Way::Idle(events), Status::begin(show));
        Printer { show, keys, control, way, pause: Arc::default(), status }
    }

    fn pen(&self) -> Option<Pen> {
        self.status.as_ref().map(Status::pen)
    }

    /// Takes the line under a quiet command away, for something else.
    pub(in super::super) fn clear(&self) {
        self.pen().iter().for_each(Pen::clear);
    }

    /// Has the thread wait before it prints more.
    pub(in super::super) fn pause(&self) {
        self.hold(true);
    }

    /// Has the thread go on.
    pub(in super::super) fn resume(&self) {
        self.hold(false);
    }

    fn hold(&self, holds: bool) {
        self.pause.set(holds);
        self.pen().iter().for_each(|pen| pen.pause(holds));
        if let Some(keys) = &self.keys {
            keys.pause(holds);
        }
    }

    /// Returns by what a question waits for the terminal.
    pub(in super::super) fn quiet(&self) -> Quiet {
        Quiet(Arc::clone(&self.pause))
    }

    /// Starts the thread when the first event comes, and does nothing more after that. Dropping the future loses nothing.
    pub(in super::super) async fn wait(&mut self) {
        let Way::Idle(events) = &mut self.way else { return std::future::pending().await };
        let Some(first) = events.recv().await else { return std::future::pending().await };
        let pages = Pages::new(self.show, self.keys.clone(), self.pen());
        self.print(pages, first);
    }

    /// Prints nothing more, and takes nothing more: whoever has something to print waits no longer.
    pub(in super::super) fn leave(&mut self) {
        self.pause.change(|state| state.left = true);
        match &mut self.way {
            Way::Idle(events) => events.close(),
            // While it waits for events it drops what comes.
            Way::Thread { events, .. } => {
                if let Ok(mut events) = events.try_lock() {
                    events.close();
                }
            }
            Way::Over(_) => {}
        }
    }

    /// Waits until everything is printed: nothing more is to come. Returns why some of it could not be, but for a reader
    /// that went away. Dropping the future loses nothing.
    pub(in super::super) async fn end(&mut self) -> Option<std::io::Error> {
        let mut pages = Pages::new(self.show, self.keys.clone(), self.pen());
        let mut kinds = [None, None];
        while let Way::Idle(events) = &mut self.way {
            let Ok(event) = events.try_recv() else {
                self.way = Way::Over(pages.lost.take());
                break;
            };
            let [stdout, stderr] = &mut kinds;
            // There is nothing left to be told of a reader that went away.
            if let (Some(rest), _) = at_once(&mut pages, [stdout, stderr], event) {
                let pages = std::mem::replace(&mut pages, Pages::new(Show::Nothing, None, None));
                self.print(pages, rest);
            }
        }
        match &mut self.way {
            Way::Thread { ended, .. } => ended.await.unwrap_or_else(|_| Some(broken())),
            Way::Over(lost) => lost.take(),
            Way::Idle(_) => None,
        }
    }

    /// Prints `first`, and all that comes, on a thread.
    fn print(&mut self, mut pages: Pages, first: Event) {
        let Way::Idle(events) = &mut self.way else { return };
        let (_, none) = mpsc::channel(1);
        let events = Arc::new(Mutex::new(std::mem::replace(events, none)));
        let (end, ended) = oneshot::channel();
        let (control, pause, source) =
            (self.control.clone(), Arc::clone(&self.pause), Arc::clone(&events));
        let print = move || {
            let mut next = Some(first);
            while let Some(event) = next {
                let left = pause.print(pages.is_shown(&event), || pages.print(event));
                if left == Some(true) {
                    let _ = control.try_send(Control::Signal(SIGPIPE)); // a full channel already ends it
                }
                next = source.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            }
            let _ = end.send(pages.lost); // nobody waits for it any more
        };
        self.way = match thread("print", print) {
            Ok(_) => Way::Thread { events, ended },
            Err(failure) => Way::Over(Some(std::io::Error::other(failure.message))),
        };
    }
}

/// Prints what of an event goes without waiting. Returns the rest of it, and whether it turned out that the reader of it
/// went away.
fn at_once(
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
    let written = match write(to, kind, &bytes) {
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
