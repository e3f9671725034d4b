//! Writing that waits for nothing, where the kind of descriptor allows to say so for a single call: a flag of
//! the descriptor itself would hold for all that share it.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use rustix::net::{SendFlags, send};

/// The place in a file that means "where the last call ended" (preadv2(2)).
const HERE: u64 = u64::MAX;

/// Kind of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file of a disk, or the empty device: nobody at the other end can hold it up.
    File,
    Pipe,
    Socket,
    /// A terminal or another device: a call may wait.
    Other,
}

impl Kind {
    pub(super) fn of(descriptor: BorrowedFd<'_>) -> Kind {
        match fstat(descriptor).map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::RegularFile) => Kind::File,
            Ok(FileType::Fifo) => Kind::Pipe,
            Ok(FileType::Socket) => Kind::Socket,
            Ok(_) if super::is_empty_device(descriptor) => Kind::File,
            Ok(_) | Err(_) => Kind::Other,
        }
    }
}

/// Writes as much of `bytes` as goes without waiting; returns how many went. None when a thread has to do it.
pub(super) fn write(to: BorrowedFd<'_>, kind: Kind, bytes: &[u8]) -> Option<Result<usize, Errno>> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let result = match kind {
            Kind::File => rustix::io::write(to, rest),
            Kind::Pipe => pwritev2(to, &[IoSlice::new(rest)], HERE, ReadWriteFlags::NOWAIT),
            Kind::Socket => send(to, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Kind::Other => return None,
        };
        match result {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            // A kernel that cannot say so for a pipe, before 6.5.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if kind == Kind::Pipe => break,
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(written))
}
