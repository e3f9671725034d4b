//! Descriptors that the runtime watches.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch `descriptor`. Needs a runtime.
#[allow(
    deprecated,
    reason = "what took its place is unsafe, for types whose descriptor changes; an owned one stays what it is"
)]
pub(super) fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}
