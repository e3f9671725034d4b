//! Runs what was granted: starts it, carries its streams, ends it when it must end.

mod launchers;
pub(crate) mod output;
mod pipes;
mod readable;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use stockade_sandbox as sandbox;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::decide::Grant;
use crate::net::report::Report;
use crate::protocol::types::{Control, Event, Input, Stream};

pub(crate) use launchers::Launchers;
use output::{Collector, Output};
use readable::Readable;

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a command is waited for after it was stopped, before its watchers are killed.
const OVERDUE: Duration = GRACE.saturating_add(sandbox::Stopper::LONGEST);
/// How long the pipes of a command that is gone are read for what still lies in them.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Interrupt from the keyboard (signal(7)).
const SIGINT: i32 = 2;

/// Signals that end what they reach, unless it provides for them (signal(7)): HUP, INT, QUIT, KILL, TERM.
const ENDING: [i32; 5] = [1, SIGINT, 3, 9, 15];

fn gives_up(control: &Control) -> bool {
    match control {
        Control::Stop => true,
        Control::Signal(number) => ENDING.contains(number),
    }
}

/// Waits until the caller of a command that does not run yet gives it up. Other signals reach nothing.
pub(crate) async fn given_up(control: &mut mpsc::Receiver<Control>) {
    while let Some(sent) = control.recv().await {
        if gives_up(&sent) {
            return;
        }
    }
    std::future::pending().await
}

/// Says whether the caller of a command that does not run yet gave it up.
pub(crate) fn was_given_up(control: &mut mpsc::Receiver<Control>) -> bool {
    while let Ok(sent) = control.try_recv() {
        if gives_up(&sent) {
            return true;
        }
    }
    false
}

/// What a front end and a running command say to each other.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Output goes here.
    pub(crate) events: mpsc::Sender<Event>,
    /// Standard input comes from here.
    pub(crate) input: mpsc::Receiver<Input>,
    /// Signals come from here.
    pub(crate) control: mpsc::Receiver<Control>,
}

/// How to run, besides what was granted.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// Time limit.
    pub(crate) timeout: Duration,
    /// Pass standard input on; else it is empty.
    pub(crate) stdin: bool,
    /// Where long output goes.
    pub(crate) directory: PathBuf,
}

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Stop,
    child: sandbox::Child,
    /// Can be read when the command has ended.
    end: Readable,
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    enforced: sandbox::Enforced,
    started: (SystemTime, Instant),
    listeners: Option<sandbox::Listeners>,
}

impl Running {
    /// Gives up the way out of the command, to whoever serves it; closed if nobody does.
    pub(crate) fn take_listeners(&mut self) -> Option<sandbox::Listeners> {
        self.listeners.take()
    }
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Execution {
    /// How; none when nobody could see it.
    pub(crate) exit: Option<sandbox::Exit>,
    /// Acts that were refused.
    pub(crate) violations: Vec<sandbox::Violation>,
    /// What it wrote.
    pub(crate) output: Output,
    /// What was enforced.
    pub(crate) enforced: sandbox::Enforced,
    /// The time limit passed.
    pub(crate) timed_out: bool,
    /// The caller ended it, or went away.
    pub(crate) interrupted: bool,
    /// When it started, and when it ended.
    pub(crate) times: (SystemTime, SystemTime),
    /// How long it took.
    pub(crate) took: Duration,
    /// Output that the front end has not got yet.
    pub(crate) unsent: Vec<Event>,
    /// What became of its connections.
    pub(crate) network: Report,
    /// What is left of its confinement: nothing that runs.
    pub(crate) remains: Remains,
}

/// What kept a command apart, on its way out. Dropping it waits for the rest of that way.
#[derive(Debug, Default)]
pub(crate) struct Remains(Option<sandbox::Child>);

impl Remains {
    /// Waits until nothing is left.
    pub(crate) async fn gone(self) {
        let Some(child) = self.0 else { return };
        let Ok(end) = child.process().and_then(Readable::new) else { return };
        if tokio::time::timeout(sandbox::Stopper::LONGEST, end.wait()).await.is_err() {
            // One that does not go is left to a thread.
            drop(tokio::task::spawn_blocking(move || drop(child)));
        }
    }
}

/// Starts what was granted; the grant is used up.
pub(crate) async fn start(
    grant: Grant,
    launchers: &Launchers,
    manner: &Manner,
) -> Result<Running, sandbox::Error> {
    let (theirs, ours) = pipes::stdio(manner.stdin)?;
    let launcher = launchers.take().await?;
    // The spec leaves this process here, and nowhere else: a launcher without one has nothing to run.
    let starting = launcher.begin(&grant.into_spec(), theirs)?;
    let (mut child, enforced) = begun(starting).await?;
    let started = (SystemTime::now(), Instant::now());
    let listeners = child.take_listeners();
    let lost = |source| sandbox::Error::Report { source };
    let stop = Stop(child.stopper().map_err(lost)?);
    let end = child.socket().and_then(Readable::new).map_err(lost)?;
    let pipes::Ours { stdin, stdout, stderr } = ours;
    Ok(Running { stop, child, end, stdin, stdout, stderr, enforced, started, listeners })
}

/// Waits until the command runs or why it does not is known.
async fn begun(
    mut starting: sandbox::Starting,
) -> Result<(sandbox::Child, sandbox::Enforced), sandbox::Error> {
    let lost = |source| sandbox::Error::Report { source };
    let report = starting.socket().and_then(Readable::new).map_err(lost)?;
    loop {
        let came = tokio::time::timeout(sandbox::Starting::LIMIT, report.wait()).await;
        came.map_err(|late| lost(late.into()))?.map_err(lost)?;
        match starting.proceed()? {
            sandbox::Progress::Waiting(more) => starting = more,
            sandbox::Progress::Started(child, enforced) => return Ok((child, enforced)),
        }
    }
}

/// Carries the streams of a command until it and everything that it started are gone.
pub(crate) async fn follow(running: Running, manner: &Manner, lines: &mut Lines) -> Execution {
    let Running { stop, child, end, mut stdin, stdout, stderr, enforced, started, listeners } =
        running;
    drop(listeners);
    let mut streams = Streams::new(stdout, stderr, Collector::new(manner.directory.clone()));
    let deadline = tokio::time::sleep(manner.timeout);
    // Set when the command is to end; then it has so much time, and who watches it a little more.
    let overdue = tokio::time::sleep(OVERDUE);
    tokio::pin!(deadline, overdue);
    let (mut timed_out, mut interrupted) = (false, false);
    let (mut stopped, mut stopping, mut gone) = (false, false, false);
    let mut typed: Vec<u8> = Vec::new();
    let (mut listening, mut commanded) = (true, true);
    let exit = loop {
        let sending = streams.pending.is_some();
        if (timed_out || stopped) && !stopping {
            stopping = true;
            overdue.as_mut().reset(tokio::time::Instant::now() + OVERDUE);
        }
        tokio::select! {
            ended = end.wait() => break ended.and_then(|()| child.ended()).ok(),
            () = &mut overdue, if stopping => match gone {
                // Not even its end can be seen.
                true => break None,
                false => {
                    gone = true;
                    stop.kill();
                    overdue.as_mut().reset(tokio::time::Instant::now() + GRACE);
                }
            },
            () = &mut deadline, if !timed_out => {
                timed_out = true;
                stop.end();
            }
            control = lines.control.recv(), if commanded => match control {
                Some(Control::Signal(number)) => {
                    interrupted |= number == SIGINT;
                    stop.signal(number);
                }
                Some(Control::Stop) => {
                    (interrupted, stopped) = (true, true);
                    stop.end();
                }
                None => commanded = false,
            },
            permit = lines.events.reserve(), if sending && listening => match permit {
                Ok(permit) => if let Some(event) = streams.pending.take() {
                    permit.send(event);
                },
                Err(_) => {
                    // The front end is gone: what it asked for ends, too.
                    (listening, interrupted, stopped) = (false, true, true);
                    streams.pending = None;
                    stop.end();
                }
            },
            () = streams.read(listening), if !sending && streams.is_open() => {}
            input = lines.input.recv(), if stdin.is_some() && typed.is_empty() => match input {
                Some(Input::Stdin(bytes)) => typed = bytes,
                Some(Input::StdinEnd) | None => stdin = None,
            },
            written = write(&mut stdin, &typed), if !typed.is_empty() => match written {
                Ok(count) => drop(typed.drain(..count.min(typed.len()))),
                Err(_) => (stdin, typed) = (None, Vec::new()),
            },
        }
    };
    let (took, ended) = (started.1.elapsed(), SystemTime::now());
    drop(stop);
    let unsent = streams.drain(listening).await;
    let output = streams.collector.finish();
    let times = (started.0, ended);
    let (exit, violations) = exit.unzip();
    let violations = violations.unwrap_or_else(|| vec![unwatched(gone)]);
    let network = Report::default();
    Execution {
        exit,
        violations,
        output,
        enforced,
        timed_out,
        interrupted,
        times,
        took,
        unsent,
        network,
        remains: Remains(Some(child)),
    }
}

/// What is told of a command whose watchers went away, or hung and were killed.
fn unwatched(were_killed: bool) -> sandbox::Violation {
    let how = match were_killed {
        true => "they did not end it in time and were killed",
        false => "they went away",
    };
    sandbox::Violation {
        kind: "process".to_owned(),
        call: "supervisor".to_owned(),
        object: "the processes that watch the command".to_owned(),
        rule: format!("builtin: {how}; what the command left in git directories was not inspected"),
        count: 1,
        source: "gateway".to_owned(),
        ..sandbox::Violation::default()
    }
}

async fn write(stdin: &mut Option<pipe::Sender>, bytes: &[u8]) -> std::io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await,
        None => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}

/// The two output streams of a command, one chunk of which may wait for the front end.
struct Streams {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    first: Vec<u8>,
    second: Vec<u8>,
    collector: Collector,
    pending: Option<Event>,
}

impl Streams {
    fn new(stdout: pipe::Receiver, stderr: pipe::Receiver, collector: Collector) -> Streams {
        let (first, second) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (stdout, stderr) = (Some(stdout), Some(stderr));
        Streams { stdout, stderr, first, second, collector, pending: None }
    }

    fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads one chunk of either stream; an end or an error closes it. Dropping the future loses nothing.
    async fn read(&mut self, keep: bool) {
        let (stream, found) = tokio::select! {
            found = chunk(&mut self.stdout, &mut self.first) => (Stream::Stdout, found),
            found = chunk(&mut self.stderr, &mut self.second) => (Stream::Stderr, found),
        };
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

    /// Reads what still lies in the pipes of a command that is gone.
    async fn drain(&mut self, keep: bool) -> Vec<Event> {
        let mut events: Vec<Event> = self.pending.take().into_iter().collect();
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

async fn chunk(stream: &mut Option<pipe::Receiver>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// The means to end a command.
#[derive(Debug)]
struct Stop(sandbox::Stopper);

impl Stop {
    fn signal(&self, number: i32) {
        let _ = self.0.signal(number); // a command that is gone gets no signal
    }

    fn kill(&self) {
        self.0.kill();
    }

    fn end(&self) {
        let _ = self.0.stop(GRACE); // a command that is gone cannot be stopped
    }
}

impl Drop for Stop {
    /// Whoever stops following a command ends it.
    fn drop(&mut self) {
        let _ = self.0.stop(Duration::ZERO); // nothing is left of a command that ended
    }
}
