//! What a run finds when it begins, and turns that runs of one user take: none acts while another does, so that what was judged
//! is what is done.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation as Lock, flock};
use rustix::io::retry_on_intr;

use super::modes::Modes;
use super::{inspection, repository, resolve};
use stockade_kernel::syscalls;
use stockade_spec::SandboxSpec;

/// Lines that start programs, of rebases that a person left, by git directory.
pub(super) type Lines = BTreeMap<repository::Identity, Vec<OsString>>;

/// What was there before the command, and what no other run may have made.
#[derive(Debug)]
pub(crate) struct Found {
    pub(super) modes: Modes,
    pub(super) lines: Lines,
    pub(super) turns: Turns,
}

/// Locks of this run: of an act, and of all of it (flock(2)). None where it has no other beside it.
#[derive(Debug)]
pub(super) struct Turns(Option<(OwnedFd, OwnedFd)>);

impl Found {
    /// Looks before the command starts. What another run that lives may have changed is not believed.
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
    /// Does something while no other run acts.
    pub(super) fn during<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let Some((lock, _)) = &self.0 else { return Ok(act()) };
        retry_on_intr(|| flock(lock, Lock::LockExclusive))?;
        let done = act();
        Ok(flock(lock, Lock::Unlock).map(|()| done)?)
    }
}

/// Reads those of the git directories of the project and of their linked worktrees.
fn lines(spec: &SandboxSpec) -> Lines {
    let known = spec.files.git_configurations.iter().filter_map(|path| path.parent());
    let linked = |git: &Path| {
        let entries = std::fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = known.flat_map(|git| linked(git).into_iter().chain([git.to_path_buf()]));
    all.filter_map(|git| {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = syscalls::open_path(&git, flags, syscalls::NO_LINKS).ok()?;
        let lines = inspection::starting_lines(&directory);
        let identity = repository::identity(&resolve::metadata(&directory).ok()?);
        (!lines.is_empty()).then_some((identity, lines))
    })
    .collect()
}
