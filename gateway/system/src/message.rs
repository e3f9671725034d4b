//! The one message of the listener to the keeper: a closed set of kinds, each of fixed length, with the descriptors of its kind.
//!
//! Nothing in it is believed. [`receive`] takes what has the right form; who made the connection is asked of the kernel, about the
//! connection itself ([`Received::identity`]).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::FileType;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, sockopt,
};

use crate::identity::Identity;

/// Bytes of a message: kind, user, group, process.
const LENGTH: usize = 16;
/// Descriptors of a connection: itself, and its ticket.
const DESCRIPTORS: usize = 2;

/// Messages of the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// A process connected. With it come the connection and its ticket, a pipe that is open as long as somebody serves it.
    Connection {
        /// Its user,
        uid: u32,
        /// its group,
        gid: u32,
        /// and its number.
        pid: u32,
    },
}

/// Number of the kind.
const CONNECTION: u32 = 1;

impl Message {
    fn bytes(self) -> [u8; LENGTH] {
        let Message::Connection { uid, gid, pid } = self;
        let mut bytes = [0; LENGTH];
        let words = [CONNECTION, uid, gid, pid].map(u32::to_be_bytes);
        bytes.iter_mut().zip(words.as_flattened()).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Reads what [`Message::bytes`] made, and nothing else.
    fn read(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let mut words =
            bytes.chunks_exact(4).filter_map(|it| Some(u32::from_be_bytes(it.try_into().ok()?)));
        let (kind, uid, gid, pid) = (words.next()?, words.next()?, words.next()?, words.next()?);
        (kind == CONNECTION).then_some(Message::Connection { uid, gid, pid })
    }
}

/// Sends a connection and its ticket, and waits until there is room.
pub(crate) fn send(
    to: &OwnedFd,
    message: Message,
    of: &UnixStream,
    ticket: &OwnedFd,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [of.as_fd(), ticket.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(
            to,
            &[IoSlice::new(&message.bytes())],
            &mut control,
            SendFlags::NOSIGNAL,
        )
    })?;
    Ok(())
}

/// A message, as it came.
#[derive(Debug)]
pub(crate) struct Received {
    said: Message,
    pub(crate) connection: UnixStream,
    pub(crate) ticket: OwnedFd,
}

/// Takes one message without waiting; none at the end of the listener.
///
/// # Errors
///
/// `WouldBlock` where there is none yet; else what came is no message, and whoever sent it is not our listener.
pub(crate) fn receive(from: &OwnedFd) -> io::Result<Option<Received>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // One byte more than a message has, so that a longer one shows.
    let mut bytes = [0; LENGTH + 1];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
    })?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(invalid("it is too long"));
    }
    let said = bytes.get(..received.bytes).and_then(Message::read);
    let said = said.ok_or_else(|| invalid("its kind or its length is none of ours"))?;
    let mut descriptors = descriptors.into_iter();
    match (descriptors.next(), descriptors.next(), descriptors.next()) {
        (Some(connection), Some(ticket), None) => {
            Ok(Some(Received { said, connection: UnixStream::from(connection), ticket }))
        }
        (_, _, _) => Err(invalid("it brings other descriptors")),
    }
}

/// Why a message is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Whoever made the connection can have it so: the listener is heard on.
    Connection(&'static str),
    /// Our listener says no such thing.
    Listener(String),
}

impl Received {
    /// Returns who made the connection, as the kernel noted it in that moment.
    ///
    /// # Errors
    ///
    /// This is not a connection that somebody made to the socket at `path`, its ticket is not one, or the message says something else.
    pub(crate) fn identity(&self, path: &Path) -> Result<Identity, Refused> {
        let of_listener = |error: io::Error| Refused::Listener(error.to_string());
        let failed = |error: rustix::io::Errno| of_listener(error.into());
        self.is_to(path).map_err(|error| {
            Refused::Listener(format!("no descriptor of a connection: {error}"))
        })?;
        let found = rustix::fs::fstat(&self.ticket).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
            return Err(Refused::Listener("no descriptor of a ticket".into()));
        }
        // Whoever connects somewhere has a peer with a name, which the kernel demands of all that listen; its credentials would be
        // those of that other process, which perhaps repeats what it is sent. A client can give itself a name at any moment.
        if !self.connection.peer_addr().map_err(of_listener)?.is_unnamed() {
            return Err(Refused::Connection("the other end of a connection has a name"));
        }
        let identity = Identity::of_peer(&self.connection).map_err(of_listener)?;
        let peer = sockopt::socket_peercred(&self.connection).map_err(failed)?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        let of = Message::Connection { uid: identity.uid, gid: identity.gid, pid };
        match of == self.said {
            true => Ok(identity),
            false => {
                let told = format!("uid {} made it, and {:?} is said", identity.uid, self.said);
                Err(Refused::Listener(told))
            }
        }
    }

    /// Says what is wrong with the connection: it is a stream that does not listen, with the name of our socket.
    fn is_to(&self, path: &Path) -> io::Result<()> {
        let connection = &self.connection;
        let is_stream = sockopt::socket_domain(connection)? == AddressFamily::UNIX
            && sockopt::socket_type(connection)? == SocketType::STREAM
            && !sockopt::socket_acceptconn(connection)?;
        match is_stream && connection.local_addr()?.as_pathname() == Some(path) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(test)]
mod tests;
