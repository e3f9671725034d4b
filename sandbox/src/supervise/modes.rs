//! Modes of configurations that no mount covers: a command that opens one to other users, or closes it to git, changes nothing
//! that stays.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::resolve;
use crate::linux::syscalls::{self, NO_LINKS};
use crate::{SandboxSpec, Violation};

/// The bits that `chmod` sets.
const BITS: u32 = 0o7777;

/// Writing by others than the owner, and what the owner needs.
const WRITE: u32 = 0o022;
const OWNER: u32 = 0o600;

/// Each file with the mode that it had.
#[derive(Debug)]
pub(super) struct Modes(Vec<(PathBuf, u32)>);

impl Modes {
    /// Remembers those of the configurations of `spec` that are there.
    pub(super) fn new(spec: &SandboxSpec) -> Modes {
        let known = spec.files.git_configurations.iter();
        Modes(known.filter_map(|path| Some((path.clone(), mode(path).ok()?.0))).collect())
    }

    /// Puts back what was changed, and tells of it.
    pub(super) fn restore(&self) -> Vec<Violation> {
        self.0.iter().filter_map(|(path, before)| restore(path, *before)).collect()
    }
}

/// Returns the mode of a plain file, and a path that leads to it whatever its name is then.
fn mode(path: &Path) -> io::Result<(u32, std::os::fd::OwnedFd)> {
    let file = syscalls::open_path(path, libc::O_PATH | libc::O_NOFOLLOW, NO_LINKS)?;
    let found = resolve::metadata(&file)?;
    match found.is_file() {
        true => Ok((found.permissions().mode() & BITS, file)),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn restore(path: &Path, before: u32) -> Option<Violation> {
    let (now, file) = mode(path).ok()?;
    // More than before may write it, or the owner less than before. Anything else may be the person's own change, or that
    // of another run which is taken back already.
    let is_open = now & WRITE & !before != 0;
    let is_closed = before & OWNER & !now != 0;
    if !is_open && !is_closed {
        return None;
    }
    let restored =
        std::fs::set_permissions(resolve::own_path(file.as_fd()), Permissions::from_mode(before));
    let rule = match restored {
        Ok(()) => format!("builtin: git configuration, mode {now:o} put back to {before:o}"),
        Err(error) => format!("builtin: git configuration, still mode {now:o}: {error}"),
    };
    Some(Violation {
        kind: "planted".to_owned(),
        call: "mode".to_owned(),
        object: path.to_string_lossy().into_owned(),
        rule,
        count: 1,
        source: "inspection".to_owned(),
        ..Violation::default()
    })
}
