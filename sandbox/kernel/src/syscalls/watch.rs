//! System calls that the supervisor makes for callers: notifications, their memory, and acts by descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, PROC_SUPER_MAGIC, RenameFlags};
use rustix::process::PidfdGetfdFlags;

use super::check;

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Notification {
    pub id: u64,
    /// Thread that called, in our process namespace.
    pub thread: u32,
    pub number: i32,
    pub arguments: [u64; 6],
}

/// Takes the next call that waits.
pub fn receive_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // SAFETY: zero is a valid value of every field, and what the kernel asks for.
    let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `found` lives through the call and is what the command writes to.
    let status = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut found)
    };
    check(status.into())?;
    Ok(Notification {
        id: found.id,
        thread: found.pid,
        number: found.data.nr,
        arguments: found.data.args,
    })
}

/// Has a caller and whoever answers it take turns on one processor: the one waits while the other works, and to wake another
/// processor takes longer than most answers. Without it (before Linux 6.6, `linux/seccomp.h`) nothing but time is lost.
pub fn take_turns(listener: BorrowedFd<'_>) {
    /// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`.
    const SET_FLAGS: libc::c_ulong = 0x4008_2104;
    /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: integers only.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
}

/// Says whether the caller of `id` still waits.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: `id` lives through the call and is what the command reads.
    let status = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _, &raw const id)
    };
    status == 0
}

/// Answers a call with a value or an error number.
pub fn answer(listener: BorrowedFd<'_>, id: u64, result: Result<i64, i32>) -> io::Result<()> {
    let (val, error) = match result {
        Ok(value) => (value, 0),
        Err(number) => (0, number.saturating_neg()),
    };
    let response = libc::seccomp_notif_resp { id, val, error, flags: 0 };
    // SAFETY: `response` lives through the call and is what the command reads.
    let status = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw const response)
    };
    check(status.into()).map(drop)
}

/// Puts `file` into the caller and answers with its number. Ours is closed before the caller goes on: it must
/// not find a file open for writing that it has closed itself (`ETXTBSY` of `execve(2)`).
pub fn answer_with_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    file: OwnedFd,
    close_on_exec: bool,
) -> io::Result<()> {
    let request = libc::seccomp_notif_addfd {
        id,
        flags: 0,
        srcfd: file.as_raw_fd().unsigned_abs(),
        newfd: 0,
        newfd_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
    };
    // SAFETY: `request` lives through the call and is what the command reads.
    let number = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD as _, &raw const request)
    };
    let number = check(number.into())?;
    drop(file);
    answer(listener, id, Ok(number))
}

/// Reads memory of the thread `thread` at `address`; returns how many bytes came.
pub fn read_memory(thread: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let thread = i32::try_from(thread).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: buffer.len(),
    };
    // SAFETY: `ours` is the buffer, writable through the call; `theirs` is an address of the other
    // process, which the kernel checks.
    let count =
        unsafe { libc::process_vm_readv(thread, &raw const ours, 1, &raw const theirs, 1, 0) };
    Ok(usize::try_from(check(count as libc::c_long)?).unwrap_or(0))
}

/// Returns a copy of descriptor `number` of the process behind `process`.
pub fn descriptor_of(process: BorrowedFd<'_>, number: i32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}

/// Links the object behind `source` to a new name.
pub fn link_object(
    source: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &Path,
) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, source, directory, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Renames as `renameat2` does.
pub fn rename_at(
    from: BorrowedFd<'_>,
    old: &Path,
    to: BorrowedFd<'_>,
    new: &Path,
    flags: u32,
) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(from, old, to, new, RenameFlags::from_bits_retain(flags))?)
}

/// Makes a fifo, a socket's name or a file.
pub fn make_node_at(directory: BorrowedFd<'_>, name: &Path, mode: u32) -> io::Result<()> {
    // No kind at all is a file (`mknod(2)`).
    let kind = match mode & libc::S_IFMT {
        0 => FileType::RegularFile,
        kind => FileType::from_raw_mode(kind),
    };
    let bits = Mode::from_raw_mode(mode);
    Ok(rustix::fs::mknodat(directory, name, kind, bits, 0)?)
}

/// Returns the text of the symbolic link `name`, or of the link behind `directory` for an empty name.
pub fn read_link_at(directory: BorrowedFd<'_>, name: &Path) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes())
}

/// Says whether `object` lies in a `/proc` file system.
pub fn is_in_proc(object: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(object)?.f_type == PROC_SUPER_MAGIC)
}

/// Connects `socket` to the address in `address`, whose length is given.
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let length = u32::try_from(address.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `address` holds `length` bytes that live through the call; the kernel copies them.
    let status = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    check(status.into()).map(drop)
}

/// Removes a name as `unlinkat` does.
pub fn unlink_at(directory: BorrowedFd<'_>, name: &Path, flags: i32) -> io::Result<()> {
    let flags = AtFlags::from_bits_retain(flags.cast_unsigned());
    Ok(rustix::fs::unlinkat(directory, name, flags)?)
}

/// Gives `socket` the address in `address`.
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let length = u32::try_from(address.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `address` holds `length` bytes that live through the call; the kernel copies them.
    let status = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    check(status.into()).map(drop)
}

/// Fails as a write to `object` would, by its mode first and by its mount then (`faccessat2(2)`).
pub fn may_write(object: BorrowedFd<'_>) -> io::Result<()> {
    // `rustix` takes no empty path here.
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: an empty string that is static, and integers.
    let status = unsafe {
        libc::syscall(libc::SYS_faccessat2, object.as_raw_fd(), c"".as_ptr(), libc::W_OK, flags)
    };
    check(status).map(drop)
}
