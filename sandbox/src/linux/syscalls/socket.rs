//! Descriptors over sockets, waiting, and the loopback interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{check, owned};

/// Most descriptors that one message carries here.
const MOST: usize = 5;

/// Room for the control message of `MOST` descriptors, aligned as `cmsghdr` wants.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// `SO_PEERPIDFD` (`asm-generic/socket.h`, Linux 6.5).
const SO_PEERPIDFD: libc::c_int = 77;

/// Returns a descriptor of the process that made the other end of a connected Unix socket, or listened there.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
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

/// Writes what the socket takes of `bytes` without waiting, and returns how much that is.
pub(crate) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` lives through the call, which reads no more than its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    Ok(usize::try_from(check(sent as libc::c_long)?).unwrap_or(0))
}

/// Sends `bytes`, and with the first of them `descriptors`; returns how many bytes went out.
pub(crate) fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if descriptors.is_empty() || descriptors.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let payload =
        u32::try_from(size_of_val(descriptors)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = empty_message(&mut part, &mut control);
    // SAFETY: CMSG_SPACE only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as usize;
    // SAFETY: `message` names a control buffer that is longer than one header.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: CMSG_LEN only computes.
    let length = unsafe { libc::CMSG_LEN(payload) } as usize;
    let filled = libc::cmsghdr {
        cmsg_len: length,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    // SAFETY: `header` points at the start of `control`, which is aligned and long enough.
    unsafe { header.write(filled) };
    // SAFETY: `header` is inside `control`; the result is the byte after the header.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: at most MOST descriptors of four bytes each fit behind the header in 64 bytes;
    // `BorrowedFd` is `repr(transparent)` over a raw descriptor.
    unsafe {
        std::ptr::copy_nonoverlapping(descriptors.as_ptr().cast::<u8>(), data, payload as usize);
    };
    // SAFETY: `message` and all it points at live through the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    Ok(usize::try_from(check(sent as libc::c_long)?).unwrap_or(0))
}

/// Receives bytes and the descriptors that came with them, closed on exec.
pub(crate) fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = empty_message(&mut part, &mut control);
    let received = loop {
        // SAFETY: `message` and all it points at live through the call and are writable.
        let received =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        match check(received as libc::c_long) {
            // A process that was stopped and goes on (`signal(7)`): nothing was received yet.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break usize::try_from(result?).unwrap_or(0),
        }
    };
    let mut descriptors = Vec::new();
    // SAFETY: the kernel left `message` describing the control buffer.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok((received, descriptors));
    }
    // SAFETY: not null, so it points at a whole header in `control`.
    let filled = unsafe { header.read() };
    if filled.cmsg_level != libc::SOL_SOCKET || filled.cmsg_type != libc::SCM_RIGHTS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: CMSG_LEN only computes.
    let overhead = unsafe { libc::CMSG_LEN(0) } as usize;
    let count = filled.cmsg_len.saturating_sub(overhead) / size_of::<RawFd>();
    // SAFETY: `header` is inside `control`.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
    for index in 0..count.min(MOST + 8) {
        // SAFETY: the kernel's length says that `count` descriptors lie there.
        let place = unsafe { data.add(index) };
        // SAFETY: inside the control buffer, as above; each is read once.
        let raw = unsafe { place.read_unaligned() };
        // SAFETY: the kernel made this descriptor for this process with the message.
        descriptors.push(unsafe { OwnedFd::from_raw_fd(raw) });
    }
    Ok((received, descriptors))
}

fn empty_message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: zero is a valid value of every field of `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = std::ptr::from_mut(part);
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    message
}

/// Waits until one of the descriptors has one of its events; returns the events of each.
///
/// `None` waits without end. A closed peer is reported as `POLLHUP` whether asked for or not.
pub(crate) fn poll(
    descriptors: &[(BorrowedFd<'_>, i16)],
    timeout: Option<Duration>,
) -> io::Result<Vec<i16>> {
    let mut entries: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(fd, events)| libc::pollfd { fd: fd.as_raw_fd(), events: *events, revents: 0 })
        .collect();
    let count = libc::nfds_t::try_from(entries.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let timeout = timeout
        .map_or(-1, |time| i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    // SAFETY: `entries` holds `count` entries and lives through the call.
    let status = unsafe { libc::poll(entries.as_mut_ptr(), count, timeout) };
    match check(status.into()) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![0; entries.len()]),
        Err(error) => Err(error),
        Ok(_) => Ok(entries.iter().map(|entry| entry.revents).collect()),
    }
}

/// Switches the loopback interface of this network namespace on.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: integers only.
    let socket = owned(
        unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }.into(),
    )?;
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
pub(crate) fn process_descriptor(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: integers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) })
}
