//! Waiting for a task: for its end, or for more output.
//!
//! The folder is watched (inotify(7)). A gateway that is killed closes its lock file, which wakes the watch as well.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// At the latest after this time the task is looked at again: a lock may outlive the event that tells of its end.
const LOOK: Duration = Duration::from_secs(1);

/// A watch on the folder of a task.
#[derive(Debug)]
pub struct Watch(std::os::fd::OwnedFd);

impl Watch {
    /// Begins to watch: what happens from now on wakes the next wait.
    pub fn new(folder: &Path) -> io::Result<Watch> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE_SELF;
        inotify::add_watch(&watch, folder, events)?;
        Ok(Watch(watch))
    }

    /// Waits until something happens, no longer than until `until`. Returns whether time is left.
    pub fn wait(&self, until: Instant) -> io::Result<bool> {
        self.wait_or(None, until)
    }

    /// The same, but returns as soon as `input` can be read, too.
    pub fn wait_or(&self, input: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<bool> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let limit = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
        let mut polled = vec![PollFd::new(&self.0, PollFlags::IN)];
        polled.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = Vec::with_capacity(4096);
        // All that is there: many writes are one reason to look.
        while let Ok(1..) = rustix::io::read(&self.0, spare_capacity(&mut events)) {
            events.clear();
        }
        Ok(true)
    }
}
