//! Objects of the host by their paths, opened without following a link, and the attributes of every mount of a run.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use stockade_spec::codec::Failure;

use super::syscalls::{self, ATTRIBUTE_NO_DEVICES, ATTRIBUTE_NO_SET_ID, NO_LINKS};

/// Attributes of every mount of a run: no set-id bit counts there, and no device.
pub(super) const SAFE: u64 = ATTRIBUTE_NO_SET_ID | ATTRIBUTE_NO_DEVICES;

/// Turns an error into the failure of a step about a path.
pub(super) fn failed<T>(what: &str, path: &Path, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::Step {
        step: "mounts".to_owned(),
        reason: format!("{what} `{}`: {error}", path.display()),
    })
}

/// Opens an absolute path, following nothing.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    syscalls::open_path(path, libc::O_PATH | libc::O_NOFOLLOW, NO_LINKS)
}

/// Opens a path beneath an open directory, following nothing.
pub(super) fn beneath(directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    syscalls::open_at(directory, path, libc::O_PATH | libc::O_NOFOLLOW, NO_LINKS)
}

/// Says whether an error means that nothing is at the path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// Directories that the run has for its own, where the host has them.
pub fn private_directories() -> Vec<PathBuf> {
    ["/tmp", "/var/tmp", "/run", "/var/run"]
        .iter()
        .map(PathBuf::from)
        .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()))
        .collect()
}
