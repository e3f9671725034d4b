//! The path of a call leads to a file, which is found with its real path, content and mode.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, refuse};
use crate::keep::Before;

/// Largest file that is read.
const MAX_FILE: u64 = 256 << 20;

/// Returns the absolute form of a path of a call.
pub(crate) fn absolute(cwd: &Path, path: &str) -> Result<PathBuf, Error> {
    if path.is_empty() || path.contains('\0') {
        return refuse("the path is empty or has a NUL byte; give an absolute path");
    }
    Ok(cwd.join(path))
}

/// A file with its content.
#[derive(Debug)]
pub(crate) struct Found {
    /// The real path.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

impl Found {
    /// Returns the file as it is before a change.
    pub(crate) fn before(&self) -> Before<'_> {
        Before { bytes: &self.bytes, mode: self.mode }
    }
}

/// Reads a regular file whole. Pipes and devices are refused, so nothing waits.
pub(crate) fn load(path: &Path) -> Result<Found, Error> {
    let failed = |error: std::io::Error| Error::of("Reading", path, &error);
    let real = path.canonicalize().map_err(failed)?;
    let found = real.metadata().map_err(failed)?;
    if found.is_dir() {
        return refuse(format!("{} is a directory. List it with LS or Glob.", path.display()));
    }
    if !found.is_file() {
        return refuse(format!("{} is not a regular file.", path.display()));
    }
    if found.len() > MAX_FILE {
        let (size, most) = (found.len() >> 20, MAX_FILE >> 20);
        return refuse(format!(
            "{} has {size} MiB, and Read takes {most} MiB at most. Search it with Grep, or read a part with Bash.",
            path.display()
        ));
    }
    let mut bytes = Vec::new();
    let file = File::open(&real).map_err(failed)?;
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Found { path: real, bytes, mode: found.mode() })
}

/// Returns a file, or none where there is nothing.
pub(crate) fn present(path: &Path) -> Result<Option<Found>, Error> {
    match load(path) {
        Ok(found) => Ok(Some(found)),
        // A link to nothing would be replaced without anybody having seen it.
        Err(Error::Missing(_)) if path.symlink_metadata().is_ok() => {
            refuse(format!("{} is a symbolic link to nothing.", path.display()))
        }
        Err(Error::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
