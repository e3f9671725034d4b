//! Whether what listens at a socket can be the person's gateway.
//!
//! The user is the same for a command that an agent runs: where such a command can write the place of the socket, it can
//! put one of its own there. So the process that listens must not be confined: it is in the process namespace and the user
//! namespace of this one, and filtered no more than process 1 of it. What cannot be found out is a refusal.

use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

/// Namespaces in which a gateway and its clients are together (namespaces(7)).
const NAMESPACES: [&str; 2] = ["pid", "user"];

/// The namespace in which names of files mean the same for both.
const FILES: &str = "mnt";

/// Counters in `/proc/PID/status` of a process that gave up rights for good (proc(5)).
const RESTRAINTS: [&str; 2] = ["NoNewPrivs", "Seccomp_filters"];

/// Bytes in which the status of nearly every process fits.
const LONGEST_STATUS: usize = 4 << 10;

/// `SO_ACCEPTCON` of a socket in `/proc/net/unix`: it listens.
const LISTENS: u32 = 1 << 16;

/// Says whether names of files mean the same to process `pid` and to this one.
pub(super) fn sees_same_files(pid: Pid) -> std::io::Result<bool> {
    let pid = pid.as_raw_nonzero().get();
    let own = fs::read_link(format!("/proc/self/ns/{FILES}"))?;
    Ok(own == fs::read_link(format!("/proc/{pid}/ns/{FILES}"))?)
}

/// Refuses a peer that is confined: process `pid`, which listened at `path` when `stream` was connected.
pub(super) fn check(stream: &UnixStream, pid: Pid, path: &Path) -> Result<(), String> {
    let unknown = |error: &dyn std::fmt::Display| format!("its process is unknown ({error})");
    let process = process_of(stream).map_err(|error| unknown(&error))?;
    let pid = pid.as_raw_nonzero().get();
    let confined = format!("process {pid} is sandboxed, like a command of an agent");
    for name in NAMESPACES {
        let own = fs::read_link(format!("/proc/self/ns/{name}")).map_err(|it| unknown(&it))?;
        let its = fs::read_link(format!("/proc/{pid}/ns/{name}")).map_err(|it| unknown(&it))?;
        if own != its {
            return Err(confined);
        }
    }
    let its = status(pid).map_err(|it| unknown(&it))?;
    for name in RESTRAINTS {
        // A kernel that does not count filters is older than any that confines here.
        let its = number(&its, name).ok_or_else(|| unknown(&format!("no `{name}`")))?;
        // The usual value is looked up for the few processes that gave anything up.
        if its > 0 && its > number(&status(1).unwrap_or_default(), name).unwrap_or(0) {
            return Err(confined);
        }
    }
    // All that was read is of the peer only if its number was not given to another process meanwhile.
    let same = match process {
        Some(process) => {
            let mut events = [PollFd::new(&process, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut events, Some(&at_once)).is_ok_and(|ended| ended == 0)
        }
        None => listens(pid, path),
    };
    if same { Ok(()) } else { Err(unknown(&"it is gone")) }
}

/// Says whether the process that connected is in the process namespace and the user namespace of this one: a command that
/// is confined is not, although it has the same user. Anything that cannot be found out is a no.
pub fn is_beside(stream: impl AsFd) -> bool {
    let Ok(process) = process_of(&stream) else { return false };
    let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { return false };
    let pid = peer.pid.as_raw_nonzero();
    let is_same = |name: &&str| {
        let own = fs::read_link(format!("/proc/self/ns/{name}"));
        let its = fs::read_link(format!("/proc/{pid}/ns/{name}"));
        matches!((own, its), (Ok(own), Ok(its)) if own == its)
    };
    let is_there = |process: OwnedFd| {
        let mut events = [PollFd::new(&process, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut events, Some(&at_once)).is_ok_and(|ended| ended == 0)
    };
    NAMESPACES.iter().all(is_same) && process.is_none_or(is_there)
}

/// Says whether this process is confined or restrained: a gateway that it started would be so as well, and no client would
/// trust it. What cannot be read is a yes.
pub(super) fn is_restrained() -> bool {
    let Ok(own) = status_of("self") else { return true };
    let first = status(1).unwrap_or_default();
    RESTRAINTS.iter().any(|name| match number(&own, name) {
        Some(count) => count > number(&first, name).unwrap_or(0),
        None => true,
    })
}

/// Returns a descriptor of the process that was at the other end when it began to listen: unlike its number it never comes
/// to mean another process. None where the kernel has no such thing (before Linux 6.5).
fn process_of(stream: &impl AsFd) -> std::io::Result<Option<OwnedFd>> {
    match nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerPidfd) {
        Ok(process) => Ok(Some(process)),
        Err(nix::errno::Errno::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns what `/proc/PID/status` says, with room for all of it: it is made anew for each piece that is read.
fn status(pid: i32) -> std::io::Result<String> {
    status_of(&pid.to_string())
}

fn status_of(process: &str) -> std::io::Result<String> {
    let mut text = String::with_capacity(LONGEST_STATUS);
    let file = fs::File::open(format!("/proc/{process}/status"))?;
    file.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the number behind `name` in a text in the form of `/proc/PID/status`.
fn number(status: &str, name: &str) -> Option<u64> {
    let mut lines = status.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim().parse().ok()
}

/// Says whether process `pid` holds a socket that listens at `path`: what can be asked of kernels without descriptors of
/// peers.
fn listens(pid: i32, path: &Path) -> bool {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let held: Vec<String> = sockets.lines().filter_map(|line| listening(line, path)).collect();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    links.any(|link| held.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

/// Returns what `/proc/PID/fd` calls the socket of a line of `/proc/net/unix`, if it listens at `path` (proc(5)).
fn listening(line: &str, path: &Path) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
    let bound = line.strip_suffix(path.to_str()?)?.ends_with(' ');
    (flags & LISTENS != 0 && bound).then_some(format!("socket:[{}]", fields.get(6)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_of_sockets_names_one_that_listens_at_the_place() {
        let line =
            |flags| format!("0000000000000000: 00000002 00000000 {flags} 0001 01   1234 /r/s k");
        let found = |line: &str, path| listening(line, Path::new(path));
        assert_eq!(found(&line("00010000"), "/r/s k"), Some("socket:[1234]".to_owned()));
        assert_eq!(found(&line("00010000"), "/s k"), None);
        assert_eq!(found(&line("00000000"), "/r/s k"), None);
    }

    #[test]
    fn a_process_is_known_by_the_sockets_at_which_it_listens() {
        // The address of a socket has at most 107 bytes (unix(7)).
        let folder = Path::new("/tmp").join(format!("stockade-peer-{}", std::process::id()));
        // An earlier run that was killed may have had this number.
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = listens(pid, &path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let while_it_listens = (listens(pid, &path), listens(1, &path));
        drop(listener);
        assert_eq!((before, while_it_listens, listens(pid, &path)), (false, (true, false), false));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn numbers_of_a_status_are_read_by_whole_names() {
        let status = "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(RESTRAINTS.map(|name| number(status, name)), [Some(1), Some(3)]);
        assert_eq!(number(status, "Sec"), None);
    }
}
