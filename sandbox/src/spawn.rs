//! Gateway side: start the launcher, send spec and descriptors, read the report.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use crate::codec::{self, Failure, Order, Report, Wire};
use crate::linux::syscalls;
use crate::{Enforced, Protection, SandboxSpec, Violation};

/// The three descriptors of the command.
#[derive(Debug)]
pub struct Stdio {
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

/// A running command. Dropping it ends everything that the command started.
#[derive(Debug)]
pub struct Child {
    control: UnixStream,
    process: process::Child,
}

/// Ends a running command from another thread.
#[derive(Debug)]
pub struct Stopper {
    control: UnixStream,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// Exit status, if it exited.
    pub code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// User time of the tree.
    pub user: Duration,
    /// System time of the tree.
    pub system: Duration,
    /// Largest resident size of one process, in KiB.
    pub max_rss_kib: u64,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The launcher did not start.
    #[error("cannot start the launcher `{}`", .path.display())]
    Launcher {
        /// The executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The launcher went away without a report.
    #[error("the launcher ended before it reported")]
    Report {
        /// What the system said.
        source: io::Error,
    },
    /// A step of the launcher failed.
    #[error("{step} failed: {reason}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
    /// A required protection cannot be had.
    #[error("{} cannot be enforced on this machine: {reason}", .protection.name())]
    Unenforceable {
        /// The protection.
        protection: Protection,
        /// Why.
        reason: String,
        /// What would give it.
        help: String,
    },
    /// The program could not be executed.
    #[error("cannot execute `{}`: {source}", .path.display())]
    Exec {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The spec contradicts itself.
    #[error("the sandbox spec is not usable: {reason}")]
    Spec {
        /// Why.
        reason: String,
    },
}

/// Starts `launcher` (this same executable) as `stockade launch`, confined as `spec` says.
///
/// Returns when the command has started or the first step that failed is known; nothing runs on error.
pub fn spawn(
    launcher: &Path,
    spec: &SandboxSpec,
    stdio: Stdio,
) -> Result<(Child, Enforced), Error> {
    check(spec)?;
    let started = |source| Error::Launcher { path: launcher.to_path_buf(), source };
    let (control, theirs) = UnixStream::pair().map_err(started)?;
    let process = Command::new(launcher)
        .arg("launch")
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null())
        .spawn()
        .map_err(started)?;
    let child = Child { control, process };
    send_spec(&child.control, spec, &stdio).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::Spec { reason: error.to_string() },
        _ => Error::Report { source: error },
    })?;
    // The pipes must close when the command's own copies do.
    drop(stdio);
    match receive_report(&child.control).map_err(|source| Error::Report { source })? {
        Report::Ready(enforced) => Ok((child, enforced)),
        Report::Failed(failure) => Err(error(failure, spec)),
        Report::Ended(..) => Err(Error::Report { source: io::ErrorKind::InvalidData.into() }),
    }
}

/// Refuses what no launcher could apply.
fn check(spec: &SandboxSpec) -> Result<(), Error> {
    for path in [&spec.program.path, &spec.program.cwd] {
        if !path.is_absolute() {
            let reason = format!("`{}` is not an absolute path", path.display());
            return Err(Error::Spec { reason });
        }
    }
    if spec.program.argv.is_empty() {
        return Err(Error::Spec { reason: "there are no arguments, not even a name".to_owned() });
    }
    Ok(())
}

fn send_spec(control: &UnixStream, spec: &SandboxSpec, stdio: &Stdio) -> io::Result<()> {
    let payload = spec.to_bytes();
    let header = codec::frame_header(&payload)?;
    let streams = [stdio.stdin.as_fd(), stdio.stdout.as_fd(), stdio.stderr.as_fd()];
    let sent = syscalls::send_with_descriptors(control.as_fd(), &header, &streams)?;
    let mut control = control;
    control.write_all(header.get(sent..).unwrap_or_default())?;
    control.write_all(&payload)
}

fn receive_report(control: &UnixStream) -> io::Result<Report> {
    let bytes = codec::receive(control)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Report::from_bytes(&bytes)
}

fn error(failure: Failure, spec: &SandboxSpec) -> Error {
    match failure {
        Failure::Step { step, reason } => Error::Step { step, reason },
        Failure::Unenforceable { protection, reason, help } => {
            Error::Unenforceable { protection, reason, help }
        }
        Failure::Exec { errno } => Error::Exec {
            path: spec.program.path.clone(),
            source: io::Error::from_raw_os_error(errno),
        },
        Failure::Spec { reason } => Error::Spec { reason },
    }
}

impl Child {
    /// Waits until the command and everything it started are gone.
    pub fn wait(self) -> io::Result<Exit> {
        self.wait_with_violations().map(|(exit, _)| exit)
    }

    /// Waits like [`Child::wait`]; returns also what was refused to the command.
    pub fn wait_with_violations(mut self) -> io::Result<(Exit, Vec<Violation>)> {
        let report = receive_report(&self.control);
        self.process.wait()?;
        match report? {
            Report::Ended(exit, violations) => Ok((exit, violations)),
            Report::Failed(_) | Report::Ready(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Returns a handle that can end the command while another thread waits.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { control: self.control.try_clone()? })
    }

    /// Returns the process number of the monitor, whose end is the end of the run.
    pub fn monitor(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only if the run is over already.
        let _ = self.control.shutdown(Shutdown::Both);
        let _ = self.process.wait();
    }
}

impl Stopper {
    /// Sends TERM to the command's processes, and KILL after `grace`.
    pub fn stop(&self, grace: Duration) -> io::Result<()> {
        codec::send(&self.control, &Order::Stop { grace }.to_bytes())
    }

    /// Sends `signal` (such as SIGINT) to the command's processes.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        codec::send(&self.control, &Order::Signal(signal).to_bytes())
    }
}

/// Is `stockade launch`: reads the spec from descriptor 0, confines itself and becomes the command.
/// Returns the exit status of the monitor.
pub fn launch() -> i32 {
    crate::launch::run()
}

/// Takes every right from this process but reading descriptor 0, writing descriptors 1 and 2, and
/// memory: for the scan worker, before it has a second thread. After it any other call kills the process.
pub fn confine_worker() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::linux::worker::confine();
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}
