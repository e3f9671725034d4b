//! Gateway side: start the launcher, send spec and descriptors, read the report.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use stockade_kernel::forked_worker::{ForkedWorker, Process};
use stockade_kernel::frames;
use stockade_kernel::syscalls;
use stockade_spec::codec::{Failure, Order, Report, Wire};
use stockade_spec::{Ending, Enforced, Error, Exit, Fallback, Listeners, Network, Protection};
use stockade_spec::{SandboxSpec, Stdio, Violation};

/// Longest time that a launcher may take to report; its own limits are shorter.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running command. Dropping it ends everything that the command started.
#[derive(Debug)]
pub struct Child {
    control: UnixStream,
    process: Process,
    listeners: Option<Listeners>,
    terminal: Option<OwnedFd>,
    /// The number of pid 1, if the monitor may leave it to this process.
    confined: Option<i32>,
    /// Pid 1, when the monitor has left it.
    left: Option<Process>,
}

/// Ends a running command from another thread.
#[derive(Debug)]
pub struct Stopper {
    control: UnixStream,
    monitor: OwnedFd,
}

/// A launcher that waits for its spec. Dropping it ends it; it has run nothing.
#[derive(Debug)]
pub struct Launcher(Waiting);

/// A launcher and the socket to it. Dropping it ends both, and what it made ready.
#[derive(Debug)]
struct Waiting {
    control: UnixStream,
    process: Option<Process>,
}

/// How long a launcher that is not needed may take to end what it made ready.
const DISMISSAL: Duration = Duration::from_secs(1);

impl Launcher {
    /// Starts `executable` (this same one) as `stockade launch`, which makes ready what needs no spec.
    #[expect(
        clippy::disallowed_methods,
        reason = "this executable as a launcher, which confines itself before anything else"
    )]
    pub fn start(executable: &Path) -> Result<Launcher, Error> {
        let started = |source| Error::Launcher { path: executable.to_path_buf(), source };
        let (control, theirs) = UnixStream::pair().map_err(started)?;
        let process = Command::new(executable)
            .arg("launch")
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(process::Stdio::null())
            .stderr(process::Stdio::null())
            .spawn()
            .map_err(started)?;
        // Dropping the handle of the standard library neither ends the process nor waits for it.
        let pid = i32::try_from(process.id());
        let pid = pid.map_err(|_| started(io::ErrorKind::InvalidData.into()))?;
        Ok(Launcher::of(control, Process::new(pid)))
    }

    /// Takes charge of one that is there, at the other end of `control`.
    pub(crate) fn of(control: UnixStream, process: Process) -> Launcher {
        Launcher(Waiting { control, process: Some(process) })
    }

    /// Makes one as a worker of this process, which must have one thread and should have read nothing yet.
    pub fn fork() -> io::Result<Launcher> {
        // Orphans of the monitor come to this process; else they would go to whoever reaps orphans above.
        syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0)?;
        let ForkedWorker { socket, process } = ForkedWorker::fork(crate::launch::run_for_heir)?;
        Ok(Launcher::of(socket, process))
    }

    /// Returns the process number of the monitor.
    pub fn monitor(&self) -> u32 {
        self.0.process.as_ref().map_or(0, |process| process.pid.unsigned_abs())
    }

    /// Has it start a command, confined as `spec` says.
    ///
    /// Returns when the command has started or the first step that failed is known; nothing runs on error.
    pub fn run(self, spec: &SandboxSpec, stdio: Stdio) -> Result<(Child, Enforced), Error> {
        let mut starting = self.begin(spec, stdio)?;
        loop {
            match starting.proceed()? {
                Progress::Waiting(more) => starting = more,
                Progress::Started(child, enforced) => return Ok((child, enforced)),
            }
        }
    }

    /// Hands spec and descriptors over like [`Launcher::run`], and does not wait for what comes of it.
    pub fn begin(mut self, spec: &SandboxSpec, stdio: Stdio) -> Result<Starting, Error> {
        check(spec)?;
        let lost = |source| Error::Report { source };
        let control = self.0.control.try_clone().map_err(lost)?;
        // On every error it is killed: it has nothing to do any more, and may be no launcher at all.
        let process = self.0.process.take();
        let process = process.ok_or_else(|| lost(io::ErrorKind::BrokenPipe.into()))?;
        let streams = [stdio.stdin.as_fd(), stdio.stdout.as_fd(), stdio.stderr.as_fd()];
        let sent = control
            .set_write_timeout(Some(START_LIMIT))
            .and_then(|()| frames::send_with(&control, &spec.to_bytes(), &streams))
            .and_then(|()| control.set_write_timeout(None))
            .and_then(|()| control.set_read_timeout(Some(START_LIMIT)));
        sent.map_err(|source| unsent(&control, source, &spec.program.path))?;
        // The pipes must close when the command's own copies do.
        drop(stdio);
        let proxy = matches!(spec.network, Network::Proxy { .. });
        Ok(Starting {
            control,
            process,
            listeners: None,
            terminal: None,
            confined: None,
            has_terminal: spec.terminal.is_some(),
            program: spec.program.path.clone(),
            listens: proxy && spec.confine,
            fallback: spec.fallback,
        })
    }
}

/// Returns why the spec could not be sent. A launcher that failed at once has told why before it closed its end.
fn unsent(control: &UnixStream, source: io::Error, program: &Path) -> Error {
    let is_closed =
        matches!(source.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
    if is_closed
        && control.set_read_timeout(Some(START_LIMIT)).is_ok()
        && let Ok(Report::Failed(failure)) = receive_start(control, &mut None, &mut None)
    {
        return error(failure, program);
    }
    match source.kind() {
        io::ErrorKind::InvalidInput => Error::Spec { reason: source.to_string() },
        _ => Error::Report { source },
    }
}

/// A command that is being started. Dropping it ends it.
#[derive(Debug)]
pub struct Starting {
    control: UnixStream,
    process: Process,
    listeners: Option<Listeners>,
    terminal: Option<OwnedFd>,
    confined: Option<i32>,
    /// A terminal is due.
    has_terminal: bool,
    program: PathBuf,
    /// Listeners are due.
    listens: bool,
    fallback: Fallback,
}

/// How far a start is.
#[derive(Debug)]
pub enum Progress {
    /// Something is still to come.
    Waiting(Starting),
    /// The command runs.
    Started(Child, Enforced),
}

impl Starting {
    /// Longest time between two reports of a launcher; its own limits are shorter.
    pub const LIMIT: Duration = START_LIMIT;

    /// Returns another descriptor of the socket, which can be read when [`Starting::proceed`] has something to take.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.control.try_clone().map(OwnedFd::from)
    }

    /// Takes one report, and waits for it. Nothing runs on error.
    pub fn proceed(mut self) -> Result<Progress, Error> {
        let report = receive_start(&self.control, &mut self.listeners, &mut self.terminal);
        match report.map_err(|source| Error::Report { source })? {
            Report::Listening | Report::Terminal => Ok(Progress::Waiting(self)),
            Report::Confined(pid) => {
                self.confined = Some(pid);
                Ok(Progress::Waiting(self))
            }
            Report::Ready(enforced) => {
                let listeners = self.due(&enforced).map_err(|source| Error::Report { source })?;
                let Starting { control, process, terminal, confined, .. } = self;
                let child = Child { control, process, listeners, terminal, confined, left: None };
                Ok(Progress::Started(child, enforced))
            }
            Report::Failed(failure) => Err(error(failure, &self.program)),
            Report::Ended(..) | Report::Noted(_) | Report::Told => {
                Err(Error::Report { source: io::ErrorKind::InvalidData.into() })
            }
        }
    }

    /// Returns the listeners of a start that succeeded.
    fn due(&mut self, enforced: &Enforced) -> io::Result<Option<Listeners>> {
        self.control.set_read_timeout(None)?;
        if self.terminal.is_some() != self.has_terminal {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let listeners = self.listeners.take();
        // Without namespaces there is no place for them; those of a start that failed lead nowhere.
        if self.fallback == Fallback::Static && !enforced.holds(Protection::Loopback) {
            return Ok(None);
        }
        match listeners.is_some() == self.listens {
            true => Ok(listeners),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Starts `launcher` and has it run a command: [`Launcher::start`] and [`Launcher::run`] in one.
pub fn spawn(
    launcher: &Path,
    spec: &SandboxSpec,
    stdio: Stdio,
) -> Result<(Child, Enforced), Error> {
    check(spec)?;
    Launcher::start(launcher)?.run(spec, stdio)
}

/// Refuses what no launcher could apply.
fn check(spec: &SandboxSpec) -> Result<(), Error> {
    for path in [&spec.program.path, &spec.program.cwd] {
        if !path.is_absolute() {
            let reason = format!("`{}` is not an absolute path", path.display());
            return Err(Error::Spec { reason });
        }
    }
    if spec.program.argv.is_empty() {
        return Err(Error::Spec {
            reason: "there are no arguments and no program name".to_owned(),
        });
    }
    Ok(())
}

/// Receives one frame, and the listeners or the terminal that may come with it.
fn receive_start(
    control: &UnixStream,
    listeners: &mut Option<Listeners>,
    terminal: &mut Option<OwnedFd>,
) -> io::Result<Report> {
    let mut header = [0; 4];
    let (count, descriptors) = syscalls::receive_with_descriptors(control.as_fd(), &mut header)?;
    if count != header.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let report = Report::from_bytes(&frames::receive_payload(control, header)?)?;
    let wrong = |_: Vec<OwnedFd>| io::Error::from(io::ErrorKind::InvalidData);
    match &report {
        Report::Listening => {
            let [http, socks] = descriptors.try_into().map_err(wrong)?;
            *listeners = Some(Listeners { http, socks });
        }
        Report::Terminal => {
            let [other_end] = descriptors.try_into().map_err(wrong)?;
            *terminal = Some(other_end);
        }
        Report::Ready(_)
        | Report::Failed(_)
        | Report::Ended(..)
        | Report::Noted(_)
        | Report::Confined(_)
        | Report::Told => {}
    }
    Ok(report)
}

fn receive_report(control: &UnixStream) -> io::Result<Report> {
    let bytes = frames::receive(control)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Report::from_bytes(&bytes)
}

fn error(failure: Failure, program: &Path) -> Error {
    match failure {
        Failure::Step { step, reason } => Error::Step { step, reason },
        Failure::Unenforceable { protection, reason, help } => {
            Error::Unenforceable { protection, reason, help }
        }
        Failure::Exec { errno } => {
            Error::Exec { path: program.to_path_buf(), source: io::Error::from_raw_os_error(errno) }
        }
        Failure::Spec { reason } => Error::Spec { reason },
        Failure::Terminal { errno } => {
            Error::Terminal { source: io::Error::from_raw_os_error(errno) }
        }
    }
}

impl Drop for Waiting {
    /// Has it end, which takes what it made ready with it; else that would be an orphan, and where nobody reaps those it
    /// would stay for ever.
    fn drop(&mut self) {
        let Some(process) = &self.process else { return };
        // Shutdown fails if the process has ended.
        let _ = self.control.shutdown(Shutdown::Both);
        if let Ok(end) = syscalls::process_descriptor(process.pid) {
            // A process that does not end is killed.
            let _ = syscalls::poll(&[(end.as_fd(), libc::POLLIN)], Some(DISMISSAL));
        }
    }
}

impl Child {
    /// Waits until the command and everything it started are gone.
    pub fn wait(self) -> io::Result<Exit> {
        self.wait_with_violations().map(|(exit, _)| exit)
    }

    /// Waits like [`Child::wait`]; returns also what was refused to the command.
    pub fn wait_with_violations(mut self) -> io::Result<(Exit, Vec<Violation>)> {
        let ended = self.ended().map(|ending| (ending.exit, ending.violations));
        self.dismiss();
        self.reap()?;
        if let Some(left) = &mut self.left {
            left.wait()?;
        }
        ended
    }

    /// Returns another descriptor of the socket, which can be read when [`Child::ended`] has something to take.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.control.try_clone().map(OwnedFd::from)
    }

    /// Waits until the command and everything it started have ended, and returns what became of it. What kept them
    /// apart may still be on its way out: see [`Child::process`].
    pub fn ended(&self) -> io::Result<Ending> {
        match receive_report(&self.control)? {
            Report::Ended(ending) => Ok(ending),
            Report::Failed(_)
            | Report::Ready(_)
            | Report::Listening
            | Report::Terminal
            | Report::Noted(_)
            | Report::Confined(_)
            | Report::Told => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Tells the monitor that nobody waits for more than its end; whatever still ran is ended by that.
    pub fn dismiss(&self) {
        // Shutdown fails if the monitor has ended.
        let _ = self.control.shutdown(Shutdown::Both);
    }

    /// Returns a descriptor of the monitor, which can be read when nothing of the run is left but what [`Child::left`] returns, soon
    /// after [`Child::dismiss`]; dropping this after both waits for nothing.
    pub fn process(&self) -> io::Result<OwnedFd> {
        syscalls::process_descriptor(self.process.pid)
    }

    /// Takes the end of the monitor, or waits for it, and returns a descriptor of what it left, if so: then that can be read when
    /// nothing of the run is left.
    pub fn left(&mut self) -> io::Result<Option<OwnedFd>> {
        self.reap()?;
        self.left.as_ref().map(|left| syscalls::process_descriptor(left.pid)).transpose()
    }

    fn reap(&mut self) -> io::Result<()> {
        if self.process.wait()? == Some(crate::launch::LEFT) {
            self.left = self.confined.take().map(Process::new);
        }
        Ok(())
    }

    /// Gives up the listeners of a run with a proxy; none the second time.
    pub fn take_listeners(&mut self) -> Option<Listeners> {
        self.listeners.take()
    }

    /// Gives up the other end of the command's terminal, if it has one; none the second time. Nothing waits there: a read or
    /// write that would is an error of kind `WouldBlock`, and one of number `EIO` says that nobody has the terminal any more.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Returns a handle that can end the command while another thread waits.
    pub fn stopper(&self) -> io::Result<Stopper> {
        let monitor = syscalls::process_descriptor(self.process.pid)?;
        Ok(Stopper { control: self.control.try_clone()?, monitor })
    }

    /// Returns the process number of the monitor, whose end is the end of the run.
    pub fn monitor(&self) -> u32 {
        self.process.pid.unsigned_abs()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.dismiss();
        // Reaping fails only if the run is over already.
        let _ = self.reap();
        if let Some(left) = &mut self.left {
            let _ = left.wait();
        }
    }
}

impl Stopper {
    /// Sends TERM to the command's processes, and KILL after `grace`.
    pub fn stop(&self, grace: Duration) -> io::Result<()> {
        frames::send(&self.control, &Order::Stop { grace }.to_bytes())
    }

    /// Longest time from [`Stopper::stop`] with no grace to the end of [`Child::wait`], unless the monitor hangs.
    pub const LONGEST: Duration = crate::launch::LONGEST_END;

    /// Kills the monitor, and with it the run: for one that does not follow orders. Waiting ends with an error.
    pub fn kill(&self) {
        // The monitor may have ended already.
        let _ = syscalls::signal_process(self.monitor.as_fd(), libc::SIGKILL);
        let _ = self.control.shutdown(Shutdown::Both);
    }

    /// Sends `signal` (such as SIGINT) to the command's processes.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        frames::send(&self.control, &Order::Signal(signal).to_bytes())
    }
}

/// Is `stockade launch`: reads the spec from descriptor 0, confines itself and becomes the command.
/// Returns the exit status of the monitor.
pub fn launch() -> i32 {
    crate::launch::run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_kernel::syscalls::Fork;

    /// Findings of a process of its own with one thread.
    const NOBODY: i32 = 7;
    const SOMEBODY: i32 = 8;
    const NOT_READY: i32 = 9;

    #[test]
    fn a_launcher_that_is_not_used_leaves_nobody_behind() {
        let look = || {
            // This process reaps orphans from here on, so whoever is left shows as its child.
            let Ok(launcher) = Launcher::fork() else { return NOT_READY };
            let Ok(Report::Confined(_)) = receive_report(&launcher.0.control) else {
                return NOT_READY;
            };
            drop(launcher);
            match syscalls::wait(-1, libc::WNOHANG) {
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => NOBODY,
                _ => SOMEBODY,
            }
        };
        let pid = match syscalls::fork(0).unwrap() {
            Fork::Parent(pid) => pid,
            Fork::Child => syscalls::exit_now(look()),
        };
        let ended = syscalls::wait(pid, 0).unwrap().unwrap(); // it has ended: no flag lets the wait return before
        if ended.code == Some(NOT_READY) {
            eprintln!(
                "SKIPPED a_launcher_that_is_not_used_leaves_nobody_behind: no namespaces can be made here"
            );
            return;
        }
        assert_eq!(ended.code, Some(NOBODY));
    }
}
