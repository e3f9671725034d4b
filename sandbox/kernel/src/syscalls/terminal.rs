//! Terminals.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use stockade_spec::Window;

/// Makes a pseudo terminal of the `/dev/ptmx` that this process sees: returns its other end, on which nothing waits, and
/// the terminal itself. Neither becomes the controlling terminal of this process.
pub fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let other_end = File::options().read(true).write(true).custom_flags(flags).open("/dev/ptmx")?;
    rustix::pty::unlockpt(&other_end)?;
    // By the other end and not by a name, which could be another's (Linux 4.13).
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = rustix::pty::ioctl_tiocgptpeer(&other_end, flags)?;
    Ok((other_end.into(), terminal))
}

/// Sets the size of a terminal.
pub fn set_window(terminal: BorrowedFd<'_>, window: Window) -> io::Result<()> {
    let Window { rows: ws_row, columns: ws_col } = window;
    let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// Starts a session without a terminal.
pub fn setsid() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Makes the terminal `fd` the controlling one of this session.
pub fn take_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}
