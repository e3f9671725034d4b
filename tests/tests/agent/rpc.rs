//! The server of sessions: several clients see the same events, the first answer counts, and who comes back misses nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_model_server::{Form, Server, Turn};
use stockade_tests::{Place, executable};

use super::{call, say, script};

/// A server on a socket. It ends with the test.
pub(super) struct Serving(pub(super) Child, pub(super) PathBuf);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn serve(place: &Place, model: &Server, options: &[&str]) -> Serving {
    drop(executable("stockade-agent"));
    // An address holds 107 bytes (unix(7)).
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let socket = PathBuf::from(format!("/tmp/rpc-{}-{number}.sock", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let mut command = place.stockade(["rpc", "--socket"]);
    command.arg(&socket).args(options);
    command.env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "sk-test");
    command.env("STOCKADE_MODEL_TRIES", "1").stdin(Stdio::null());
    let serving = Serving(command.spawn().expect("the server starts"), socket);
    let begun = Instant::now();
    while !serving.1.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    serving
}

pub(super) struct Client {
    pub(super) stream: UnixStream,
    pub(super) lines: std::io::Lines<BufReader<UnixStream>>,
    pub(super) seen: Vec<Value>,
    pub(super) number: u64,
}

impl Client {
    pub(super) fn connect(socket: &Path) -> Client {
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit");
        let lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
        Client { stream, lines, seen: Vec::new(), number: 0 }
    }

    pub(super) fn line(&mut self) -> Value {
        let line = self.lines.next().expect("the server is there").expect("a line");
        serde_json::from_str(&line).expect("a message")
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params });
        self.stream.write_all(format!("{request}\n").as_bytes()).expect("a line");
        loop {
            let message = self.line();
            if message["id"] == self.number {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Waits for a notification that fits, and returns it.
    pub(super) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.seen.iter().find(|it| fits(it)) {
            return found.clone();
        }
        loop {
            let message = self.line();
            self.seen.push(message.clone());
            if fits(&message) {
                return message;
            }
        }
    }

    /// The numbers and kinds of all events so far.
    pub(super) fn events(&self) -> Vec<(u64, String)> {
        let events = self.seen.iter().filter(|it| it["method"] == "session.event");
        let event = |it: &Value| {
            (
                it["params"]["seq"].as_u64().unwrap_or_default(),
                it["params"]["event"]["type"].to_string(),
            )
        };
        events.map(event).collect()
    }
}

pub(super) fn is_result(message: &Value) -> bool {
    message["params"]["event"]["type"] == "result"
}

pub(super) fn write(id: &str) -> Turn {
    call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }))
}

#[test]
fn clients_see_the_same_events_the_first_answer_counts_and_nothing_is_missed() {
    let place = Place::new("ag-rpc");
    let model = script(Form::Anthropic, &[&[write("a")], &[say("done")], &[say("more")]]);
    let serving = serve(&place, &model, &[]);
    let [mut one, mut two] = [(); 2].map(|()| Client::connect(&serving.1));
    let cwd = place.project();
    let id = one.ask("session.create", json!({ "cwd": cwd }))["result"]["id"].clone();
    two.ask("session.subscribe", json!({ "id": id, "after": 0 }));
    one.ask("session.send", json!({ "id": id, "text": "go" }));
    let question = |it: &Value| it["method"] == "session.question";
    let asked = one.until(question)["params"]["question"].clone();
    assert_eq!(two.until(question)["params"]["question"], asked);
    let answer = |behavior: &str| json!({ "id": id, "question": asked, "behavior": behavior });
    let rubbish = two.ask("session.answer", answer("perhaps"));
    assert!(
        rubbish["error"]["message"].as_str().is_some_and(|it| it.contains("neither")),
        "{rubbish}"
    );
    assert!(two.ask("session.answer", answer("allow"))["result"].is_object());
    let late = one.ask("session.answer", answer("deny"));
    assert!(
        late["error"]["message"].as_str().is_some_and(|it| it.contains("not open any more")),
        "{late}"
    );
    for client in [&mut one, &mut two] {
        client.until(is_result);
    }
    assert!(cwd.join("a.txt").exists());
    assert_eq!(one.events(), two.events());
    // A client that went away comes back and misses nothing.
    let last = two.events().last().expect("an event").0;
    drop(two);
    one.seen.clear();
    one.ask("session.send", json!({ "id": id, "text": "more" }));
    one.until(is_result);
    let mut three = Client::connect(&serving.1);
    let back = three.ask("session.subscribe", json!({ "id": id, "after": last }));
    assert_eq!(back["result"]["gap"], false, "{back}");
    three.until(is_result);
    assert_eq!(three.events().first().map(|it| it.0), Some(last + 1));
    assert_eq!(three.events(), one.events());
}

#[test]
fn sessions_are_listed_named_forked_closed_and_removed() {
    let place = Place::new("ag-rpc-more");
    let model = script(Form::Anthropic, &[&[say("blue answer")], &[say("in the copy")]]);
    let serving = serve(&place, &model, &["--model", "haiku"]);
    let mut client = Client::connect(&serving.1);
    let cwd = place.project();
    let id = client.ask("session.create", json!({ "cwd": cwd }))["result"]["id"].clone();
    let named = json!({ "id": id });
    client.ask("session.send", json!({ "id": id, "text": "blue words" }));
    client.until(is_result);
    let usage = client.ask("session.get", named.clone());
    assert_eq!(usage["result"]["usage"]["tokens"]["input_tokens"], 10, "{usage}");
    assert_eq!(usage["result"]["busy"], false);
    let copy = client.ask("session.fork", json!({ "id": id, "cwd": cwd }))["result"]["id"].clone();
    assert_ne!(copy, id);
    client.seen.clear();
    client.ask("session.send", json!({ "id": copy, "text": "go on" }));
    client.until(is_result);
    let messages = client.ask("session.getMessages", json!({ "id": copy })).to_string();
    assert!(messages.contains("blue words") && messages.contains("in the copy"), "{messages}");
    assert_eq!(
        client.ask("session.save", json!({ "id": copy }))["result"],
        json!({ "saved": true })
    );
    client.ask("session.destroy", json!({ "id": copy }));
    client.ask("session.destroy", named.clone());
    assert_eq!(client.ask("session.save", named.clone())["error"]["code"], -32_602);
    client.ask("session.rename", json!({ "id": id, "name": "Blue" }));
    assert_eq!(client.ask("session.getMetadata", named.clone())["result"]["name"], "Blue");
    let by_name = client.ask("session.resume", json!({ "id": "Blue", "cwd": cwd }));
    assert!(
        by_name["error"]["message"].as_str().is_some_and(|it| it.contains("does not exist")),
        "{by_name}"
    );
    client.ask("session.plan.set", json!({ "id": id, "plan": "first this" }));
    assert_eq!(client.ask("session.plan.get", named.clone())["result"]["plan"], "first this");
    client.ask("session.delete", named.clone());
    let listed = client.ask("session.list", json!({}));
    assert_eq!(listed["result"]["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(client.ask("session.steal", json!({}))["error"]["code"], -32_601);
    assert_eq!(
        client.ask("session.create", json!({ "cwd": "relative" }))["error"]["code"],
        -32_602
    );
    // Only its user reaches the socket, and another server does not take it.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&serving.1).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut second = place.stockade(["rpc", "--socket"]);
    let second = second.arg(&serving.1).output().expect("it starts");
    assert!(super::text(&second.stderr).contains("another server listens"), "{second:?}");
}

#[test]
fn an_idle_session_is_closed_and_goes_on_later() {
    let place = Place::new("ag-rpc-idle");
    let model = script(Form::Anthropic, &[&[say("one")], &[say("two")]]);
    let serving = serve(&place, &model, &["--session-idle-timeout", "6"]);
    let mut client = Client::connect(&serving.1);
    let cwd = place.project();
    let id = client.ask("session.create", json!({ "cwd": cwd }))["result"]["id"].clone();
    client.ask("session.send", json!({ "id": id, "text": "first" }));
    client.until(|it| it["method"] == "session.closed");
    client.seen.clear();
    client.ask("session.resume", json!({ "id": id, "cwd": cwd }));
    client.ask("session.send", json!({ "id": id, "text": "second" }));
    client.until(is_result);
    assert!(model.received()[1].body.to_string().contains("first"));
}

#[test]
fn a_command_in_the_sandbox_does_not_reach_the_server() {
    let place = Place::new("ag-rpc-sandbox");
    let talk = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint('rea' + 'ched')\n";
    place.write("project/talk.py", talk);
    let idle = script(Form::Anthropic, &[]);
    let serving = serve(&place, &idle, &[]);
    let shown = serving.1.to_str().expect("a path").to_owned();
    let mut free = std::process::Command::new("python3");
    let free = free.arg("talk.py").arg(&shown).current_dir(place.project()).output();
    let free = match free {
        Ok(output) => output,
        Err(error) => {
            return stockade_tests::skip(
                "a_command_in_the_sandbox_does_not_reach_the_server",
                &error.to_string(),
            );
        }
    };
    assert_eq!(super::text(&free.stdout), "reached", "{free:?}");
    let command = format!("python3 talk.py {shown}; ls -l {shown}; true");
    let model = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": command }))], &[say("done")]],
    );
    let allowed = ["-p", "go", "--allowedTools", "Bash(python3:*)"];
    super::run(&place, &model, &allowed);
    let (told, _) = super::result(&model, "a");
    assert!(!told.contains("reached"), "{told}");
}
