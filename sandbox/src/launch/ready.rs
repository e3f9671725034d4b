//! A confined side that was started before its spec is known: its namespaces, and of its view of the file
//! system what is the same for every run.
//!
//! The confined side holds nothing and decides nothing, and ends when the monitor goes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::host::{self, Host};
use super::loopback::{self, Loopback};
use super::{
    ALL_NAMESPACES, Confined, Isolation, Link, StandardStreams, init, is_closed, namespaces,
};
use stockade_kernel::group::Group;
use stockade_kernel::syscalls::{self, Fork};
use stockade_spec::SandboxSpec;

/// The waiting side, and what tells whether its view is still the host's.
pub(super) struct Ready {
    /// Taken by [`Ready::into_confined`].
    confined: Option<Confined>,
    /// Opened before the view was made, see [`Host`].
    mounts: File,
    /// Interface that this side was to have, for another side that takes its place.
    loopback: Option<Loopback>,
}

/// Says whether a run of `spec` needs what every run needs, and nothing else.
pub(super) fn fits(spec: &SandboxSpec) -> bool {
    spec.confine && namespaces(spec, Isolation::Namespaces) == ALL_NAMESPACES
}

impl Ready {
    /// Starts it, with `loopback` where that can be had; on an error nothing was started.
    pub(super) fn prepare(
        control: &UnixStream,
        host: Host,
        loopback: Option<Loopback>,
    ) -> io::Result<Ready> {
        let ids = syscalls::ids();
        let (link, orders) = Link::new(control)?;
        let (forked, group) = loopback::fork(ALL_NAMESPACES, Group::make(), loopback.as_ref());
        match forked? {
            (Fork::Parent(pid), _) => {
                let confined = Some(Confined { pid, orders, left: Vec::new(), group });
                Ok(Ready { confined, mounts: host.mounts, loopback })
            }
            (Fork::Child, interface) => {
                drop((orders, loopback));
                let counters = group.map(Group::into_counters);
                let status = init::run_ahead(ids, interface, host, link, counters);
                syscalls::exit_now(status)
            }
        }
    }

    /// Returns its number.
    pub(super) fn pid(&self) -> Option<i32> {
        self.confined.as_ref().map(|confined| confined.pid)
    }

    /// Gives up the interface that it was to have.
    pub(super) fn take_loopback(&mut self) -> Option<Loopback> {
        self.loopback.take()
    }

    /// Receives what it received from the gateway, and passed on before it did anything with it.
    pub(super) fn receive(
        &mut self,
        control: &UnixStream,
    ) -> io::Result<(Vec<u8>, StandardStreams)> {
        let Some(Confined { orders, left, .. }) = &mut self.confined else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        loop {
            let waited = [(orders.as_fd(), libc::POLLIN), (control.as_fd(), 0)];
            let events = syscalls::poll(&waited, None)?;
            let event = |index: usize| events.get(index).copied().unwrap_or(0);
            if event(0) & libc::POLLIN != 0 {
                let (frame, streams, others) = super::receive_frame(orders)?;
                *left = others;
                return Ok((frame, streams));
            }
            if is_closed(event(0)) || is_closed(event(1)) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Says whether the host's mounts are as they were.
    pub(super) fn is_current(&self) -> bool {
        host::has_changed(&self.mounts).is_ok_and(|changed| !changed)
    }

    /// Returns the confined side; from now on it is a run like any other.
    pub(super) fn into_confined(mut self) -> Option<Confined> {
        self.confined.take()
    }
}

impl Drop for Ready {
    /// Ends a confined side that is not used.
    fn drop(&mut self) {
        if let Some(confined) = self.confined.take() {
            super::end(confined.pid, confined.group.as_ref());
        }
    }
}
