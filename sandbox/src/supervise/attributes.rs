//! Calls that change mode, owner, times and extended attributes: those of a file with several names are changed for one of them.

use std::ffi::CString;
use std::fs::{Metadata, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::act::{Bytes, Performer};
use super::guard::{Act, Word, violation};
use super::{CallResult, Refused, resolve};
use stockade_kernel::seccomp::FCHMODAT2;
use stockade_kernel::syscalls::{self, MOST_ATTRIBUTE};

/// Leaves an owner or a group as it is.
const AS_IT_IS: u32 = u32::MAX;

/// Change of attributes that a call asks for.
enum Change {
    Mode(u32),
    Owner(u32, u32),
    /// To now without any.
    Times(Option<[libc::timespec; 2]>),
    Set {
        name: CString,
        value: Vec<u8>,
        flags: i32,
    },
    Remove {
        name: CString,
    },
}

impl Performer<'_> {
    /// Performs a call that changes attributes; any other call is refused.
    pub(super) fn change_attributes(&self, number: i32) -> Result<CallResult, Refused> {
        let cwd = libc::AT_FDCWD;
        let (at, bits) = (|index| self.caller.number(index), |index| self.caller.bits(index));
        let (follow, stay) = (0, libc::AT_SYMLINK_NOFOLLOW);
        let named = |base: i32, path: usize, flags: i32| self.attributed(base, path, flags);
        let (call, object, change) = match libc::c_long::from(number) {
            libc::SYS_fchmod => ("chmod", self.opened(at(0))?, Change::Mode(bits(1))),
            libc::SYS_fchmodat => ("chmod", named(at(0), 1, follow)?, Change::Mode(bits(2))),
            FCHMODAT2 => ("chmod", named(at(0), 1, at(3))?, Change::Mode(bits(2))),
            libc::SYS_fchown => ("chown", self.opened(at(0))?, Change::Owner(bits(1), bits(2))),
            libc::SYS_fchownat => {
                ("chown", named(at(0), 1, at(4))?, Change::Owner(bits(2), bits(3)))
            }
            libc::SYS_utimensat => {
                let object = match self.caller.argument(1) {
                    0 if at(0) == cwd => return Err(Refused::Errno(libc::EFAULT)),
                    0 => self.opened(at(0))?,
                    _ => named(at(0), 1, at(3))?,
                };
                ("utimensat", object, Change::Times(self.times(2, 1)?))
            }
            libc::SYS_setxattr => ("setxattr", named(cwd, 0, follow)?, self.attribute()?),
            libc::SYS_lsetxattr => ("setxattr", named(cwd, 0, stay)?, self.attribute()?),
            libc::SYS_fsetxattr => ("setxattr", self.opened(at(0))?, self.attribute()?),
            libc::SYS_removexattr => ("removexattr", named(cwd, 0, follow)?, self.removed()?),
            libc::SYS_lremovexattr => ("removexattr", named(cwd, 0, stay)?, self.removed()?),
            libc::SYS_fremovexattr => ("removexattr", self.opened(at(0))?, self.removed()?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => ("chmod", named(cwd, 0, follow)?, Change::Mode(bits(1))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => ("chown", named(cwd, 0, follow)?, Change::Owner(bits(1), bits(2))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => ("chown", named(cwd, 0, stay)?, Change::Owner(bits(1), bits(2))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => ("utime", named(cwd, 0, follow)?, Change::Times(self.seconds(1)?)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => {
                ("utimes", named(cwd, 0, follow)?, Change::Times(self.times(1, 1_000)?))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => {
                ("utimes", named(at(0), 1, follow)?, Change::Times(self.times(2, 1_000)?))
            }
            _ => return Err(Refused::Errno(libc::EPERM)),
        };
        self.change(call, &object, &change)
    }

    /// Opens what a descriptor of the caller refers to.
    fn opened(&self, number: i32) -> Result<OwnedFd, Refused> {
        match number {
            0.. => Ok(self.caller.directory(number)?),
            _ => Err(Refused::Errno(libc::EBADF)),
        }
    }

    /// Opens what a call names by a directory, a path and `AT_*` flags.
    fn attributed(&self, base: i32, path: usize, flags: i32) -> Result<OwnedFd, Refused> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Refused::Errno(libc::EINVAL));
        }
        if flags & libc::AT_EMPTY_PATH != 0 && self.caller.path(path)?.as_os_str().is_empty() {
            return Ok(self.caller.directory(base)?);
        }
        let stays = flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let lookup = if stays { libc::O_PATH | libc::O_NOFOLLOW } else { libc::O_PATH };
        self.existing(self.named(base, path)?, lookup)
    }

    /// Reads two times of seconds and parts of a second, each `unit` nanoseconds long.
    fn times(&self, index: usize, unit: i64) -> Result<Option<[libc::timespec; 2]>, Refused> {
        if self.caller.argument(index) == 0 {
            return Ok(None);
        }
        let invalid = || Refused::Errno(libc::EINVAL);
        let words = self.words(index, 4)?;
        let [first, first_part, second, second_part] = words.as_slice() else {
            return Err(invalid());
        };
        let time = |seconds: &i64, part: &i64| {
            // Values with a special meaning as nanoseconds have none as microseconds.
            let is_part = unit == 1 || (0..1_000_000).contains(part);
            let part = part.checked_mul(unit).filter(|_| is_part).ok_or_else(invalid)?;
            Ok::<_, Refused>(libc::timespec { tv_sec: *seconds, tv_nsec: part })
        };
        Ok(Some([time(first, first_part)?, time(second, second_part)?]))
    }

    /// Reads two times of whole seconds.
    #[cfg(target_arch = "x86_64")]
    fn seconds(&self, index: usize) -> Result<Option<[libc::timespec; 2]>, Refused> {
        if self.caller.argument(index) == 0 {
            return Ok(None);
        }
        let words = self.words(index, 2)?;
        let [first, second] = words.as_slice() else { return Err(Refused::Errno(libc::EINVAL)) };
        Ok(Some([*first, *second].map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 })))
    }

    fn words(&self, index: usize, count: usize) -> Result<Vec<i64>, Refused> {
        const WORD: usize = size_of::<i64>();
        let bytes = self.caller.bytes(index, count.saturating_mul(WORD))?;
        let words = bytes.chunks_exact(WORD).filter_map(|word| word.try_into().ok());
        Ok(words.map(i64::from_ne_bytes).collect())
    }

    fn attribute_name(&self) -> Result<CString, Refused> {
        let name = self.caller.path(1)?.into_os_string().into_vec();
        if name.is_empty() || name.len() > 255 {
            return Err(Refused::Errno(libc::ERANGE));
        }
        CString::new(name).map_err(|_| Refused::Errno(libc::EINVAL))
    }

    fn attribute(&self) -> Result<Change, Refused> {
        let name = self.attribute_name()?;
        let length = usize::try_from(self.caller.argument(3)).unwrap_or(usize::MAX);
        if length > MOST_ATTRIBUTE {
            return Err(Refused::Errno(libc::E2BIG));
        }
        let value = match length {
            0 => Vec::new(),
            length => self.caller.bytes(2, length)?,
        };
        Ok(Change::Set { name, value, flags: self.caller.number(4) })
    }

    fn removed(&self) -> Result<Change, Refused> {
        Ok(Change::Remove { name: self.attribute_name()? })
    }

    fn change(&self, call: &str, object: &OwnedFd, change: &Change) -> Result<CallResult, Refused> {
        let found = resolve::metadata(object)?;
        let is_named = (found.is_file() || found.is_dir()) && found.nlink() > 0;
        // Objects handed over as a stream are on a mount of the host, where nothing else refuses this.
        if is_named {
            let path = resolve::real_path(object.as_fd())?;
            if self.supervisor.guard.judge(Act::Make, &path) == Word::Outside {
                return Err(Refused::Errno(libc::EROFS));
            }
            if let Some(rule) = self.supervisor.guard.keeps_attributes(&path) {
                return Err(Refused::Rule(violation("write", call, &path, rule)));
            }
        }
        let copy = match self.may_change(object, &found) {
            true => match self.shared_name(call, object, &found)? {
                Some(_) if change.is_nothing(&found) => return Ok(CallResult::Value(0)),
                Some(named) => Some(self.own(call, object, &found, &named, Bytes::Kept)?),
                None => None,
            },
            // The kernel refuses it.
            false => None,
        };
        self.caller.still_waits()?;
        change.perform(copy.as_ref().unwrap_or(object), &found)?;
        Ok(CallResult::Value(0))
    }

    /// Says whether the caller could change anything about a file: whoever owns it, or may write it.
    fn may_change(&self, object: &OwnedFd, found: &Metadata) -> bool {
        found.uid() == syscalls::ids().user || syscalls::may_write(object.as_fd()).is_ok()
    }
}

impl Change {
    /// Says whether a file is already as the change would have it.
    fn is_nothing(&self, found: &Metadata) -> bool {
        match self {
            Change::Mode(mode) => found.permissions().mode() & 0o7777 == *mode & 0o7777,
            Change::Owner(user, group) => {
                [AS_IT_IS, found.uid()].contains(user) && [AS_IT_IS, found.gid()].contains(group)
            }
            Change::Times(_) | Change::Set { .. } | Change::Remove { .. } => false,
        }
    }

    fn perform(&self, object: &OwnedFd, found: &Metadata) -> Result<(), Refused> {
        let path = resolve::own_path(object.as_fd());
        let is_link = found.is_symlink();
        match self {
            // Links have neither.
            Change::Mode(_) | Change::Set { .. } | Change::Remove { .. } if is_link => {
                return Err(Refused::Errno(libc::EOPNOTSUPP));
            }
            Change::Mode(mode) => {
                std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
            }
            Change::Owner(user, group) => syscalls::set_owner(object.as_fd(), *user, *group)?,
            Change::Times(times) => syscalls::set_times(object.as_fd(), times.as_ref())?,
            Change::Set { name, value, flags } => {
                syscalls::set_attribute(&path, name, value, *flags)?;
            }
            Change::Remove { name } => syscalls::remove_attribute(&path, name)?,
        }
        Ok(())
    }
}
