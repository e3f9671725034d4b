//! What an answer of a person counts for, and what becomes of a call that was given up before its command started.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use stockade_tests::Place;

/// A gateway that stays, and its place.
struct Gateway<'a> {
    place: &'a Place,
    child: Child,
    _said: BufReader<ChildStdout>,
}

impl<'a> Gateway<'a> {
    fn start(place: &'a Place) -> Gateway<'a> {
        let mut child =
            place.stockade(["serve"]).stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        said.read_line(&mut String::new()).expect("its first line");
        Gateway { place, child, _said: said }
    }

    fn connect(&self) -> Peer {
        let socket = self.place.root.join("runtime/stockade/gateway.sock");
        let stream = UnixStream::connect(socket).expect("the gateway accepts");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let mut peer = Peer { stream, reader, last: 0 };
        peer.request("hello", json!({"protocol": 1}));
        peer.next();
        peer
    }

    /// Asks for a command and returns the connection where its question or its outcome comes next.
    fn ask_for(&self, command: Value) -> Peer {
        let mut peer = self.connect();
        let variable = |name: &str, value: &std::path::Path| json!([name, value]);
        let environment = json!([variable("HOME", &self.place.home()), ["PATH", "/usr/bin:/bin"]]);
        let context = json!({"settings": [], "allowed_tools": [], "disallowed_tools": [], "import": [],
            "additional_directories": [], "environment": environment, "door": "run", "interactive": true});
        let request = json!({"command": command, "cwd": self.place.project(), "background": false,
            "pty": false, "unsandboxed": false, "stdin": false, "context": context});
        peer.request("run", request);
        peer
    }

    fn end(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        self.child.wait().expect("the gateway ends").code()
    }
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Peer {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    last: u64,
}

impl Peer {
    fn send(&mut self, message: &Value) {
        self.stream.write_all(format!("{message}\n").as_bytes()).expect("the gateway reads");
    }

    fn request(&mut self, method: &str, params: Value) {
        self.last += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("a line of JSON")
    }

    /// Waits for the question.
    fn question(&mut self) -> Value {
        let question = self.next();
        assert_eq!(question["method"], "question", "{question}");
        question
    }

    fn stop(&mut self) {
        let params = json!({"run": self.last, "control": "stop"});
        self.send(&json!({"jsonrpc": "2.0", "method": "control", "params": params}));
    }

    fn answer(&mut self, question: &Value, answer: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    }

    /// Waits for the outcome: its name, or the code of the failure.
    fn outcome(&mut self) -> String {
        loop {
            let message = self.next();
            if message["id"] != self.last || !message["method"].is_null() {
                continue;
            }
            let outcome = message["result"].as_object().and_then(|it| it.keys().next().cloned());
            let code = || message["error"]["data"]["code"].as_str().map(str::to_owned);
            return outcome.or_else(code).expect("an outcome or a failure");
        }
    }
}

fn settings(place: &Place, text: &str) {
    place.write("home/.config/stockade/settings.json", text);
}

#[test]
fn a_yes_is_no_longer_one_when_settings_or_links_changed_since_the_question() {
    let place = Place::new("since");
    place.write("kept/secret", "the secret");
    let kept = format!("Read(/{}/**)", place.root.join("kept").display());
    let permissions = json!({"ask": ["Bash(cp:*)"], "deny": [kept]});
    let plain = json!({"permissions": permissions}).to_string();
    let excluded = json!({"excludedCommands": ["cp:*"]});
    let outside = json!({"permissions": permissions, "sandbox": excluded}).to_string();
    let denied = r#"{"permissions": {"deny": ["Bash(cp:*)"]}}"#;
    settings(&place, &plain);
    let gateway = Gateway::start(&place);
    let shown = place.project().join("shown");
    let copy = place.project().join("copy");
    type Meanwhile<'a> = &'a dyn Fn();
    let nothing: Meanwhile<'_> = &|| {};
    let link: Meanwhile<'_> = &|| {
        std::fs::remove_file(&shown).expect("it was there");
        symlink(place.root.join("kept/secret"), &shown).expect("a link");
    };
    for (before, meanwhile, outcome) in [
        (&plain, nothing, "ran"),
        (&outside, nothing, "ran"),
        (&plain, &|| settings(&place, denied), "denied"),
        (&plain, &|| settings(&place, "{"), "settings_rejected"),
        // Nobody was asked whether it may run unconfined, or confined.
        (&plain, &|| settings(&place, &outside), "needs_person"),
        (&outside, &|| settings(&place, &plain), "needs_person"),
        (&outside, link, "denied"),
    ] {
        for file in [&shown, &copy] {
            let _ = std::fs::remove_file(file); // of the round before
        }
        place.write("project/shown", "what was shown");
        settings(&place, before);
        let mut peer = gateway.ask_for(json!({"shell": "cp shown copy"}));
        let question = peer.question();
        meanwhile();
        peer.answer(&question, "once");
        assert_eq!(peer.outcome(), outcome, "{before}");
        let copied = std::fs::read_to_string(&copy).ok();
        assert_eq!(copied.as_deref(), (outcome == "ran").then_some("what was shown"), "{before}");
    }
    assert_eq!(gateway.end(), Some(0));
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_yes_still_counts_when_settings_changed_elsewhere_and_the_record_names_those_that_count() {
    let place = Place::new("elsewhere");
    settings(&place, r#"{"permissions": {"ask": ["Bash(mkdir:*)", "Bash(touch:*)"]}}"#);
    let gateway = Gateway::start(&place);
    let mut first = gateway.ask_for(json!({"shell": "mkdir first"}));
    let question = first.question();
    settings(
        &place,
        r#"{"permissions": {"ask": ["Bash(mkdir:*)", "Bash(touch:*)"], "allow": ["Bash(ls:*)"]}}"#,
    );
    first.answer(&question, "once");
    assert_eq!(first.outcome(), "ran");
    assert!(place.project().join("first").is_dir());
    assert_eq!(gateway.end(), Some(0));
    let records = |kind: &str| {
        let output = place.output(["audit", "search", "--json", "--kind", kind]).stdout;
        let lines = String::from_utf8_lossy(&output).into_owned();
        lines.lines().map(|it| serde_json::from_str(it).expect("a record")).collect::<Vec<Value>>()
    };
    let (decisions, approvals) = (records("decision"), records("approval"));
    assert_eq!((decisions.len(), approvals.len()), (2, 2));
    assert_ne!(decisions[0]["policy"]["sha256"], decisions[1]["policy"]["sha256"]);
    let agreements: Vec<Value> =
        records("result").iter().map(|it| it["agreement"].clone()).collect();
    assert_eq!(agreements, ["not_run", "as_decided"]);
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn a_command_that_was_given_up_before_its_start_never_runs() {
    let place = Place::new("given-up");
    place.write(
        "hook.sh",
        "#!/bin/sh\ntouch \"$HOME/thinks\"\nwhile ! [ -e \"$HOME/go\" ]; do sleep 0.02; done\n",
    );
    let hook = place.root.join("hook.sh");
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("chmod");
    let asking = r#"{"permissions": {"ask": ["Bash(mkdir:*)"]}}"#;
    settings(&place, asking);
    let gateway = Gateway::start(&place);
    let made = place.project().join("made");
    let command = json!({"words": ["mkdir", "made"]});
    // With the question open, whatever is said then.
    for _ in 0..5 {
        let mut peer = gateway.ask_for(command.clone());
        let question = peer.question();
        peer.stop();
        peer.answer(&question, "once");
        assert_eq!(peer.outcome(), "needs_person");
        assert!(!made.exists());
    }
    // While a hook thinks.
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}]});
    settings(&place, &json!({"permissions": {"allow": ["Bash"]}, "hooks": hooks}).to_string());
    let (thinks, go) = (place.home().join("thinks"), place.home().join("go"));
    for goes_away in [false, true] {
        let mut peer = gateway.ask_for(command.clone());
        while !thinks.exists() {
            std::thread::yield_now();
        }
        peer.stop();
        if goes_away {
            drop(peer);
            place.write("home/go", "");
        } else {
            place.write("home/go", "");
            assert_eq!(peer.outcome(), "launch_failed");
        }
        // The gateway ends when the calls of those that went away are over.
        let _ = (std::fs::remove_file(&thinks), goes_away || std::fs::remove_file(&go).is_ok());
        assert!(!made.exists());
    }
    assert_eq!(gateway.end(), Some(0));
    assert!(!made.exists());
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_the_end_of_the_gateway() {
    let place = Place::new("deaf");
    let gateway = Gateway::start(&place);
    let mut deaf = gateway.ask_for(json!({"shell": "echo begun; sleep 600"}));
    assert_eq!(deaf.next()["params"]["event"]["output"]["stream"], "stdout");
    deaf.stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).expect("a limit");
    let bad = b"{}\n".repeat(10_000);
    // Each line gets an answer that nobody reads, until neither side has room.
    while deaf.stream.write_all(&bad).is_ok() {}
    assert_eq!(gateway.end(), Some(0));
    let tail = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "result"]);
    let record: Value = serde_json::from_slice(&tail.stdout).expect("one record");
    assert_eq!(record["interrupted"], true, "{record}");
    drop(deaf); // it lived until here
}
