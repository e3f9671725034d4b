//! Gateway side: start the launcher, send spec and descriptors, read the report.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Enforced, Protection, SandboxSpec};

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
    #[allow(dead_code)]
    control: OwnedFd,
}

/// Ends a running command from another thread.
#[derive(Debug)]
pub struct Stopper {
    #[allow(dead_code)]
    control: OwnedFd,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    let _ = (launcher, spec, stdio);
    Err(Error::Spec { reason: "not built".into() })
}

impl Child {
    /// Waits until the command and everything it started are gone.
    pub fn wait(self) -> io::Result<Exit> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns a handle that can end the command while another thread waits.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { control: self.control.try_clone()? })
    }
}

impl Stopper {
    /// Sends TERM to the command's processes, and KILL after `grace`.
    pub fn stop(&self, grace: Duration) -> io::Result<()> {
        let _ = grace;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends `signal` (such as SIGINT) to the command's processes.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let _ = signal;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Is `stockade launch`: reads the spec from descriptor 0, confines itself and becomes the command.
/// Returns the exit status of the monitor.
pub fn launch() -> i32 {
    122
}

/// Takes every right from this process but reading descriptor 0, writing descriptors 1 and 2, and
/// memory: for the scan worker, before it has a second thread. After it any other call kills the process.
pub fn confine_worker() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::linux::worker::confine();
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}
