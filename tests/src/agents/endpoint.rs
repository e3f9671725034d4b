//! A model endpoint on the loopback interface that answers by a script, in the dialect of whoever asks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::dialect::{self, Dialect};

/// Steps of the scripted model, in order: each comes once its conversation holds the results of those before.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Commands of the main conversation.
    pub commands: Vec<String>,
    /// Commands of a sub-agent, which is started behind the commands; none starts no sub-agent.
    pub sub_commands: Vec<String>,
}

/// Word in the prompt of a sub-agent, by which its conversation is known.
pub const SUBTASK: &str = "SUBTASK";

/// A running endpoint; it ends with the process.
#[derive(Debug)]
pub struct Endpoint {
    /// Its port.
    pub port: u16,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Endpoint {
    /// Starts to listen on a free port of the loopback interface.
    pub fn start(script: Script) -> std::io::Result<Endpoint> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                // A client that breaks off is its own matter.
                std::thread::spawn(move || drop(serve(stream, &script, &kept)));
            }
        });
        Ok(Endpoint { port, seen })
    }

    /// Returns the path and body of every request so far.
    pub fn seen(&self) -> Vec<(String, String)> {
        self.seen.lock().expect("no thread of the endpoint panics").clone()
    }

    /// Says whether a result of a tool that reached the model holds all of `words`.
    pub fn was_told(&self, words: &[&str]) -> bool {
        let seen = self.seen();
        let bodies = seen.iter().filter_map(|(_, body)| serde_json::from_str::<Value>(body).ok());
        let mut results = bodies.flat_map(|body| dialect::results(&body));
        results.any(|result| words.iter().all(|word| result.contains(word)))
    }
}

fn serve(
    stream: TcpStream,
    script: &Script,
    seen: &Mutex<Vec<(String, String)>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (method, path) = (method.to_owned(), path.to_owned());
        let body = body(&mut reader)?;
        let answered = answer(&method, &path, &body, script);
        seen.lock().expect("no thread of the endpoint panics").push((path, body));
        let (kind, text) = answered;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: keep-alive\r\n\r\n",
            text.len()
        );
        writer.write_all(head.as_bytes())?;
        writer.write_all(text.as_bytes())?;
        writer.flush()?;
    }
}

/// Reads headers and the body behind them, of known length or in chunks.
fn body(reader: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
    }
    let mut bytes = Vec::new();
    if !chunked {
        reader.take(length).read_to_end(&mut bytes)?;
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size =
            u64::from_str_radix(size.trim().split(';').next().unwrap_or_default(), 16).unwrap_or(0);
        let mut end = String::new();
        if size == 0 {
            reader.read_line(&mut end)?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        reader.by_ref().take(size).read_to_end(&mut bytes)?;
        reader.read_line(&mut end)?;
    }
}

fn answer(method: &str, path: &str, body: &str, script: &Script) -> (&'static str, String) {
    let json = "application/json";
    let Some(dialect) = Dialect::of(path).filter(|_| method == "POST") else {
        return (json, r#"{"data":[],"models":[],"totalTokens":1,"input_tokens":1}"#.into());
    };
    let request: Value = serde_json::from_str(body).unwrap_or_default();
    let step = dialect.step(&request, script);
    let streamed = dialect.is_streamed(path, &request);
    let kind = if streamed { "text/event-stream" } else { json };
    (kind, dialect.say(&step, streamed))
}
