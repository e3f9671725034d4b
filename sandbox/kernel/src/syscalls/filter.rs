//! Finds the Landlock ABI of the kernel, and installs filters.

use std::io;
use std::os::fd::OwnedFd;

use super::{check, owned};

const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;

/// Returns the Landlock ABI of the kernel.
pub fn landlock_abi() -> io::Result<u32> {
    // SAFETY: with a null attribute and size 0 the kernel reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    Ok(u32::try_from(check(version)?).unwrap_or(0))
}

/// Installs a filter on this thread and what it starts.
pub fn seccomp_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// Installs a filter whose notifications come out of the returned descriptor.
pub fn seccomp_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
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
