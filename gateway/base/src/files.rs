//! Plain files.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Reads a plain file of at most `limit` bytes. Nothing that stands in its place is followed or waited for.
pub fn plain(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = fs::File::from(rustix::fs::open(file, flags, Mode::empty())?);
    let found = opened.metadata()?;
    if !found.is_file() || found.len() > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    opened.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}
