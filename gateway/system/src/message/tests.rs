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
    assert!(
        matches!(received.identity(&path), Err(Refused::Listener(told)) if told.contains("is said"))
    );
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
        let Err(Refused::Listener(told)) = received.identity(&path) else { panic!("{what}") };
        assert!(told.contains("no descriptor of a connection"), "{what}: {told}");
    }
    let ticket = std::fs::File::open(&named).unwrap().into();
    let received = Received { said: own(me()), connection: accepted, ticket };
    let told = Refused::Listener("no descriptor of a ticket".into());
    assert_eq!(received.identity(&path).unwrap_err(), told);
}

/// A client can name its end when it likes, so that only its own connection may suffer; and the end of a client, which the
/// listener might have bound to our name, has a peer with one.
#[test]
fn a_connection_whose_peer_has_a_name_is_refused_and_the_listener_is_not() {
    let folder = Folder::new();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let (_rest, ticket) = rustix::pipe::pipe().unwrap();
    let kind = SocketType::STREAM;
    let client =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&client, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    let (connection, _) = listener.accept().unwrap();
    let received = Received { said: own(me()), connection, ticket };
    assert!(received.identity(&path).is_ok());
    let name = rustix::net::SocketAddrUnix::new(folder.path().join("n")).unwrap();
    rustix::net::bind(&client, &name).unwrap();
    assert!(matches!(received.identity(&path), Err(Refused::Connection(_))));
}
