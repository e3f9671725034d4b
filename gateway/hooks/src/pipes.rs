//! The pipes between gateway and command.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;

/// Our ends.
#[derive(Debug)]
pub struct Ours {
    /// Standard input; none when it is empty.
    pub stdin: Option<pipe::Sender>,
    /// Standard output.
    pub stdout: pipe::Receiver,
    /// Standard error; none when it is the pipe of standard output.
    pub stderr: Option<pipe::Receiver>,
}

/// Standard input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A pipe.
    Piped,
    /// The empty device (null(4)).
    Empty,
}

/// Standard output and standard error of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// A pipe for each.
    Apart,
    /// One pipe for both.
    Joined,
}

/// Makes fresh pipes.
pub fn stdio(
    input: Input,
    outputs: Outputs,
) -> Result<(stockade_spec::Stdio, Ours), stockade_spec::Error> {
    make(input, outputs).map_err(|source| stockade_spec::Error::Report { source })
}

/// Returns nothing to read from and nowhere to write to.
pub fn nothing() -> Result<stockade_spec::Stdio, stockade_spec::Error> {
    let open = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let all = || Ok(stockade_spec::Stdio { stdin: open()?, stdout: open()?, stderr: open()? });
    all().map_err(|source: io::Error| stockade_spec::Error::Report { source })
}

/// Returns the error for something of ours that went away.
pub fn broken(what: &str) -> stockade_spec::Error {
    stockade_spec::Error::Report { source: io::Error::other(format!("{what} ended")) }
}

fn make(input: Input, outputs: Outputs) -> io::Result<(stockade_spec::Stdio, Ours)> {
    let (input, sender) = match input {
        Input::Piped => {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            (read, Some(pipe::Sender::from_owned_fd(nonblocking(write)?)?))
        }
        Input::Empty => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
        }
    };
    let (output, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (errors, stderr) = match outputs {
        Outputs::Joined => (None, rustix::io::fcntl_dupfd_cloexec(&stdout, 0)?),
        Outputs::Apart => {
            let (errors, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
            (Some(pipe::Receiver::from_owned_fd(nonblocking(errors)?)?), stderr)
        }
    };
    let theirs = stockade_spec::Stdio { stdin: input, stdout, stderr };
    let ours = Ours {
        stdin: sender,
        stdout: pipe::Receiver::from_owned_fd(nonblocking(output)?)?,
        stderr: errors,
    };
    Ok((theirs, ours))
}

/// The flag belongs to the open file, so only our end gets it.
fn nonblocking(end: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
    Ok(end)
}
