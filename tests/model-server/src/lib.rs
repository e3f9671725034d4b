//! A scripted model: an HTTP server on the loopback interface that answers each request with the next [`Reply`] of its
//! script, in three wire forms, with faults on demand. For tests; no product links it.
#![forbid(unsafe_code)]

mod script;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub use script::{Form, Reply, Step, Turn};

/// Most bytes of a request.
const MAX_REQUEST: u64 = 64 << 20;

/// One request, as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Path of the request line.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if it is not JSON.
    pub body: Value,
}

impl Received {
    /// Returns the value of a header; `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A running server. It ends with the process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that gives these replies, one to each request. A request beyond the script gets status 410.
    ///
    /// # Errors
    ///
    /// The loopback interface has no free port.
    pub fn start(script: impl IntoIterator<Item = Reply>) -> std::io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let seen = Arc::clone(&received);
        let mut script = script.into_iter().collect::<Vec<_>>().into_iter();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                let reply =
                    script.next().unwrap_or_else(|| Reply::error(410, "the script is over"));
                // A thread each, so that a reply that hangs holds up no other request.
                std::thread::spawn(move || {
                    let _ = answer(stream, reply); // the client may have gone
                });
            }
        });
        Ok(Server { address, received })
    }

    /// Returns the base address, such as `http://127.0.0.1:40000`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads one request; `None` if it is not HTTP.
fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream.take(MAX_REQUEST));
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = Vec::new();
    let mut length = 0_usize;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length.min(usize::try_from(MAX_REQUEST).ok()?)];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Received { path, headers, body })
}

/// Sends a reply in chunks (RFC 9112, section 7.1) and closes the connection.
fn answer(mut stream: TcpStream, reply: Reply) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("connection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    for step in reply.steps {
        match step {
            Step::Send(piece) if piece.is_empty() => {}
            Step::Send(piece) => {
                stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
                stream.write_all(&piece)?;
                stream.write_all(b"\r\n")?;
            }
            Step::Break => return stream.shutdown(Shutdown::Both),
            // Until the client goes.
            Step::Hang => return stream.read(&mut [0]).map(|_| ()),
        }
    }
    stream.write_all(b"0\r\n\r\n")?;
    stream.shutdown(Shutdown::Write)
}
