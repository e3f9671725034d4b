//! Twins: copies of this process, each of which plays one role.
//!
//! To execute this program again costs more than a millisecond, most of it in the loader; a fork costs a tenth.
//! A twin has in its memory what this process had, so it is made before anything is read; its arguments and
//! environment are wiped, and of the descriptors it keeps its end of one socket.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use crate::linux::syscalls::{self, Fork, StartStrings};

/// The status of a twin that could not begin.
const FAILED: i32 = 122;

/// A copy of this process that plays a role. Dropping it ends it.
#[derive(Debug)]
pub struct Twin {
    pub(crate) socket: UnixStream,
    pub(crate) process: Process,
}

impl Twin {
    /// Makes a twin that ends with the status that `role` returns. Its descriptors 0 and 1 are its end of
    /// [`Twin::socket`], 2 is the empty device, and there are no others; its directory is `/`.
    ///
    /// Fails in a process with a second thread, which could hold a lock for ever in the copy.
    pub fn fork(role: fn() -> i32) -> io::Result<Twin> {
        let strings = StartStrings::of_this_process()?;
        let (socket, theirs) = UnixStream::pair()?;
        match syscalls::fork(0)? {
            Fork::Parent(pid) => Ok(Twin { socket, process: Process { pid, over: false } }),
            Fork::Child => {
                drop(socket);
                let status = settle(&theirs, &strings).map_or(FAILED, |()| role());
                syscalls::exit_now(status)
            }
        }
    }

    /// Returns another descriptor of this side of the socket.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Says whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }
}

/// Leaves the twin nothing but its end of the socket.
fn settle(socket: &UnixStream, strings: &StartStrings) -> io::Result<()> {
    strings.wipe();
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    syscalls::duplicate_onto(socket.as_fd(), 0)?;
    syscalls::duplicate_onto(socket.as_fd(), 1)?;
    syscalls::duplicate_onto(nothing.as_fd(), 2)?;
    drop(nothing);
    // The socket's own number goes with the rest: this process has it as 0 and 1.
    syscalls::close_from(3)?;
    std::env::set_current_dir("/")
}

/// A child of this process. Dropping it kills it, unless it was waited for.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    over: bool,
}

impl Process {
    /// Takes charge of the child with this number, for which nobody else waits.
    pub(crate) fn new(pid: i32) -> Process {
        Process { pid, over: false }
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        while !self.over {
            match syscalls::wait(self.pid, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.over = true;
                    result?;
                }
            }
        }
        Ok(())
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
            // It may have ended already; its number is its own until it is waited for.
            let _ = syscalls::kill(self.pid, libc::SIGKILL);
            let _ = self.wait();
        }
    }
}
