//! Runs what was granted: starts it, carries its streams, ends it when it must end.

mod followed;
mod host;
mod launchers;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use stockade_sandbox as sandbox;
use tokio::sync::mpsc;

use crate::decide::Grant;
use crate::hooks::pipes;
use crate::protocol::types::{Control, Event, Input};
use crate::tasks::folder::Folder;
use stockade_egress::report::Report;

use followed::Followed;
pub use launchers::Launchers;
use stockade_output::budget::Budget;
use stockade_output::output::{Collector, Output};
use stockade_output::readable::Readable;
use stockade_output::streams::{Inlet, Outlet, Streams};
use stockade_output::terminal::Terminal;
use stockade_settings::limits::Kept;

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a command is waited for after it was stopped, before its watchers are killed.
const OVERDUE: Duration = GRACE.saturating_add(sandbox::Stopper::LONGEST);

/// Channels between a front end and a running command.
#[derive(Debug)]
pub struct Lines {
    /// Output goes here.
    pub events: mpsc::Sender<Event>,
    /// Standard input comes from here.
    pub input: mpsc::Receiver<Input>,
    /// Signals come from here.
    pub control: mpsc::Receiver<Control>,
}

/// How to run, besides what was granted.
#[derive(Debug, Clone)]
pub struct Manner {
    /// Time limit; none for a task without one.
    pub timeout: Option<Duration>,
    /// When it passes, the command goes on in the background if it can.
    pub goes_on: bool,
    /// Standard input: passed on or empty.
    pub input: pipes::Input,
    /// Both outputs in one pipe keep their order.
    pub outputs: pipes::Outputs,
    /// Where long output goes.
    pub directory: PathBuf,
    /// How much of it is kept.
    pub kept: Kept,
    /// How much its session keeps; none without one.
    pub budget: Option<Arc<Budget>>,
    /// Loopback that the command shares with others of its session.
    pub loopback: Option<Arc<sandbox::Loopback>>,
    /// Settings that grant the command nothing, described for people.
    pub withheld: Vec<String>,
}

/// A command in the background, or one that may go there.
#[derive(Debug)]
pub struct Task {
    /// Its folder.
    pub folder: Folder,
    /// Whether it begins as a task.
    pub begins_so: bool,
}

/// A command that was started.
#[derive(Debug)]
pub struct Running {
    stop: Stop,
    child: sandbox::Child,
    /// Can be read when the command has ended.
    end: Readable,
    input: Inlet,
    stdout: Outlet,
    stderr: Option<Outlet>,
    terminal: Option<Arc<Terminal>>,
    enforced: stockade_spec::Enforced,
    started: (SystemTime, Instant),
    listeners: Option<stockade_spec::Listeners>,
}

impl Running {
    /// Gives up the way out of the command, to whoever serves it; closed if nobody does.
    pub fn take_listeners(&mut self) -> Option<stockade_spec::Listeners> {
        self.listeners.take()
    }
}

/// A command that ended.
#[derive(Debug)]
pub struct Execution {
    /// How; none when nobody could see it.
    pub exit: Option<stockade_spec::Exit>,
    /// Acts that were refused.
    pub violations: Vec<stockade_spec::Violation>,
    /// Names of the processes that it left running, which were ended with it.
    pub left: Vec<String>,
    /// Output of the command.
    pub output: Output,
    /// Restrictions that were enforced.
    pub enforced: stockade_spec::Enforced,
    /// Settings that granted the command nothing, described for people.
    pub withheld: Vec<String>,
    /// The time limit passed.
    pub timed_out: bool,
    /// The caller ended it, or went away.
    pub interrupted: bool,
    /// When it started, and when it ended.
    pub times: (SystemTime, SystemTime),
    /// How long it took.
    pub took: Duration,
    /// Output that the front end has not got yet.
    pub unsent: Vec<Event>,
    /// Outcome of its connections.
    pub network: Report,
    /// Remains of its confinement: nothing that runs.
    pub remains: Remains,
}

/// Confinement of a command that is being removed. A drop waits until the removal is complete.
#[derive(Debug, Default)]
pub struct Remains(Option<sandbox::Child>);

impl Remains {
    /// Waits until nothing is left.
    pub async fn gone(self) {
        let Some(mut child) = self.0 else { return };
        child.dismiss();
        let is_gone = has_ended(child.process()).await
            && match child.left().transpose() {
                Some(left) => has_ended(left).await,
                None => true,
            };
        if !is_gone {
            // One that does not go is left to a thread.
            drop(tokio::task::spawn_blocking(move || drop(child)));
        }
    }
}

/// Waits until a process has ended, and says whether it has in time.
async fn has_ended(process: std::io::Result<OwnedFd>) -> bool {
    let Ok(end) = process.and_then(Readable::new) else { return false };
    tokio::time::timeout(sandbox::Stopper::LONGEST, end.wait()).await.is_ok()
}

/// Starts what was granted; the grant is used up.
pub async fn start(
    grant: Grant,
    launchers: &Launchers,
    manner: &Manner,
) -> Result<Running, stockade_spec::Error> {
    let launcher = launchers.take(manner.loopback.as_ref()).await?;
    // The spec leaves this process here, and nowhere else: a launcher without one has nothing to run.
    let spec = grant.into_spec();
    let (theirs, ours) = match spec.terminal {
        None => {
            let (theirs, ours) = pipes::stdio(manner.input, manner.outputs)?;
            (theirs, Some(ours))
        }
        Some(_) => (pipes::nothing()?, None),
    };
    let starting = launcher.begin(&spec, theirs)?;
    let (mut child, enforced) = begun(starting).await?;
    let started = (SystemTime::now(), Instant::now());
    let listeners = child.take_listeners();
    let lost = |source| stockade_spec::Error::Report { source };
    let stop = Stop(child.stopper().map_err(lost)?);
    let end = child.socket().and_then(Readable::new).map_err(lost)?;
    let terminal = child.take_terminal().map(Terminal::new).transpose().map_err(lost)?;
    let terminal = terminal.map(Arc::new);
    let (input, stdout, stderr) = match (ours, &terminal) {
        (None, Some(terminal)) => {
            let input = Inlet::terminal(Arc::clone(terminal), manner.input == pipes::Input::Piped);
            (input, Outlet::Terminal(Arc::clone(terminal)), None)
        }
        (Some(pipes::Ours { stdin, stdout, stderr }), None) => {
            (Inlet::pipe(stdin), Outlet::Pipe(stdout), stderr.map(Outlet::Pipe))
        }
        // The launcher gave what it was not asked for.
        (None, None) | (Some(_), Some(_)) => {
            return Err(lost(std::io::ErrorKind::InvalidData.into()));
        }
    };
    Ok(Running { stop, child, end, input, stdout, stderr, terminal, enforced, started, listeners })
}

/// Waits until the command runs or why it does not is known.
async fn begun(
    mut starting: sandbox::Starting,
) -> Result<(sandbox::Child, stockade_spec::Enforced), stockade_spec::Error> {
    let lost = |source| stockade_spec::Error::Report { source };
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

/// Carries the streams of a command until it and everything that it started are gone. A `task` may go to the background
/// meanwhile, or begins there.
pub async fn follow(
    running: Running,
    manner: &Manner,
    lines: &mut Lines,
    task: Option<&mut Task>,
) -> Execution {
    drop(running.listeners);
    let Running { stop, child, end, mut input, terminal, enforced, started, .. } = running;
    let collector = Collector::new(manner.directory.clone(), manner.kept);
    let collector = collector.within(manner.budget.clone());
    let streams = Streams::new(running.stdout, running.stderr, collector);
    let mut followed = Followed::new(&stop, terminal.as_deref(), streams, manner, task);
    followed.begins_below(child.monitor());
    let deadline = tokio::time::sleep(manner.timeout.unwrap_or_default());
    // Set when the command is to end; then it has so much time, and who watches it a little more.
    let overdue = tokio::time::sleep(OVERDUE);
    tokio::pin!(deadline, overdue);
    let (mut stopping, mut gone) = (false, false);
    let ending = loop {
        let sending = followed.is_sending();
        if followed.is_to_end() && !stopping {
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
            () = &mut deadline, if followed.has_limit => followed.reach_limit(),
            control = lines.control.recv(), if followed.commanded => followed.obey(control),
            permit = lines.events.reserve(), if sending && followed.listening => followed.send(permit.ok()),
            () = followed.streams.read(followed.listening), if !sending && followed.streams.is_open() => followed.stop_beyond_limit(),
            given = lines.input.recv(), if input.takes() => input.take(given),
            () = input.go_on() => {}
        }
    };
    let (took, ended) = (started.1.elapsed(), SystemTime::now());
    let Followed { mut streams, announced, listening, timed_out, interrupted, .. } = followed;
    drop(stop);
    let mut unsent = streams.drain(listening).await;
    unsent.extend(announced);
    let exit = ending.as_ref().map(|ending| ending.exit);
    let (violations, left) = seen(ending, gone);
    let (withheld, network, remains) = (Vec::new(), Report::default(), Remains(Some(child)));
    Execution {
        exit,
        violations,
        left,
        output: streams.collector.finish(),
        enforced,
        withheld,
        timed_out,
        interrupted,
        times: (started.0, ended),
        took,
        unsent,
        network,
        remains,
    }
}

/// Returns the refused acts of a command, and what it left running.
fn seen(
    ending: Option<stockade_spec::Ending>,
    gone: bool,
) -> (Vec<stockade_spec::Violation>, Vec<String>) {
    let unseen = || stockade_spec::Ending {
        violations: vec![unwatched(gone)],
        ..stockade_spec::Ending::default()
    };
    let stockade_spec::Ending { mut violations, left, .. } = ending.unwrap_or_else(unseen);
    violations.retain(host::knows);
    (violations, left)
}

/// Returns the violation for a command whose watchers exited, or hung and were killed.
fn unwatched(were_killed: bool) -> stockade_spec::Violation {
    let how = match were_killed {
        true => "they did not stop it in time and were killed",
        false => "they exited",
    };
    stockade_spec::Violation {
        kind: "process".to_owned(),
        call: "supervisor".to_owned(),
        object: "the processes that watch the command".to_owned(),
        rule: format!(
            "builtin: {how}; changes of the command in git directories were not inspected"
        ),
        count: 1,
        source: "gateway".to_owned(),
        ..stockade_spec::Violation::default()
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
