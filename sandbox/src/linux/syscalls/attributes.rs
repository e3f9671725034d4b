//! What a file has beside its bytes: owner, times, extended attributes; and copies that share the bytes on the disk.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use super::{c_path, check};

/// Longest list of names and longest value of extended attributes (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
pub(crate) const MOST_ATTRIBUTE: usize = 65_536;

/// Makes the empty file `to` share the bytes of `from` on the disk, where the file system can.
pub(crate) fn clone_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers only.
    let status = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) };
    check(status.into()).map(drop)
}

/// Sets the times of an object that is held, to now without any.
pub(crate) fn set_times(
    object: BorrowedFd<'_>,
    times: Option<&[libc::timespec; 2]>,
) -> io::Result<()> {
    let times = times.map_or(std::ptr::null(), |times| times.as_ptr());
    // SAFETY: an empty string that is static, and two times or a null pointer, which the kernel takes for now.
    let status =
        unsafe { libc::utimensat(object.as_raw_fd(), c"".as_ptr(), times, libc::AT_EMPTY_PATH) };
    check(status.into()).map(drop)
}

/// Sets owner and group of an object that is held; the highest number leaves one as it is.
pub(crate) fn set_owner(object: BorrowedFd<'_>, user: u32, group: u32) -> io::Result<()> {
    // SAFETY: an empty string that is static, and integers.
    let status = unsafe {
        libc::fchownat(object.as_raw_fd(), c"".as_ptr(), user, group, libc::AT_EMPTY_PATH)
    };
    check(status.into()).map(drop)
}

/// Sets an extended attribute of the file at `path`, following links.
pub(crate) fn set_attribute(path: &Path, name: &CStr, value: &[u8], flags: i32) -> io::Result<()> {
    let path = c_path(path)?;
    let bytes = value.as_ptr().cast();
    // SAFETY: both strings and the value live through the call, and the length is the value's.
    let status = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), bytes, value.len(), flags) };
    check(status.into()).map(drop)
}

/// Removes an extended attribute of the file at `path`, following links.
pub(crate) fn remove_attribute(path: &Path, name: &CStr) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: both strings live through the call.
    let status = unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) };
    check(status.into()).map(drop)
}

/// Returns the extended attributes of an open file.
pub(crate) fn attributes(file: BorrowedFd<'_>) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let mut names = vec![0_u8; MOST_ATTRIBUTE];
    // SAFETY: at most as many bytes are written as there are.
    let length =
        unsafe { libc::flistxattr(file.as_raw_fd(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(check(length as libc::c_long)?).unwrap_or(0));
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = CString::new(name)?;
        let mut value = vec![0_u8; MOST_ATTRIBUTE];
        let bytes = value.as_mut_ptr().cast();
        // SAFETY: the name ends with a zero, and at most as many bytes are written as there are.
        let length =
            unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), bytes, value.len()) };
        value.truncate(usize::try_from(check(length as libc::c_long)?).unwrap_or(0));
        found.push((name, value));
    }
    Ok(found)
}
