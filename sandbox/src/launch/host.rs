//! Mounts of the host as known to a launcher, and the facts that a zygote finds out once for all launchers that it
//! forks.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::AsFd;
use std::time::Duration;

use super::filters::Filters;
use stockade_kernel::aliases::Places;
use stockade_kernel::syscalls;

/// The mounts of this process (`proc_pid_mountinfo(5)`).
const MOUNTS: &str = "/proc/self/mountinfo";

/// The host's mounts as a launcher found them.
pub(crate) struct Host {
    /// Opened before they were looked at: it tells of every change since, see [`has_changed`].
    pub(super) mounts: File,
    /// Places of the mounts, if somebody has read them.
    pub(super) places: Option<Places>,
}

impl Host {
    /// Begins to look at them.
    pub(super) fn new() -> io::Result<Host> {
        Ok(Host { mounts: File::open(MOUNTS)?, places: None })
    }
}

/// Says whether mounts have changed since `mounts` was opened or was asked last: `poll` tells once (`proc(5)`).
pub(super) fn has_changed(mounts: &File) -> io::Result<bool> {
    let events = syscalls::poll(&[(mounts.as_fd(), libc::POLLPRI)], Some(Duration::ZERO))?;
    Ok(events.iter().any(|it| it & (libc::POLLPRI | libc::POLLERR) != 0))
}

/// Facts that the launchers of a zygote have in memory when they begin.
pub(crate) struct Known {
    /// Asked by the zygote alone: a change is told to one.
    mounts: File,
    places: Places,
}

impl Known {
    /// Finds it out.
    pub(crate) fn new() -> io::Result<Known> {
        Filters::of_most();
        let mounts = File::open(MOUNTS)?;
        let places = Places::read(&mounts)?;
        Ok(Known { mounts, places })
    }

    /// Makes it true for this moment, and returns what tells of changes from then on.
    pub(crate) fn refresh(&mut self) -> io::Result<File> {
        let later = File::open(MOUNTS)?;
        // Changes from here on are reported by the new file.
        if has_changed(&self.mounts)? {
            self.mounts.rewind()?;
            self.places = Places::read(&self.mounts)?;
        }
        Ok(later)
    }

    /// Returns it for the launcher that has `mounts` from [`Known::refresh`].
    pub(crate) fn into_host(self, mounts: File) -> Host {
        Host { mounts, places: Some(self.places) }
    }
}
