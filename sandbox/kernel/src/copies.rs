//! Texts of ours in the place of files that a run does not read.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::objects::{SAFE, beneath};
use super::syscalls::{self, ATTRIBUTE_NO_EXECUTION, ATTRIBUTE_READ_ONLY};
use stockade_spec::SandboxSpec;
use stockade_spec::Shown;

/// The name of a text until it is in its place.
const NAME: &str = ".copy";

/// Returns the text that is shown in the place of the file at `path`.
pub(super) fn of<'a>(spec: &'a SandboxSpec, path: &Path) -> Option<&'a Shown> {
    spec.files.copies.iter().find(|copy| copy.path == path)
}

/// Covers `target` with the text, which no name leads to then. It is written in `directory`, of a file system of the run's
/// own that is attached: before Linux 6.15 nothing else can be copied.
pub(super) fn place(shown: &Shown, directory: BorrowedFd<'_>, target: &OwnedFd) -> io::Result<()> {
    let name = Path::new(NAME);
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let file = syscalls::create_at(directory, name, flags, 0o444)?;
    std::fs::File::from(file).write_all(shown.text.as_bytes())?;
    let tree = syscalls::clone_mount(beneath(directory, name)?.as_fd())?;
    let attributes = SAFE | ATTRIBUTE_NO_EXECUTION | ATTRIBUTE_READ_ONLY;
    syscalls::set_attributes(tree.as_fd(), attributes)?;
    syscalls::attach(tree.as_fd(), target.as_fd())?;
    syscalls::unlink_at(directory, name, 0)
}
