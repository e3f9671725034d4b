//! Connections from the keeper to the gateway of a user, as descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// The one message: a connection comes with it, and its ticket.
const CONNECTION: u8 = 1;

/// A connection that was handed over.
#[derive(Debug)]
pub struct Handed {
    /// The connection.
    pub stream: UnixStream,
    /// Stays open as long as the connection is served: the listener counts it.
    pub ticket: OwnedFd,
}

/// Hands a connection and its ticket over without waiting.
pub(crate) fn give(
    to: &UnixStream,
    connection: BorrowedFd<'_>,
    ticket: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [connection, ticket];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(to, &[IoSlice::new(&[CONNECTION])], &mut control, flags)?;
    Ok(())
}

/// Waits for a connection; none when the keeper is gone.
///
/// # Errors
///
/// The socket cannot be read, or something else than one connection came.
pub fn take(from: impl AsFd) -> io::Result<Option<Handed>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(from.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    match (received.bytes, byte, descriptors.pop(), descriptors.pop()) {
        (0, _, _, _) => Ok(None),
        (1, [CONNECTION], Some(ticket), Some(connection)) => {
            Ok(Some(Handed { stream: UnixStream::from(connection), ticket }))
        }
        (_, _, _, _) => Err(io::ErrorKind::InvalidData.into()),
    }
}
