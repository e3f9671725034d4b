//! Mounts by descriptor, and opening paths without following links.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{check, owned};

pub(crate) const ATTRIBUTE_READ_ONLY: u64 = 0x1;
pub(crate) const ATTRIBUTE_NO_SET_ID: u64 = 0x2;
pub(crate) const ATTRIBUTE_NO_DEVICES: u64 = 0x4;
pub(crate) const ATTRIBUTE_NO_EXECUTION: u64 = 0x8;
const ATTRIBUTE_MAPPED_IDS: u64 = 0x0010_0000;

/// Resolve no symbolic link and no magic link of `/proc` (`openat2(2)`).
pub(crate) const NO_LINKS: u64 = 0x04 | 0x02;
/// Leave no mount for another (`openat2(2)`).
pub(crate) const ONE_MOUNT: u64 = 0x01;
/// Resolve no magic link of `/proc`.
pub(crate) const NO_MAGIC_LINKS: u64 = 0x02;

const OPEN_TREE_CLONE: u32 = 1;
const AT_RECURSIVE: u32 = 0x8000;
const AT_EMPTY_PATH: u32 = 0x1000;
const MOVE_FROM_DESCRIPTOR: u32 = 0x04;
const MOVE_FROM_AND_TO_DESCRIPTORS: u32 = MOVE_FROM_DESCRIPTOR | 0x40;

/// Returns `path` as the kernel wants it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Opens `path` from `directory` as `openat2` does.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    /// `struct open_how`.
    #[repr(C)]
    struct How {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    let text = c_path(path)?;
    let how = How {
        flags: u64::try_from(flags | libc::O_CLOEXEC).map_err(|_| io::ErrorKind::InvalidInput)?,
        mode: 0,
        resolve,
    };
    // SAFETY: path and structure live through the call, and the size given is the structure's.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            directory.as_raw_fd(),
            text.as_ptr(),
            &raw const how,
            size_of::<How>(),
        )
    };
    match owned(fd) {
        // Inside another run of ours, or before Linux 5.6, there is no such call.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            open_by_parts(directory, path, flags, resolve)
        }
        result => result,
    }
}

/// Opens like `openat2` with [`NO_LINKS`], one component at a time; with 0 like `openat`.
fn open_by_parts(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    if resolve == 0 {
        return create_at(directory, path, flags, 0);
    }
    if resolve != NO_LINKS {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let mut at = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let from = at.as_ref().map_or(directory, AsFd::as_fd);
        let step = match parts.peek() {
            Some(_) => libc::O_PATH | libc::O_DIRECTORY,
            None => flags,
        };
        match part {
            std::path::Component::ParentDir => return Err(io::ErrorKind::InvalidInput.into()),
            std::path::Component::CurDir if parts.peek().is_some() => continue,
            _ => {}
        }
        let opened = create_at(from, part.as_ref(), step | libc::O_NOFOLLOW, 0)?;
        let is_link = std::fs::File::from(opened.try_clone()?).metadata()?.is_symlink();
        if is_link && (parts.peek().is_some() || flags & libc::O_NOFOLLOW == 0) {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        at = Some(opened);
    }
    at.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Opens an absolute `path` as `openat2` does.
pub(crate) fn open_path(path: &Path, flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: AT_FDCWD is no descriptor that could be closed, and an absolute path does not use it.
    let nowhere = unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };
    open_at(nowhere, path, flags, resolve)
}

/// Opens or makes a file as `openat` does.
pub(crate) fn create_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    mode: u32,
) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path lives through the call.
    let fd = unsafe {
        libc::openat(directory.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC, mode)
    };
    owned(fd.into())
}

/// Opens an object that is held, with other flags: the same object, whatever its name is now.
pub(crate) fn reopen(object: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    // An absolute path does not use the directory.
    create_at(object, Path::new(&path), flags, 0)
}

/// Makes a directory.
pub(crate) fn make_directory_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    mode: u32,
) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path lives through the call.
    let status = unsafe { libc::mkdirat(directory.as_raw_fd(), path.as_ptr(), mode) };
    check(status.into()).map(drop)
}

/// Makes a symbolic link at `path` with this text.
pub(crate) fn symlink_at(text: &Path, directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (text, path) = (c_path(text)?, c_path(path)?);
    // SAFETY: both strings live through the call.
    let status = unsafe { libc::symlinkat(text.as_ptr(), directory.as_raw_fd(), path.as_ptr()) };
    check(status.into()).map(drop)
}

/// Returns a copy, attached nowhere, of the mount at `object` and what is mounted beneath.
pub(crate) fn clone_tree(object: BorrowedFd<'_>, recursive: bool) -> io::Result<OwnedFd> {
    let deep = if recursive { AT_RECURSIVE } else { 0 };
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | deep | libc::O_CLOEXEC.unsigned_abs();
    // SAFETY: the empty path is a static string; the rest are integers.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, object.as_raw_fd(), c"".as_ptr(), flags) };
    owned(fd)
}

/// Attaches the tree `from` on top of `target`.
pub(crate) fn attach(from: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the empty paths are static strings; the rest are integers.
    let status = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_FROM_AND_TO_DESCRIPTORS,
        )
    };
    check(status).map(drop)
}

/// Attaches the tree `from` on top of what is called `name` in `directory`, following no link at the end.
pub(crate) fn attach_at(
    from: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &Path,
) -> io::Result<()> {
    let name = c_path(name)?;
    // SAFETY: both strings live through the call; the rest are integers.
    let status = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from.as_raw_fd(),
            c"".as_ptr(),
            directory.as_raw_fd(),
            name.as_ptr(),
            MOVE_FROM_DESCRIPTOR,
        )
    };
    check(status).map(drop)
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes of the mount at `object`, and of what is mounted beneath if `recursive`.
pub(crate) fn set_attributes(object: BorrowedFd<'_>, recursive: bool, set: u64) -> io::Result<()> {
    change(object, recursive, &Attributes { set, ..Attributes::default() })
}

/// Shows the ids of the detached `tree` through the map of a user namespace, and makes it private.
pub(crate) fn map_ids(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let number =
        u64::try_from(user_namespace.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attributes = Attributes {
        set: ATTRIBUTE_MAPPED_IDS,
        // Else what is mounted on it later would appear on the host, too.
        propagation: libc::MS_PRIVATE,
        user_namespace: number,
        ..Attributes::default()
    };
    change(tree, true, &attributes)
}

fn change(object: BorrowedFd<'_>, recursive: bool, attributes: &Attributes) -> io::Result<()> {
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the structure lives through the call, and the size given is its own.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            object.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    check(status).map(drop)
}

/// Makes a new file system of type `kind`, mounted nowhere yet.
pub(crate) fn new_file_system(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    make(kind, options, &[], attributes)
}

fn make(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    flags: &[&CStr],
    attributes: u64,
) -> io::Result<OwnedFd> {
    const CREATE: u32 = 6;
    // SAFETY: `kind` lives through the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1_u32) })?;
    for (key, value) in options {
        configure(&context, 1, key.as_ptr(), value.as_ptr())?;
    }
    for key in flags {
        configure(&context, 0, key.as_ptr(), std::ptr::null())?;
    }
    configure(&context, CREATE, std::ptr::null(), std::ptr::null())?;
    // SAFETY: integers only.
    let fd = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1_u32, attributes) };
    owned(fd)
}

/// Makes an overlay of the directories `lower`, `upper` and `work`, mounted nowhere yet.
pub(crate) fn new_overlay(
    [lower, upper, work]: [BorrowedFd<'_>; 3],
    attributes: u64,
) -> io::Result<OwnedFd> {
    // As texts: the kernel takes descriptors from 6.13 on.
    let path = |object: BorrowedFd<'_>| {
        CString::new(format!("/proc/self/fd/{}", object.as_raw_fd()))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (lower, upper, work) = (path(lower)?, path(upper)?, path(work)?);
    let options = [
        (c"source", c"stockade"),
        (c"lowerdir", lower.as_c_str()),
        (c"upperdir", upper.as_c_str()),
        (c"workdir", work.as_c_str()),
        // What the layers say of themselves leads nowhere, whoever wrote it.
        (c"redirect_dir", c"nofollow"),
        (c"metacopy", c"off"),
        (c"index", c"off"),
    ];
    // Without the second one its end would wait until all of the disk is written.
    make(c"overlay", &options, &[c"userxattr", c"volatile"], attributes)
}

/// Changes an option of the file system that is mounted at `mount`.
pub(crate) fn reconfigure(mount: BorrowedFd<'_>, key: &CStr, value: &CStr) -> io::Result<()> {
    const RECONFIGURE: u32 = 7;
    const CLOSE_ON_EXEC: u32 = 1;
    const EMPTY_PATH: u32 = 8;
    let flags = CLOSE_ON_EXEC | EMPTY_PATH;
    // SAFETY: the empty path is a static string; the rest are integers.
    let context =
        owned(unsafe { libc::syscall(libc::SYS_fspick, mount.as_raw_fd(), c"".as_ptr(), flags) })?;
    configure(&context, 1, key.as_ptr(), value.as_ptr())?;
    configure(&context, RECONFIGURE, std::ptr::null(), std::ptr::null())
}

fn configure(
    context: &OwnedFd,
    command: u32,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> io::Result<()> {
    // SAFETY: key and value are null or strings that `new_file_system` keeps through the call.
    let status = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0_i32)
    };
    check(status).map(drop)
}

/// Makes all mounts of this namespace private.
pub(crate) fn make_private() -> io::Result<()> {
    // SAFETY: static strings; source, type and data may be null for a change of propagation.
    let status = unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    };
    check(status.into()).map(drop)
}

/// Makes the mount at the working directory the root, with the old root on top of it.
pub(crate) fn pivot_here() -> io::Result<()> {
    // SAFETY: static strings.
    let status = unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) };
    check(status).map(drop)
}

/// Detaches the mount on top of the working directory, with all beneath: of several that lie on each other the last.
pub(crate) fn detach_here() -> io::Result<()> {
    // SAFETY: static string.
    let status = unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) };
    check(status.into()).map(drop)
}

/// Changes the working directory.
pub(crate) fn change_directory(directory: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers only.
    let status = unsafe { libc::fchdir(directory.as_raw_fd()) };
    check(status.into()).map(drop)
}

/// Returns the flags that an open file has now.
pub(crate) fn status_flags(file: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: integers only.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    check(flags.into())?;
    Ok(flags)
}

/// Sets the flags of an open file that can be changed (`F_SETFL` in `fcntl(2)`).
pub(crate) fn set_status_flags(file: BorrowedFd<'_>, flags: i32) -> io::Result<()> {
    // SAFETY: integers only.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) };
    check(status.into()).map(drop)
}

/// Returns how many bytes of the file system at `object` are used.
pub(crate) fn used_bytes(object: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: zero is a valid value of every field of `statfs64`.
    let mut found: libc::statfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: `found` lives through the call.
    let status = unsafe { libc::fstatfs64(object.as_raw_fd(), &raw mut found) };
    check(status.into())?;
    let block = u64::try_from(found.f_bsize).unwrap_or(0);
    Ok(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(block))
}

/// Returns which kind of object a descriptor is of: one of the `S_IF…` numbers.
pub(crate) fn kind(fd: BorrowedFd<'_>) -> io::Result<libc::mode_t> {
    let mut found = std::mem::MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: the pointer is to a local that lives through the call.
    let status = unsafe { libc::fstat64(fd.as_raw_fd(), found.as_mut_ptr()) };
    check(status.into())?;
    // SAFETY: all bytes were zeroed above, and zero is a valid value of every field.
    let found = unsafe { found.assume_init() };
    Ok(found.st_mode & libc::S_IFMT)
}
