//! Mounts by descriptor, and opening paths without following links.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::check;

pub const ATTRIBUTE_READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub const ATTRIBUTE_NO_SET_ID: u64 = libc::MOUNT_ATTR_NOSUID;
pub const ATTRIBUTE_NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
pub const ATTRIBUTE_NO_EXECUTION: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Resolve no symbolic link and no magic link of `/proc` (`openat2(2)`).
pub const NO_LINKS: u64 = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
/// Leave no mount for another (`openat2(2)`).
pub const ONE_MOUNT: u64 = libc::RESOLVE_NO_XDEV;
/// Resolve no magic link of `/proc`.
pub const NO_MAGIC_LINKS: u64 = libc::RESOLVE_NO_MAGICLINKS;

/// Returns flags of `open(2)`, closed on exec.
fn open_flags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC
}

/// Opens `path` from `directory` as `openat2` does.
pub fn open_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let limits = ResolveFlags::from_bits_retain(resolve);
    match rustix::fs::openat2(directory, path, open_flags(flags), Mode::empty(), limits) {
        // Inside another run of ours, or before Linux 5.6, there is no such call.
        Err(rustix::io::Errno::NOSYS) => open_by_parts(directory, path, flags, resolve),
        result => Ok(result?),
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
pub fn open_path(path: &Path, flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    open_at(CWD, path, flags, resolve)
}

/// Opens or makes a file as `openat` does.
pub fn create_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    mode: u32,
) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(directory, path, open_flags(flags), Mode::from_bits_retain(mode))?)
}

/// Opens an object that is held, with other flags: the same object, whatever its name is now.
pub fn reopen(object: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    // An absolute path does not use the directory.
    create_at(object, Path::new(&path), flags, 0)
}

/// Makes a directory.
pub fn make_directory_at(directory: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(directory, path, Mode::from_bits_retain(mode))?)
}

/// Makes a symbolic link at `path` with this text.
pub fn symlink_at(text: &Path, directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(text, directory, path)?)
}

/// Returns a copy, attached nowhere, of the mount at `object` and what is mounted beneath.
pub fn clone_tree(object: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone(object, OpenTreeFlags::AT_RECURSIVE)
}

/// Returns a copy, attached nowhere, of the mount at `object` alone.
pub fn clone_mount(object: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone(object, OpenTreeFlags::empty())
}

fn clone(object: BorrowedFd<'_>, depth: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | depth;
    Ok(rustix::mount::open_tree(object, c"", flags)?)
}

/// Attaches the tree `from` on top of `target`.
pub fn attach(from: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(from, c"", target, c"", flags)?)
}

/// Attaches the tree `from` on top of what is called `name` in `directory`, following no link at the end.
pub fn attach_at(from: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(from, c"", directory, name, flags)?)
}

/// Returns attributes that are all off, and nothing that changes.
fn no_attributes() -> libc::mount_attr {
    libc::mount_attr { attr_set: 0, attr_clr: 0, propagation: 0, userns_fd: 0 }
}

/// Sets attributes of the mount at `object` and of what is mounted beneath.
pub fn set_tree_attributes(object: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, ..no_attributes() };
    change(object, libc::AT_RECURSIVE, &attributes)
}

/// Sets attributes of the mount at `object` alone.
pub fn set_attributes(object: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    change(object, 0, &libc::mount_attr { attr_set: set, ..no_attributes() })
}

/// Shows the ids of the detached `tree` through the map of a user namespace, and makes it private.
pub fn map_ids(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let number =
        u64::try_from(user_namespace.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        // Else what is mounted on it later would appear on the host, too.
        propagation: libc::MS_PRIVATE,
        userns_fd: number,
        ..no_attributes()
    };
    change(tree, libc::AT_RECURSIVE, &attributes)
}

fn change(object: BorrowedFd<'_>, depth: i32, attributes: &libc::mount_attr) -> io::Result<()> {
    // SAFETY: the structure lives through the call, and the size given is its own.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            object.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | depth,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    check(status).map(drop)
}

/// Makes a new file system of type `kind`, mounted nowhere yet.
pub fn new_file_system(
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
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    for key in flags {
        rustix::mount::fsconfig_set_flag(context.as_fd(), *key)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = u32::try_from(attributes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attributes = MountAttrFlags::from_bits_retain(attributes);
    Ok(rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Makes an overlay of the directories `lower`, `upper` and `work`, mounted nowhere yet.
pub fn new_overlay(
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
        // Attributes in the layers lead nowhere, whoever wrote them.
        (c"redirect_dir", c"nofollow"),
        (c"metacopy", c"off"),
        (c"index", c"off"),
    ];
    // Without the second one its end would wait until all of the disk is written.
    make(c"overlay", &options, &[c"userxattr", c"volatile"], attributes)
}

/// Changes an option of the file system that is mounted at `mount`.
pub fn reconfigure(mount: BorrowedFd<'_>, key: &CStr, value: &CStr) -> io::Result<()> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = rustix::mount::fspick(mount, c"", flags)?;
    rustix::mount::fsconfig_set_string(context.as_fd(), key, value)?;
    Ok(rustix::mount::fsconfig_reconfigure(context.as_fd())?)
}

/// Makes all mounts of this namespace private.
pub fn make_private() -> io::Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change(c"/", flags)?)
}

/// Makes the mount at the working directory the root, with the old root on top of it.
pub fn pivot_here() -> io::Result<()> {
    Ok(rustix::process::pivot_root(c".", c".")?)
}

/// Detaches the mount on top of the working directory, with all beneath: of several that lie on each other the last.
pub fn detach_here() -> io::Result<()> {
    Ok(rustix::mount::unmount(c".", UnmountFlags::DETACH)?)
}

/// Changes the working directory.
pub fn change_directory(directory: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::fchdir(directory)?)
}

/// Returns the flags that an open file has now.
pub fn status_flags(file: BorrowedFd<'_>) -> io::Result<i32> {
    Ok(rustix::fs::fcntl_getfl(file)?.bits().cast_signed())
}

/// Sets the flags of an open file that can be changed (`F_SETFL` in `fcntl(2)`).
pub fn set_status_flags(file: BorrowedFd<'_>, flags: i32) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(file, OFlags::from_bits_retain(flags.cast_unsigned()))?)
}

/// Returns how many bytes of the file system at `object` are used.
pub fn used_bytes(object: BorrowedFd<'_>) -> io::Result<u64> {
    let found = rustix::fs::fstatfs(object)?;
    let block = u64::try_from(found.f_bsize).unwrap_or(0);
    Ok(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(block))
}

/// Returns which kind of object a descriptor is of: one of the `S_IF…` numbers.
pub fn kind(fd: BorrowedFd<'_>) -> io::Result<libc::mode_t> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    Ok(FileType::from_raw_mode(mode).as_raw_mode())
}
