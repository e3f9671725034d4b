use std::os::unix::net::UnixListener;

use rustix::net::{SocketFlags, socketpair};
use stockade_scratch::Folder;

use super::*;

fn channel() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn own(uid: u32) -> Message {
    let gid = rustix::process::getegid().as_raw();
    Message::Connection { uid, gid, pid: std::process::id() }
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Sends bytes and descriptors that our listener would not send.
fn throw(to: &OwnedFd, bytes: &[u8], descriptors: &[std::os::fd::BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
    rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn a_message_comes_as_it_was_sent_and_the_kernel_says_of_whom_it_is() {
    let folder = Folder::new();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let (listeners, keepers) = channel();
    let (_rest, ticket) = rustix::pipe::pipe().unwrap();
    send(&listeners, own(me()), &stream, &ticket).unwrap();
    let received = receive(&keepers).unwrap().unwrap();
    assert_eq!(received.identity(&path).unwrap().uid, me());
    // Of another socket.
    assert!(received.identity(Path::new("/run/other")).is_err());
    // Whoever says something else than the kernel is not believed.
    send(&listeners, own(me() + 1), &stream, &ticket).unwrap();
    let received = receive(&keepers).unwrap().unwrap();
    assert!(received.identity(&path).unwrap_err().contains("is said"));
    assert_eq!(receive(&keepers).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(listeners);
    assert!(receive(&keepers).unwrap().is_none());
}

#[test]
fn what_is_no_message_is_refused_and_its_descriptors_are_closed() {
    let (stream, _peer) = UnixStream::pair().unwrap();
    let (rest, ticket) = rustix::pipe::pipe().unwrap();
    let both = [stream.as_fd(), ticket.as_fd()];
    let good = own(me()).bytes();
    let mut other_kind = good;
    other_kind[3] = 2;
    let long = [&good[..], &[0]].concat();
    let cases: [(&[u8], &[std::os::fd::BorrowedFd<'_>]); 7] = [
        (&good[..15], &both),
        (&long, &both),
        (&[0; 4096], &both),
        (&other_kind, &both),
        (&good, &[]),
        (&good, &both[..1]),
        (&good, &[stream.as_fd(), ticket.as_fd(), stream.as_fd()]),
    ];
    let (listeners, keepers) = channel();
    for (bytes, descriptors) in cases {
        throw(&listeners, bytes, descriptors);
        let error = receive(&keepers).unwrap_err();
        assert_eq!(
            error.kind(),
            io::ErrorKind::InvalidData,
            "{} {}",
            bytes.len(),
            descriptors.len()
        );
    }
    drop(ticket);
    let mut events = [rustix::event::PollFd::new(&rest, rustix::event::PollFlags::empty())];
    assert_eq!(rustix::event::poll(&mut events, Some(&rustix::event::Timespec::default())), Ok(1));
}

#[test]
fn a_descriptor_of_another_kind_is_no_connection() {
    let folder = Folder::new();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let named = folder.path().join("n");
    // A connection from the other side: its peer is whoever listens there.
    let ends = [
        ("the end of a client", OwnedFd::from(client)),
        ("what listens", OwnedFd::from(listener)),
        ("a file", std::fs::File::create(&named).unwrap().into()),
        ("a pair", UnixStream::pair().unwrap().0.into()),
        ("a port", std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()),
    ];
    let (_rest, ticket) = rustix::pipe::pipe().unwrap();
    for (what, end) in ends {
        let ticket = ticket.try_clone().unwrap();
        let received = Received { said: own(me()), connection: UnixStream::from(end), ticket };
        let told = received.identity(&path).unwrap_err();
        assert!(told.contains("no descriptor of a connection"), "{what}: {told}");
    }
    let ticket = std::fs::File::open(&named).unwrap().into();
    let received = Received { said: own(me()), connection: accepted, ticket };
    assert_eq!(received.identity(&path).unwrap_err(), "no descriptor of a ticket");
}
