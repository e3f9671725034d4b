//! The calls themselves, performed on our own descriptors.

mod bait;
mod moves;
mod noted;
mod own;
mod rewrite;
mod settled;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::guard::{Act, Guard, Word, violation};
use super::resolve::{self, Link, Named};
use super::{Blocking, CallResult, Refused, Supervisor};
use super::{fold, history, repository};
pub(super) use own::Bytes;
use stockade_kernel::syscalls::{self, Notification};

/// Links followed at the end of a path.
const MOST_LINKS: u32 = 40;

/// The rule of a write that no rule grants.
const OUTSIDE: &str = "builtin: outside of the writable directories";

/// The rule of a write to a setting of the kernel.
const KERNEL: &str = "builtin: kernel settings";

/// One call with the supervisor that performs it.
pub(super) struct Performer<'a> {
    pub(super) supervisor: &'a Supervisor,
    pub(super) caller: Caller<'a>,
    /// Watched names that are links on the way, with their texts.
    passed: RefCell<Vec<(PathBuf, OsString)>>,
}

/// Path among the arguments of a call: the directory from which it goes, and the index of the path.
#[derive(Clone, Copy)]
struct Given {
    base: i32,
    path: usize,
}

/// Performs `call`.
pub(super) fn perform(supervisor: &Supervisor, call: &Notification) -> Result<CallResult, Refused> {
    let caller = Caller::new(supervisor.listener.as_fd(), call);
    // Calls that the filter refuses by number and arguments come here only to be reported.
    if let Some(refused) = supervisor.refused_call(call) {
        return Err(refused);
    }
    let at = Performer { supervisor, caller, passed: RefCell::default() };
    #[cfg(target_arch = "x86_64")]
    let cwd = libc::AT_FDCWD;
    let number = |index: usize| at.caller.number(index);
    let from = |base: i32, path: usize| Given { base, path };
    match libc::c_long::from(call.number) {
        libc::SYS_openat => at.open(number(0), 1, number(2), at.caller.bits(3)),
        libc::SYS_mkdirat => at.make_directory(number(0), 1, at.caller.bits(2)),
        libc::SYS_mknodat => at.make_node(number(0), 1, at.caller.bits(2)),
        libc::SYS_symlinkat => at.symlink(0, number(1), 2),
        libc::SYS_linkat => at.link(from(number(0), 1), from(number(2), 3), number(4)),
        libc::SYS_renameat2 => at.rename(from(number(0), 1), from(number(2), 3), at.caller.bits(4)),
        libc::SYS_truncate => at.truncate(0),
        libc::SYS_connect => at.connect(),
        libc::SYS_bind => at.bind(),
        libc::SYS_unlinkat => at.unlink(number(0), 1, number(2)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink => at.unlink(cwd, 0, 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rmdir => at.unlink(cwd, 0, libc::AT_REMOVEDIR),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => at.open(cwd, 0, number(1), at.caller.bits(2)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => {
            at.open(cwd, 0, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, at.caller.bits(1))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => at.make_directory(cwd, 0, at.caller.bits(1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod => at.make_node(cwd, 0, at.caller.bits(1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink => at.symlink(0, cwd, 1),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link => at.link(from(cwd, 0), from(cwd, 1), 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => at.rename(from(cwd, 0), from(cwd, 1), 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat => at.rename(from(number(0), 1), from(number(2), 3), 0),
        _ => at.change_attributes(call.number),
    }
}

/// Performs an act that may block.
pub(super) fn block(act: &Blocking) -> io::Result<CallResult> {
    match act {
        Blocking::Open { object, flags } => {
            let file = reopen(object, *flags)?;
            Ok(CallResult::Descriptor { file, close_on_exec: flags & libc::O_CLOEXEC != 0 })
        }
        Blocking::Truncate { object, length } => {
            File::from(reopen(object, libc::O_WRONLY)?).set_len(*length)?;
            Ok(CallResult::Value(0))
        }
        Blocking::Connect { socket, address, object: _held } => {
            syscalls::connect(socket.as_fd(), address)?;
            Ok(CallResult::Value(0))
        }
    }
}

/// Opens an object that is held, with the flags of a caller.
fn reopen(object: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
    let kept = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW) | libc::O_NOCTTY;
    syscalls::reopen(object.as_fd(), kept)
}

/// Opens a file like [`reopen`], but fails where that would wait for whoever holds a lease on it (`fcntl(2)`).
fn reopen_at_once(object: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
    let file = reopen(object, flags | libc::O_NONBLOCK)?;
    if flags & (libc::O_NONBLOCK | libc::O_PATH) == 0 {
        // Flags that may be changed later, as the caller gave them.
        let kept = flags & (libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME);
        syscalls::set_status_flags(file.as_fd(), kept)?;
    }
    Ok(file)
}

/// Says whether an act failed only because it would wait.
fn would_wait<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

impl Performer<'_> {
    /// Resolves the path in argument `path` from the directory `base`.
    pub(super) fn named(&self, base: i32, path: usize) -> Result<Named, Refused> {
        let path = self.caller.path(path)?;
        if let Some(own) = &self.supervisor.shared_memory
            && let Ok(name) = path.strip_prefix("/dev/shm")
        {
            let directory = syscalls::open_path(own, libc::O_PATH, syscalls::NO_LINKS)?;
            let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
            return Ok(resolve::parent(&self.caller, &directory, name)?);
        }
        let directory = if path.is_absolute() {
            syscalls::open_path(Path::new("/"), libc::O_PATH, 0)?
        } else {
            self.caller.directory(base)?
        };
        Ok(resolve::parent(&self.caller, &directory, &path)?)
    }

    /// Judges an act at `path`; `held` is what it would change, the object or its directory.
    pub(super) fn permit(
        &self,
        act: Act,
        call: &str,
        path: &Path,
        held: &OwnedFd,
    ) -> Result<(), Refused> {
        self.permit_by(|guard, path| guard.judge(act, path), call, path, held)
    }

    /// The same, by what `word` says.
    pub(super) fn permit_by(
        &self,
        word: impl Fn(&Guard, &Path) -> Word,
        call: &str,
        path: &Path,
        held: &OwnedFd,
    ) -> Result<(), Refused> {
        match word(&self.supervisor.guard, path) {
            Word::Free => match self.supervisor.numerous.refuses(path) {
                // In a directory of the run's own no later run meets them.
                Some(rule) if self.supervisor.guard.is_in_region(path) => {
                    Err(Refused::Rule(violation("write", call, path, rule)))
                }
                Some(_) | None => Ok(()),
            },
            Word::Forbidden(rule) => Err(Refused::Rule(violation("write", call, path, rule))),
            Word::Outside => Err(Self::outside(call, path, held)),
        }
    }

    /// Returns the refusal of a write outside of the regions. Where the file's own rights forbid it anyway,
    /// it is the kernel's and no rule's.
    fn outside(call: &str, path: &Path, held: &OwnedFd) -> Refused {
        match syscalls::may_write(held.as_fd()).err().and_then(|error| error.raw_os_error()) {
            Some(libc::EROFS) | None => {
                let mut refused = violation("write", call, path, OUTSIDE.to_owned());
                refused.errno = libc::EROFS;
                Refused::Rule(refused)
            }
            Some(number) => Refused::Errno(number),
        }
    }

    pub(super) fn permit_in_repository(
        &self,
        act: Act,
        call: &str,
        parent: &OwnedFd,
        path: &Path,
    ) -> Result<(), Refused> {
        if !repository::concerns(path) || !self.supervisor.guard.is_in_region(path) {
            return Ok(());
        }
        match repository::forbids(&self.supervisor.made, act, parent, path)? {
            None => Ok(()),
            Some(rule) => Err(Refused::Rule(violation("write", call, path, rule.to_owned()))),
        }
    }

    /// Judges what would take the file at `path` from the project's history.
    pub(super) fn permit_loss(
        &self,
        call: &str,
        path: &Path,
        found: &Metadata,
    ) -> Result<(), Refused> {
        if self.supervisor.history.holds(path, found) {
            return Err(Refused::Rule(violation("write", call, path, history::RULE.to_owned())));
        }
        Ok(())
    }

    /// Judges an act on the lock of a configuration, which may be that of somebody else.
    pub(super) fn permit_lock(
        &self,
        call: &str,
        parent: &OwnedFd,
        path: &Path,
        object: &OwnedFd,
    ) -> Result<(), Refused> {
        let made = &self.supervisor.made;
        if self.supervisor.guard.is_in_region(path)
            && repository::is_lock_of_another(made, parent, path, object)?
        {
            let rule = repository::LOCK.to_owned();
            return Err(Refused::Rule(violation("write", call, path, rule)));
        }
        Ok(())
    }

    /// Judges writing an object that exists, wherever it lies now, and writes it down if that may be.
    fn permit_object(&self, call: &str, object: &OwnedFd) -> Result<(), Refused> {
        self.judge_object(call, object)?;
        self.note_object(call, object)
    }

    fn judge_object(&self, call: &str, object: &OwnedFd) -> Result<(), Refused> {
        let path = resolve::real_path(object.as_fd())?;
        self.permit(Act::Make, call, &path, object)?;
        let found = resolve::metadata(object)?;
        self.permit_loss(call, &path, &found)?;
        if let Some(rule) = self.supervisor.guard.keeps_by_another_name(&found) {
            return Err(Refused::Rule(violation("write", call, &path, rule.clone())));
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        if !repository::concerns(&path) || !self.supervisor.guard.is_in_region(&path) {
            return Ok(());
        }
        let parent = syscalls::open_path(above, libc::O_PATH, syscalls::NO_LINKS)?;
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let again = syscalls::create_at(parent.as_fd(), Path::new(name), lookup, 0)?;
        let same =
            [object, &again].map(|it| resolve::metadata(it).map(|it| repository::identity(&it)));
        let [one, other] = same;
        // The object was moved meanwhile: nobody knows what it is.
        if one? != other? {
            return Err(Refused::Errno(libc::EACCES));
        }
        self.permit_lock(call, &parent, &path, object)?;
        if fold::reaches(name, OsStr::new(".git")) && !self.supervisor.made.holds(object)? {
            let rule = "builtin: git directory".to_owned();
            return Err(Refused::Rule(violation("write", call, &path, rule)));
        }
        self.permit_in_repository(Act::Make, call, &parent, &path)
    }

    fn is_in_region(&self, named: &Named) -> io::Result<bool> {
        Ok(self.supervisor.guard.is_in_region(&named.path()?))
    }

    /// Fails as the kernel does, before any other reason, where the name exists.
    pub(super) fn is_free(named: &Named) -> Result<(), Refused> {
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        match syscalls::create_at(named.parent.as_fd(), named.name(), lookup, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(Refused::Errno(libc::EEXIST)),
        }
    }

    /// Runs `act` with the caller's file mode creation mask, which the kernel then applies.
    pub(super) fn with_umask<T>(&self, act: impl FnOnce() -> io::Result<T>) -> Result<T, Refused> {
        let mask = self.caller.umask()?;
        self.caller.still_waits()?;
        let ours = syscalls::umask(mask);
        let result = act();
        syscalls::umask(ours);
        Ok(result?)
    }

    fn open(&self, base: i32, path: usize, flags: i32, mode: u32) -> Result<CallResult, Refused> {
        // With O_PATH the kernel looks at no other flag but these.
        let flags = if flags & libc::O_PATH == 0 {
            flags
        } else {
            flags & (libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW)
        };
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let mut named = self.named(base, path)?;
        for _ in 0..MOST_LINKS {
            let object = match self.final_object(&named, flags)? {
                Final::Object(object) => object,
                Final::Descriptor(object) => match self.given_stream(&object, flags)? {
                    Some(file) => return Ok(CallResult::Descriptor { file, close_on_exec }),
                    None => object,
                },
                Final::Elsewhere(next) => {
                    named = next;
                    continue;
                }
                Final::Nothing if flags & libc::O_CREAT == 0 => {
                    return Err(Refused::Errno(libc::ENOENT));
                }
                Final::Nothing => match self.create(&named, flags, mode) {
                    // Somebody was faster: what is there now is looked at again.
                    Err(Refused::Errno(libc::EEXIST)) if flags & libc::O_EXCL == 0 => continue,
                    Err(refused) => return Err(refused),
                    Ok(file) => return Ok(CallResult::Descriptor { file, close_on_exec }),
                },
            };
            return self.open_object(&object, &named, flags, mode);
        }
        Err(Refused::Errno(libc::ELOOP))
    }

    /// Looks at what the last component is.
    fn final_object(&self, named: &Named, flags: i32) -> Result<Final, Refused> {
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let object = match syscalls::create_at(named.parent.as_fd(), named.name(), lookup, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Final::Nothing),
            result => result?,
        };
        if !resolve::metadata(&object)?.is_symlink() {
            return Ok(Final::Object(object));
        }
        if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            return Err(Refused::Errno(libc::EEXIST));
        }
        if flags & libc::O_NOFOLLOW != 0 && !named.wants_directory {
            let wants_link = flags & libc::O_PATH != 0;
            return if wants_link {
                Ok(Final::Object(object))
            } else {
                Err(Refused::Errno(libc::ELOOP))
            };
        }
        match resolve::link(&self.caller, &named.parent, &named.name)? {
            Link::Object(object) => Ok(Final::Descriptor(object)),
            Link::Text(text) => {
                self.pass(named, &text)?;
                let text = PathBuf::from(OsStr::from_bytes(&text));
                let mut next = resolve::parent(&self.caller, &named.parent, &text)?;
                next.wants_directory |= named.wants_directory;
                Ok(Final::Elsewhere(next))
            }
        }
    }

    /// Returns a copy of the stream that `object` is, if it is a file that the run was given for writing.
    ///
    /// The same open file and not a new one: it gives no right that the run does not hold.
    fn given_stream(&self, object: &OwnedFd, flags: i32) -> io::Result<Option<OwnedFd>> {
        let wanted = flags & libc::O_ACCMODE;
        if wanted == libc::O_RDONLY || flags & libc::O_PATH != 0 {
            return Ok(None);
        }
        let identity = repository::identity(&resolve::metadata(object)?);
        for stream in &self.supervisor.streams {
            let same = repository::identity(&resolve::metadata(stream)?) == identity;
            let mode = syscalls::status_flags(stream.as_fd())? & libc::O_ACCMODE;
            if same && (mode == wanted || mode == libc::O_RDWR) {
                return stream.try_clone().map(Some);
            }
        }
        Ok(None)
    }

    fn create(&self, named: &Named, flags: i32, mode: u32) -> Result<OwnedFd, Refused> {
        if named.wants_directory {
            return Err(Refused::Errno(libc::EISDIR));
        }
        let judged = self.permit_at(Act::Make, "open", named)?;
        if repository::is_git_name(&named.name) && self.is_in_region(named)? {
            self.supervisor.made.note_file(&named.parent)?;
        }
        self.note_name("open", named)?;
        let path = named.path()?;
        // Exclusive, so that a link put there meanwhile is not followed.
        let flags = flags | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let parent = named.parent.as_fd();
        let file =
            self.with_umask(|| syscalls::create_at(parent, named.name(), flags, mode & 0o7777))?;
        self.settle(&judged, named, || {
            // The file may have another name already, or none.
            drop(syscalls::unlink_at(parent, named.name(), 0));
        })?;
        self.note_again("open", named, &path)?;
        if repository::is_remembered(&named.name) {
            self.supervisor.made.note(&file)?;
        }
        Ok(file)
    }

    fn open_object(
        &self,
        object: &OwnedFd,
        named: &Named,
        flags: i32,
        mode: u32,
    ) -> Result<CallResult, Refused> {
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let found = resolve::metadata(object)?;
        let kind = found.file_type();
        let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if flags & libc::O_CREAT != 0 && !unnamed {
            if flags & libc::O_EXCL != 0 {
                return Err(Refused::Errno(libc::EEXIST));
            }
            if kind.is_dir() {
                return Err(Refused::Errno(libc::EISDIR));
            }
        }
        if named.wants_directory && !kind.is_dir() {
            return Err(Refused::Errno(libc::ENOTDIR));
        }
        // Nothing in `/proc` can be written; for reading, the caller has other rights than we.
        if syscalls::is_in_proc(object.as_fd())? {
            let may = syscalls::may_write(object.as_fd());
            let is_ours = may.is_err_and(|error| error.raw_os_error() == Some(libc::EROFS));
            if is_ours && flags & libc::O_PATH == 0 {
                let path = resolve::real_path(object.as_fd())?;
                let mut refused = violation("write", "open", &path, KERNEL.to_owned());
                refused.errno = libc::EACCES;
                return Err(Refused::Rule(refused));
            }
            return Err(Refused::Errno(libc::EACCES));
        }
        if unnamed {
            let here = Path::new(".");
            let file = self
                .with_umask(|| syscalls::create_at(object.as_fd(), here, flags, mode & 0o7777))?;
            return Ok(CallResult::Descriptor { file, close_on_exec });
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        // A file without a name can be given one only by a call that is judged itself.
        let is_named = kind.is_file() && found.nlink() > 0;
        let mut copy = None;
        if writes && is_named && flags & libc::O_PATH == 0 {
            self.permit_object("open", object)?;
            let bytes = if flags & libc::O_TRUNC == 0 { Bytes::Kept } else { Bytes::Gone };
            copy = self.own_for_writing("open", object, bytes)?;
        }
        let object = copy.as_ref().unwrap_or(object);
        if kind.is_char_device() && found.rdev() == libc::makedev(5, 0) {
            return self.open_terminal(flags);
        }
        let may_block = kind.is_fifo() && flags & (libc::O_NONBLOCK | libc::O_PATH) == 0;
        if may_block && flags & libc::O_ACCMODE != libc::O_RDWR {
            return Ok(CallResult::Wait(Blocking::Open { object: object.try_clone()?, flags }));
        }
        if !kind.is_file() {
            return Ok(CallResult::Descriptor { file: reopen(object, flags)?, close_on_exec });
        }
        let opened = reopen_at_once(object, flags);
        if would_wait(&opened) && flags & libc::O_NONBLOCK == 0 {
            return Ok(CallResult::Wait(Blocking::Open { object: object.try_clone()?, flags }));
        }
        Ok(CallResult::Descriptor { file: opened?, close_on_exec })
    }

    /// `/dev/tty` is the caller's terminal, which is the run's.
    fn open_terminal(&self, flags: i32) -> Result<CallResult, Refused> {
        match &self.supervisor.terminal {
            Some(terminal) => {
                let file = reopen(terminal, flags)?;
                Ok(CallResult::Descriptor { file, close_on_exec: flags & libc::O_CLOEXEC != 0 })
            }
            None => Err(Refused::Errno(libc::ENXIO)),
        }
    }

    fn make_directory(&self, base: i32, path: usize, mode: u32) -> Result<CallResult, Refused> {
        let named = self.named(base, path)?;
        Self::is_free(&named)?;
        let judged = self.permit_at(Act::Make, "mkdir", &named)?;
        let parent = named.parent.as_fd();
        self.with_umask(|| syscalls::make_directory_at(parent, named.name(), mode))?;
        let undo = || drop(syscalls::unlink_at(parent, named.name(), libc::AT_REMOVEDIR));
        self.settle(&judged, &named, undo)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
        // One that is gone again already needs no memory.
        let Ok(directory) = syscalls::create_at(parent, named.name(), flags, 0) else {
            return Ok(CallResult::Value(0));
        };
        // One that holds something was there before: another run gave it the name of ours meanwhile. What cannot be looked into
        // counts as that, too.
        let is_git = repository::is_git_like(&named.name) && self.is_in_region(&named)?;
        let made = &self.supervisor.made;
        match (repository::is_empty(&directory), is_git) {
            // One that cannot be inspected at the end is not made.
            (Ok(true), true) => made.note_repository(&directory).inspect_err(|_| undo())?,
            (Ok(true), false) => made.note(&directory)?,
            (Ok(false), _) | (Err(_), false) => {}
            (Err(error), true) => {
                undo();
                return Err(error.into());
            }
        }
        Ok(CallResult::Value(0))
    }

    fn make_node(&self, base: i32, path: usize, mode: u32) -> Result<CallResult, Refused> {
        let named = self.named(base, path)?;
        if named.wants_directory {
            return Err(Refused::Errno(libc::ENOENT));
        }
        Self::is_free(&named)?;
        let judged = self.permit_at(Act::Make, "mknod", &named)?;
        self.note_name("mknod", &named)?;
        let parent = named.parent.as_fd();
        self.with_umask(|| syscalls::make_node_at(parent, named.name(), mode))?;
        self.settle(&judged, &named, || drop(syscalls::unlink_at(parent, named.name(), 0)))?;
        Ok(CallResult::Value(0))
    }

    /// Opens an object that must exist with these flags of `openat`, which say whether links at the end are followed.
    pub(super) fn existing(&self, mut named: Named, lookup: i32) -> Result<OwnedFd, Refused> {
        for _ in 0..MOST_LINKS {
            match self.final_object(&named, lookup)? {
                Final::Object(object) | Final::Descriptor(object) => return Ok(object),
                Final::Elsewhere(next) => named = next,
                Final::Nothing => return Err(Refused::Errno(libc::ENOENT)),
            }
        }
        Err(Refused::Errno(libc::ELOOP))
    }

    fn truncate(&self, path: usize) -> Result<CallResult, Refused> {
        let object = self.existing(self.named(libc::AT_FDCWD, path)?, libc::O_PATH)?;
        if syscalls::is_in_proc(object.as_fd())? {
            return Err(Refused::Errno(libc::EACCES));
        }
        let kind = resolve::metadata(&object)?.file_type();
        if !kind.is_file() {
            let number = if kind.is_dir() { libc::EISDIR } else { libc::EINVAL };
            return Err(Refused::Errno(number));
        }
        self.permit_object("truncate", &object)?;
        let length = self.caller.argument(1);
        let bytes = if length > 0 { Bytes::Kept } else { Bytes::Gone };
        let copy = self.own_for_writing("truncate", &object, bytes)?;
        let object = copy.unwrap_or(object);
        let opened = reopen_at_once(&object, libc::O_WRONLY);
        if would_wait(&opened) {
            return Ok(CallResult::Wait(Blocking::Truncate { object, length }));
        }
        File::from(opened?).set_len(length)?;
        Ok(CallResult::Value(0))
    }
}

/// Object that the last component of a path names.
enum Final {
    Nothing,
    Object(OwnedFd),
    /// Object that a descriptor of a process refers to.
    Descriptor(OwnedFd),
    /// A link that leads there.
    Elsewhere(Named),
}
