//! A gateway that serves for one test, and the other end of a connection to it.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Place;

/// Time without a message after which a test fails instead of waiting for ever.
const SILENCE: Duration = Duration::from_secs(180);

/// `stockade serve` at the usual place; ended with the test.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    // Reader that stays for further output of the gateway.
    _said: BufReader<ChildStdout>,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Gateway {
    /// Starts `stockade serve` and waits until it says that it is ready.
    pub fn start(place: &Place) -> Gateway {
        Gateway::start_with(place, place.stockade(["serve"]))
    }

    /// The same with a command of the test's own.
    pub fn start_with(place: &Place, mut command: Command) -> Gateway {
        let socket = place.root.join("runtime/stockade/gateway.sock");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("its first line");
        assert_eq!(line, format!("listening on {}\n", socket.display()));
        Gateway { child, _said: said, socket }
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Connects, and says nothing yet.
    pub fn connect(&self) -> Peer {
        let stream = UnixStream::connect(&self.socket).expect("the gateway accepts");
        stream.set_read_timeout(Some(SILENCE)).expect("a limit");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Peer { stream, reader, last: 0 }
    }

    /// Connects and says hello.
    pub fn greet(&self) -> Peer {
        let mut peer = self.connect();
        peer.request("hello", json!({"protocol": 1}));
        let answer = peer.message().expect("an answer");
        assert_eq!(answer["result"]["protocol"], 1, "{answer}");
        peer
    }

    /// Ends it with SIGTERM and returns its exit status.
    pub fn end(self) -> Option<i32> {
        self.signal("TERM");
        self.ended()
    }

    /// Kills it; its socket file stays.
    pub fn kill(mut self) {
        self.signal("KILL");
        self.child.wait().expect("it is gone");
    }

    /// Waits until it ends by itself and returns its exit status.
    pub fn ended(mut self) -> Option<i32> {
        let ended = || self.child.try_wait().expect("its status");
        crate::found("the gateway ends", ended).code()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Stream to the gateway.
    pub stream: UnixStream,
    reader: BufReader<UnixStream>,
    last: u64,
}

impl Peer {
    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).expect("the gateway reads");
    }

    /// Sends a request with the next number.
    pub fn request(&mut self, method: &str, params: Value) {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.send(&request.to_string());
    }

    /// The next message; none when the gateway closed the connection.
    pub fn message(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!("no message in {SILENCE:?}")
            }
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("a line of JSON")),
        }
    }

    /// Sends a message as it is and returns the next one that comes.
    pub fn ask(&mut self, request: &Value) -> Value {
        self.send(&request.to_string());
        self.message().expect("an answer")
    }

    /// Sends a line that is not a request, and returns the code of the answer.
    pub fn code_of(&mut self, line: &str) -> i64 {
        self.send(line);
        self.message().expect("an answer")["error"]["code"].as_i64().expect("a code")
    }

    /// Waits for the question.
    pub fn question(&mut self) -> Value {
        let question = self.message().expect("a question");
        assert_eq!(question["method"], "question", "{question}");
        question
    }

    /// Answers a question.
    pub fn answer(&mut self, question: &Value, answer: &str) {
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
        self.send(&message.to_string());
    }

    /// Gives up the run that was asked for last.
    pub fn stop(&mut self) {
        let params = json!({"run": self.last, "control": "stop"});
        self.send(&json!({"jsonrpc": "2.0", "method": "control", "params": params}).to_string());
    }

    /// Waits for the outcome of the last request: its name, or the code of the failure.
    pub fn outcome(&mut self) -> String {
        loop {
            let message = self.message().expect("an outcome");
            if message["id"] != self.last || !message["method"].is_null() {
                continue;
            }
            let outcome = message["result"].as_object().and_then(|it| it.keys().next().cloned());
            let code = || message["error"]["data"]["code"].as_str().map(str::to_owned);
            return outcome.or_else(code).expect("an outcome or a failure");
        }
    }
}

/// Returns the processes that listen at a socket: the table of sockets names the path, and descriptors name the socket.
pub fn listening(socket: &Path) -> Vec<u32> {
    let table = std::fs::read_to_string("/proc/net/unix").expect("the table of sockets");
    let path = socket.to_string_lossy();
    let inodes: Vec<String> = table
        .lines()
        .filter(|line| line.ends_with(&*path) && line.contains(" 00010000 "))
        .filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(6)?)))
        .collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let held = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = held.filter_map(|it| std::fs::read_link(it.path()).ok());
        if links.any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str())) {
            found.push(pid);
        }
    }
    found
}
