//! Inputs and results of a run, on every platform.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Protection, Violation};

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

/// The ways out of a run with [`Network::Proxy`](crate::Network::Proxy): listening sockets on its private loopback. Whoever
/// holds them serves the command; when they are closed, nothing answers there any more.
#[derive(Debug)]
pub struct Listeners {
    /// For HTTP.
    pub http: OwnedFd,
    /// For SOCKS.
    pub socks: OwnedFd,
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

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// How the command ended.
    pub exit: Exit,
    /// Violations: accesses that were refused to the command.
    pub violations: Vec<Violation>,
    /// Names of the processes that it left running, which were ended with it.
    pub left: Vec<String>,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The launcher did not start.
    #[error("cannot start the launcher `{}`", .path.display())]
    Launcher {
        /// The executable.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The launcher went away without a report.
    #[error("the launcher did not report: {source}")]
    Report {
        /// Error of the system.
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
        /// Advice on how to get the protection.
        help: String,
    },
    /// The program could not be executed.
    #[error("cannot execute `{}`: {source}", .path.display())]
    Exec {
        /// The program.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// There is no terminal for the command.
    #[error("no terminal can be made: {source}")]
    Terminal {
        /// Error of the system; `StorageFull` when all terminals that it gives are in use.
        source: io::Error,
    },
    /// The spec contradicts itself.
    #[error("the sandbox spec is not usable: {reason}")]
    Spec {
        /// Why.
        reason: String,
    },
}
