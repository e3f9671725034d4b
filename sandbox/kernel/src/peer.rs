//! Process at the other end of a socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Returns a descriptor of the process that was at the other end of a connected Unix socket when it began to listen. Unlike
/// its number it never comes to mean another process. None where the kernel has no such thing (before Linux 6.5).
///
/// # Errors
///
/// Fails if that process is gone, or if the kernel refuses.
#[cfg(target_os = "linux")]
pub fn peer_process(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    match crate::syscalls::peer_process(socket) {
        Ok(process) => Ok(Some(process)),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses.
#[cfg(not(target_os = "linux"))]
pub fn peer_process(_: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the further groups of the process at the other end of a connected Unix socket, as they were when it connected.
///
/// # Errors
///
/// The kernel does not tell.
#[cfg(target_os = "linux")]
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    crate::syscalls::peer_groups(socket)
}

/// Refuses.
#[cfg(not(target_os = "linux"))]
pub fn peer_groups(_: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    Err(io::ErrorKind::Unsupported.into())
}
