//! Every system call that the standard library does not offer: one function each, safe outside.
//!
//! This module and its parts are the only unsafe code of the project. Each wrapper passes integers,
//! or pointers to memory that its own arguments keep alive for the length of the call.
#![allow(unsafe_code)]

mod attributes;
mod filter;
mod last_words;
mod mount;
mod namespace;
mod process;
mod socket;
mod terminal;
mod watch;

pub use attributes::*;
pub use filter::*;
pub use last_words::*;
pub use mount::*;
pub use namespace::*;
pub use process::*;
pub use socket::*;
pub use terminal::*;
pub use watch::*;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Turns the -1 of a system call into the error it left.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns the descriptor that a system call returned into an owned one.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let raw = RawFd::try_from(check(result)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just returned `raw` as a new descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
