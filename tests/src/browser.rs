//! A Chromium that a test drives by its WebDriver, and requests of HTTP that no browser would send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long is waited for anything that a browser is to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// An answer of HTTP.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The lines of the head behind the first one.
    pub head: String,
    /// The rest.
    pub body: String,
}

impl Reply {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }
}

/// Sends one request to a port of this machine, with these lines as its head, and returns the answer.
pub fn request(port: u16, first: &str, head: &[String], body: &str) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut text = format!("{first} HTTP/1.1\r\n");
    for line in head {
        text.push_str(&format!("{line}\r\n"));
    }
    text.push_str(&format!("Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).expect("the server reads");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status");
    let status = line.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let (mut head, mut length) = (String::new(), None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
        head.push_str(&line);
    }
    let mut body = Vec::new();
    // Without a length the rest of a stream of events would never end.
    match length {
        Some(length) => reader.take(length).read_to_end(&mut body).expect("a body"),
        None => reader.read_until(b'\n', &mut body).expect("a line"),
    };
    Reply { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// A browser of its own for one test.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    _said: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one whose folder is `folder`; none where there is no Chromium, which is said with the name of the test.
    pub fn start(test: &str, folder: &std::path::Path) -> Option<Browser> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = match command.spawn() {
            Ok(driver) => driver,
            Err(error) => {
                crate::skip(test, &format!("`chromedriver` does not start: {error}"));
                return None;
            }
        };
        let mut said = BufReader::new(driver.stdout.take().expect("its output"));
        let port = loop {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).expect("a line"), 0, "the driver says its port");
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                break rest.trim().trim_end_matches('.').parse().expect("a port");
            }
        };
        let mut browser = Browser { driver, _said: said, port, session: String::new() };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--host-resolver-rules=MAP *.test 127.0.0.1",
            &format!("--user-data-dir={}", folder.display()),
        ];
        let options = json!({ "args": arguments });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = browser.ask("POST", "/session", &wanted);
        match made.pointer("/value/sessionId").and_then(Value::as_str) {
            Some(session) => browser.session = format!("/session/{session}"),
            None => {
                crate::skip(test, &format!("no Chromium starts: {made}"));
                return None;
            }
        }
        Some(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let head =
            [format!("Host: localhost:{}", self.port), "Content-Type: application/json".into()];
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let reply = request(self.port, &format!("{method} {path}"), &head, &body);
        serde_json::from_str(&reply.body).expect("the driver answers JSON")
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        let mut answer = self.ask("POST", &format!("{}{path}", self.session), body);
        assert!(answer.pointer("/value/error").is_none(), "{path}: {answer}");
        answer["value"].take()
    }

    /// Goes to an address.
    pub fn open(&self, address: &str) {
        self.command("/url", &json!({ "url": address }));
    }

    /// Goes to an address in a new tab, which has nothing of the tabs before but cookies.
    pub fn open_tab(&self, address: &str) {
        let made = self.command("/window/new", &json!({ "type": "tab" }));
        self.command("/window", &json!({ "handle": made["handle"] }));
        self.open(address);
    }

    /// Runs the body of a function in the page and returns what it returns; a promise is waited for.
    pub fn script(&self, body: &str) -> Value {
        self.command("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Sends keys to whatever has the focus.
    pub fn keys(&self, text: &str) {
        let key = |letter: char| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": letter.to_string() }))
        };
        let actions: Vec<Value> = text.chars().flat_map(key).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Gives a command of the Chrome DevTools Protocol.
    pub fn tool(&self, name: &str, params: &Value) {
        self.command("/goog/cdp/execute", &json!({ "cmd": name, "params": params }));
    }

    /// Returns the text of the page.
    pub fn text(&self) -> String {
        self.script("return document.body ? document.body.innerText : ''")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until the text of the page holds `part`.
    pub fn until(&self, part: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if text.contains(part) {
                return text;
            }
            assert!(Instant::now() < end, "no `{part}` in the page: {text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
