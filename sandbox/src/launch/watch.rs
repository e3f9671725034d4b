//! Work of pid 1 while the command runs, until nothing of it is left.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::measure::{self, Measure};
use super::{END_LIMIT, Isolation, is_closed, sweep};
use crate::supervise::Supervisor;
use stockade_kernel::frames;
use stockade_kernel::group::{Counted, Counters};
use stockade_kernel::mounts::Built;
use stockade_kernel::syscalls::{self, Ended};
use stockade_spec::codec::{Order, Wire};
use stockade_spec::{SandboxSpec, Violation};

/// How long what a command left may go on to end by itself.
const MOMENT: Duration = Duration::from_millis(20);

/// Most names of processes that are told.
const MOST_NAMES: usize = 1_000;

/// State of pid 1 while the command runs.
pub(super) struct Watch<'a> {
    pub(super) spec: &'a SandboxSpec,
    pub(super) isolation: Isolation,
    pub(super) pid: i32,
    pub(super) control: UnixStream,
    pub(super) orders: UnixStream,
    pub(super) built: Option<Built>,
    pub(super) supervisor: Option<Supervisor>,
    /// Somebody is left whose calls the supervisor answers.
    pub(super) is_heard: bool,
    /// Resources that a control group counts, and the counters that report them.
    pub(super) counted: (Counted, Option<Counters>),
    /// Names of the processes that were there when the command had ended by itself, and a moment later.
    pub(super) left: Vec<String>,
}

/// Result of one look at the state of the run.
enum Go {
    On,
    /// The run is to end, or nobody is there for it any more.
    End,
}

impl Watch<'_> {
    /// Reaps, answers calls, follows orders and measures until the command has ended or must end.
    pub(super) fn until_the_end(&mut self) -> io::Result<(Ended, Vec<Violation>)> {
        let set = syscalls::signal_set(&[libc::SIGCHLD])?;
        syscalls::set_signal_mask(&set)?;
        let children = syscalls::signal_descriptor(&set)?;
        let (counted, counters) = &mut self.counted;
        let mut measure = Measure::new(self.spec, *counted, counters.take());
        loop {
            // A child that ended before the signal was blocked is found here.
            while let Some(ended) = reap()? {
                if ended.pid == self.pid {
                    self.left = self.linger(&children)?;
                    return Ok((ended, measure.at_the_end(ended)));
                }
                if let Some(supervisor) = &mut self.supervisor {
                    supervisor.reaped(ended.pid);
                }
            }
            let next = (self.isolation != Isolation::Free).then(|| measure.next());
            match self.wait(&children, next)? {
                Go::On => {}
                Go::End => return Ok((Ended::killed(self.pid), measure.seen())),
            }
            let began = Instant::now();
            if began < measure.next() {
                continue;
            }
            if let Some(supervisor) = &mut self.supervisor {
                supervisor.tidy();
            }
            let pids = match self.isolation {
                Isolation::Namespaces => measure::all(),
                Isolation::Static => sweep::descendants(),
                Isolation::Free => continue,
            };
            if measure.look(began, &pids, self.built.as_ref()) {
                return Ok((Ended::killed(self.pid), measure.seen()));
            }
        }
    }

    /// Gives what the command left a moment to end by itself, as the end of a pipe does that no shell waits for, and
    /// returns the names of what does not.
    fn linger(&mut self, children: &OwnedFd) -> io::Result<Vec<String>> {
        let until = Instant::now() + MOMENT;
        while !is_alone() {
            let is_over = Instant::now() >= until;
            if is_over || matches!(self.wait(children, Some(until))?, Go::End) {
                let pids = match self.isolation {
                    Isolation::Namespaces => measure::all(),
                    Isolation::Static | Isolation::Free => sweep::descendants(),
                };
                return Ok(pids.into_iter().filter_map(name_of).take(MOST_NAMES).collect());
            }
        }
        Ok(Vec::new())
    }

    /// Ends all that is left of the run, and waits until it is gone; says whether it is.
    pub(super) fn end_all(&self) -> bool {
        match self.isolation {
            Isolation::Namespaces => {
                // Without children there is nobody: who loses its parent there becomes one of this process.
                if is_alone() {
                    return true;
                }
                // In a process namespace of its own -1 is every process but this one.
                if std::process::id() == 1 {
                    // Nothing may be left to kill.
                    let _ = syscalls::kill(-1, libc::SIGKILL);
                }
                // A process that cannot end holds this up; then the monitor goes on without it.
                loop {
                    match syscalls::wait(-1, 0) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return error.raw_os_error() == Some(libc::ECHILD),
                    }
                }
            }
            Isolation::Static | Isolation::Free => sweep::all_children(END_LIMIT),
        }
    }

    /// Waits for one thing to happen, until then at the longest, and deals with it.
    fn wait(&mut self, children: &OwnedFd, until: Option<Instant>) -> io::Result<Go> {
        let mut waited = vec![
            (children.as_fd(), libc::POLLIN),
            (self.control.as_fd(), 0),
            (self.orders.as_fd(), libc::POLLIN),
        ];
        let answers = self.supervisor.as_ref().filter(|_| self.is_heard);
        waited.extend(answers.map(|it| (it.listener(), libc::POLLIN)));
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        let events = syscalls::poll(&waited, rest)?;
        let event = |index: usize| events.get(index).copied().unwrap_or(0);
        if is_closed(event(1)) || is_closed(event(2)) {
            return Ok(Go::End);
        }
        if event(0) != 0 {
            drain(children)?;
        }
        if event(2) & libc::POLLIN != 0
            && let Go::End = follow(self.isolation, &self.orders)?
        {
            return Ok(Go::End);
        }
        match &mut self.supervisor {
            Some(supervisor) if event(3) & libc::POLLIN != 0 => supervisor.serve()?,
            // Nobody is left who could call; the last of them may still be on its way out.
            Some(_) if is_closed(event(3)) => self.is_heard = false,
            Some(_) | None => {}
        }
        Ok(Go::On)
    }
}

/// Returns the name of a process of the command that runs (`proc_pid_stat(5)`).
fn name_of(pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = text.split_once('(')?.1.rsplit_once(") ")?;
    let is_ours = name == stockade_spec::INIT_NAME || pid.unsigned_abs() == std::process::id();
    (!is_ours && !rest.starts_with(['Z', 'X'])).then(|| name.to_owned())
}

fn reap() -> io::Result<Option<Ended>> {
    match syscalls::wait(-1, libc::WNOHANG) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        result => result,
    }
}

/// Reaps whoever has ended, and says whether there is no child any more.
fn is_alone() -> bool {
    loop {
        match syscalls::wait(-1, libc::WNOHANG) {
            Ok(Some(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(None) => return false,
            Err(error) => return error.raw_os_error() == Some(libc::ECHILD),
        }
    }
}

fn drain(children: &OwnedFd) -> io::Result<()> {
    let mut file = fs::File::from(children.try_clone()?);
    let mut entries = [0; 1024];
    match file.read(&mut entries) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result.map(drop),
    }
}

fn follow(isolation: Isolation, orders: &UnixStream) -> io::Result<Go> {
    let Some(order) = frames::receive(orders)? else { return Ok(Go::End) };
    match (Order::from_bytes(&order)?, isolation) {
        // In the run's process namespace -1 is every process but this one.
        (Order::Signal(signal), Isolation::Namespaces) => match syscalls::kill(-1, signal) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            Ok(()) | Err(_) => Ok(Go::On),
        },
        (Order::Signal(signal), Isolation::Static | Isolation::Free) => {
            sweep::signal_descendants(signal);
            Ok(Go::On)
        }
        (Order::Stop { .. } | Order::Start, _) => Ok(Go::End),
    }
}
