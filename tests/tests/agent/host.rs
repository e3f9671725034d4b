//! The protocol of the SDKs over pipes: questions, changed input, hooks, interrupts, and hosts that are gone or lie.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use stockade_model_server::{Form, Server};
use stockade_tests::Place;

use super::{agent, call, result, say, script};

/// A host that speaks the protocol over pipes.
pub(super) struct Host {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Host {
    pub(super) fn start(place: &Place, server: &Server, arguments: &[&str]) -> Host {
        let whole =
            ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
        let mut command = agent(place, server, Form::Anthropic, &[&whole[..], arguments].concat());
        command.env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
        Host::of(&mut command)
    }

    /// Starts this command.
    pub(super) fn of(command: &mut std::process::Command) -> Host {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the agent starts");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Host { child, output }
    }

    /// Returns the number of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn send(&mut self, frame: &Value) {
        let stdin = self.child.stdin.as_mut().expect("its input");
        stdin.write_all(format!("{frame}\n").as_bytes()).expect("a line");
    }

    pub(super) fn user(&mut self, text: &str) {
        self.send(&json!({ "type": "user", "message": { "role": "user", "content": text }, "session_id": "default" }));
    }

    pub(super) fn request(&mut self, request: Value) {
        self.send(&json!({ "type": "control_request", "request_id": "h1", "request": request }));
    }

    pub(super) fn answer(&mut self, to: &Value, response: Value) {
        let response =
            json!({ "subtype": "success", "request_id": to["request_id"], "response": response });
        self.send(&json!({ "type": "control_response", "response": response }));
    }

    /// Reads the next frame, which begins within three minutes; none when the agent is gone.
    fn frame(&mut self) -> Option<Value> {
        if self.output.buffer().is_empty() {
            let mut polled = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            let limit = Timespec { tv_sec: 180, tv_nsec: 0 };
            let ready = poll(&mut polled, Some(&limit)).expect("its output");
            assert!(ready > 0, "no frame came in 180 s");
        }
        let mut line = String::new();
        let read = self.output.read_line(&mut line).expect("a line");
        (read > 0).then(|| serde_json::from_str(&line).expect("a frame"))
    }

    /// Reads until a frame of this type, or a request of this subtype.
    pub(super) fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame().unwrap_or_else(|| panic!("no `{kind}` came"));
            if frame["type"] == kind
                || frame["request"]["subtype"] == kind
                || frame["subtype"] == kind
            {
                return frame;
            }
        }
    }

    pub(super) fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("an end").code()
    }
}

#[test]
fn a_host_answers_changes_and_refuses_calls() {
    let place = Place::new("ag-host");
    let write = |id: &str, content: &str| {
        call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": content }))
    };
    let server = script(
        Form::Anthropic,
        &[
            &[write("a", "one")],
            &[write("b", "two")],
            &[write("c", "three")],
            &[say("not asked")],
            &[say("next")],
        ],
    );
    let mut host = Host::start(&place, &server, &["--permission-prompt-tool", "stdio"]);
    host.request(json!({ "subtype": "initialize", "hooks": null }));
    assert_eq!(
        host.until("control_response")["response"]["response"]["claude_code_version"],
        "2.1.330"
    );
    host.user("go");
    let asked = host.until("can_use_tool");
    assert_eq!(
        (&asked["request"]["tool_name"], &asked["request"]["tool_use_id"]),
        (&json!("Write"), &json!("a"))
    );
    assert_eq!(asked["request"]["permission_suggestions"][1]["mode"], "acceptEdits");
    host.answer(&asked, json!({ "behavior": "allow", "updatedInput": { "file_path": "a.txt", "content": "changed" } }));
    let asked = host.until("can_use_tool");
    // Rubbish is a no.
    host.answer(&asked, json!({ "behavior": "perhaps" }));
    let asked = host.until("can_use_tool");
    host.answer(&asked, json!({ "behavior": "deny", "message": "stop", "interrupt": true }));
    let ended = host.until("result");
    assert_eq!(
        (&ended["subtype"], &ended["is_error"]),
        (&json!("error_during_execution"), &json!(true))
    );
    assert_eq!(server.received().len(), 3);
    let read = |name: &str| std::fs::read_to_string(place.project().join(name)).ok();
    assert_eq!([read("a.txt"), read("b.txt"), read("c.txt")], [Some("changed".into()), None, None]);
    host.user("go on");
    assert_eq!(host.until("result")["result"], "not asked");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_host_that_is_gone_is_a_no() {
    let place = Place::new("ag-gone");
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Write", json!({ "file_path": "a.txt", "content": "x" }))], &[say("ok")]],
    );
    let mut host = Host::start(&place, &server, &["--permission-prompt-tool", "stdio"]);
    host.user("go");
    host.until("can_use_tool");
    assert_eq!(host.end(), Some(0));
    assert!(!place.project().join("a.txt").exists());
    let (told, is_error) = result(&server, "a");
    assert!(is_error && told.contains("the host is gone"), "{told}");
}

#[test]
fn a_host_interrupts_and_goes_on() {
    let place = Place::new("ag-hi");
    let command = "echo begun > begun; sleep 45.75";
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": command }))], &[say("after")]],
    );
    let mut host = Host::start(&place, &server, &[]);
    host.user("go");
    let begun = Instant::now();
    while !place.project().join("begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the command does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    host.request(json!({ "subtype": "interrupt" }));
    let then = Instant::now();
    let ended = host.until("result");
    assert!(then.elapsed() < Duration::from_secs(20), "{:?}", then.elapsed());
    assert_eq!(
        (&ended["subtype"], &ended["terminal_reason"]),
        (&json!("error_during_execution"), &json!("aborted_tools"))
    );
    host.request(json!({ "subtype": "no_such_thing" }));
    assert_eq!(host.until("control_response")["response"]["subtype"], "error");
    host.user("again");
    assert_eq!(host.until("result")["result"], "after");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn hooks_of_a_host_decide_and_a_lying_one_blocks() {
    let place = Place::new("ag-host-hooks");
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let server =
        script(Form::Anthropic, &[&[write("a")], &[write("b")], &[write("c")], &[say("done")]]);
    let mut host = Host::start(&place, &server, &["--permission-mode", "acceptEdits"]);
    let hooks = json!({ "PreToolUse": [{ "matcher": "Write", "hookCallbackIds": ["hook_0"] }] });
    host.request(json!({ "subtype": "initialize", "hooks": hooks }));
    host.user("go");
    let asked = host.until("hook_callback");
    let input = &asked["request"]["input"];
    assert_eq!(
        (&input["hook_event_name"], &input["tool_name"]),
        (&json!("PreToolUse"), &json!("Write"))
    );
    let output = json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "NO_1" });
    host.answer(&asked, json!({ "hookSpecificOutput": output }));
    let asked = host.until("hook_callback");
    host.answer(&asked, json!("yes"));
    let asked = host.until("hook_callback");
    host.answer(&asked, json!({}));
    host.until("result");
    let written = |name: &str| place.project().join(name).exists();
    assert_eq!([written("a.txt"), written("b.txt"), written("c.txt")], [false, false, true]);
    assert!(result(&server, "a").0.contains("NO_1"));
    assert_eq!(host.end(), Some(0));
}

/// Answers each question with a yes until the turn ends. Returns the paths that were asked about.
fn agree(host: &mut Host) -> Vec<String> {
    let mut asked = Vec::new();
    loop {
        let frame = host.frame().expect("a frame");
        if frame["request"]["subtype"] == "can_use_tool" {
            let input = frame["request"]["input"].clone();
            asked.extend(input["file_path"].as_str().map(str::to_owned));
            host.answer(&frame, json!({ "behavior": "allow", "updatedInput": input }));
        }
        if frame["type"] == "result" {
            return asked;
        }
    }
}

#[test]
fn a_yes_opens_one_file_outside_for_one_change() {
    let place = Place::new("ag-outside");
    place.write("home/notes.txt", "old\n");
    let file = place.home().join("notes.txt");
    let path = file.to_str().expect("UTF-8").to_owned();
    let write = |id: &str, content: &str| {
        call(id, "Write", json!({ "file_path": path, "content": content }))
    };
    let shell = format!("echo shell > '{path}'; echo ended");
    let server = script(
        Form::Anthropic,
        &[
            &[call("a", "Read", json!({ "file_path": path }))],
            &[write("b", "new and longer\n")],
            &[call("c", "Bash", json!({ "command": shell }))],
            &[write("d", "end\n")],
            &[say("done")],
        ],
    );
    let mut host = Host::start(&place, &server, &["--permission-prompt-tool", "stdio"]);
    host.user("go");
    let asked = agree(&mut host);
    assert_eq!(host.end(), Some(0));
    assert_eq!(asked.iter().filter(|it| **it == path).count(), asked.len());
    let [b, c, d] = ["b", "c", "d"].map(|id| result(&server, id));
    assert!(!b.1 && !d.1, "{b:?} {d:?}");
    assert!(c.0.contains("Read-only file system") && c.0.contains("ended"), "{c:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "end\n");
    let beside = std::fs::read_dir(place.home()).expect("a directory");
    let mut names =
        beside.map(|it| it.expect("an entry").file_name()).filter(|it| it != "notes.txt");
    assert!(names.all(|it| !it.to_string_lossy().contains("notes")), "a file was left");
}

#[test]
fn a_yes_opens_no_second_name_no_link_of_a_command_and_nothing_protected() {
    let place = Place::new("ag-second");
    for name in ["kept/first.txt", ".bashrc", "plain.txt"] {
        place.write(&format!("home/{name}"), "kept\n");
    }
    let [outside, second, protected, plain] =
        ["kept/first.txt", "second.txt", ".bashrc", "plain.txt"]
            .map(|name| place.home().join(name));
    std::fs::hard_link(&outside, &second).expect("a second name");
    let link = place.project().join("link.txt");
    std::os::unix::fs::symlink(&plain, &link).expect("a link");
    let paths = [second, protected.clone(), link].map(|it| it.to_str().expect("UTF-8").to_owned());
    let mut answers = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let input = json!({ "file_path": path, "content": "changed\n" });
        answers.push([call(&format!("r{index}"), "Read", json!({ "file_path": path }))]);
        answers.push([call(&format!("w{index}"), "Write", input)]);
    }
    answers.push([say("done")]);
    let answers: Vec<&[stockade_model_server::Turn]> = answers.iter().map(|it| &it[..]).collect();
    let server = script(Form::Anthropic, &answers);
    let mut host = Host::start(&place, &server, &["--permission-prompt-tool", "stdio"]);
    host.user("go");
    agree(&mut host);
    assert_eq!(host.end(), Some(0));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
    assert_eq!([read(&outside), read(&protected), read(&plain)], ["kept\n"; 3]);
    for index in 0..paths.len() {
        let (told, is_error) = result(&server, &format!("w{index}"));
        assert!(is_error, "{index}: {told}");
    }
}
