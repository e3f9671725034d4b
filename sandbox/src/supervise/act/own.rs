//! A file with several names, some of which may lie where the run cannot write: before it changes, the name that the run uses
//! gets a copy of its own.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::guard::violation;
use super::super::resolve::{self, Named};
use super::super::shared::Before;
use super::super::{Refused, inspection, repository};
use super::Performer;
use stockade_kernel::syscalls;

/// Longest file that is copied where the file system cannot share its bytes.
const MOST_COPIED: u64 = 64 << 20;

/// Names that are tried for a copy.
const MOST_ASIDE: u32 = 1_000;

/// How a name ends whose file has lost it, as `/proc` tells it (`proc_pid_fd(5)`).
const DELETED: &str = " (deleted)";

/// Beginning of the rule that refuses a write.
const RULE: &str = "builtin: file with several names";

/// Bytes of a file in its copy.
#[derive(Debug, Clone, Copy)]
pub(in crate::supervise) enum Bytes {
    Kept,
    /// The call takes them away itself.
    Gone,
}

impl Performer<'_> {
    /// Returns the object to write in the place of one that exists, if that may have names elsewhere: a copy that has taken its
    /// name, with `bytes` of it.
    pub(super) fn own_for_writing(
        &self,
        call: &str,
        object: &OwnedFd,
        bytes: Bytes,
    ) -> Result<Option<OwnedFd>, Refused> {
        let found = resolve::metadata(object)?;
        let Some(named) = self.shared_name(call, object, &found)? else { return Ok(None) };
        // A caller that may not write the object does not get a copy either.
        match syscalls::may_write(object.as_fd()) {
            Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        self.own(call, object, &found, &named, bytes).map(Some)
    }

    /// Returns the name under which an object may be changed only as a copy; none for one whose names are all the run's.
    pub(in crate::supervise) fn shared_name(
        &self,
        call: &str,
        object: &OwnedFd,
        found: &Metadata,
    ) -> Result<Option<Named>, Refused> {
        if !found.is_file() || found.nlink() == 0 {
            return Ok(None);
        }
        // In this order: what had one name, and has this one now, has no other.
        let path = resolve::real_path(object.as_fd())?;
        let guard = &self.supervisor.guard;
        let may_be_gone = path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes());
        if !guard.is_in_region(&path) || found.nlink() == 1 && !may_be_gone {
            return Ok(None);
        }
        let parent = path.parent().unwrap_or(&path);
        // A rule names this very file, and nothing beside it could be made.
        if guard.region(&path) == Some(&path) && !guard.is_in_region(parent) {
            return Ok(None);
        }
        let named = named_as(&path).filter(|named| is_at(named, found));
        if found.nlink() == 1 && named.is_some() || self.supervisor.shared.holds(found) {
            return Ok(None);
        }
        named.map(Some).ok_or_else(|| {
            let rule = format!("{RULE}, of which this one is gone");
            Refused::Rule(violation("write", call, &path, rule))
        })
    }

    /// Says how many names an object has, if all of them are known.
    pub(super) fn names_of(&self, object: &OwnedFd) -> io::Result<Before> {
        let found = resolve::metadata(object)?;
        let has_one = || {
            let path = resolve::real_path(object.as_fd())?;
            Ok::<_, io::Error>(named_as(&path).is_some_and(|named| is_at(&named, &found)))
        };
        let is_known = match found.nlink() {
            0 => true,
            1 => self.supervisor.shared.holds(&found) || has_one()?,
            _ => self.supervisor.shared.holds(&found),
        };
        Ok(Before(is_known.then(|| found.nlink())))
    }

    /// Puts a copy of `object` in the place of its name.
    pub(in crate::supervise) fn own(
        &self,
        call: &str,
        object: &OwnedFd,
        found: &Metadata,
        named: &Named,
        bytes: Bytes,
    ) -> Result<OwnedFd, Refused> {
        let refused = |why: String| {
            let path = named.path().unwrap_or_default();
            Refused::Rule(violation("write", call, &path, format!("{RULE}, {why}")))
        };
        let cannot = |error: io::Error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) | None => {
                refused(format!("of which no copy can be made: {error}"))
            }
            Some(_) => error.into(),
        };
        self.caller.still_waits()?;
        let source = File::from(syscalls::reopen(object.as_fd(), READING).map_err(cannot)?);
        let (aside, copy) = make_aside(named).map_err(cannot)?;
        let filled = match bytes {
            Bytes::Kept => fill(&source, &copy, found.len()),
            Bytes::Gone => Ok(true),
        };
        let placed = match filled {
            Ok(true) => dress(&source, &copy, found)
                .and_then(|()| put(named, &aside, found))
                .map_err(cannot),
            Ok(false) => Err(refused(format!("and of more than {MOST_COPIED} bytes"))),
            Err(error) => Err(cannot(error)),
        };
        match placed {
            Ok(()) => self.supervisor.shared.unlinked(found),
            // The first error is the one to tell.
            Err(_) => drop(syscalls::unlink_at(named.parent.as_fd(), &aside, 0)),
        }
        placed.map(|()| copy.into())
    }
}

/// How a file is opened whose bytes are copied: nobody's lease makes us wait.
const READING: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Opens the directory of `path`.
fn named_as(path: &Path) -> Option<Named> {
    let parent = syscalls::open_path(path.parent()?, libc::O_PATH, syscalls::NO_LINKS).ok()?;
    Some(Named { parent, name: path.file_name()?.to_owned(), wants_directory: false })
}

/// Says whether the object with this identity is what a name leads to.
fn is_at(named: &Named, found: &Metadata) -> bool {
    let lookup = libc::O_PATH | libc::O_NOFOLLOW;
    let there = syscalls::create_at(named.parent.as_fd(), named.name(), lookup, 0);
    let there = there.and_then(|there| resolve::metadata(&there));
    there.is_ok_and(|there| repository::identity(&there) == repository::identity(found))
}

/// Makes an empty file beside `named`, under a name that no command can use.
fn make_aside(named: &Named) -> io::Result<(PathBuf, File)> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    for number in 0..MOST_ASIDE {
        // Not the whole name, which may be as long as names can be.
        let aside = PathBuf::from(format!("copy{}{number}", inspection::OWN));
        match syscalls::create_at(named.parent.as_fd(), &aside, flags, 0o600) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            made => return Ok((aside, made?.into())),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

/// Gives a copy the bytes of its source; says whether it has them, which it has not where they are too many.
fn fill(source: &File, copy: &File, length: u64) -> io::Result<bool> {
    if syscalls::clone_file(source.as_fd(), copy.as_fd()).is_ok() {
        return Ok(true);
    }
    if length > MOST_COPIED {
        return Ok(false);
    }
    let mut limited = io::Read::take(source, MOST_COPIED);
    io::copy(&mut limited, &mut &*copy).map(|_| true)
}

/// Gives a copy what its source has beside its bytes, as far as we may: owner, mode, attributes and times.
fn dress(source: &File, copy: &File, found: &Metadata) -> io::Result<()> {
    // A file of another owner, or of a group that we are not in, becomes ours.
    let _ = syscalls::set_owner(copy.as_fd(), found.uid(), found.gid());
    // Writing takes the set-id bits away.
    copy.set_permissions(Permissions::from_mode(found.permissions().mode() & 0o1777))?;
    let path = resolve::own_path(copy.as_fd());
    for (name, value) in syscalls::attributes(source.as_fd()).unwrap_or_default() {
        // Those of the system are not ours to set.
        let _ = syscalls::set_attribute(&path, &name, &value, 0);
    }
    let mut times = std::fs::FileTimes::new();
    if let Ok(time) = found.accessed() {
        times = times.set_accessed(time);
    }
    if let Ok(time) = found.modified() {
        times = times.set_modified(time);
    }
    copy.set_times(times)
}

/// Puts the file `aside` in the place of the one with this identity, and takes that name away from it.
fn put(named: &Named, aside: &Path, found: &Metadata) -> io::Result<()> {
    let here = named.parent.as_fd();
    let exchange = || syscalls::rename_at(here, aside, here, named.name(), libc::RENAME_EXCHANGE);
    match exchange() {
        Ok(()) => {}
        // The file system cannot.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && is_at(named, found) => {
            return syscalls::rename_at(here, aside, here, named.name(), 0);
        }
        Err(error) => return Err(error),
    }
    let before = Named {
        parent: named.parent.try_clone()?,
        name: aside.as_os_str().to_owned(),
        wants_directory: false,
    };
    if is_at(&before, found) {
        return syscalls::unlink_at(here, aside, 0);
    }
    // Somebody has put another file there meanwhile: it is not ours to replace.
    exchange()?;
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}
