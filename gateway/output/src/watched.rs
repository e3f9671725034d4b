//! Descriptors that the runtime watches.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch `descriptor`. Needs a runtime.
#[allow(
    deprecated,
    reason = "its replacement needs a promise that the descriptor never changes; an owned one cannot"
)]
pub fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}
