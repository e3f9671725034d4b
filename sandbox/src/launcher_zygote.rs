//! The process that forks launchers for a gateway that stays.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::launch::{Known, Loopback};
use crate::{Launcher, launch};
use stockade_kernel::forked_worker::{FAILED, ForkedWorker, Process, take};
use stockade_kernel::syscalls::{self, Fork};

/// A worker that makes launchers for a gateway that stays: forks of what has one thread and has read nothing, where the
/// gateway itself has many and has read much. Dropping it ends it; its launchers are the gateway's children and stay.
#[derive(Debug)]
pub struct LauncherZygote(ForkedWorker);

impl LauncherZygote {
    /// Makes one, under the conditions of [`ForkedWorker::fork`].
    pub fn fork() -> io::Result<LauncherZygote> {
        ForkedWorker::fork(zygote).map(LauncherZygote)
    }

    /// Has it make a launcher, and waits for that. The run has `loopback`, if it is given, unless its spec forbids that or the
    /// kernel does; then it has one of its own.
    pub fn launcher(&mut self, loopback: Option<&Loopback>) -> io::Result<Launcher> {
        let (control, theirs) = UnixStream::pair()?;
        let mut given = vec![theirs.as_fd()];
        given.extend(loopback.iter().flat_map(|loopback| loopback.descriptors()));
        let answer = self.ask(LAUNCHER, &given)?;
        match answer {
            pid @ 1.. => Ok(Launcher::of(control, Process::new(pid))),
            _ => Err(io::Error::other("no launcher could be forked")),
        }
    }

    /// Has it make a loopback interface that runs can share.
    pub fn loopback(&mut self) -> io::Result<Loopback> {
        let (ours, theirs) = UnixStream::pair()?;
        match self.ask(LOOPBACK, &[theirs.as_fd()])? {
            MADE => Loopback::receive(&ours),
            _ => Err(io::Error::other("no network namespace could be made")),
        }
    }

    /// Has it make TCP sockets in `loopback`, for IPv4 and for IPv6: they connect to what listens there. Neither waits
    /// (`O_NONBLOCK`).
    pub fn sockets(&mut self, loopback: &Loopback) -> io::Result<[OwnedFd; 2]> {
        let (ours, theirs) = UnixStream::pair()?;
        let [user, network] = loopback.descriptors();
        match self.ask(SOCKETS, &[theirs.as_fd(), user, network])? {
            MADE => {
                let (_, both) = syscalls::receive_with_descriptors(ours.as_fd(), &mut [0])?;
                <[OwnedFd; 2]>::try_from(both).map_err(|_| io::ErrorKind::UnexpectedEof.into())
            }
            _ => Err(io::Error::other("no socket could be made in that network")),
        }
    }

    fn ask(&mut self, word: u8, given: &[BorrowedFd<'_>]) -> io::Result<i32> {
        let mut socket = &self.0.socket;
        socket.set_read_timeout(Some(PATIENCE))?;
        syscalls::send_with_descriptors(socket.as_fd(), &[word], given)?;
        let mut answer = [0; 4];
        let answered = socket.read_exact(&mut answer);
        if answered.is_err() {
            // A late answer must not be taken for the next one.
            self.0.dismiss();
        }
        answered.map(|()| i32::from_ne_bytes(answer))
    }
}

/// Requests to a zygote.
const LAUNCHER: u8 = 1;
const LOOPBACK: u8 = 2;
const SOCKETS: u8 = 3;

/// Its answer when it made an interface or sockets.
const MADE: i32 = 1;

/// How long a zygote may take for one launcher.
const PATIENCE: Duration = Duration::from_secs(5);

/// Request to the zygote, with the descriptors that came with it.
enum Given {
    Launcher(UnixStream, Option<Loopback>),
    Loopback(UnixStream),
    Sockets(UnixStream, Loopback),
}

/// Receives a request; none at the end.
fn receive(from: impl AsFd) -> Option<Given> {
    let mut word = [0];
    let (count, given) = syscalls::receive_with_descriptors(from.as_fd(), &mut word).ok()?;
    let mut given = given.into_iter();
    let socket = UnixStream::from(given.next()?);
    let rest: Vec<OwnedFd> = given.collect();
    match (count, word) {
        (1, [LAUNCHER]) if rest.is_empty() => Some(Given::Launcher(socket, None)),
        (1, [LAUNCHER]) => Some(Given::Launcher(socket, Some(Loopback::of(rest.try_into().ok()?)))),
        (1, [LOOPBACK]) if rest.is_empty() => Some(Given::Loopback(socket)),
        (1, [SOCKETS]) => Some(Given::Sockets(socket, Loopback::of(rest.try_into().ok()?))),
        (_, _) => None,
    }
}

/// Answers whether something was made; returns whether anybody heard it.
fn told(output: &mut impl io::Write, made: &io::Result<()>) -> bool {
    let answer = if made.is_ok() { MADE } else { -1 };
    output.write_all(&answer.to_ne_bytes()).and_then(|()| output.flush()).is_ok()
}

/// Is the zygote: makes a launcher for each socket that it gets, until there are no more.
fn zygote() -> i32 {
    let (input, mut output) = (io::stdin(), io::stdout().lock());
    // Facts that cannot be known here are determined by each launcher.
    let mut known = Known::new().ok();
    loop {
        let (control, loopback) = match receive(&input) {
            Some(Given::Launcher(control, loopback)) => (control, loopback),
            Some(Given::Loopback(to)) => {
                let made = Loopback::make().and_then(|made| made.send(&to, LOOPBACK));
                match told(&mut output, &made) {
                    true => continue,
                    false => return FAILED.into(),
                }
            }
            Some(Given::Sockets(to, loopback)) => {
                match told(&mut output, &loopback.send_sockets(&to, SOCKETS)) {
                    true => continue,
                    false => return FAILED.into(),
                }
            }
            None => return 0,
        };
        let mounts = known.as_mut().and_then(|known| known.refresh().ok());
        // A change that was told and not read is not told again.
        known = known.filter(|_| mounts.is_some());
        // The gateway is the parent of both: it waits for the launcher.
        let pid = match syscalls::fork(libc::CLONE_PARENT) {
            Ok(Fork::Parent(pid)) => pid,
            Ok(Fork::Child) => {
                let host = known.zip(mounts).map(|(known, mounts)| known.into_host(mounts));
                let status = match host {
                    Some(host) => launch::run_forked(&control, host, loopback),
                    None => take(&control).map_or(FAILED.into(), |()| launch()),
                };
                syscalls::exit_now(status)
            }
            Err(_) => -1,
        };
        let told = output.write_all(&pid.to_ne_bytes()).and_then(|()| output.flush());
        if told.is_err() {
            return FAILED.into();
        }
    }
}
