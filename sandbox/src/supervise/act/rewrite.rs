//! The configuration of a git directory that was there: git makes a new one and renames it into place. What comes there is a
//! file of ours with the same text, if that changes nothing but harmless keys.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::super::guard::{Word, violation};
use super::super::resolve::{self, Named};
use super::super::{Refused, configuration, inspection, repository};
use super::Performer;
use stockade_kernel::syscalls;

/// The name under which git writes a new configuration (`git-config(1)`).
const LOCK: &str = "config.lock";

const CONFIGURATION: &str = "config";

impl Performer<'_> {
    /// Does what renaming `from` to `to` would, if that is to replace the configuration of a git directory that was there;
    /// says whether it is.
    pub(super) fn rewrite(&self, from: &Named, to: &Named) -> Result<bool, Refused> {
        if from.name != LOCK || to.name != CONFIGURATION {
            return Ok(false);
        }
        let path = to.path()?;
        let place = |named: &Named| {
            Ok::<_, io::Error>(repository::identity(&resolve::metadata(&named.parent)?))
        };
        let is_here = self.supervisor.guard.is_in_region(&path) && place(from)? == place(to)?;
        let Some(file) = self.configuration(to, &path)?.filter(|_| is_here) else {
            return Ok(false);
        };
        let refused = |rule: String| Refused::Rule(violation("write", "rename", &path, rule));
        match self.supervisor.guard.judge_unprotected(&path) {
            Word::Free => {}
            Word::Forbidden(rule) => return Err(refused(rule)),
            Word::Outside => return Ok(false),
        }
        let key = |key: &str| refused(format!("builtin: git configuration `{key}`"));
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let lock = match syscalls::create_at(from.parent.as_fd(), from.name(), flags, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(key(configuration::UNREADABLE));
            }
            lock => lock?,
        };
        // The lock of another process is for that process to rename.
        self.permit_lock("rename", &from.parent, &from.path()?, &lock)?;
        let made = resolve::metadata(&lock)?;
        let new = match made.is_file().then(|| inspection::text(lock.into())) {
            Some(Ok(new)) => new,
            Some(Err(_)) | None => return Err(key(configuration::UNREADABLE)),
        };
        let before = repository::identity(&file.metadata()?);
        if let Some(changed) = self.supervisor.keys.changed(&inspection::text(file)?, &new) {
            return Err(key(&changed));
        }
        self.caller.still_waits()?;
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        // Somebody who asks for no lock may have changed it meanwhile.
        let now = syscalls::create_at(to.parent.as_fd(), to.name(), lookup, 0)?;
        if repository::identity(&resolve::metadata(&now)?) != before {
            return Err(Refused::Errno(libc::EAGAIN));
        }
        inspection::renew(&to.parent, CONFIGURATION, &new)?;
        let now = syscalls::create_at(from.parent.as_fd(), from.name(), lookup, 0)?;
        if repository::identity(&resolve::metadata(&now)?) == repository::identity(&made) {
            syscalls::unlink_at(from.parent.as_fd(), from.name(), 0)?;
            self.supervisor.made.forget(&made);
        }
        Ok(true)
    }

    /// Opens the configuration at `to`, if it is one that was there before the run.
    fn configuration(&self, to: &Named, path: &Path) -> io::Result<Option<File>> {
        let above = path.parent().unwrap_or(path);
        if !repository::is_git(&to.parent, above)?
            || self.supervisor.made.holds_repository(&to.parent)?
        {
            return Ok(None);
        }
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        match syscalls::create_at(to.parent.as_fd(), to.name(), flags, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            // A link leads elsewhere.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Ok(None),
            file => {
                let file = File::from(file?);
                Ok(file.metadata()?.is_file().then_some(file))
            }
        }
    }
}
