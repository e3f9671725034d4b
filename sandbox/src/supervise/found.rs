//! State that a run reads before its command starts, and locks by which the runs of one user act one after the other: an act that
//! was permitted is the act that is performed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation as Lock, flock};
use rustix::io::retry_on_intr;

use super::modes::Modes;
use super::{inspection, repository, resolve};
use stockade_kernel::syscalls::{NO_LINKS, open_path};
use stockade_spec::SandboxSpec;

/// Lines that start programs in the rebases that a person left, by git directory.
pub(super) type Lines = BTreeMap<repository::Identity, Vec<OsString>>;

/// State from before the command started, without changes that another run may have made.
#[derive(Debug)]
pub(crate) struct Found {
    pub(super) modes: Modes,
    pub(super) lines: Lines,
    pub(super) turns: Turns,
}

/// Locks of this run (flock(2)): the first is held during an act, the second until the run ends. None if the spec names no lock
/// files.
#[derive(Debug)]
pub(super) struct Turns(Option<(OwnedFd, OwnedFd)>);

impl Found {
    /// Reads the state before the command starts. Ignores state that another active run may have changed.
    pub(crate) fn look(spec: &SandboxSpec, turns: Option<(OwnedFd, OwnedFd)>) -> io::Result<Found> {
        let run = turns.as_ref().map(|(_, run)| run);
        let is_alone = run.is_none_or(|it| flock(it, Lock::NonBlockingLockExclusive).is_ok());
        let modes = Modes::new(spec, is_alone);
        let lines = if is_alone { lines(spec) } else { Lines::new() };
        run.map(|run| retry_on_intr(|| flock(run, Lock::LockShared))).transpose()?;
        Ok(Found { modes, lines, turns: Turns(turns) })
    }
}

impl Turns {
    /// Calls `act` while no other run acts. An error means that `act` was not called.
    pub(super) fn during<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let Some((lock, _)) = &self.0 else { return Ok(act()) };
        retry_on_intr(|| flock(lock, Lock::LockExclusive))?;
        let done = act();
        // A lock that is held can be released (flock(2)).
        let _ = flock(lock, Lock::Unlock);
        Ok(done)
    }
}

/// Reads the lines in the git directories of the project and of their linked worktrees.
fn lines(spec: &SandboxSpec) -> Lines {
    let known = spec.files.git_configurations.iter().filter_map(|path| path.parent());
    let linked = |git: &Path| {
        let entries = std::fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = known.flat_map(|git| linked(git).into_iter().chain([git.to_path_buf()]));
    all.filter_map(|git| {
        let directory = open_path(&git, libc::O_PATH | libc::O_DIRECTORY, NO_LINKS).ok()?;
        let lines = inspection::starting_lines(&directory);
        let identity = repository::identity(&resolve::metadata(&directory).ok()?);
        (!lines.is_empty()).then_some((identity, lines))
    })
    .collect()
}
