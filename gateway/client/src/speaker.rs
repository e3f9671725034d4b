//! The writer of each message at the socket of the machine's service: only the gateway of this user is believed.
//!
//! A listener that is no process of this user takes each connection there before the gateway has it. The kernel notes with each
//! piece who wrote it (`SO_PASSCRED`, unix(7)), and pieces of others are no answers.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::net::sockopt::{set_socket_passcred, socket_passcred};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::de::IgnoredAny;
use stockade_wire::errors::{Code, Failure};

use super::message::{gone, message};

/// The user that the kernel names where it noted none (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;

/// Has the kernel note who writes each piece.
pub(super) fn noted(socket: impl AsFd) -> rustix::io::Result<()> {
    set_socket_passcred(socket, true)
}

/// Reads a piece. One that another user wrote is an error of kind `PermissionDenied` with its text, where it is noted.
pub(super) fn read(stream: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let is_noted = socket_passcred(&stream)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(&stream, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let own = rustix::process::geteuid();
    let is_own = control.drain().any(|it| match it {
        RecvAncillaryMessage::ScmCredentials(writer) => writer.uid == own && own.as_raw() != NOBODY,
        _ => false,
    });
    if is_noted && !is_own && received.bytes > 0 {
        let text = buffer.get(..received.bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(received.bytes)
}

/// Returns why nothing more can be read. What others wrote can only refuse.
pub(super) fn failure(error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return gone();
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let said = message::<IgnoredAny>(line.as_bytes()).ok();
    let (message, help) = match said.and_then(|it| it.answers(u64::MAX)) {
        Some(Err(said)) => (said.message, said.help),
        Some(Ok(_)) | None => (
            "another process answered in the place of this user's gateway".to_owned(),
            "ask the administrator of this machine: `sudo stockade doctor --system`".to_owned(),
        ),
    };
    Failure::new(Code::GatewayUnreachable, message, help)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_another_user_wrote_is_no_answer() {
        let (mut its, own) = UnixStream::pair().unwrap();
        noted(&own).unwrap();
        its.write_all(b"words").unwrap();
        let mut buffer = [0; 64];
        let count = read(&own, &mut buffer, RecvFlags::empty()).unwrap();
        assert_eq!(buffer.get(..count), Some(&b"words"[..]));
        drop(its);
        assert_eq!(read(&own, &mut buffer, RecvFlags::empty()).unwrap(), 0);
        let other = |text: &str| io::Error::new(io::ErrorKind::PermissionDenied, text.to_owned());
        let answered = failure(&other("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"));
        assert!(answered.message.contains("in the place of"), "{answered:?}");
        let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32011,"message":"too many"}}"#;
        let refused = failure(&other(refused));
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::GatewayUnreachable, "too many")
        );
    }
}
