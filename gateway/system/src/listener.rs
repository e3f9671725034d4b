//! The listener: takes the connections of all users, holds their shares, and passes each on to the keeper.
//!
//! The listener runs as a separate user without any right, and reads nothing of a client: a process with the rights of that
//! client reads its bytes. The keeper does not believe what the listener says. Both end together, and begin again.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit};
use stockade_base::places::SYSTEM_SOCKET;

use crate::accounts::Account;
use crate::identity::Identity;
use crate::listening::{self, Kind};
use crate::message::{self, Message};
use crate::quota::{Quota, Taken};
use crate::{KEEPER_SOCKET, LISTENER_USER};

/// How long the keeper may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait between two attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// Descriptors that it needs where each of two hundred users has a full share.
const MOST_DESCRIPTORS: u64 = 65_536;
/// The answer to who has too much, in the form of the protocol.
const TOO_MANY: &str = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32011,\"message\":\"this user has 256 connections already\",\
    \"data\":{\"code\":\"gateway_unreachable\",\"message\":\"this user has 256 connections already\",\
    \"help\":\"end some, or wait until commands end\"}}}\n";
/// The answer to whoever comes when no descriptor is free.
const FULL: &str = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32011,\"message\":\"the machine's gateway has no free file descriptor\",\
    \"data\":{\"code\":\"gateway_unreachable\",\"message\":\"the machine's gateway has no free file descriptor\",\
    \"help\":\"wait until commands of other users end\"}}}\n";

/// Serves until the keeper is gone. Started as root, it listens first and then becomes its own user.
///
/// # Errors
///
/// Says what keeps it from beginning or going on.
pub fn main() -> Result<(), String> {
    let account = Account::find(Path::new("/"), LISTENER_USER)
        .ok_or_else(|| format!("no user `{LISTENER_USER}`"))?;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && rustix::process::geteuid().as_raw() != account.uid {
        return Err(format!(
            "the listener of the system's gateway runs as `{LISTENER_USER}`; `sudo stockade install --system` starts it"
        ));
    }
    let listener = listening::socket(Path::new(SYSTEM_SOCKET), Kind::Stream, 0o666, None)?;
    if is_root {
        let most = Rlimit { current: Some(MOST_DESCRIPTORS), maximum: Some(MOST_DESCRIPTORS) };
        let _ = rustix::process::setrlimit(Resource::Nofile, most); // fewer mean that some wait
        let own = Identity { uid: account.uid, gid: account.gid, groups: Vec::new() };
        own.assume().map_err(|error| format!("cannot become `{LISTENER_USER}`: {error}"))?;
    }
    let behavior = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(behavior).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let keeper = keeper().map_err(|error| format!("the keeper does not listen: {error}"))?;
    stockade_kernel::confine_listener()
        .map_err(|error| format!("cannot confine the listener: {error}"))?;
    let mut quota = Quota::default();
    loop {
        if let Err(reason) = turn(&listener, &keeper, &mut quota) {
            // The usual way to tell of a failure looks at files first, which this process may not.
            let _ = writeln!(io::stderr(), "stockade: {reason}");
            std::process::exit(1);
        }
    }
}

/// Connects to the keeper, as the user that the keeper hears.
fn keeper() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let address = SocketAddrUnix::new(KEEPER_SOCKET)?;
    let end = Instant::now().checked_add(PATIENCE);
    loop {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(error) if end.is_none_or(|end| Instant::now() >= end) => return Err(error.into()),
            Err(_) => std::thread::sleep(AGAIN),
        }
    }
}

/// Waits for something, and does it.
fn turn(listener: &UnixListener, keeper: &OwnedFd, quota: &mut Quota) -> Result<(), String> {
    let mut events = [
        PollFd::new(listener, PollFlags::IN),
        // The keeper sends nothing: an event here is its end.
        PollFd::new(keeper, PollFlags::IN),
    ];
    let pause = quota.pause().and_then(|it| Timespec::try_from(it).ok());
    match poll(&mut events, pause.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(format!("cannot wait: {error}")),
    }
    let [comes, gone] = events.map(|it| !it.revents().is_empty());
    if gone {
        return Err("the keeper is gone".into());
    }
    let now = Instant::now();
    if comes {
        match listener.accept() {
            Ok((stream, _)) => admit(stream, quota, now),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Without a free descriptor the next would fail at once: those that ended give theirs back, and a moment passes.
            Err(_) => {
                quota.forget(now);
                let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                let _ = poll(&mut [], Some(&moment));
            }
        }
    } else {
        quota.forget(now);
    }
    for taken in quota.ready(now) {
        let Taken { stream, uid, gid, pid, .. } = taken;
        let pipe = || Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?);
        let Ok((own, ticket)) = with_room(quota, now, pipe) else {
            refuse(&stream, FULL);
            continue;
        };
        let said = Message::Connection { uid, gid, pid };
        message::send(keeper, said, &stream, &ticket)
            .map_err(|error| format!("the keeper takes nothing: {error}"))?;
        quota.served(uid, own);
    }
    Ok(())
}

/// Asks the kernel who made a connection, and puts it in line.
fn admit(stream: UnixStream, quota: &mut Quota, now: Instant) {
    let asked = with_room(quota, now, || stockade_kernel::peer_process(stream.as_fd()));
    let process = match asked {
        Ok(process) => process,
        Err(error) if is_full(&error) => return refuse(&stream, FULL),
        // A client that is gone, or that the kernel does not name, gets no answer.
        Err(_) => return,
    };
    let Ok(peer) = sockopt::socket_peercred(&stream) else { return };
    let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
    if let Err(refused) = quota.admit(Taken { stream, uid, gid, pid, process }, now) {
        refuse(&refused.stream, TOO_MANY);
    }
}

/// Does what needs a descriptor; where none is free, those that ended give theirs back first.
fn with_room<T>(quota: &mut Quota, now: Instant, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(error) if is_full(&error) => {
            quota.forget(now);
            act()
        }
        done => done,
    }
}

/// Says whether this process, or the machine, has no free descriptor (EMFILE, ENFILE of `open(2)`).
fn is_full(error: &io::Error) -> bool {
    let full = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    full.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// Tells a client why it is not served. One that misses the message sees the closed connection.
fn refuse(stream: &UnixStream, why: &str) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::send(stream, why.as_bytes(), flags);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_needs_a_descriptor_is_done_again_once_those_that_ended_are_back() {
        let (mut quota, now) = (Quota::default(), Instant::now());
        for (errors, error, expected) in [
            (0, rustix::io::Errno::MFILE, (Ok(1), 1)),
            (1, rustix::io::Errno::MFILE, (Ok(2), 2)),
            (1, rustix::io::Errno::NFILE, (Ok(2), 2)),
            (2, rustix::io::Errno::MFILE, (Err(Some(24)), 2)),
            (1, rustix::io::Errno::SRCH, (Err(Some(3)), 1)),
        ] {
            let tries = Cell::new(0);
            let act = || {
                tries.set(tries.get() + 1);
                if tries.get() <= errors { Err(error.into()) } else { Ok(tries.get()) }
            };
            let done = with_room(&mut quota, now, act).map_err(|error| error.raw_os_error());
            assert_eq!((done, tries.get()), expected, "{errors} {error}");
        }
    }
}
