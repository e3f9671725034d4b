//! Removes what a run made, whatever its form: no recursion, no path deeper than two levels, five descriptors.
//!
//! A directory that lies in another is moved up beside it and emptied there, so depth costs nothing. Links are
//! never followed: each object is named by one component, seen from the descriptor of its directory.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};

use stockade_base::hex;

/// Rights that are needed to empty a directory, or to move it.
const OPEN: Mode = Mode::RWXU;

/// Removes `path` with everything in it, until `until`. Returns whether it is gone; what is left can be removed later.
pub(super) fn remove(path: &Path, until: Instant) -> bool {
    let emptied = open(CWD, path).and_then(|top| empty(top, until));
    match emptied {
        Ok(()) => std::fs::remove_dir(path).is_ok(),
        Err(_) => std::fs::remove_file(path).is_ok(), // it may be no directory
    }
}

/// A removal that goes on.
struct Removal {
    top: OwnedFd,
    until: Instant,
    /// Begins the names of what is moved up; no run can know it.
    mark: String,
    /// How many were moved up.
    moved: u64,
    /// Something was removed or moved since it was last looked at.
    goes_on: bool,
}

fn empty(top: OwnedFd, until: Instant) -> io::Result<()> {
    let mut random = [0; 16];
    stockade_base::random::fill(&mut random).map_err(|_| io::Error::other("no random bytes"))?;
    let mark = format!(".moved-{}", hex(&random));
    let mut removal = Removal { top, until, mark, moved: 0, goes_on: true };
    // Each round removes or moves up at least one object, and nothing comes to be.
    while removal.goes_on {
        removal.goes_on = false;
        if removal.round()? {
            return Ok(());
        }
    }
    Err(io::Error::other("something cannot be removed"))
}

impl Removal {
    /// Goes once through the top; returns whether nothing is in it.
    fn round(&mut self) -> io::Result<bool> {
        let mut is_empty = true;
        for entry in Dir::read_from(&self.top)? {
            let entry = entry?;
            if is_entry(entry.file_name()) {
                is_empty = false;
                self.take(entry.file_name())?;
            }
        }
        Ok(is_empty)
    }

    /// Removes an object in the top, after moving up the directories in it that are not empty.
    fn take(&mut self, name: &CStr) -> io::Result<()> {
        self.check()?;
        if removed(&self.top, name) {
            self.goes_on = true;
            return Ok(());
        }
        let Ok(directory) = open(&self.top, name) else { return Ok(()) };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let inner = entry.file_name();
            if is_entry(inner) {
                self.check()?;
                self.goes_on |= removed(&directory, inner) || self.move_up(&directory, inner);
            }
        }
        self.goes_on |= removed(&self.top, name);
        Ok(())
    }

    fn move_up(&mut self, directory: &OwnedFd, name: &CStr) -> bool {
        // The owner needs rights on what is moved.
        if open(directory, name).is_err() {
            return false;
        }
        let to = format!("{}-{}", self.mark, self.moved);
        self.moved += 1;
        rustix::fs::renameat(directory, name, &self.top, to).is_ok()
    }

    fn check(&self) -> io::Result<()> {
        if Instant::now() < self.until { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

fn is_entry(name: &CStr) -> bool {
    name != c"." && name != c".."
}

/// Removes a file, a link, or a directory in which nothing is.
fn removed(directory: &OwnedFd, name: &CStr) -> bool {
    let is_gone = |flags| rustix::fs::unlinkat(directory, name, flags).is_ok();
    is_gone(AtFlags::empty()) || is_gone(AtFlags::REMOVEDIR)
}

/// Opens a directory, no link, and gives its owner all rights on it.
fn open(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(&at, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            let closed = rustix::fs::openat(&at, name, flags | OFlags::PATH, Mode::empty())?;
            rustix::fs::chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), OPEN)?;
            rustix::fs::openat(&closed, c".", flags | OFlags::RDONLY, Mode::empty())?
        }
        opened => opened?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
    if !mode.contains(OPEN) {
        rustix::fs::fchmod(&opened, OPEN)?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;
    use stockade_scratch::Folder;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(300)
    }

    /// Makes `levels` directories, one in another, without ever naming a long path.
    fn chain(path: &Path, levels: u32) {
        fs::create_dir(path).unwrap();
        let mut here = open(CWD, path).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&here, c"d", Mode::RWXU).unwrap();
            here = open(&here, c"d").unwrap();
        }
    }

    #[test]
    fn twenty_thousand_levels_are_removed() {
        let folder = Folder::new();
        let path = folder.path().join("deep");
        chain(&path, 20_000);
        assert!(remove(&path, soon()));
        assert!(!path.exists());
    }

    #[test]
    fn closed_directories_are_removed_and_links_are_not_followed() {
        let folder = Folder::new();
        let [path, kept] = ["run", "kept"].map(|name| folder.path().join(name));
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, path.join("a/link")).unwrap();
        std::os::unix::fs::symlink(&kept, path.join("link")).unwrap();
        for closed in ["a/b/c", "a/b", "a", ""] {
            fs::set_permissions(path.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        assert!(remove(&path, soon()));
        assert_eq!((path.exists(), fs::read(kept.join("file")).unwrap()), (false, b"x".to_vec()));
    }

    #[test]
    fn without_time_it_stays_and_goes_later() {
        let folder = Folder::new();
        let path = folder.path().join("left");
        fs::create_dir_all(path.join("a/b")).unwrap();
        assert_eq!((remove(&path, Instant::now()), path.exists()), (false, true));
        assert_eq!((remove(&path, soon()), path.exists()), (true, false));
    }
}
