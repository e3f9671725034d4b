//! Room on the disk for what is still to be written of commands that run.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// File systems that count the blocks of a file as they are, those beyond its end among them (`linux/magic.h`): ext4,
/// tmpfs. Others count what they may take back.
const COUNTED: [u64; 2] = [0xef53, 0x0102_1994];

/// Bytes that a file system may count for what it needs itself to find the blocks of a file.
const COUNTED_TOO: u64 = 64 << 10;

/// Returns up to where blocks are reserved already, as far as that is certain: the log has no holes, so that what it has more
/// than its length lies behind its end. Another gateway reserved it, and it stays with the segment.
pub(super) fn reserved_before(file: &File) -> u64 {
    let kind = rustix::fs::fstatfs(file).ok().and_then(|found| u64::try_from(found.f_type).ok());
    match kind.filter(|kind| COUNTED.contains(kind)).and_then(|_| file.metadata().ok()) {
        Some(found) => (found.blocks() * 512).saturating_sub(COUNTED_TOO),
        None => 0,
    }
}

/// Reserves disk blocks from `from` to beyond `needed` without changing the size, and returns up to
/// where they reach. A file system that cannot reserve is used as it is.
pub(super) fn reserve(file: &File, from: u64, needed: u64) -> io::Result<u64> {
    let generous = needed.next_multiple_of(1 << 20);
    for end in [generous, needed] {
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, end - from) {
            Ok(()) => return Ok(end),
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(u64::MAX),
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) if end == generous => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;
    use crate::tests::sample::Scratch;

    const ROOM: u64 = 192 << 10;

    #[test]
    fn what_was_reserved_is_known_to_the_next_and_what_was_given_back_is_not() {
        let scratch = Scratch::new("reserved");
        let path = scratch.folder.join("00000001.jsonl");
        fs::write(&path, [b'a'; 5000]).unwrap();
        let open = || OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(reserved_before(&open()), 0);
        let reserved = reserve(&open(), 5000, 5000 + ROOM).unwrap();
        let known = reserved_before(&open());
        let counts = rustix::fs::fstatfs(open())
            .is_ok_and(|it| COUNTED.contains(&u64::try_from(it.f_type).unwrap()));
        if counts && reserved != u64::MAX {
            assert!((5000 + ROOM..=reserved).contains(&known), "{known} of {reserved}");
        } else {
            assert_eq!(known, 0);
        }
        open().set_len(5000).unwrap();
        assert_eq!(reserved_before(&open()), 0);
    }
}
