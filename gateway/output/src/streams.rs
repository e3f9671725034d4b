//! Input and output of a command, through pipes or a terminal.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use crate::output::Collector;
use crate::terminal::Terminal;
use stockade_wire::types::{Event, Input, Stream};

/// How long the pipes of a command that is gone are read for what still lies in them.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Most bytes that are read from the terminal of a command that is gone: more than a terminal keeps.
const KEPT: usize = 1 << 20;
/// How often the end of an input is typed: it holds for one read, and not for a program that begins to read keys.
const AGAIN: Duration = Duration::from_secs(1);

/// Standard input of a command.
#[derive(Debug)]
pub struct Inlet {
    way: Way,
    /// Bytes that were taken and have not been written yet.
    waiting: Vec<u8>,
}

#[derive(Debug)]
enum Way {
    Closed,
    Pipe(pipe::Sender),
    Terminal {
        terminal: Arc<Terminal>,
        in_a_line: bool,
        /// When its end is typed next; none before the end.
        ends: Option<Instant>,
    },
}

impl Inlet {
    /// Returns one that is a pipe, or nothing.
    pub fn pipe(pipe: Option<pipe::Sender>) -> Inlet {
        Inlet { way: pipe.map_or(Way::Closed, Way::Pipe), waiting: Vec::new() }
    }

    /// Returns the keyboard of a terminal; if nobody types, at its end.
    pub fn terminal(terminal: Arc<Terminal>, is_typed_at: bool) -> Inlet {
        let ends = (!is_typed_at).then(Instant::now);
        Inlet { way: Way::Terminal { terminal, in_a_line: false, ends }, waiting: Vec::new() }
    }

    /// Says whether there is room for more.
    pub fn takes(&self) -> bool {
        let is_open = match &self.way {
            Way::Closed => false,
            Way::Pipe(_) => true,
            Way::Terminal { ends, .. } => ends.is_none(),
        };
        is_open && self.waiting.is_empty()
    }

    /// Takes what comes, or the end.
    pub fn take(&mut self, input: Option<Input>) {
        match (input, &mut self.way) {
            (Some(Input::Stdin(bytes)), Way::Terminal { in_a_line, .. }) => {
                *in_a_line = bytes.last().map_or(*in_a_line, |last| *last != b'\n');
                self.waiting = bytes;
            }
            (Some(Input::Stdin(bytes)), Way::Pipe(_)) => self.waiting = bytes,
            (Some(Input::StdinEnd) | None, Way::Terminal { ends, .. }) => {
                *ends = Some(Instant::now());
            }
            (Some(Input::StdinEnd) | None, Way::Pipe(_)) => self.way = Way::Closed,
            (_, Way::Closed) => {}
        }
    }

    /// Waits for the next thing that can go in, and puts it in. Dropping the future loses nothing.
    pub async fn go_on(&mut self) {
        let written = match &mut self.way {
            Way::Closed => return std::future::pending().await,
            Way::Pipe(_) if self.waiting.is_empty() => return std::future::pending().await,
            Way::Pipe(pipe) => pipe.write(&self.waiting).await,
            Way::Terminal { terminal, in_a_line, ends } if self.waiting.is_empty() => {
                let Some(next) = ends else { return std::future::pending().await };
                sleep_until(*next).await;
                *next = Instant::now() + AGAIN;
                self.waiting = terminal.end_of_input(std::mem::take(in_a_line));
                return;
            }
            Way::Terminal { terminal, .. } => terminal.write(&self.waiting).await,
        };
        match written {
            Ok(count) => drop(self.waiting.drain(..count.min(self.waiting.len()))),
            Err(_) => (self.way, self.waiting) = (Way::Closed, Vec::new()),
        }
    }
}

/// One output of a command.
#[derive(Debug)]
pub enum Outlet {
    /// A pipe.
    Pipe(pipe::Receiver),
    /// The screen of a terminal.
    Terminal(Arc<Terminal>),
}

/// The outputs of a command, one chunk of which may wait for the front end.
pub struct Streams {
    stdout: Option<Outlet>,
    stderr: Option<Outlet>,
    first: Vec<u8>,
    second: Vec<u8>,
    /// Output that was read so far.
    pub collector: Collector,
    /// Chunk that waits for the front end.
    pub pending: Option<Event>,
}

impl Streams {
    /// Returns those of a command: standard output, and standard error where that is another.
    pub fn new(stdout: Outlet, stderr: Option<Outlet>, collector: Collector) -> Streams {
        let (first, second) = (vec![0; CHUNK], vec![0; CHUNK]);
        // First of all it is told that there is a terminal.
        let pending = matches!(stdout, Outlet::Terminal(_)).then_some(Event::Terminal);
        Streams { stdout: Some(stdout), stderr, first, second, collector, pending }
    }

    /// Says whether something may still come.
    pub fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads one chunk of either stream; an end or an error closes it. Dropping the future loses nothing.
    pub async fn read(&mut self, keep: bool) {
        let (stream, found) = tokio::select! {
            found = chunk(&mut self.stdout, &mut self.first) => (Stream::Stdout, found),
            found = chunk(&mut self.stderr, &mut self.second) => (Stream::Stderr, found),
        };
        self.took(stream, found, keep);
    }

    fn took(&mut self, stream: Stream, found: usize, keep: bool) {
        let buffer = match stream {
            Stream::Stdout => &self.first,
            Stream::Stderr => &self.second,
        };
        let bytes = buffer.get(..found).unwrap_or_default();
        if !bytes.is_empty() {
            self.collector.push(stream, bytes);
            self.pending = keep.then(|| Event::Output { stream, bytes: bytes.to_vec() });
            return;
        }
        match stream {
            Stream::Stdout => self.stdout = None,
            Stream::Stderr => self.stderr = None,
        }
    }

    /// Reads what is still there of a command that is gone.
    pub async fn drain(&mut self, keep: bool) -> Vec<Event> {
        let mut events: Vec<Event> = self.pending.take().into_iter().collect();
        if let Some(Outlet::Terminal(terminal)) = &self.stdout {
            // Others may hold the terminal a little longer; what the command showed is there already.
            let (terminal, mut read) = (Arc::clone(terminal), 0);
            while self.is_open() && read < KEPT {
                let found = terminal.read_now(&mut self.first);
                read += found;
                self.took(Stream::Stdout, found, keep);
                events.extend(self.pending.take());
            }
            return events;
        }
        let rest = async {
            while self.is_open() {
                self.read(keep).await;
                events.extend(self.pending.take());
            }
        };
        // Something that escaped may hold a pipe open for ever; what it writes later is not waited for.
        let _ = tokio::time::timeout(DRAIN, rest).await;
        events
    }
}

async fn chunk(stream: &mut Option<Outlet>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(Outlet::Pipe(pipe)) => pipe.read(buffer).await.unwrap_or(0),
        Some(Outlet::Terminal(terminal)) => terminal.read(buffer).await,
        None => std::future::pending().await,
    }
}
