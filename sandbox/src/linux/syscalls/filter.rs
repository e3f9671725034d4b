//! Landlock and seccomp: the calls that take rights away.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{check, owned};

/// `struct landlock_ruleset_attr` as of ABI 6 (Landlock's user space API, `linux/landlock.h`).
#[repr(C)]
pub(crate) struct RulesetAttributes {
    pub(crate) handled_access_fs: u64,
    pub(crate) handled_access_net: u64,
    pub(crate) scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
const LANDLOCK_RULE_PATH_BENEATH: u32 = 1;

/// Returns the Landlock ABI of the kernel.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    // SAFETY: with a null attribute and size 0 the kernel reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttributes>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    Ok(u32::try_from(check(version)?).unwrap_or(0))
}

/// Makes a ruleset; `size` is how much of `attributes` this kernel's ABI knows.
pub(crate) fn landlock_create(attributes: &RulesetAttributes, size: usize) -> io::Result<OwnedFd> {
    let size = size.min(size_of::<RulesetAttributes>());
    // SAFETY: `attributes` lives through the call and holds at least `size` bytes.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(attributes),
            size,
            0_u32,
        )
    };
    owned(fd)
}

/// Grants `access` on what lies beneath `parent`.
pub(crate) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    access: u64,
) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: access, parent_fd: parent.as_raw_fd() };
    // SAFETY: `rule` lives through the call and has the layout that the rule type names.
    let status = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            LANDLOCK_RULE_PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    };
    check(status).map(drop)
}

/// Restricts this thread, and what it starts, to the ruleset.
pub(crate) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers only.
    let status =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    check(status).map(drop)
}

/// Installs a filter on this thread and what it starts.
pub(crate) fn seccomp_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// Installs a filter whose notifications come out of the returned descriptor.
pub(crate) fn seccomp_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match install(program, flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        // Kernels before 5.19 do not know the second flag.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => owned(install(program, flags)?),
        result => owned(result?),
    }
}

fn install(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` points at `len` instructions that live through the call; the kernel copies
    // them and writes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    check(result)
}
