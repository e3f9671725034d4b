//! Length-prefixed frames over sockets between gateway, launcher and confined side.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::syscalls;
use stockade_spec::codec::frame_header;
pub use stockade_spec::codec::{receive, receive_payload, send};

/// Longest payload that is written as a whole: the kernel takes it in one piece (`net/unix/af_unix.c`).
const WHOLE_LIMIT_BYTES: usize = 30 << 10;

/// Writes one frame as a whole and at once, or nothing of it; says whether it did. So another process may write to the
/// same socket, and this one may be killed, and no frame is cut in two.
pub fn send_whole(to: &UnixStream, payload: &[u8]) -> io::Result<bool> {
    if payload.len() > WHOLE_LIMIT_BYTES {
        return Ok(false);
    }
    let mut frame = frame_header(payload)?.to_vec();
    frame.extend_from_slice(payload);
    match syscalls::send_now(to.as_fd(), &frame) {
        Ok(sent) if sent == frame.len() => Ok(true),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes one frame, and with its first bytes `descriptors`.
pub fn send_with(
    mut to: &UnixStream,
    payload: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    // In one piece: who waits for it is woken once.
    let mut frame = frame_header(payload)?.to_vec();
    frame.extend_from_slice(payload);
    let sent = syscalls::send_with_descriptors(to.as_fd(), &frame, descriptors)?;
    to.write_all(frame.get(sent..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_as_a_whole_is_not_written_at_all() {
        let (to, from) = UnixStream::pair().unwrap();
        assert!(!send_whole(&to, &vec![0; WHOLE_LIMIT_BYTES + 1]).unwrap());
        let frame = vec![7; WHOLE_LIMIT_BYTES];
        let mut sent = 0;
        while send_whole(&to, &frame).unwrap() {
            sent += 1;
        }
        drop(to);
        assert!(sent > 0);
        for _ in 0..sent {
            assert_eq!(receive(&from).unwrap().unwrap(), frame);
        }
        assert_eq!(receive(&from).unwrap(), None);
    }
}
