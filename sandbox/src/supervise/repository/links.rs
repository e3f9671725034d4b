//! Symbolic links and second names in git directories: git writes through both, wherever they lead.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{holds_git, is, up};
use crate::supervise::resolve;

/// Most entries that are looked at.
const MOST_ENTRIES: usize = 1_000_000;

/// Returns the innermost git directory that `directory`, which lies at `path`, is or lies in. By name wherever
/// that is; by what it holds up to `region`.
pub(in crate::supervise) fn git_above(
    directory: &OwnedFd,
    path: &Path,
    region: &Path,
) -> io::Result<Option<PathBuf>> {
    let mut at = directory.try_clone()?;
    for whole in path.ancestors() {
        if is(whole.file_name().unwrap_or_default(), ".git") {
            return Ok(Some(whole.to_owned()));
        }
        if whole.starts_with(region) {
            if holds_git(&at)? {
                return Ok(Some(whole.to_owned()));
            }
            at = up(&at)?;
        }
    }
    Ok(None)
}

/// Says whether `path` is an object of the git directory `git`, or lies beside one: git gives these second
/// names itself, and reads none without knowing its contents.
pub(in crate::supervise) fn is_object(path: &Path, git: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let leads = is(name, "alternates") || is(name, "http-alternates");
    path.strip_prefix(git).is_ok_and(|inside| inside.starts_with("objects")) && !leads
}

/// Says whether a link is the one with which `git init` finds out whether there are links: `tXXXXXX` to `testing`,
/// beside `HEAD`.
pub(in crate::supervise) fn is_probe(text: &Path, name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    text == Path::new("testing")
        && bytes.len() == 7
        && bytes.first() == Some(&b't')
        && bytes.iter().all(u8::is_ascii_alphanumeric)
}

/// Ways that lead out of a git directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervise) enum Ways {
    /// Symbolic links.
    Links,
    /// These, and files with more than one name that are no objects.
    All,
}

/// Finds the `ways` that lead elsewhere at `name` in `directory` and below. An error where that cannot be known.
pub(in crate::supervise) fn find(
    directory: &OwnedFd,
    name: &Path,
    ways: Ways,
) -> io::Result<Vec<PathBuf>> {
    let base = resolve::own_path(directory.as_fd());
    let mut found = Vec::new();
    let first = match fs::symlink_metadata(base.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        result => result?.file_type(),
    };
    let mut rest = vec![(name.to_owned(), first)];
    let mut seen = 0_usize;
    while let Some((inside, kind)) = rest.pop() {
        if kind.is_symlink() {
            found.push(inside);
            continue;
        }
        if !kind.is_dir() {
            let is_object = inside.components().any(|part| part.as_os_str() == "objects")
                && !is(inside.file_name().unwrap_or_default(), "alternates");
            if ways == Ways::All && !is_object && has_second_name(&base.join(&inside))? {
                found.push(inside);
            }
            continue;
        }
        for entry in entries(&base.join(&inside))? {
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            let entry = entry?;
            rest.push((inside.join(entry.file_name()), entry.file_type()?));
        }
    }
    Ok(found)
}

/// Lists a directory; one that is gone meanwhile holds nothing.
fn entries(path: &Path) -> io::Result<Vec<io::Result<fs::DirEntry>>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => Ok(result?.collect()),
    }
}

fn has_second_name(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => Ok(result?.nlink() > 1),
    }
}

/// Goes through all that lies beneath `name` in `directory`: tells each path, from there, and whether it is a symbolic
/// link. An error where that cannot be known.
pub(in crate::supervise) fn each_beneath<E: From<io::Error>>(
    directory: &OwnedFd,
    name: &Path,
    mut tell: impl FnMut(&Path, bool) -> Result<(), E>,
) -> Result<(), E> {
    let base = resolve::own_path(directory.as_fd()).join(name);
    if !fs::symlink_metadata(&base)?.is_dir() {
        return Ok(());
    }
    let (mut rest, mut seen) = (vec![PathBuf::new()], 0_usize);
    while let Some(inside) = rest.pop() {
        for entry in fs::read_dir(base.join(&inside))? {
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(io::Error::from(io::ErrorKind::QuotaExceeded).into());
            }
            let entry = entry?;
            let (path, kind) = (inside.join(entry.file_name()), entry.file_type()?);
            tell(&path, kind.is_symlink())?;
            if kind.is_dir() {
                rest.push(path);
            }
        }
    }
    Ok(())
}

/// Returns the paths of all that lies beneath `name` in `directory`, from there. An error where that cannot be known.
pub(in crate::supervise) fn beneath(directory: &OwnedFd, name: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    each_beneath(directory, name, |path, _| {
        found.push(path.to_path_buf());
        Ok::<(), io::Error>(())
    })?;
    Ok(found)
}

/// Says whether [`find`] finds anything; what is in doubt counts.
pub(in crate::supervise) fn are_at(directory: &OwnedFd, name: &Path, ways: Ways) -> bool {
    find(directory, name, ways).map_or(true, |found| !found.is_empty())
}
