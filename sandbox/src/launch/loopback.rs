//! A loopback interface that the runs of one session share: how it is made, and how pid 1 of a run begins in it.
//!
//! The interface is in a network namespace that belongs to a user namespace in which nobody is. Pid 1 has a user
//! namespace of its own below that one, so neither it nor the command has any right over the network.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::init::{self, Supervision};
use stockade_kernel::group::Group;
use stockade_kernel::syscalls::{self, Fork, Ids};
use stockade_spec::Network;
use stockade_spec::PROXY_PORTS;

/// The namespaces of a loopback interface that is shared.
const NAMESPACES: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;

/// A loopback interface that runs can share. It is there as long as this is, or a run in it.
#[derive(Debug)]
pub struct Loopback {
    user: OwnedFd,
    network: OwnedFd,
}

/// The loopback interface of a run, before its spec is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface {
    /// Its own, to be switched on.
    Down,
    /// Its own.
    Up,
    /// Shared with other runs.
    Shared,
}

impl Loopback {
    /// Makes one, in a process of its own. The calling process must have one thread.
    pub(crate) fn make() -> io::Result<Loopback> {
        let (ours, theirs) = UnixStream::pair()?;
        let ids = syscalls::ids();
        match syscalls::fork(NAMESPACES)? {
            Fork::Child => {
                let made = prepare(ids, &theirs);
                syscalls::exit_now(i32::from(made.is_err()))
            }
            Fork::Parent(pid) => {
                drop(theirs);
                let received = Loopback::receive(&ours);
                wait_for(pid)?;
                received
            }
        }
    }

    /// Returns the one in which the process `pid` is. Fails for a process that this one may not inspect (`ptrace(2)`,
    /// "Ptrace access mode checking").
    pub fn of_process(pid: u32) -> io::Result<Loopback> {
        let network: OwnedFd = File::open(format!("/proc/{pid}/ns/net"))?.into();
        let user = syscalls::owner_of(network.as_fd())?;
        Ok(Loopback { user, network })
    }

    /// Makes TCP sockets there, for IPv4 and for IPv6, in a process of its own, and sends them with `word`. A socket stays in
    /// the network in which it was made, so whoever has one connects there. The calling process must have one thread.
    pub(crate) fn send_sockets(&self, to: &UnixStream, word: u8) -> io::Result<()> {
        match syscalls::fork(0)? {
            Fork::Child => {
                let sent = self.join().and_then(|()| sockets()).and_then(|both| {
                    let both = both.each_ref().map(AsFd::as_fd);
                    syscalls::send_with_descriptors(to.as_fd(), &[word], &both)
                });
                syscalls::exit_now(i32::from(sent.is_err()))
            }
            Fork::Parent(pid) => wait_for(pid),
        }
    }

    /// Sends it, with `word`.
    pub(crate) fn send(&self, to: &UnixStream, word: u8) -> io::Result<()> {
        let both = [self.user.as_fd(), self.network.as_fd()];
        syscalls::send_with_descriptors(to.as_fd(), &[word], &both).map(drop)
    }

    /// Receives one, whatever the word is.
    pub(crate) fn receive(from: &UnixStream) -> io::Result<Loopback> {
        let (count, both) = syscalls::receive_with_descriptors(from.as_fd(), &mut [0])?;
        match (count, <[OwnedFd; 2]>::try_from(both)) {
            (1, Ok(both)) => Ok(Loopback::of(both)),
            (_, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Returns the one that these namespaces are: of the user and of the network.
    pub(crate) fn of([user, network]: [OwnedFd; 2]) -> Loopback {
        Loopback { user, network }
    }

    /// Returns its descriptors.
    pub(crate) fn descriptors(&self) -> [std::os::fd::BorrowedFd<'_>; 2] {
        [self.user.as_fd(), self.network.as_fd()]
    }

    /// Puts this process, which must have one thread, there, with every right over it.
    fn join(&self) -> io::Result<()> {
        syscalls::join_namespace(self.user.as_fd(), libc::CLONE_NEWUSER)?;
        syscalls::join_namespace(self.network.as_fd(), libc::CLONE_NEWNET)?;
        // More rights than before make a process one that nobody looks into, itself included: who begins here maps its ids.
        syscalls::prctl(libc::PR_SET_DUMPABLE, 1, 0).map(drop)
    }
}

/// Makes a TCP socket for IPv4 and one for IPv6.
fn sockets() -> io::Result<[OwnedFd; 2]> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = |family| socket_with(family, SocketType::STREAM, flags, None);
    Ok([socket(AddressFamily::INET)?, socket(AddressFamily::INET6)?])
}

/// Makes the interface ready, and hands over what it lives in.
fn prepare(ids: Ids, to: &UnixStream) -> io::Result<()> {
    init::map_ids(ids).map_err(|_| io::ErrorKind::PermissionDenied)?;
    syscalls::loopback_up()?;
    let user = File::open("/proc/self/ns/user")?.into();
    let network = File::open("/proc/self/ns/net")?.into();
    Loopback { user, network }.send(to, 1)
}

/// Waits until the child `pid` has ended.
fn wait_for(pid: i32) -> io::Result<()> {
    loop {
        match syscalls::wait(pid, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

/// Forks with new namespaces, into `group` where that can be done; else there is no group, and limits are sampled. Where there
/// would be a network of its own, and `loopback` can be had instead, that is it. Says which interface the child has.
pub(super) fn fork(
    namespaces: i32,
    group: Option<Group>,
    loopback: Option<&Loopback>,
) -> (io::Result<(Fork, Interface)>, Option<Group>) {
    let shared = loopback.filter(|_| namespaces & libc::CLONE_NEWNET != 0);
    let Some(loopback) = shared else { return fork_apart(namespaces, group) };
    let flags = namespaces & !libc::CLONE_NEWNET | libc::CLONE_PARENT;
    let into = group
        .as_ref()
        .map(|group| fork_beside(loopback, || syscalls::fork_into(flags, group.directory())));
    if let Some(Ok(forked)) = into {
        return (Ok((forked, Interface::Shared)), group);
    }
    match fork_beside(loopback, || syscalls::fork(flags)) {
        Ok(forked) => (Ok((forked, Interface::Shared)), None),
        // INVARIANT: a network of its own, never that of the host.
        Err(_) => fork_apart(namespaces, group),
    }
}

/// Forks with a network of the child's own, if it is to have one.
fn fork_apart(
    namespaces: i32,
    group: Option<Group>,
) -> (io::Result<(Fork, Interface)>, Option<Group>) {
    if let Some(group) = group
        && let Ok(forked) = syscalls::fork_into(namespaces, group.directory())
    {
        return (Ok((forked, Interface::Down)), Some(group));
    }
    (syscalls::fork(namespaces).map(|forked| (forked, Interface::Down)), None)
}

/// Has a helper join `loopback` and then `fork` a sibling of its own, which is a child of this process. Who has joined a user
/// namespace cannot come back, and this process has work left that needs its own.
fn fork_beside(loopback: &Loopback, fork: impl FnOnce() -> io::Result<Fork>) -> io::Result<Fork> {
    let (mut from, mut to) = io::pipe()?;
    match syscalls::fork(0)? {
        Fork::Parent(helper) => {
            drop(to);
            let mut pid = [0; 4];
            let told = from.read_exact(&mut pid);
            wait_for(helper)?;
            told.map(|()| Fork::Parent(i32::from_ne_bytes(pid)))
        }
        Fork::Child => {
            let told = match loopback.join().and_then(|()| fork()) {
                Ok(Fork::Child) => return Ok(Fork::Child),
                Ok(Fork::Parent(pid)) => to.write_all(&pid.to_ne_bytes()),
                Err(error) => Err(error),
            };
            syscalls::exit_now(i32::from(told.is_err()))
        }
    }
}

/// Says whether a run may have a loopback interface with others: who serves there as a proxy is known by the port, and whoever
/// connects is looked at.
pub(super) fn may_share(network: &Network, supervision: Supervision) -> bool {
    let is_known = match network {
        Network::Off => true,
        Network::Proxy { http, socks } => [*http, *socks] == PROXY_PORTS,
        Network::Host => false,
    };
    is_known && supervision != Supervision::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_watched_and_keeps_to_the_ports_shares() {
        let [http, socks] = PROXY_PORTS;
        let proxy = Network::Proxy { http, socks };
        for watched in [Supervision::Files, Supervision::Connections] {
            assert!(may_share(&Network::Off, watched) && may_share(&proxy, watched));
            assert!(!may_share(&Network::Host, watched));
            assert!(!may_share(&Network::Proxy { http: socks, socks: http }, watched));
        }
        assert!(!may_share(&Network::Off, Supervision::None));
        assert!(!may_share(&proxy, Supervision::None));
    }
}
