//! Signals to this process, and its end at once.

use std::io;
use std::time::Duration;

use crate::last_words::LastWords;

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

/// Lets these signals through to their handlers: whoever started this process may have held them back, which is inherited.
#[cfg(target_os = "linux")]
pub fn let_through(signals: &[i32]) -> io::Result<()> {
    crate::syscalls::unblock_signals(signals)
}

/// Does nothing: no signal is held back here.
#[cfg(not(target_os = "linux"))]
pub fn let_through(_: &[i32]) -> io::Result<()> {
    Ok(())
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
    fn a_signal_that_was_held_back_ends_the_process_once_it_may() {
        // In a process of its own: this one has other threads, which a signal would reach.
        let pid = match syscalls::fork(0).unwrap() {
            Fork::Parent(pid) => pid,
            Fork::Child => {
                let held = syscalls::block_signals(&[libc::SIGTERM]);
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
