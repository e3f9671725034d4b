//! The other end of a command's terminal.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::termios::{LocalModes, SpecialCodeIndex, Termios, Winsize, tcgetattr, tcsetwinsize};
use stockade_wire::types::Window;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::watched::watched;

/// The byte that ends input at a terminal unless the terminal names another one: Ctrl-D (termios(3)).
const END_OF_INPUT: u8 = 4;

/// The end of a command's terminal that the gateway holds: what is written here is typed, what is read here is shown.
#[derive(Debug)]
pub struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// Takes charge of it; nothing waits on `end`. Needs a runtime.
    pub fn new(end: OwnedFd) -> io::Result<Terminal> {
        watched(end, Interest::READABLE | Interest::WRITABLE).map(Terminal)
    }

    /// Reads what is shown, and waits for it; nothing when nobody has the terminal any more.
    pub async fn read(&self, buffer: &mut [u8]) -> usize {
        loop {
            let Ok(mut guard) = self.0.readable().await else { return 0 };
            match guard.try_io(|end| rustix::io::read(end, &mut *buffer).map_err(io::Error::from)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(found) => return found.unwrap_or(0),
                Err(_) => {}
            }
        }
    }

    /// Reads what is shown already.
    pub fn read_now(&self, buffer: &mut [u8]) -> usize {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Err(Errno::INTR) => {}
                found => return found.unwrap_or(0),
            }
        }
    }

    /// Types as much of `bytes` as there is room for, and waits for some.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut guard = self.0.writable().await?;
            match guard.try_io(|end| rustix::io::write(end, bytes).map_err(io::Error::from)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return written,
                Err(_) => {}
            }
        }
    }

    /// Returns what is typed to end the input. In the middle of a line the first of two only hands over what stands there.
    pub fn end_of_input(&self, in_a_line: bool) -> Vec<u8> {
        let modes = tcgetattr(&self.0).ok();
        let by_lines = |modes: &Termios| modes.local_modes.contains(LocalModes::ICANON);
        let twice = in_a_line && modes.as_ref().is_some_and(by_lines);
        let key = modes.map(|modes| modes.special_codes[SpecialCodeIndex::VEOF]);
        let key = key.filter(|key| *key != 0).unwrap_or(END_OF_INPUT);
        vec![key; if twice { 2 } else { 1 }]
    }

    /// Tells the command that the terminal has another size.
    pub fn resize(&self, size: Window) {
        let Window { rows, columns } = size;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(&self.0, size); // one that nobody has any more needs no size
    }
}
