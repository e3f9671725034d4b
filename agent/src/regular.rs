//! Regular files of a project. A command may have put a pipe or a link in the place of one.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file of at most `longest` bytes; none for a link, a pipe and anything else.
pub(crate) fn open(path: &Path, longest: u64) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let is_regular = |it: &std::fs::Metadata| it.is_file() && it.len() <= longest;
    file.metadata().ok().filter(is_regular).map(|_| file)
}

/// Returns the text of such a file.
pub(crate) fn text(path: &Path, longest: u64) -> Option<String> {
    let mut text = String::new();
    open(path, longest)?.take(longest).read_to_string(&mut text).ok()?;
    Some(text)
}
