//! Terminals.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{check, owned};

/// Makes a pseudo terminal of the `/dev/ptmx` that this process sees: returns its other end, on which nothing waits, and
/// the terminal itself. Neither becomes the controlling terminal of this process.
pub(crate) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let other_end = File::options().read(true).write(true).custom_flags(flags).open("/dev/ptmx")?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which lives through the call.
    let status =
        unsafe { libc::ioctl(other_end.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) };
    check(status.into())?;
    // By the other end and not by a name, which could be another's (Linux 4.13).
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes flags as an integer.
    let terminal = unsafe { libc::ioctl(other_end.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    Ok((other_end.into(), owned(terminal.into())?))
}

/// Sets the size of a terminal: lines, then characters of a line.
pub(crate) fn set_window(terminal: BorrowedFd<'_>, (rows, columns): (u16, u16)) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one `winsize`, which lives through the call.
    let status = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    check(status.into()).map(drop)
}

/// Starts a session without a terminal.
pub(crate) fn setsid() -> io::Result<()> {
    // SAFETY: takes nothing.
    let status = unsafe { libc::setsid() };
    check(status.into()).map(drop)
}

/// Makes the terminal `fd` the controlling one of this session.
pub(crate) fn take_terminal(fd: i32) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    let status = unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) };
    check(status.into()).map(drop)
}
