//! Waiting for a descriptor that is read elsewhere, without a thread for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::watched::watched;

/// A descriptor whose open file is read by somebody else.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Watches `descriptor`. Needs a runtime.
    pub fn new(descriptor: OwnedFd) -> io::Result<Readable> {
        watched(descriptor, Interest::READABLE).map(Readable)
    }

    /// Waits until a read would not wait. Dropping the future loses nothing.
    pub async fn wait(&self) -> io::Result<()> {
        loop {
            let mut guard = self.0.readable().await?;
            let mut polled = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&now)))? > 0 {
                // Whoever reads may leave something: the next look is the kernel's again.
                guard.retain_ready();
                return Ok(());
            }
            guard.clear_ready();
        }
    }
}
