//! Protections that this machine can enforce, found by trying: for `doctor`, and for the question whether a run can be confined.
//!
//! Starts this executable again as [`ROLE`], a process of its own, which tries acts outside and in the sandbox that the table of roles
//! hands it, in a directory of its own that it removes. Reads no settings and decides nothing.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod stranger;
#[cfg(target_os = "linux")]
mod surroundings;
#[cfg(target_os = "linux")]
mod trial;

use std::path::Path;

use stockade_spec::{Enforced, Protection, Start};

/// Word by which this executable is started again, for a trial or to try the acts of one.
pub const ROLE: &str = "probe";

/// Runs as [`ROLE`]: the process of a trial, which starts confined programs with `start`, or the one that tries the acts. Returns the exit
/// status.
pub fn main(start: Start) -> i32 {
    #[cfg(target_os = "linux")]
    return process::main(start);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = start;
        1
    }
}

/// Protections that this machine can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Each probe with its result, in order.
    pub probes: Vec<Probe>,
    /// Notable facts about the environment, one sentence each.
    pub surroundings: Vec<String>,
    /// Protections that a run with the default spec would enforce, or a run without namespaces where none can be had.
    pub enforced: Enforced,
    /// No namespaces can be had.
    pub lacks_namespaces: bool,
    /// Kernel release.
    pub kernel: String,
    /// Landlock ABI, 0 without.
    pub landlock_abi: u32,
}

/// Extent of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Every act, outside and confined.
    Everything,
    /// One confined start.
    Start,
}

/// One thing tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Name of the probe.
    pub name: String,
    /// True if the probe succeeded.
    pub works: bool,
    /// Observed result.
    pub detail: String,
    /// Advice on how to make it work; empty if it does.
    pub help: String,
}

impl Host {
    /// Tries everything once, with this executable as the launcher; takes some ten milliseconds.
    ///
    /// This executable must call [`main`] when its first argument is [`ROLE`], and be the launcher when it is `launch`.
    pub fn probe() -> Host {
        Host::tried_here(Trial::Everything)
    }

    /// Starts one confined command and tells what it reports, without the probes of single protections.
    pub fn start() -> Host {
        Host::tried_here(Trial::Start)
    }

    /// Tries everything once, with `launcher` as the launcher and for the trial.
    pub fn probe_with(launcher: &Path) -> Host {
        Host::tried(launcher, Trial::Everything)
    }

    fn tried_here(trial: Trial) -> Host {
        match std::env::current_exe() {
            Ok(launcher) => Host::tried(&launcher, trial),
            Err(error) => Host::without(&format!("this executable cannot be found: {error}")),
        }
    }

    fn tried(launcher: &Path, trial: Trial) -> Host {
        #[cfg(target_os = "linux")]
        return process::run(launcher, trial).unwrap_or_else(|error| Host::without(&error));
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (launcher, trial);
            Host::without("only Linux is supported")
        }
    }

    /// Returns the report for a machine that enforces nothing.
    fn without(reason: &str) -> Host {
        let missing = |protection: &Protection| {
            (*protection, stockade_spec::State::Missing(reason.to_owned()))
        };
        Host {
            probes: Vec::new(),
            surroundings: Vec::new(),
            enforced: Enforced {
                states: Protection::ALL.iter().map(missing).collect(),
                notes: Vec::new(),
            },
            lacks_namespaces: false,
            kernel: String::new(),
            landlock_abi: 0,
        }
    }
}
