//! The proxy against hostile clients, with servers of the test and a gateway of the test: nothing here leaves
//! the machine, and the resolver is the test's.

use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use stockade_policy::HostName;

use super::connection;
use super::desk::Desk;
use super::dial::Resolver;
use crate::decode::hello::tests::hello;
use crate::messages::{self, Said, Told, Way};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Nobody answers here.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));

/// A resolver that gives another answer each time, as one does that wants to be asked twice.
#[derive(Default)]
struct Rebinding(AtomicUsize);

impl Resolver for &Rebinding {
    fn addresses(&self, _: &HostName) -> std::io::Result<Vec<IpAddr>> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(vec![HERE, HERE]),
            _ => Ok(vec![ELSEWHERE]),
        }
    }
}

/// A gateway that allows the hosts below `example`, and anything on ports of names that begin with `any`.
fn gateway(control: UnixStream, said: Arc<Mutex<Vec<Said>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(control.try_clone().unwrap());
        while let Ok(Some(line)) = messages::next_line(&mut lines) {
            let message: Said = serde_json::from_slice(&line).unwrap();
            said.lock().unwrap().push(message.clone());
            let told = match message {
                Said::Ask { id, host, .. } if host.ends_with("example") => {
                    Told::Allowed { id, anything: host.starts_with("any") }
                }
                Said::Ask { id, .. } => Told::Refused { id, text: "not listed".into() },
                Said::Found { id, addresses } => Told::Dial { id, addresses },
                Said::Ready | Said::Ended { .. } | Said::Malformed { .. } => continue,
            };
            (&control).write_all(&messages::line(&told)).unwrap();
        }
    })
}

/// A proxy for clients of one kind, with a server behind it.
struct Proxy {
    port: u16,
    server: TcpListener,
    said: Arc<Mutex<Vec<Said>>>,
    lookups: Arc<Rebinding>,
    desk: Arc<Desk>,
    ours: UnixStream,
    /// A message for each connection that is over.
    over: Receiver<()>,
}

impl Proxy {
    fn new(way: Way) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let said = Arc::default();
        gateway(ours.try_clone().unwrap(), Arc::clone(&said));
        let desk = Arc::new(Desk::new(theirs.try_clone().unwrap(), 256));
        let lookups = Arc::new(Rebinding::default());
        let reading = Arc::clone(&desk);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs);
            while let Ok(Some(line)) = messages::next_line(&mut lines) {
                reading.told(serde_json::from_slice(&line).unwrap());
            }
        });
        let (ended, over) = channel();
        let port = listener.local_addr().unwrap().port();
        let (serving, looking) = (Arc::clone(&desk), Arc::clone(&lookups));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (desk, lookups) = (Arc::clone(&serving), Arc::clone(&looking));
                let ended = ended.clone();
                let stream = stream.unwrap();
                std::thread::spawn(move || {
                    connection::serve(stream, way, &desk, &&*lookups);
                    ended.send(())
                });
            }
        });
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        Proxy { port, server, said, lookups, desk, ours, over }
    }

    fn server_port(&self) -> u16 {
        self.server.local_addr().unwrap().port()
    }

    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `request` with `PORT` filled in and returns the status.
    fn ask(&self, request: &str) -> (TcpStream, u16) {
        let mut client = self.client();
        let request = request.replace("PORT", &self.server_port().to_string());
        client.write_all(request.as_bytes()).unwrap();
        let status = status(&mut client);
        (client, status)
    }

    /// Opens a tunnel to `host`; the server's end is the second.
    fn tunnel(&self, host: &str) -> (TcpStream, TcpStream) {
        let (client, status) =
            self.ask(&format!("CONNECT {host}:PORT HTTP/1.1\r\nHost: {host}:PORT\r\n\r\n"));
        assert_eq!(status, 200);
        (client, self.accepted())
    }

    fn accepted(&self) -> TcpStream {
        self.server.set_nonblocking(true).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match self.server.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(std::time::Instant::now() < deadline, "nobody comes");
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Waits for the end of one connection and returns what was said of it: sent, received, why refused.
    fn ending(&self) -> (u64, u64, Option<String>) {
        self.over.recv_timeout(Duration::from_secs(20)).unwrap();
        // The last message of the connection may still be on its way.
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let said = self.said.lock().unwrap().clone();
            let ended = said.iter().rev().find_map(|it| match it {
                Said::Ended { sent, received, refused, .. } => {
                    Some((*sent, *received, refused.clone()))
                }
                Said::Malformed { reason, .. } => Some((0, 0, Some(reason.clone()))),
                Said::Ready | Said::Ask { .. } | Said::Found { .. } => None,
            });
            if let Some(ended) = ended {
                return ended;
            }
            assert!(std::time::Instant::now() < deadline, "{said:?}");
            std::thread::yield_now();
        }
    }
}

/// Reads an HTTP answer's head, byte by byte, and returns its status.
fn status(client: &mut TcpStream) -> u16 {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert!(client.read(&mut byte).unwrap() > 0, "{:?}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A connection that is cut has said what it said.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn tls_for_the_host_that_was_asked_for_is_carried_and_counted() {
    let proxy = Proxy::new(Way::Http);
    let (mut client, mut server) = proxy.tunnel("A.Example.");
    let hello = hello("a.example");
    // In single bytes: nothing goes on before the name is seen.
    for byte in &hello {
        client.write_all(&[*byte]).unwrap();
    }
    let mut seen = vec![0; hello.len()];
    server.read_exact(&mut seen).unwrap();
    assert_eq!(seen, hello);
    server.write_all(b"certificate").unwrap();
    let mut answer = [0; 11];
    client.read_exact(&mut answer).unwrap();
    client.write_all(b"more").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut server), b"more");
    // Half-open: the answer still comes.
    server.write_all(b"bye").unwrap();
    drop(server);
    assert_eq!(rest(&mut client), b"bye");
    assert_eq!(proxy.ending(), (hello.len() as u64 + 4, 14, None));
}

#[test]
fn another_server_name_or_none_never_reaches_the_server() {
    let refused = |host: &str, bytes: &[u8], reason: &str| {
        let proxy = Proxy::new(Way::Http);
        let (mut client, mut server) = proxy.tunnel(host);
        client.write_all(bytes).unwrap();
        assert_eq!(rest(&mut server), b"", "{reason}");
        assert_eq!(rest(&mut client), b"", "{reason}");
        assert_eq!(proxy.ending(), (0, 0, Some(reason.to_owned())));
    };
    refused("a.example", &hello("evil.net"), "the TLS server name is `evil.net`");
    refused("a.example", &hello("b.a.example"), "the TLS server name is `b.a.example`");
    refused("any.example", &hello("evil.net"), "the TLS server name is `evil.net`");
    let no_tls = "the protocol is not TLS, and no rule names the port";
    refused("a.example", b"SSH-2.0-x\r\n", no_tls);
    refused("a.example", b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", no_tls);
    refused("a.example", &hello("a.example\0.evil.net"), {
        "the TLS server name is not a host name: a host name has only letters, digits, `-`, `_` and `.`"
    });
    // Both wait for the limit, so they do it at once.
    std::thread::scope(|scope| {
        for bytes in [b"\x16\x03\x01\x00\x01".as_slice(), b""] {
            scope
                .spawn(move || refused("a.example", bytes, "the first bytes did not come in time"));
        }
    });
}

#[test]
fn where_a_rule_names_the_port_anything_may_be_spoken_and_the_server_may_begin() {
    let proxy = Proxy::new(Way::Http);
    let (mut client, mut server) = proxy.tunnel("any.example");
    server.write_all(b"SSH-2.0-server\r\n").unwrap();
    let mut banner = [0; 16];
    client.read_exact(&mut banner).unwrap();
    client.write_all(b"SSH-2.0-client\r\n").unwrap();
    drop(client);
    assert_eq!(rest(&mut server), b"SSH-2.0-client\r\n");
    drop(server);
    assert_eq!(proxy.ending(), (16, 16, None));
}

#[test]
fn a_request_is_handed_on_once_and_nothing_hides_behind_it() {
    let proxy = Proxy::new(Way::Http);
    let mut client = proxy.client();
    let port = proxy.server_port();
    let request = format!(
        "POST http://a.example:{port}/x HTTP/1.1\r\nHost: a.example:{port}\r\nContent-Length: 3\r\n\
         Proxy-Connection: keep-alive\r\n\r\nabcGET http://evil.net/ HTTP/1.1\r\nHost: evil.net\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut server = proxy.accepted();
    let expected = format!(
        "POST /x HTTP/1.1\r\nHost: a.example:{port}\r\ncontent-length: 3\r\nConnection: close\r\n\r\nabc"
    );
    let mut seen = vec![0; expected.len()];
    server.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8_lossy(&seen), expected);
    client.write_all(b"GET http://evil.net/ HTTP/1.1\r\nHost: evil.net\r\n\r\n").unwrap();
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(status(&mut client), 200);
    assert_eq!(rest(&mut server), b"");
    assert_eq!(proxy.ending().2, None);
}

/// The next request of the client goes to nobody, so the answer says that the connection is closed, whatever the server said.
#[test]
fn an_answer_after_which_the_connection_is_closed_says_so() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        ),
        ("HTTP/1.1 200 OK\r\nX: cut", "HTTP/1.1 200 OK\r\nX: cut"),
        ("no HTTP at all\n\n", "no HTTP at all\n\n"),
        ("", ""),
    ] {
        // In one piece, and byte by byte.
        for size in [answer.len().max(1), 1] {
            let proxy = Proxy::new(Way::Http);
            let mut client = proxy.client();
            let port = proxy.server_port();
            let request =
                format!("GET http://a.example:{port}/ HTTP/1.1\r\nHost: a.example:{port}\r\n\r\n");
            client.write_all(request.as_bytes()).unwrap();
            let mut server = proxy.accepted();
            let _ = server.set_nodelay(true);
            for piece in answer.as_bytes().chunks(size) {
                server.write_all(piece).unwrap();
            }
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(String::from_utf8_lossy(&rest(&mut client)), expected, "{size}");
        }
    }
}

#[test]
fn requests_that_are_not_plain_are_refused_before_anything_is_asked() {
    for request in [
        "GET http://a.example:PORT/ HTTP/1.1\r\nHost: evil.net\r\n\r\n",
        "GET http://a.example@evil.net/ HTTP/1.1\r\nHost: evil.net\r\n\r\n",
        "GET http://evil.net#a.example/ HTTP/1.1\r\nHost: evil.net\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "GET http://a.example/ HTTP/1.1\nHost: a.example\n\n",
        "GET http://a。example/ HTTP/1.1\r\nHost: a。example\r\n\r\n",
        "CONNECT a.example\0.evil.net:443 HTTP/1.1\r\n\r\n",
    ] {
        let proxy = Proxy::new(Way::Http);
        let (_client, status) = proxy.ask(request);
        assert_eq!(status, 400, "{request}");
        let said = proxy.said.lock().unwrap().clone();
        assert!(matches!(said.as_slice(), [] | [Said::Malformed { .. }]), "{said:?}");
    }
    let proxy = Proxy::new(Way::Http);
    let long = format!("GET http://a.example/ HTTP/1.1\r\nX: {}", "a".repeat(40 << 10));
    assert_eq!(proxy.ask(&long).1, 400);
    assert_eq!(proxy.ask("CONNECT evil.net:443 HTTP/1.1\r\n\r\n").1, 400);
    assert_eq!(proxy.ask("CONNECT evil.net:443 HTTP/1.0\r\n\r\n").1, 403);
}

#[test]
fn a_name_is_looked_up_once_and_what_was_permitted_is_dialled() {
    let proxy = Proxy::new(Way::Http);
    let (_client, _server) = proxy.tunnel("a.example");
    assert_eq!(proxy.lookups.0.load(Ordering::SeqCst), 1);
    let said = proxy.said.lock().unwrap().clone();
    assert!(
        said.iter().any(|it| *it == Said::Found { id: 1, addresses: vec![HERE] }),
        "each address once: {said:?}"
    );
}

#[test]
fn a_slow_request_is_given_up() {
    let (http, socks) = (Proxy::new(Way::Http), Proxy::new(Way::Socks));
    let (mut client, mut other) = (http.client(), socks.client());
    client.write_all(b"GET http://a.example/ HTTP/1.1\r\nX: ").unwrap();
    other.write_all(&[5]).unwrap();
    assert_eq!(status(&mut client), 400);
    assert_eq!(
        http.ending().2.as_deref(),
        Some("the head of a request did not end in time, or was too long")
    );
    assert_eq!(rest(&mut other), b"");
    assert_eq!(socks.ending().2.as_deref(), Some("a SOCKS request did not end in time"));
}

fn socks(host: &[u8], port: u16) -> Vec<u8> {
    let length = u8::try_from(host.len()).unwrap();
    [&[5, 1, 0, 3, length], host, &port.to_be_bytes()].concat()
}

#[test]
fn socks_is_carried_like_a_tunnel() {
    let proxy = Proxy::new(Way::Socks);
    let mut client = proxy.client();
    client.write_all(&[5, 1, 0]).unwrap();
    let mut offer = [0; 2];
    client.read_exact(&mut offer).unwrap();
    assert_eq!(offer, [5, 0]);
    // The first flight may come with the request.
    let bytes = [socks(b"a.example", proxy.server_port()), hello("a.example")].concat();
    client.write_all(&bytes).unwrap();
    let mut reply = [0; 10];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..2], [5, 0]);
    let mut server = proxy.accepted();
    drop(client);
    assert_eq!(rest(&mut server), hello("a.example"));
    drop(server);
    assert_eq!(proxy.ending().2, None);
    for (request, code) in [
        (socks(b"evil.net", 443), 2),
        (socks(b"evil.net\0.a.example", 443), 1),
        (vec![5, 2, 0, 1, 1, 2, 3, 4, 0, 80], 7),
    ] {
        let mut client = proxy.client();
        client.write_all(&[&[5, 1, 0][..], &request].concat()).unwrap();
        let answer = rest(&mut client);
        assert_eq!(answer[2..4], [5, code], "{answer:?}");
    }
}

#[test]
fn many_connections_at_once_do_not_meet() {
    let proxy = Proxy::new(Way::Http);
    // Looked up each time; from the second on nobody answers there, so each goes by address.
    let clients: Vec<_> = (0..64)
        .map(|number| {
            let mut client = proxy.client();
            let request = "CONNECT any.example:PORT HTTP/1.0\r\n\r\n";
            let request = request.replace("PORT", &proxy.server_port().to_string());
            client.write_all(request.as_bytes()).unwrap();
            (number, client)
        })
        .collect();
    let mut found = 0;
    for (number, mut client) in clients {
        match status(&mut client) {
            200 => {
                found += 1;
                client.write_all(format!("client {number}").as_bytes()).unwrap();
                drop(client);
                let mut server = proxy.accepted();
                assert_eq!(rest(&mut server), format!("client {number}").as_bytes());
            }
            502 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(found, 1, "only the first look-up leads to the server");
}

#[test]
fn when_the_gateway_ends_open_connections_tell_what_they_carried() {
    let proxy = Proxy::new(Way::Http);
    let (mut client, mut server) = proxy.tunnel("any.example");
    client.write_all(b"four").unwrap();
    let mut seen = [0; 4];
    server.read_exact(&mut seen).unwrap();
    proxy.ours.shutdown(Shutdown::Write).unwrap();
    assert_eq!(proxy.ending(), (4, 0, None));
    assert_eq!(rest(&mut server), b"");
    assert_eq!(rest(&mut client), b"");
    proxy.desk.farewell(Duration::from_secs(1));
}
