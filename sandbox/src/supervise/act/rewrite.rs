//! The configuration of a git directory that was there: git makes a new one and renames it into place. It keeps its file,
//! which nothing but this writes, and gets the new text if that changes nothing but harmless keys.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::super::guard::{Word, violation};
use super::super::resolve::{self, Named};
use super::super::{Refused, configuration, inspection, repository};
use super::Performer;
use crate::linux::syscalls;

/// The name under which git writes a new configuration (`git-config(1)`).
const LOCK: &str = "config.lock";

impl Performer<'_> {
    /// Does what renaming `from` to `to` would, if that is to replace the configuration of a git directory that was there;
    /// says whether it is.
    pub(super) fn rewrite(&self, from: &Named, to: &Named) -> Result<bool, Refused> {
        if from.name != LOCK || to.name != "config" {
            return Ok(false);
        }
        let path = to.path()?;
        let place = |named: &Named| {
            Ok::<_, io::Error>(repository::identity(&resolve::metadata(&named.parent)?))
        };
        if !self.supervisor.guard.is_in_region(&path) || place(from)? != place(to)? {
            return Ok(false);
        }
        let Some(file) = self.configuration(to, &path)? else { return Ok(false) };
        let refused = |rule: String| Refused::Rule(violation("write", "rename", &path, rule));
        match self.supervisor.guard.judge_unprotected(&path) {
            Word::Free => {}
            Word::Forbidden(rule) => return Err(refused(rule)),
            Word::Outside => return Ok(false),
        }
        let key = |key: &str| refused(format!("builtin: git configuration `{key}`"));
        let new = match inspection::read(&from.parent, LOCK) {
            Ok(new) => new.ok_or(Refused::Errno(libc::ENOENT))?,
            Err(_) => return Err(key(configuration::UNREADABLE)),
        };
        let old = inspection::text(&file)?;
        if let Some(changed) = self.supervisor.keys.changed(&old, &new) {
            return Err(key(&changed));
        }
        self.caller.still_waits()?;
        replace(&file, &old, &new)?;
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let lock = syscalls::create_at(from.parent.as_fd(), from.name(), lookup, 0)?;
        syscalls::unlink_at(from.parent.as_fd(), from.name(), 0)?;
        self.supervisor.made.forget(&resolve::metadata(&lock)?);
        Ok(true)
    }

    /// Opens the configuration at `to`, if it is one that was there before the run: what covers it does not count.
    fn configuration(&self, to: &Named, path: &Path) -> io::Result<Option<File>> {
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let there = match syscalls::create_at(to.parent.as_fd(), to.name(), lookup, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            there => there?,
        };
        let found = resolve::metadata(&there)?;
        // Another name of the file would be changed, too.
        if !found.is_file() || found.nlink() != 1 {
            return Ok(None);
        }
        let is_it = |file: &&OwnedFd| {
            let one = resolve::metadata(file).map(|held| repository::identity(&held));
            one.is_ok_and(|one| one == repository::identity(&found))
        };
        if let Some(held) = self.supervisor.held.git_configurations.iter().find(is_it) {
            return held.try_clone().map(|held| Some(held.into()));
        }
        let above = path.parent().unwrap_or(path);
        if !repository::is_git(&to.parent, above)? || self.supervisor.made.holds(&to.parent)? {
            return Ok(None);
        }
        match syscalls::reopen(there.as_fd(), libc::O_RDWR | libc::O_NONBLOCK) {
            // It is protected, and not one of those that are held: refused as any other.
            Err(error) if error.raw_os_error() == Some(libc::EROFS) => Ok(None),
            file => Ok(Some(file?.into())),
        }
    }
}

/// Writes `new` in the place of `old`. Where that fails, such as on a full disk, `old` is written again.
fn replace(file: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
    let write = |text: &[u8]| {
        file.write_all_at(text, 0)?;
        file.set_len(text.len() as u64)
    };
    write(new).inspect_err(|_| {
        // What was there has its blocks still; the first error is the one to tell.
        let _ = write(old);
    })
}
