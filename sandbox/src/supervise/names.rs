//! Calls on names that are no opens: removing, and the names of sockets.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::net::{SocketType, sockopt};

use super::act::Performer;
use super::guard::{Act, Guard, violation};
use super::resolve::Named;
use super::{Blocking, CallResult, Neighbours, Refused, address, history, repository, resolve};
use stockade_kernel::syscalls;
use stockade_spec::{OWN_LOOPBACK, UNSEEN_SOCKET};

/// Longest socket address that the kernel takes, `struct sockaddr_storage`.
const MOST_ADDRESS: usize = 128;

/// How far the time of a new file may lie behind the clock: a tick of the slowest kernel, 100 a second.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The bytes before the path in `struct sockaddr_un`, and all of it.
const FAMILY_BYTES: usize = 2;
const MOST_LOCAL: usize = 110;

/// Directories of the host that a run has its own of, and the name by which each goes as well.
const HIDDEN: [(&str, &str); 4] =
    [("/run", "/run"), ("/var/run", "/run"), ("/tmp", "/tmp"), ("/var/tmp", "/var/tmp")];

fn is_stream(socket: &OwnedFd) -> bool {
    sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM)
}

/// The socket of the name service's cache (nscd(8), `/var/run` being a link to `/run`).
const NAME_CACHE: &str = "/run/nscd/socket";

/// Returns the answer to a connection to a socket that the run does not see.
fn unseen(path: &Path) -> Refused {
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    let hidden = HIDDEN
        .iter()
        .filter(|_| is_plain)
        .find_map(|(name, real)| Some(Path::new(real).join(path.strip_prefix(name).ok()?)));
    // The C library tries the cache of the name service at each look-up, and does without it.
    let hidden = hidden.filter(|path| path != Path::new(NAME_CACHE));
    let Some(path) = hidden else { return Refused::Errno(libc::ENOENT) };
    let mut found = violation("unix-socket", "connect", &path, UNSEEN_SOCKET.to_owned());
    found.errno = libc::ENOENT;
    Refused::Rule(found)
}

impl Performer<'_> {
    /// Removes a name; what must stay as it is cannot be removed either.
    pub(super) fn unlink(&self, base: i32, path: usize, flags: i32) -> Result<CallResult, Refused> {
        let is_directory = flags & libc::AT_REMOVEDIR != 0;
        let named = self.named(base, path)?;
        if named.name == "." {
            // `.` cannot be removed, `..` is not empty, and the root is in use.
            return Err(Refused::Errno(if is_directory { libc::EINVAL } else { libc::EISDIR }));
        }
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let object = syscalls::create_at(named.parent.as_fd(), named.name(), lookup, 0)?;
        let found = resolve::metadata(&object)?;
        if named.wants_directory && !is_directory {
            return Err(Refused::Errno(if found.is_dir() { libc::EISDIR } else { libc::ENOTDIR }));
        }
        // Git tries that with each directory in which it removed something, `.git` itself among them.
        if is_directory && found.is_dir() && self.is_full(&named, &object)? {
            return Err(Refused::Errno(libc::ENOTEMPTY));
        }
        let call = if is_directory { "rmdir" } else { "unlink" };
        let word = |guard: &Guard, path: &Path| guard.judge_removal(path);
        self.permit_by(word, call, &named.path()?, &named.parent)?;
        let gone = named.path()?;
        self.permit_loss(call, &gone, &found)?;
        let is_own = repository::is_own(&named.name) && self.supervisor.guard.is_in_region(&gone);
        if is_own || self.supervisor.history.is_part(&gone) {
            let rule = if is_own { repository::OWN_NAME } else { history::RULE };
            return Err(Refused::Rule(violation("write", call, &gone, rule.to_owned())));
        }
        self.permit_lock(call, &named.parent, &named.path()?, &object)?;
        if !is_directory {
            self.note_name(call, &named)?;
        }
        self.caller.still_waits()?;
        syscalls::unlink_at(named.parent.as_fd(), named.name(), flags)?;
        self.supervisor.lost(&found);
        Ok(CallResult::Value(0))
    }

    /// Says whether a directory in a writable region holds something, so that nobody can remove it.
    fn is_full(&self, named: &Named, directory: &OwnedFd) -> Result<bool, Refused> {
        let is_ours = self.supervisor.guard.is_in_region(&named.path()?);
        // A directory that cannot be listed is judged.
        Ok(is_ours && repository::is_empty(directory).is_ok_and(|is_empty| !is_empty))
    }

    /// Connects a copy of the caller's socket; by path only to sockets of the run.
    pub(super) fn connect(&self) -> Result<CallResult, Refused> {
        let length = usize::try_from(self.caller.bits(2)).unwrap_or(0);
        if length > MOST_ADDRESS {
            return Err(Refused::Errno(libc::EINVAL));
        }
        let address = self.caller.bytes(1, length)?;
        let socket = self.caller.descriptor(self.caller.number(0))?;
        let (family, rest) = address.split_at_checked(2).unwrap_or((&[], &[]));
        let local = u16::try_from(libc::AF_UNIX).unwrap_or(1).to_ne_bytes();
        if let Some(there) =
            address::elsewhere(&address).filter(|_| self.supervisor.guard.only_loopback())
        {
            let there = there.to_string();
            let rule = address::RULE.to_owned();
            let mut found = violation("network", "connect", Path::new(&there), rule);
            // Error that the kernel, which has no route there, would return.
            found.errno = libc::ENETUNREACH;
            return Err(Refused::Rule(found));
        }
        let neighbours = self.supervisor.neighbours.as_ref();
        if family != local {
            self.is_answered(&socket, &address)?;
            let address = match neighbours {
                Some(neighbours) => neighbours.way(address)?,
                None => address,
            };
            return Ok(CallResult::Wait(Blocking::Connect { socket, address, object: None }));
        }
        if rest.first().is_none_or(|byte| *byte == 0) {
            // Names without a path belong to the network, which others may have as well.
            if neighbours.is_some_and(|neighbours| !neighbours.knows(rest)) {
                return Err(Refused::Errno(libc::ECONNREFUSED));
            }
            return Ok(CallResult::Wait(Blocking::Connect { socket, address, object: None }));
        }
        let path = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = PathBuf::from(OsStr::from_bytes(path));
        let base = self.caller.directory(libc::AT_FDCWD)?;
        let named = resolve::parent(&self.caller, &base, &path).map_err(Refused::from);
        let object = named.and_then(|named| self.existing(named, libc::O_PATH));
        if let Err(Refused::Errno(libc::ENOENT)) = &object {
            return Err(unseen(&path));
        }
        let object = object?;
        let real = resolve::real_path(object.as_fd())?;
        // Sockets from before the run belong to a server of the host, and so do those that others make meanwhile.
        let guard = &self.supervisor.guard;
        let is_own = guard.is_in_region(&real) && self.supervisor.made.holds(&object)?;
        if !is_own && !guard.allows_socket(&real) {
            let rule = "builtin: sockets of others".to_owned();
            return Err(Refused::Rule(violation("unix-socket", "connect", &real, rule)));
        }
        let mut address = local.to_vec();
        address.extend(format!("/proc/self/fd/{}\0", object.as_raw_fd()).into_bytes());
        // Held open until this process has answered: the address names our descriptor.
        Ok(CallResult::Wait(Blocking::Connect { socket, address, object: Some(object) }))
    }

    /// Refuses, as the kernel would, a connection to a port of the run's own loopback where nothing listens: it may be meant
    /// for the host's.
    fn is_answered(&self, socket: &OwnedFd, address: &[u8]) -> Result<(), Refused> {
        let Some(there) = address::loopback(address) else { return Ok(()) };
        let is_own = self.supervisor.guard.only_loopback() && is_stream(socket);
        let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(std::fs::read_to_string);
        if !is_own || address::is_open(there.port(), &tables) {
            return Ok(());
        }
        let there = there.to_string();
        let mut found = violation("network", "connect", Path::new(&there), OWN_LOOPBACK.to_owned());
        found.errno = libc::ECONNREFUSED;
        Err(Refused::Rule(found))
    }

    /// Gives a copy of the caller's socket an address that is not a path: an abstract name, or one of the internet.
    fn bind_without_path(
        &self,
        socket: &OwnedFd,
        address: &[u8],
        abstract_name: Option<&[u8]>,
    ) -> Result<CallResult, Refused> {
        let neighbours = self.supervisor.neighbours.as_ref();
        if neighbours.is_some() {
            Neighbours::may_bind(address)?;
        }
        self.caller.still_waits()?;
        syscalls::bind(socket.as_fd(), address)?;
        if let (Some(neighbours), Some(name)) = (neighbours, abstract_name) {
            neighbours.note(name);
        }
        Ok(CallResult::Value(0))
    }

    /// Gives a copy of the caller's socket its address: the name of one by path is a name like others.
    pub(super) fn bind(&self) -> Result<CallResult, Refused> {
        let length = usize::try_from(self.caller.bits(2)).unwrap_or(0);
        if length > MOST_ADDRESS {
            return Err(Refused::Errno(libc::EINVAL));
        }
        let address = self.caller.bytes(1, length)?;
        let socket = self.caller.descriptor(self.caller.number(0))?;
        let (family, rest) = address.split_at_checked(FAMILY_BYTES).unwrap_or((&[], &[]));
        let local = u16::try_from(libc::AF_UNIX).unwrap_or(1).to_ne_bytes();
        if family != local || rest.first().is_none_or(|byte| *byte == 0) {
            let abstract_name = (family == local).then_some(rest);
            return self.bind_without_path(&socket, &address, abstract_name);
        }
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = PathBuf::from(OsStr::from_bytes(text));
        let base = self.caller.directory(libc::AT_FDCWD)?;
        let named = resolve::parent(&self.caller, &base, &path)?;
        let free = Self::is_free(&named);
        if let Err(Refused::Errno(libc::EEXIST)) = &free {
            return Err(Refused::Errno(libc::EADDRINUSE));
        }
        free?;
        let judged = self.permit_at(Act::Place, "bind", &named)?;
        let now = SystemTime::now();
        let earliest = now.checked_sub(TICK).unwrap_or(now);
        // The socket reports its address as it is given here: the caller's own text where it leads us to the directory
        // that was judged, else the bare name in that directory. Whatever the path is changed to meanwhile, the name
        // was judged, and a socket holds nothing.
        let identity = |found: &Metadata| repository::identity(found);
        let here = identity(&resolve::metadata(&named.parent)?);
        let above = match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            Some(_) | None => Path::new("."),
        };
        self.with_umask(|| {
            syscalls::change_directory(base.as_fd())?;
            let leads = std::fs::metadata(above).is_ok_and(|found| identity(&found) == here);
            let mut given = local.to_vec();
            if leads {
                given.extend_from_slice(text);
            } else {
                syscalls::change_directory(named.parent.as_fd())?;
                given.extend_from_slice(named.name.as_bytes());
            }
            given.push(0);
            given.truncate(MOST_LOCAL);
            let bound = syscalls::bind(socket.as_fd(), &given);
            std::env::set_current_dir("/")?;
            bound
        })?;
        self.settle(&judged, &named, || {
            drop(syscalls::unlink_at(named.parent.as_fd(), named.name(), 0));
        })?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        // One that is gone again already needs no memory. An older one got the name of ours meanwhile, by another run; where
        // the file system does not know when it was made, that cannot be told.
        if let Ok(made) = syscalls::create_at(named.parent.as_fd(), named.name(), flags, 0)
            && resolve::metadata(&made)?.created().map_or(true, |born| born >= earliest)
        {
            self.supervisor.made.note(&made)?;
        }
        Ok(CallResult::Value(0))
    }
}
