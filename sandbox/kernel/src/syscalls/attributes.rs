//! Attributes of a file beside its bytes: owner, times, extended attributes; and copies that share the bytes on the
//! disk.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Uid, XattrFlags};

use super::check;

/// Longest list of names and longest value of extended attributes (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
pub const MOST_ATTRIBUTE: usize = 65_536;

/// Makes the empty file `to` share the bytes of `from` on the disk, where the file system can.
pub fn clone_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

/// Sets the times of an object that is held, to now without any.
pub fn set_times(object: BorrowedFd<'_>, times: Option<&[libc::timespec; 2]>) -> io::Result<()> {
    let times = times.map_or(std::ptr::null(), |times| times.as_ptr());
    // SAFETY: an empty string that is static, and two times or a null pointer, which the kernel takes for now.
    let status =
        unsafe { libc::utimensat(object.as_raw_fd(), c"".as_ptr(), times, libc::AT_EMPTY_PATH) };
    check(status.into()).map(drop)
}

/// Sets owner and group of an object that is held; the highest number leaves one as it is.
pub fn set_owner(object: BorrowedFd<'_>, user: u32, group: u32) -> io::Result<()> {
    let user = (user != u32::MAX).then(|| Uid::from_raw(user));
    let group = (group != u32::MAX).then(|| Gid::from_raw(group));
    Ok(rustix::fs::chownat(object, c"", user, group, AtFlags::EMPTY_PATH)?)
}

/// Sets an extended attribute of the file at `path`, following links.
pub fn set_attribute(path: &Path, name: &CStr, value: &[u8], flags: i32) -> io::Result<()> {
    let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
    Ok(rustix::fs::setxattr(path, name, value, flags)?)
}

/// Removes an extended attribute of the file at `path`, following links.
pub fn remove_attribute(path: &Path, name: &CStr) -> io::Result<()> {
    Ok(rustix::fs::removexattr(path, name)?)
}

/// Returns the extended attributes of an open file.
pub fn attributes(file: BorrowedFd<'_>) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let mut names = vec![0_u8; MOST_ATTRIBUTE];
    let length = rustix::fs::flistxattr(file, &mut names[..])?;
    names.truncate(length);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = CString::new(name)?;
        let mut value = vec![0_u8; MOST_ATTRIBUTE];
        let length = rustix::fs::fgetxattr(file, &name, &mut value[..])?;
        value.truncate(length);
        found.push((name, value));
    }
    Ok(found)
}
