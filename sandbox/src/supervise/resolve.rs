//! From a caller's path to objects held by descriptor.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use stockade_kernel::syscalls::{self, NO_MAGIC_LINKS};

/// Links followed before the kernel gives up (`path_resolution(7)`).
const MOST_LINKS: u32 = 40;

/// Inode of the root of every `/proc` (`PROC_ROOT_INO`).
const PROC_ROOT: u64 = 1;

/// A directory held open, and a name in it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) parent: OwnedFd,
    /// One component; `.` for a path that ends in a directory itself.
    pub(super) name: OsString,
    /// The path ended with a slash, so only a directory can be meant.
    pub(super) wants_directory: bool,
}

impl Named {
    /// Returns the real path.
    pub(super) fn path(&self) -> io::Result<PathBuf> {
        let parent = real_path(self.parent.as_fd())?;
        Ok(if self.name == "." { parent } else { parent.join(&self.name) })
    }

    /// Returns the name as a path.
    pub(super) fn name(&self) -> &Path {
        Path::new(&self.name)
    }
}

/// Returns a path that leads us to an object we hold.
pub(super) fn own_path(object: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", object.as_raw_fd()))
}

/// Returns where an object lies, as the kernel tells it.
pub(super) fn real_path(object: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(own_path(object))
}

/// Returns the type of an object held by descriptor.
pub(super) fn metadata(object: &OwnedFd) -> io::Result<std::fs::Metadata> {
    File::from(object.try_clone()?).metadata()
}

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

fn open_component(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    syscalls::create_at(parent, Path::new(name), libc::O_PATH | libc::O_NOFOLLOW, 0)
}

/// Resolves all but the last component of `path`, from `base` if it is relative.
pub(super) fn parent(caller: &Caller<'_>, base: &OwnedFd, path: &Path) -> io::Result<Named> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return error(libc::ENOENT);
    }
    let trimmed = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let (kept, slashes) = bytes.split_at(trimmed);
    let start = kept.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, name) = kept.split_at(start);
    let is_absolute = bytes.first() == Some(&b'/');
    let from = if is_absolute { root()? } else { base.try_clone()? };
    let whole = matches!(name, b"" | b"." | b"..");
    let directory = if whole { kept } else { directory };
    let opened = walk(caller, from, Path::new(OsStr::from_bytes(directory)))?;
    Ok(Named {
        parent: opened,
        name: if whole { ".".into() } else { OsString::from_vec(name.to_vec()) },
        wants_directory: whole || !slashes.is_empty(),
    })
}

fn root() -> io::Result<OwnedFd> {
    syscalls::open_path(Path::new("/"), libc::O_PATH | libc::O_DIRECTORY, 0)
}

/// Opens the directory at `path`, following links as the caller would.
fn walk(caller: &Caller<'_>, from: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.as_os_str().is_empty() {
        return Ok(from);
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    match syscalls::open_at(from.as_fd(), relative, flags, NO_MAGIC_LINKS) {
        // A path in `/proc` may lead to another object for the caller than for us.
        Ok(found) if !syscalls::is_in_proc(found.as_fd())? => return Ok(found),
        Err(found) if found.raw_os_error() != Some(libc::ELOOP) => return Err(found),
        Ok(_) | Err(_) => {}
    }
    let found = walk_slowly(caller, from, relative)?;
    if metadata(&found)?.is_dir() { Ok(found) } else { error(libc::ENOTDIR) }
}

/// Walks one component at a time, seeing `/proc/self` as the caller does.
fn walk_slowly(caller: &Caller<'_>, from: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut rest: VecDeque<OsString> = components(path.as_os_str().as_bytes()).collect();
    let mut at = from;
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let found = open_component(at.as_fd(), &name)?;
        if !metadata(&found)?.is_symlink() {
            forbid_ourselves(&at, &name)?;
            at = found;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return error(libc::ELOOP);
        }
        match link(caller, &at, &name)? {
            Link::Object(object) => at = object,
            Link::Text(text) => {
                if text.first() == Some(&b'/') {
                    at = root()?;
                }
                for part in components(&text).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(part);
                }
            }
        }
    }
    Ok(at)
}

fn components(path: &[u8]) -> impl Iterator<Item = OsString> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(|part| OsString::from_vec(part.to_vec()))
}

/// Where a symbolic link leads.
pub(super) enum Link {
    /// To this text.
    Text(Vec<u8>),
    /// To this object: a magic link of `/proc`.
    Object(OwnedFd),
}

/// Reads the link `name` in `directory` as the caller sees it.
pub(super) fn link(caller: &Caller<'_>, directory: &OwnedFd, name: &OsStr) -> io::Result<Link> {
    let text = syscalls::read_link_at(directory.as_fd(), Path::new(name))?;
    if !syscalls::is_in_proc(directory.as_fd())? {
        return Ok(Link::Text(text));
    }
    if metadata(directory)?.ino() == PROC_ROOT {
        if name == "self" {
            return Ok(Link::Text(caller.process()?.to_string().into_bytes()));
        }
        if name == "thread-self" {
            let text = format!("{}/task/{}", caller.process()?, caller.thread());
            return Ok(Link::Text(text.into_bytes()));
        }
    }
    let plain = syscalls::open_at(directory.as_fd(), Path::new(name), libc::O_PATH, NO_MAGIC_LINKS);
    match plain {
        Err(found) if found.raw_os_error() == Some(libc::ELOOP) => {
            forbid_what_is_ours(caller, directory)?;
            let opened = syscalls::open_at(directory.as_fd(), Path::new(name), libc::O_PATH, 0)?;
            caller.still_waits()?;
            Ok(Link::Object(opened))
        }
        _ => Ok(Link::Text(text)),
    }
}

/// Refuses a magic link of one of our processes, however the caller came to its directory in `/proc`: we may follow
/// it, the caller may not. Nothing that a run starts has a capability. Each of ours has one in a user namespace; without
/// it nothing tells ours from others, and a caller has only its own process.
fn forbid_what_is_ours(caller: &Caller<'_>, directory: &OwnedFd) -> io::Result<()> {
    let path = real_path(directory.as_fd())?;
    let process = path.strip_prefix("/proc").ok().and_then(|inside| inside.iter().next());
    let process = process.unwrap_or_default();
    if *process == *caller.process()?.to_string() {
        return Ok(());
    }
    let is_of_the_run = !has_capabilities(process)? && has_capabilities(OsStr::new("self"))?;
    if is_of_the_run { Ok(()) } else { error(libc::EACCES) }
}

/// Says whether a process has capabilities in effect (`proc_pid_status(5)`).
fn has_capabilities(process: &OsStr) -> io::Result<bool> {
    let text = std::fs::read_to_string(Path::new("/proc").join(process).join("status"))?;
    let effective = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    Ok(effective.is_none_or(|it| it.trim().bytes().any(|digit| digit != b'0')))
}

/// Refuses the way through our own directory in `/proc`: we may go there, the caller may not.
fn forbid_ourselves(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let is_proc_root =
        syscalls::is_in_proc(directory.as_fd())? && metadata(directory)?.ino() == PROC_ROOT;
    let is_us = is_proc_root && *name == *std::process::id().to_string();
    if is_us { error(libc::EACCES) } else { Ok(()) }
}
