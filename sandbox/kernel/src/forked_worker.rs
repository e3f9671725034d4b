//! Forked workers: copies of this process, each of which plays one role.
//!
//! To execute this program again costs more than a millisecond, most of it in the loader; a fork costs a tenth.
//! A worker has in its memory what this process had, so it is made before anything is read; its arguments and
//! environment are wiped, and of the descriptors it keeps its end of one socket.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::UnwindSafe;
use std::time::{Duration, Instant};

use crate::syscalls::{self, Fork, StartStrings};

/// The status of a worker that could not begin.
pub const FAILED: u8 = 122;

/// How long a process that was killed is waited for.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// A copy of this process that plays a role. Dropping it ends it.
#[derive(Debug)]
pub struct ForkedWorker {
    pub socket: UnixStream,
    pub process: Process,
}

impl ForkedWorker {
    /// Makes a worker that ends with the status that `role` returns. Its descriptors 0 and 1 are its end of
    /// [`ForkedWorker::socket`], 2 is the empty device, and there are no others; its directory is `/`.
    ///
    /// Fails in a process with a second thread, which could hold a lock for ever in the copy.
    pub fn fork(role: fn() -> i32) -> io::Result<ForkedWorker> {
        let strings = StartStrings::of_this_process()?;
        let (socket, theirs) = UnixStream::pair()?;
        match syscalls::fork(0)? {
            Fork::Parent(pid) => Ok(ForkedWorker { socket, process: Process::new(pid) }),
            Fork::Child => {
                drop(socket);
                let status = settle(&theirs, &strings).map_or(FAILED.into(), |()| role());
                syscalls::exit_now(status)
            }
        }
    }

    /// Returns another descriptor of this side of the socket.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Tells it that nothing more comes, and does not wait until it has ended.
    pub fn dismiss(&self) {
        // Shutdown fails when the worker has ended already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Says whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }
}

/// Leaves the worker nothing but its end of the socket.
fn settle(socket: &UnixStream, strings: &StartStrings) -> io::Result<()> {
    strings.wipe();
    // A gateway of the machine's service is closed to its own user. Nothing of it is in here, and who is closed cannot map
    // the ids of a namespace (proc(5), `uid_map`).
    syscalls::prctl(libc::PR_SET_DUMPABLE, 1, 0)?;
    take(socket)
}

/// Makes `socket` descriptors 0 and 1 of this process, and closes all others but the empty device.
pub fn take(socket: &UnixStream) -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    syscalls::duplicate_onto(socket.as_fd(), 0)?;
    syscalls::duplicate_onto(socket.as_fd(), 1)?;
    syscalls::duplicate_onto(nothing.as_fd(), 2)?;
    drop(nothing);
    // The socket's own number goes with the rest: this process has it as 0 and 1.
    syscalls::close_from(3)?;
    std::env::set_current_dir("/")
}

/// A copy of this process that goes on with all that this one has but its standard output, which comes here, and its
/// standard error, which leads nowhere. Dropping it ends it.
#[derive(Debug)]
pub struct Branch {
    output: PipeReader,
    process: Process,
}

impl Branch {
    /// Makes one that ends with the status that `role` returns; if `role` panics, with that of a failure.
    ///
    /// Fails in a process with a second thread, which could hold a lock for ever in the copy.
    pub fn fork(role: impl FnOnce() -> u8 + UnwindSafe) -> io::Result<Branch> {
        StartStrings::of_this_process()?;
        let (output, theirs) = io::pipe()?;
        match syscalls::fork(0)? {
            Fork::Parent(pid) => Ok(Branch { output, process: Process::new(pid) }),
            Fork::Child => {
                drop(output);
                let ready = File::options().write(true).open("/dev/null").and_then(|nothing| {
                    syscalls::duplicate_onto(theirs.as_fd(), 1)?;
                    syscalls::duplicate_onto(nothing.as_fd(), 2)
                });
                drop(theirs);
                let status = ready.map(|()| std::panic::catch_unwind(role));
                crate::signals::end_now(status.ok().and_then(Result::ok).unwrap_or(FAILED))
            }
        }
    }

    /// Returns what is written to its standard output, if it is whole before `until` and not longer than `most` bytes.
    pub fn written(&mut self, until: Instant, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut written = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let events = syscalls::poll(&[(self.output.as_fd(), libc::POLLIN)], Some(rest))?;
            if rest.is_zero() || events.iter().all(|events| *events == 0) {
                return Ok(None);
            }
            let count = self.output.read(&mut piece)?;
            written.extend_from_slice(piece.get(..count).unwrap_or_default());
            if count == 0 {
                return Ok(Some(written));
            }
            if written.len() > most {
                return Ok(None);
            }
        }
    }

    /// Waits until `until` for its end, and says whether the status is that of a success; none if it has not ended. Its
    /// output can be closed by itself, and no signal ends a thread that changes a frozen file system (fsfreeze(8)).
    pub fn ended(&mut self, until: Instant) -> io::Result<Option<bool>> {
        let process = syscalls::process_descriptor(self.process.pid)?;
        let rest = until.saturating_duration_since(Instant::now());
        let events = syscalls::poll(&[(process.as_fd(), libc::POLLIN)], Some(rest))?;
        if events.iter().all(|events| *events == 0) {
            return Ok(None);
        }
        Ok(Some(self.process.wait()? == Some(0)))
    }
}

/// A child of this process. Dropping it kills it, unless it was waited for.
#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    over: bool,
}

impl Process {
    /// Takes charge of the child with this number, for which nobody else waits.
    pub fn new(pid: i32) -> Process {
        Process { pid, over: false }
    }

    /// Waits until it has ended, and returns its status if it exited; none the second time.
    pub fn wait(&mut self) -> io::Result<Option<i32>> {
        while !self.over {
            match syscalls::wait(self.pid, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.over = true;
                    return Ok(result?.and_then(|ended| ended.code));
                }
            }
        }
        Ok(None)
    }

    /// Says whether it has ended soon after it was killed. A thread in a system call that no signal interrupts (a write
    /// to a frozen file system, fsfreeze(8)) keeps a process for as long as that lasts.
    fn is_gone(&self) -> bool {
        let Ok(process) = syscalls::process_descriptor(self.pid) else { return true };
        let events = syscalls::poll(&[(process.as_fd(), libc::POLLIN)], Some(LAST_PATIENCE));
        events.is_ok_and(|events| events.iter().any(|events| *events != 0))
    }

    fn is_alive(&mut self) -> bool {
        if !self.over {
            self.over = !matches!(syscalls::wait(self.pid, libc::WNOHANG), Ok(None));
        }
        !self.over
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.over {
            // The process may have ended already; its number is its own until it is waited for.
            let _ = syscalls::kill(self.pid, libc::SIGKILL);
            if self.is_gone() {
                let _ = self.wait();
            }
        }
    }
}
