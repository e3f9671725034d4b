//! Namespaces that are there already.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::rand::GetRandomFlags;

use super::check;

/// Makes a queue for messages of System V and removes it again (`msgget(2)`).
pub fn try_message_queue() -> io::Result<()> {
    // SAFETY: integers only.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    let queue = check(queue.into())?;
    let queue = i32::try_from(queue).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: removing reads no memory.
    let removed = unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
    check(removed.into()).map(drop)
}

/// Takes the namespace that `namespace` is a descriptor of in the place of this process's own; `kind` is its `CLONE_NEW*`
/// bit. For a user namespace there must be one thread (`setns(2)`).
pub fn join_namespace(namespace: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: integers only, and the descriptor is open as long as it is borrowed.
    let status = unsafe { libc::setns(namespace.as_raw_fd(), kind) };
    check(status.into()).map(drop)
}

/// Returns the user namespace that owns `namespace` (`NS_GET_USERNS` of `ioctl_ns(2)`, since Linux 4.9).
pub fn owner_of(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the request has no argument, and the descriptor is open as long as it is borrowed.
    let owner = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_USERNS as _) };
    check(owner.into())?;
    // SAFETY: the kernel has just opened this descriptor for this process, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(owner) })
}

/// Takes new namespaces of these kinds (`CLONE_NEW*` bits) in the place of this process's own (`unshare(2)`).
pub fn leave_namespaces(kinds: i32) -> io::Result<()> {
    // SAFETY: integers only; no kind that is asked for changes memory or descriptors of this process.
    let status = unsafe { libc::unshare(kinds) };
    check(status.into()).map(drop)
}

/// Returns a number that nobody foresees (`getrandom(2)`).
pub fn random_number() -> io::Result<u32> {
    let mut bytes = [0_u8; 4];
    match rustix::rand::getrandom(&mut bytes[..], GetRandomFlags::empty())? {
        4 => Ok(u32::from_ne_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
