//! One connection of a confined program: reads its request, has it decided, and answers.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::desk::Desk;
use super::dial::{Connection, Refusal, Resolver};
use super::tunnel::{self, Gate};
use crate::decode::{http, socks};
use crate::messages::{Said, Way};

/// How long a client may take to say what it wants, from the first byte to the last.
const REQUEST: Duration = Duration::from_millis(if cfg!(test) { 3_000 } else { 10_000 });
/// How long an answer to a client that does not read may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Serves one client to its end.
pub(super) fn serve(stream: TcpStream, way: Way, desk: &Desk, resolver: &impl Resolver) {
    // A client that is gone is told nothing, and what was carried is told by the connection itself.
    let _ = match way {
        Way::Http | Way::Connect => http(&stream, desk, resolver),
        Way::Socks => socks(&stream, desk, resolver),
    };
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// A request, or why it is none, with all bytes that came.
type Whole<T, E> = (Result<T, E>, Vec<u8>);

/// Reads until `whole` finds a request in what came, in one stretch of time however slowly the bytes come.
/// Returns the request and the bytes; none when the client went away or took too long.
fn read_request<T, E>(
    mut stream: &TcpStream,
    mut bytes: Vec<u8>,
    limit: usize,
    whole: impl Fn(&[u8]) -> Result<Option<T>, E>,
) -> io::Result<Option<Whole<T, E>>> {
    let deadline = Instant::now() + REQUEST;
    let mut piece = [0; 4096];
    loop {
        match whole(&bytes) {
            Ok(None) if bytes.len() < limit => {}
            Ok(None) => return Ok(None),
            Ok(Some(request)) => return Ok(Some((Ok(request), bytes))),
            Err(error) => return Ok(Some((Err(error), bytes))),
        }
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(rest))?;
        let count = match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

fn malformed(desk: &Desk, way: Way, reason: &str) {
    let _ = desk.say(&Said::Malformed { way, reason: reason.to_owned() }); // without a gateway all ends
}

fn http(stream: &TcpStream, desk: &Desk, resolver: &impl Resolver) -> io::Result<()> {
    let whole = |bytes: &[u8]| match http::head_end(bytes) {
        Some(end) => http::read(bytes.get(..end).unwrap_or_default()).map(|head| Some((head, end))),
        None => Ok(None),
    };
    let Some((request, bytes)) = read_request(stream, Vec::new(), http::MAX_HEAD, whole)? else {
        malformed(desk, Way::Http, "the head of a request did not end in time, or was too long");
        return answer(stream, 400, "the head of the request is too long or too slow");
    };
    let (head, end) = match request {
        Ok(request) => request,
        Err(error) => {
            malformed(desk, Way::Http, &error.to_string());
            return answer(stream, 400, &error.to_string());
        }
    };
    let rest = bytes.get(end..).unwrap_or_default();
    match &head.target {
        http::Target::Tunnel { host, port } => {
            let asked = Connection::ask(desk, Way::Connect, host.clone(), *port);
            let mut connection = match asked {
                Ok(connection) => connection,
                Err(refusal) => return refuse(stream, refusal),
            };
            let server = match connection.dial(resolver) {
                Ok(server) => server,
                Err(refusal) => return refuse(stream, refusal),
            };
            send(stream, b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            let gate = Gate::first_flight(rest);
            tunnel::carry(stream, &server, gate, &mut connection)
        }
        http::Target::Request { absolute: false, .. } => {
            let text =
                "this is a proxy: the request must name the host, as in `GET http://host/path`";
            malformed(desk, Way::Http, "a request to the proxy itself");
            answer(stream, 400, text)
        }
        http::Target::Request { host, port, .. } => {
            let start = match Gate::request(&head, rest) {
                Ok(start) => start,
                Err(error) => {
                    malformed(desk, Way::Http, &error.to_string());
                    return answer(stream, 400, &error.to_string());
                }
            };
            let asked = Connection::ask(desk, Way::Http, host.clone(), *port);
            let mut connection = match asked {
                Ok(connection) => connection,
                Err(refusal) => return refuse(stream, refusal),
            };
            let server = match connection.dial(resolver) {
                Ok(server) => server,
                Err(refusal) => return refuse(stream, refusal),
            };
            tunnel::carry(stream, &server, start, &mut connection)
        }
    }
}

fn socks(stream: &TcpStream, desk: &Desk, resolver: &impl Resolver) -> io::Result<()> {
    let slow = "a SOCKS request did not end in time";
    let offer = read_request(stream, Vec::new(), socks::MAX_REQUEST, socks::offer)?;
    let mut bytes = match offer {
        Some((Ok(0), bytes)) => bytes,
        Some((Ok(used), bytes)) => {
            send(stream, &[5, 0])?;
            bytes.get(used..).unwrap_or_default().to_vec()
        }
        Some((Err(error), _)) => {
            malformed(desk, Way::Socks, &error.to_string());
            return send(stream, &[5, 255]);
        }
        None => {
            malformed(desk, Way::Socks, slow);
            return Ok(());
        }
    };
    let request = match read_request(stream, bytes, socks::MAX_REQUEST, socks::request)? {
        Some((Ok((request, used)), read)) => {
            bytes = read.get(used..).unwrap_or_default().to_vec();
            request
        }
        Some((Err(error), _)) => {
            malformed(desk, Way::Socks, &error.to_string());
            let code = if error == socks::SocksError::Command { 7 } else { 1 };
            return send(stream, &[5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        None => {
            malformed(desk, Way::Socks, slow);
            return Ok(());
        }
    };
    let reply = |reply| send(stream, &socks::reply(request.version, reply));
    let failed = |refusal: Refusal| match refusal {
        Refusal::Unreachable(_) => reply(socks::Reply::Unreachable),
        Refusal::Rule(_) | Refusal::Gone => reply(socks::Reply::Refused),
    };
    let asked = Connection::ask(desk, Way::Socks, request.host.clone(), request.port);
    let mut connection = match asked {
        Ok(connection) => connection,
        Err(refusal) => return failed(refusal),
    };
    let server = match connection.dial(resolver) {
        Ok(server) => server,
        Err(refusal) => return failed(refusal),
    };
    reply(socks::Reply::Granted)?;
    tunnel::carry(stream, &server, Gate::first_flight(&bytes), &mut connection)
}

fn refuse(stream: &TcpStream, refusal: Refusal) -> io::Result<()> {
    match refusal {
        Refusal::Rule(text) => answer(stream, 403, &text),
        Refusal::Unreachable(text) => answer(stream, 502, &text),
        Refusal::Gone => answer(stream, 503, "the gateway is ending"),
    }
}

/// Answers a client in the place of the server.
fn answer(stream: &TcpStream, status: u16, text: &str) -> io::Result<()> {
    let reason = match status {
        400 => "Bad Request",
        403 => "Refused by stockade",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    };
    let body = format!("stockade: {text}\n");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    send(stream, &[head.as_bytes(), body.as_bytes()].concat())
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_write_timeout(Some(ANSWER))?;
    stream.write_all(bytes)
}
