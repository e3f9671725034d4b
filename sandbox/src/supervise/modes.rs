//! Modes that a command cannot leave behind: of configurations that no mount covers, which it would open to other users or
//! close to git, and of directories that the next command needs, or behind which rules refuse something.

use std::collections::BTreeSet;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::inspection::planted;
use super::resolve;
use stockade_kernel::syscalls::{self, NO_LINKS};
use stockade_spec::Access;
use stockade_spec::{FileRule, SandboxSpec, Violation};

/// The bits that `chmod` sets.
const BITS: u32 = 0o7777;

/// Writing by others than the owner, and what the owner needs.
const WRITE: u32 = 0o022;
const WORLD: u32 = 0o002;
const OWNER: u32 = 0o600;
const OWNER_OF_DIRECTORY: u32 = 0o700;

/// Each file, and each directory, with the mode that it had. What lies above comes first.
#[derive(Debug)]
pub(super) struct Modes {
    files: Vec<(PathBuf, u32)>,
    directories: Vec<(PathBuf, u32)>,
}

impl Modes {
    /// Remembers those of what is there of the configurations and directories of `spec`.
    /// Another active run may have changed them. Beside one, a mode that lets everyone write counts as one that lets only the
    /// owner write, and the owner counts as having all rights.
    pub(super) fn new(spec: &SandboxSpec, is_alone: bool) -> Modes {
        let known = |path: PathBuf, is_kind: fn(&Metadata) -> bool, owner: u32| {
            let found = mode(&path, is_kind).ok()?.0;
            let closed = if found & WORLD == 0 { found } else { found & !WRITE };
            Some((path, if is_alone { found } else { closed | owner }))
        };
        let files = spec.files.git_configurations.iter();
        let files = files.filter_map(|path| known(path.clone(), Metadata::is_file, OWNER));
        let all = directories(spec).into_iter();
        let directories = all.filter_map(|path| known(path, Metadata::is_dir, OWNER_OF_DIRECTORY));
        Modes { files: files.collect(), directories: directories.collect() }
    }

    /// Puts back what was changed, and tells of it.
    pub(super) fn restore(&self) -> Vec<Violation> {
        let directories =
            self.directories.iter().filter_map(|(path, before)| reopen(path, *before));
        let files = self.files.iter().filter_map(|(path, before)| restore(path, *before));
        directories.chain(files).collect()
    }
}

/// Returns the directories without which the next command could not start, or could not see what it is refused: the
/// writable ones, and those between them and what rules refuse or where the command works.
fn directories(spec: &SandboxSpec) -> BTreeSet<PathBuf> {
    let of = |rule: &&FileRule| rule.access == Access::Write;
    let regions: Vec<&Path> =
        spec.files.rules.iter().filter(of).map(|rule| rule.path.as_path()).collect();
    let refused =
        spec.files.rules.iter().filter(|rule| {
            matches!(rule.access, Access::None | Access::ReadOnly | Access::Protected)
        });
    let refused = refused.filter_map(|rule| rule.path.parent());
    let ends = refused.chain(regions.iter().copied()).chain([spec.program.cwd.as_path()]);
    let is_writable = |path: &&Path| regions.iter().any(|region| path.starts_with(region));
    let mut all = BTreeSet::new();
    for end in ends {
        for path in end.ancestors().take_while(is_writable) {
            // Directories above a known one are known as well.
            if !all.insert(path.to_path_buf()) {
                break;
            }
        }
    }
    all
}

/// Returns the mode of a plain file or a directory, as `is_kind` says, and a path that leads to it whatever its name is then.
fn mode(path: &Path, is_kind: fn(&Metadata) -> bool) -> io::Result<(u32, OwnedFd)> {
    let file = syscalls::open_path(path, libc::O_PATH | libc::O_NOFOLLOW, NO_LINKS)?;
    let found = resolve::metadata(&file)?;
    match is_kind(&found) {
        true => Ok((found.permissions().mode() & BITS, file)),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Gives the owner of a directory the rights back that it had.
fn reopen(path: &Path, before: u32) -> Option<Violation> {
    let (now, directory) = mode(path, Metadata::is_dir).ok()?;
    let lost = before & OWNER_OF_DIRECTORY & !now;
    if lost == 0 {
        return None;
    }
    Some(put_back(path, &directory, "directory of the next command", (now, now | lost)))
}

fn restore(path: &Path, before: u32) -> Option<Violation> {
    let (now, file) = mode(path, Metadata::is_file).ok()?;
    // More than before may write it, or the owner less than before. Anything else may be the person's own change, or that
    // of another run which is taken back already.
    let is_open = now & WRITE & !before != 0;
    let is_closed = before & OWNER & !now != 0;
    if !is_open && !is_closed {
        return None;
    }
    Some(put_back(path, &file, "git configuration", (now, before)))
}

/// Sets the mode of an object to `then` and returns the report.
fn put_back(path: &Path, object: &OwnedFd, what: &str, (now, then): (u32, u32)) -> Violation {
    let named = resolve::own_path(object.as_fd());
    let rule = match std::fs::set_permissions(named, Permissions::from_mode(then)) {
        Ok(()) => format!("builtin: {what}, mode {now:o} restored to {then:o}"),
        Err(error) => format!("builtin: {what}, still mode {now:o}: {error}"),
    };
    planted("mode", path, rule)
}
