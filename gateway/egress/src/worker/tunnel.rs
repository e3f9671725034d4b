//! Carries bytes both ways. What comes from the client first passes a gate: nothing goes on before it is seen
//! to be what was asked for.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stockade_policy::Host;

use super::dial::Connection;
use crate::decode::{body, hello, http};

/// How long the client may take for its first flight.
const FIRST_FLIGHT: Duration = Duration::from_millis(if cfg!(test) { 3_000 } else { 5_000 });
/// How long nothing may happen.
const IDLE: Duration = Duration::from_secs(600);
/// The same when one side has no more to say.
const HALF_OPEN: Duration = Duration::from_secs(60);
/// Bytes that are read at once, and held for a side that does not read.
const PIECE: usize = 32 << 10;

/// Gate between the client and the server.
pub(super) enum Gate {
    /// The first bytes of a tunnel are still to be judged.
    FirstFlight(Vec<u8>),
    /// The body of a request that is handed on. Nothing behind the body is.
    Body(body::Gate),
    /// All goes on.
    Open,
}

/// Verdict on the first bytes of a tunnel.
enum Judged {
    /// More are needed.
    Wait,
    /// They go on, behind the gate.
    Pass(Gate, Vec<u8>),
    /// They do not.
    Refuse(String),
}

/// A gate with the bytes that go to the server first.
pub(super) struct Start {
    gate: Gate,
    bytes: Vec<u8>,
}

impl Gate {
    /// Returns the gate of a tunnel whose client sent `bytes` already.
    pub(super) fn first_flight(bytes: &[u8]) -> Start {
        Start { gate: Gate::FirstFlight(bytes.to_vec()), bytes: Vec::new() }
    }

    /// Returns the gate of a request that is handed on, with what came behind its head.
    pub(super) fn request(head: &http::Head, rest: &[u8]) -> Result<Start, body::BodyError> {
        let mut bytes = head.handed_on().unwrap_or_default();
        let mut body = body::Gate::new(head.body);
        let count = body.take(rest)?;
        bytes.extend_from_slice(rest.get(..count).unwrap_or_default());
        Ok(Start { gate: Gate::Body(body), bytes })
    }
}

/// Judges what a tunnel begins with: TLS for the host that was asked for; HTTP to it on port 80; anything where
/// the rule names the port.
fn judge(bytes: &[u8], connection: &Connection<'_>) -> Judged {
    match hello::read(bytes) {
        Ok(hello::Flight::Partial) => Judged::Wait,
        Ok(hello::Flight::Hello { name }) => {
            let asked = match &connection.host {
                Host::Name(asked) => Some(asked),
                Host::Address(_) => None,
            };
            match (asked, &name) {
                (asked, named) if asked == named.as_ref() => {
                    Judged::Pass(Gate::Open, bytes.to_vec())
                }
                (_, Some(named)) => Judged::Refuse(format!("the TLS server name is `{named}`")),
                (_, None) => Judged::Refuse("no server name in TLS".to_owned()),
            }
        }
        Ok(hello::Flight::NotTls) if connection.anything => {
            Judged::Pass(Gate::Open, bytes.to_vec())
        }
        Ok(hello::Flight::NotTls) if connection.port == 80 => plain(bytes, connection),
        Ok(hello::Flight::NotTls) => {
            Judged::Refuse("the protocol is not TLS, and no rule names the port".to_owned())
        }
        Err(error) => Judged::Refuse(error.to_string()),
    }
}

/// Judges an HTTP request inside of a tunnel to port 80.
fn plain(bytes: &[u8], connection: &Connection<'_>) -> Judged {
    let Some(end) = http::head_end(bytes) else {
        return match bytes.len() < http::MAX_HEAD {
            true => Judged::Wait,
            false => Judged::Refuse("the head of a request is too long".to_owned()),
        };
    };
    let (head, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    let head = match http::read(head) {
        Ok(head) => head,
        Err(error) => return Judged::Refuse(error.to_string()),
    };
    match &head.target {
        http::Target::Request { host, port, .. }
            if *host == connection.host && *port == connection.port =>
        {
            match Gate::request(&head, rest) {
                Ok(Start { gate, bytes }) => Judged::Pass(gate, bytes),
                Err(error) => Judged::Refuse(error.to_string()),
            }
        }
        http::Target::Request { host, .. } | http::Target::Tunnel { host, .. } => {
            Judged::Refuse(format!("the request inside is for `{host}`"))
        }
    }
}

/// One direction: bytes that wait for their reader.
#[derive(Default)]
struct Lane {
    bytes: Vec<u8>,
    /// The writer has no more.
    ended: bool,
    /// The reader was told so.
    told: bool,
}

/// State of a connection while its bytes are carried.
struct Carrying<'c, 'd> {
    client: &'c TcpStream,
    server: &'c TcpStream,
    connection: &'c mut Connection<'d>,
    gate: Gate,
    up: Lane,
    down: Lane,
    /// The head of an answer after which the connection is closed, as far as it came.
    head: Option<Vec<u8>>,
    /// When the first flight must be whole.
    flight: Option<Instant>,
}

/// Carries bytes until both sides have no more, one is gone, the gate refuses or the gateway ends.
pub(super) fn carry(
    client: &TcpStream,
    server: &TcpStream,
    start: Start,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    // Neither matters for what is right.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let is_first = matches!(start.gate, Gate::FirstFlight(_)) && !connection.anything;
    let flight = is_first.then(|| Instant::now() + FIRST_FLIGHT);
    let up = Lane { bytes: start.bytes, ..Lane::default() };
    let head = matches!(start.gate, Gate::Body(_)).then(Vec::new);
    let mut carrying = Carrying {
        client,
        server,
        connection,
        gate: start.gate,
        up,
        down: Lane::default(),
        head,
        flight,
    };
    let mut piece = vec![0; PIECE];
    while carrying.judge() && carrying.goes_on() {
        if !carrying.step(&mut piece)? {
            break;
        }
    }
    Ok(())
}

impl Carrying<'_, '_> {
    /// Judges the first flight, as far as it came. Says whether the connection may go on.
    fn judge(&mut self) -> bool {
        if let Gate::FirstFlight(held) = &self.gate {
            match judge(held, self.connection) {
                Judged::Wait if self.up.ended => {
                    if !held.is_empty() || !self.connection.anything {
                        return self.refuse("the client ended before it said what it speaks");
                    }
                }
                // A server may speak first where anything is spoken; what the client begins, it ends soon.
                Judged::Wait if self.flight.is_none() && !held.is_empty() => {
                    self.flight = Some(Instant::now() + FIRST_FLIGHT);
                }
                Judged::Wait => {}
                Judged::Pass(next, bytes) => {
                    self.head = matches!(next, Gate::Body(_)).then(Vec::new);
                    (self.gate, self.up.bytes, self.flight) = (next, bytes, None);
                }
                Judged::Refuse(reason) => return self.refuse(&reason),
            }
        }
        match self.flight {
            Some(deadline) if Instant::now() >= deadline => {
                self.refuse("the first bytes did not come in time")
            }
            Some(_) | None => true,
        }
    }

    fn refuse(&mut self, reason: &str) -> bool {
        self.connection.refuse(reason);
        false
    }

    /// Passes ends on. Says whether anything is left to carry.
    fn goes_on(&mut self) -> bool {
        for (lane, to) in [(&mut self.up, self.server), (&mut self.down, self.client)] {
            if lane.bytes.is_empty() && lane.ended && !lane.told {
                lane.told = true;
                let _ = to.shutdown(Shutdown::Write); // one that is gone needs no end
            }
        }
        match self.gate {
            // An answer is over when the server closes; what the client sends later is for nobody.
            Gate::Body(_) => !self.down.told,
            Gate::FirstFlight(_) | Gate::Open => !(self.down.told && self.up.told),
        }
    }

    /// Waits for one side, and carries what can be carried. Says whether the connection goes on.
    fn step(&mut self, piece: &mut [u8]) -> io::Result<bool> {
        let shut = matches!(self.gate, Gate::FirstFlight(_)) && !self.connection.anything;
        let wanted = |reads: &Lane, writes: &Lane, shut: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.bytes.is_empty() && !reads.ended && !shut);
            flags.set(PollFlags::OUT, !writes.bytes.is_empty());
            flags
        };
        let mut idle = if self.up.ended || self.down.ended { HALF_OPEN } else { IDLE };
        if let Some(deadline) = self.flight {
            idle = deadline.saturating_duration_since(Instant::now());
        }
        let desk = self.connection.desk();
        let mut fds = vec![PollFd::from_borrowed_fd(desk.control(), PollFlags::RDHUP)];
        // A side with which both ends are settled would only report that again and again.
        let done = |reads: &Lane, writes: &Lane| reads.ended && writes.told;
        let with_client = !done(&self.up, &self.down);
        let with_server = !done(&self.down, &self.up);
        if with_client {
            let flags = wanted(&self.up, &self.down, false);
            fds.push(PollFd::from_borrowed_fd(self.client.as_fd(), flags));
        }
        if with_server {
            let flags = wanted(&self.down, &self.up, shut);
            fds.push(PollFd::from_borrowed_fd(self.server.as_fd(), flags));
        }
        let count = wait(&mut fds, idle)?;
        let mut events = fds.iter().map(PollFd::revents);
        let of_gateway = events.next().unwrap_or(PollFlags::empty());
        let mut of = |there: bool| {
            if there { events.next().unwrap_or(PollFlags::empty()) } else { PollFlags::empty() }
        };
        let (of_client, of_server) = (of(with_client), of(with_server));
        drop(fds);
        if !of_gateway.is_empty() {
            return Ok(false);
        }
        if count == 0 {
            // The first flight has its own words, in `judge`.
            return Ok(self.flight.is_some());
        }
        let gone = PollFlags::ERR | PollFlags::NVAL;
        if of_client.intersects(gone) || of_server.intersects(gone) {
            return Ok(false);
        }
        self.move_bytes(piece, of_client, of_server, shut)
    }

    fn move_bytes(
        &mut self,
        piece: &mut [u8],
        of_client: PollFlags,
        of_server: PollFlags,
        shut: bool,
    ) -> io::Result<bool> {
        let ready = PollFlags::IN | PollFlags::HUP;
        if of_client.intersects(ready) && self.up.bytes.is_empty() && !self.up.ended {
            let count = read(self.client, piece, &mut self.up)?;
            let bytes = piece.get(..count).unwrap_or_default();
            if let Err(error) = pass(&mut self.gate, bytes, &mut self.up) {
                return Ok(self.refuse(&error.to_string()));
            }
        }
        if of_server.contains(PollFlags::HUP) && shut {
            return Ok(self.refuse("the server closed the connection"));
        }
        if of_server.intersects(ready) && self.down.bytes.is_empty() && !self.down.ended && !shut {
            let count = read(self.server, piece, &mut self.down)?;
            let bytes = piece.get(..count).unwrap_or_default();
            answered(&mut self.head, bytes, &mut self.down);
        }
        // Bytes that came just now may go on at once.
        let sent = write(self.server, &mut self.up)?;
        let received = write(self.client, &mut self.down)?;
        self.connection.sent += sent;
        self.connection.received += received;
        Ok(true)
    }
}

/// Hands on what a server answered. Where the connection ends with this answer, its head says so whatever the server said: the
/// client would send its next request to nobody.
fn answered(head: &mut Option<Vec<u8>>, bytes: &[u8], down: &mut Lane) {
    let Some(mut held) = head.take() else { return down.bytes.extend_from_slice(bytes) };
    held.extend_from_slice(bytes);
    loop {
        match http::closing(&held) {
            // One that only tells of progress is followed by another (RFC 9110, 15.2).
            http::ServerHead::Interim(end) => {
                let rest = held.split_off(end);
                down.bytes.append(&mut held);
                held = rest;
            }
            http::ServerHead::Part if !down.ended => return *head = Some(held),
            http::ServerHead::Part | http::ServerHead::Unknown => {
                return down.bytes.append(&mut held);
            }
            http::ServerHead::Final(mut whole) => return down.bytes.append(&mut whole),
        }
    }
}

/// Lets what the client sent through the gate into its lane; what does not pass is held or dropped.
fn pass(gate: &mut Gate, bytes: &[u8], up: &mut Lane) -> Result<(), body::BodyError> {
    match gate {
        Gate::FirstFlight(held) => held.extend_from_slice(bytes),
        Gate::Open => up.bytes.extend_from_slice(bytes),
        Gate::Body(body) => {
            let count = body.take(bytes)?;
            up.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default());
        }
    }
    Ok(())
}

fn wait(fds: &mut [PollFd<'_>], rest: Duration) -> io::Result<usize> {
    let time = Timespec {
        tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(rest.subsec_nanos()),
    };
    Ok(rustix::io::retry_on_intr(|| poll(fds, Some(&time)))?)
}

fn read(mut from: &TcpStream, piece: &mut [u8], lane: &mut Lane) -> io::Result<usize> {
    match from.read(piece) {
        Ok(0) => {
            lane.ended = true;
            Ok(0)
        }
        Err(error) if is_later(&error) => Ok(0),
        result => result,
    }
}

/// Writes what can be written, and returns how much.
fn write(mut to: &TcpStream, lane: &mut Lane) -> io::Result<u64> {
    if lane.bytes.is_empty() {
        return Ok(0);
    }
    match to.write(&lane.bytes) {
        Ok(count) => {
            lane.bytes.drain(..count.min(lane.bytes.len()));
            Ok(count as u64)
        }
        Err(error) if is_later(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
