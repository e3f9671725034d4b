//! Descriptors over sockets, waiting, and the loopback interface.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags};

use super::{check, owned};

/// Most descriptors that one message carries here.
const MOST: usize = 5;

/// `SO_PEERPIDFD` (`asm-generic/socket.h`, Linux 6.5).
const SO_PEERPIDFD: libc::c_int = 77;

/// Returns a descriptor of the process that made the other end of a connected Unix socket, or listened there.
pub fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut process: libc::c_int = -1;
    let mut length: libc::socklen_t = 4;
    // SAFETY: `process` and its length live through the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut process).cast(),
            &raw mut length,
        )
    };
    check(status.into())?;
    owned(process.into())
}

/// Most groups that a user of Linux has (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

/// Returns the further groups of the process at the other end of a Unix socket, as they were when it connected.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; MOST_GROUPS];
    let size = size_of::<libc::gid_t>();
    let mut length = libc::socklen_t::try_from(groups.len() * size).unwrap_or(0);
    // SAFETY: `groups` has `length` bytes, and both live through the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(status.into())?;
    groups.truncate(usize::try_from(length).unwrap_or(0) / size);
    Ok(groups)
}

/// Writes what the socket takes of `bytes` without waiting, and returns how much that is.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// Sends `bytes`, and with the first of them `descriptors`, if there are any; returns how many bytes went out.
pub fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
    if !fits {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(bytes)];
    Ok(rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes and the descriptors that came with them, closed on exec.
pub fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    // A process that was stopped and goes on (`signal(7)`) has received nothing yet.
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(some) => descriptors.extend(some),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok((received.bytes, descriptors))
}

/// Waits until one of the descriptors has one of its events; returns the events of each.
///
/// `None` waits without end. A closed peer is reported as `POLLHUP` whether asked for or not.
pub fn poll(
    descriptors: &[(BorrowedFd<'_>, i16)],
    timeout: Option<Duration>,
) -> io::Result<Vec<i16>> {
    let events = |events: i16| PollFlags::from_bits_retain(events.cast_unsigned());
    let mut entries: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|(fd, wanted)| PollFd::from_borrowed_fd(*fd, events(*wanted)))
        .collect();
    // A time that is longer than the kernel's is without end.
    let timeout: Option<Timespec> = timeout.and_then(|time| time.try_into().ok());
    match rustix::event::poll(&mut entries, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(vec![0; entries.len()]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(entries.iter().map(|it| it.revents().bits().cast_signed()).collect()),
    }
}

/// Switches the loopback interface of this network namespace on.
pub fn loopback_up() -> io::Result<()> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zero is a valid value of every field of `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (target, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *target = libc::c_char::try_from(*byte).unwrap_or(0);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    // SAFETY: `request` lives through the call and is what SIOCSIFFLAGS takes (`netdevice(7)`).
    let status =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check(status.into()).map(drop)
}

/// Returns a descriptor of the process `pid`, readable when it has ended.
pub fn process_descriptor(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}
