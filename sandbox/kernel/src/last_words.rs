//! Last words: what a process says when it breaks off, to somebody who would take silence for a yes.

use std::io;
use std::time::Duration;

/// Output of a process at its end, and the status with which it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// On standard output.
    pub stdout: Vec<u8>,
    /// On standard error.
    pub stderr: Vec<u8>,
    /// The status when both were said.
    pub status: u8,
    /// The status when they could not be.
    pub unsaid: u8,
}

impl LastWords {
    /// From here on this process, when a fault would end it (an abort, a bad address, a stack that is used up) or a signal
    /// (a request to end, a hang-up, a limit), says `fault`, and `late` when `limit` is over; each ends it. Only SIGKILL
    /// still ends it without a word, and a signal that it was started to ignore stays ignored. Once in a process.
    #[cfg(target_os = "linux")]
    pub fn keep(fault: LastWords, late: LastWords, limit: Duration) -> io::Result<()> {
        crate::syscalls::set_last_words([fault, late], limit)
    }

    /// Refuses.
    #[cfg(not(target_os = "linux"))]
    pub fn keep(_: LastWords, _: LastWords, _: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The time no longer runs out: another one measures it.
    pub fn without_limit() -> io::Result<()> {
        #[cfg(target_os = "linux")]
        crate::syscalls::set_timer(Duration::ZERO)?;
        Ok(())
    }

    /// Marks that the output is complete in time: the time no longer runs out, and no signal to end cuts it off.
    pub fn in_time() -> io::Result<()> {
        #[cfg(target_os = "linux")]
        crate::syscalls::hold_last_words()?;
        Ok(())
    }

    /// This process is a copy that has nothing to say.
    pub fn forget() -> io::Result<()> {
        #[cfg(target_os = "linux")]
        crate::syscalls::forget_last_words()?;
        Ok(())
    }
}
