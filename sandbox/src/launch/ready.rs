//! A confined side that was started before its spec is known: its namespaces, and of its view of the file
//! system what is the same for every run.
//!
//! It holds nothing and decides nothing, and ends when the monitor goes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{ALL_NAMESPACES, Confined, Isolation, Link, StandardStreams, init, namespaces};
use crate::SandboxSpec;
use crate::codec::{self, Wire};
use crate::linux::aliases::Places;
use crate::linux::foreign::Foreign;
use crate::linux::syscalls::{self, Fork};

/// The waiting side, and what tells whether its view is still the host's.
pub(super) struct Ready {
    /// Taken by [`Ready::give`].
    confined: Option<Confined>,
    /// `/proc/self/mountinfo`, opened before the view was made: `poll` tells of every change since (`proc(5)`).
    mounts: File,
    /// What stood in it.
    places: Places,
}

impl Ready {
    /// Starts it; on an error nothing was started.
    pub(super) fn prepare(control: &UnixStream) -> io::Result<Ready> {
        let mounts = File::open("/proc/self/mountinfo")?;
        let ids = syscalls::ids();
        let (link, confined) = Link::new(control)?;
        match syscalls::fork(ALL_NAMESPACES)? {
            Fork::Parent(pid) => {
                let mut ready =
                    Ready { confined: Some(confined.with(pid)), mounts, places: Places::default() };
                // Dropped on an error, it ends what was started.
                ready.places = Places::read(&ready.mounts)?;
                Ok(ready)
            }
            Fork::Child => {
                drop((confined, mounts));
                let status = init::run_ahead(ids, link);
                syscalls::exit_now(status)
            }
        }
    }

    /// Returns it if the host's mounts are as they were.
    pub(super) fn current(self) -> Option<Ready> {
        let changed = syscalls::poll(&[(self.mounts.as_fd(), libc::POLLPRI)], Some(Duration::ZERO));
        let same = changed
            .is_ok_and(|events| events.iter().all(|it| it & (libc::POLLPRI | libc::POLLERR) == 0));
        same.then_some(self)
    }

    /// Returns the host's mounts.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Says whether it is what a run of `spec` needs.
    pub(super) fn fits(&self, spec: &SandboxSpec, foreign: &Foreign) -> bool {
        namespaces(spec, Isolation::Namespaces) == ALL_NAMESPACES
            && spec.hide.is_empty()
            && spec.fail_at.is_empty()
            && foreign.is_empty()
    }

    /// Hands the spec over; from now on it is a run like any other.
    pub(super) fn give(
        mut self,
        spec: &SandboxSpec,
        streams: &StandardStreams,
    ) -> io::Result<Confined> {
        let confined = self.confined.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let streams = [streams[0].as_fd(), streams[1].as_fd(), streams[2].as_fd()];
        match codec::send_with(&confined.orders, &spec.to_bytes(), &streams) {
            // It has failed already; its report says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(confined),
            result => result.map(|()| confined),
        }
    }
}

impl Drop for Ready {
    /// What is not used ends.
    fn drop(&mut self) {
        if let Some(confined) = self.confined.take() {
            super::end(confined.pid);
        }
    }
}
