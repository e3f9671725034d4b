//! A web server of a test, on the loopback interface.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Content that the server has, by path; every other path gets a line that names it.
type Files = BTreeMap<String, Vec<u8>>;

/// A server that keeps what was asked of it.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts one that answers every path.
    pub fn new() -> Server {
        Server::with(|_| None)
    }

    /// Starts one that serves what `files` makes of its port; other paths are not there.
    pub fn with(files: impl FnOnce(u16) -> Option<Files>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a server");
        let port = listener.local_addr().expect("its address").port();
        let files = Arc::new(files(port));
        let requests = Arc::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, kept) = (Arc::clone(&files), Arc::clone(&kept));
                std::thread::spawn(move || answer(stream, files.as_ref().as_ref(), &kept));
            }
        });
        Server { port, requests }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns methods and paths of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the list").clone()
    }
}

fn answer(mut stream: TcpStream, files: Option<&Files>, kept: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    kept.lock().expect("the list").push(format!("{method} {path}"));
    let mut length = 0;
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field).unwrap_or(0) == 0 || field == "\r\n" {
            break;
        }
        if let Some(value) = field.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let plain = path.split('?').next().unwrap_or_default();
    let (status, body) = match files {
        None => ("200 OK", format!("served {path}\n").into_bytes()),
        Some(files) => match files.get(plain) {
            Some(body) => ("200 OK", body.clone()),
            None => ("404 Not Found", Vec::new()),
        },
    };
    let kind = match plain {
        path if path.ends_with('/') => "text/html",
        path if path.starts_with("/npm") && !path.ends_with(".tgz") => "application/json",
        _ => "application/octet-stream",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that went away reads nothing.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}
