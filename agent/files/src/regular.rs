//! Regular files of a folder, to which no link leads.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Opens the regular file `path` below `folder`; none for anything else, such as a FIFO. No part of the path may be a link.
///
/// # Errors
///
/// The file is missing, cannot be opened, or a link leads to it (`openat2(2)`).
pub(crate) fn open(folder: &OwnedFd, path: &Path) -> io::Result<Option<File>> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(folder, path, how, Mode::empty(), within)?);
    Ok(file.metadata()?.is_file().then_some(file))
}
