//! Signals as something to wait for beside descriptors, and the end of a process at once.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::last_words::LastWords;

/// Signals of this process that are held back, to be taken one by one: nothing interrupts, and nothing is lost.
#[derive(Debug)]
pub struct HeldSignals(File);

/// Bytes that the kernel tells of one signal, of which the first four are its number (signalfd(2)).
const TOLD: usize = 128;

impl HeldSignals {
    /// Holds these signals back from here on, in this thread and those that it starts. For a process with one thread.
    #[cfg(target_os = "linux")]
    pub fn hold(signals: &[i32]) -> io::Result<HeldSignals> {
        use crate::syscalls;
        let descriptor = syscalls::signal_descriptor(&syscalls::signal_set(signals)?)?;
        syscalls::block_signals(signals)?;
        Ok(HeldSignals(File::from(descriptor)))
    }

    /// Refuses.
    #[cfg(not(target_os = "linux"))]
    pub fn hold(_: &[i32]) -> io::Result<HeldSignals> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the number of a signal that came; none when there is none now.
    pub fn next(&self) -> io::Result<Option<i32>> {
        let mut told = [0; TOLD];
        match (&self.0).read(&mut told) {
            Ok(TOLD) => Ok(told.first_chunk().map(|number| i32::from_ne_bytes(*number))),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl AsFd for HeldSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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

/// Returns the signals that would end this process if they came, and that can be caught; not those of faults.
#[cfg(target_os = "linux")]
pub fn ending_signals() -> Vec<i32> {
    crate::syscalls::ending_signals()
}

/// Returns none.
#[cfg(not(target_os = "linux"))]
pub fn ending_signals() -> Vec<i32> {
    Vec::new()
}

/// Has these signals end this process again, whatever was made of them before; those that were held back do so at once.
#[cfg(target_os = "linux")]
pub fn let_end(signals: &[i32]) -> io::Result<()> {
    crate::syscalls::release_signals(signals)
}

/// Does nothing: no signal is held back here.
#[cfg(not(target_os = "linux"))]
pub fn let_end(_: &[i32]) -> io::Result<()> {
    Ok(())
}

/// Closes every descriptor above standard error: those that a caller left open, which its readers wait for.
///
/// Call it before anything of this process is opened: a value that owns such a descriptor loses it.
pub fn close_inherited() -> io::Result<()> {
    crate::syscalls::close_from(3)
}

/// Ends this process with `status` at once: nothing is dropped and nothing that is held in memory is written.
///
/// Its standard streams are given up first: a thread in a system call that no signal interrupts (a write to a frozen
/// file system, fsfreeze(8)) keeps the process, and with it what is open, until the call returns (_exit(2)).
pub fn end_now(status: u8) -> ! {
    #[cfg(target_os = "linux")]
    {
        let _ = give_up_streams(); // without it, readers learn of the end later
        crate::syscalls::exit_now(status.into());
    }
    #[cfg(not(target_os = "linux"))]
    std::process::exit(status.into());
}

/// Leads the standard streams nowhere. They are not closed: another thread could open a file in their place.
#[cfg(target_os = "linux")]
fn give_up_streams() -> io::Result<()> {
    let nowhere = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    (0..=2).try_for_each(|number| {
        crate::syscalls::duplicate_onto(std::os::fd::AsFd::as_fd(&nowhere), number)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::syscalls::{self, Fork};

    #[test]
    fn a_held_signal_is_taken_once_and_ends_nothing() {
        // In a process of its own: this one has other threads, which a signal would reach.
        let pid = match syscalls::fork(0).unwrap() {
            Fork::Parent(pid) => pid,
            Fork::Child => {
                let taken = || -> io::Result<[Option<i32>; 3]> {
                    let signals = HeldSignals::hold(&[libc::SIGTERM, libc::SIGHUP])?;
                    let before = signals.next()?;
                    syscalls::kill(std::process::id().cast_signed(), libc::SIGTERM)?;
                    Ok([before, signals.next()?, signals.next()?])
                };
                let right = taken().is_ok_and(|it| it == [None, Some(libc::SIGTERM), None]);
                end_now(if right { 7 } else { 8 })
            }
        };
        let ended = syscalls::wait(pid, 0).unwrap().unwrap(); // it has ended: no flag lets the wait return before
        assert_eq!((ended.code, ended.signal), (Some(7), None));
    }

    #[test]
    fn a_signal_that_was_held_back_ends_the_process_once_it_may() {
        let pid = match syscalls::fork(0).unwrap() {
            Fork::Parent(pid) => pid,
            Fork::Child => {
                let held = HeldSignals::hold(&[libc::SIGTERM]);
                let sent = syscalls::kill(std::process::id().cast_signed(), libc::SIGTERM);
                let before = held.is_ok() && sent.is_ok();
                let let_through = let_end(&[libc::SIGTERM]).is_ok();
                end_now(if before && let_through { 7 } else { 8 })
            }
        };
        let ended = syscalls::wait(pid, 0).unwrap().unwrap(); // it has ended: no flag lets the wait return before
        assert_eq!((ended.code, ended.signal), (None, Some(libc::SIGTERM)));
    }
}
