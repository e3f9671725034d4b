//! Sessions that go on: chosen by a person on a terminal, and with the calls that a crash left behind.

use std::process::Stdio;

use serde_json::{Value, json};
use stockade_model_server::{Form, Server};
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade, until};

use super::{agent, call, result, run, say, script, text};

const IDS: [&str; 3] = [
    "aaaa1111-1111-4111-8111-111111111111",
    "aaaa2222-2222-4222-8222-222222222222",
    "bbbb3333-3333-4333-8333-333333333333",
];

/// Begins three sessions: two whose identities begin alike, and one whose words are no letters.
fn begin(place: &Place) {
    for (id, words) in IDS.into_iter().zip(["blue words", "green words", "grey \u{1b}[2Jwords"]) {
        let server = script(Form::Anthropic, &[&[say("done")]]);
        let output = run(place, &server, &["-p", words, "--session-id", id]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

/// Starts `stockade agent` with this model on a terminal.
fn on_terminal(place: &Place, server: &Server, arguments: &[&str]) -> Option<Terminal> {
    let url = format!("ANTHROPIC_BASE_URL={}", server.url());
    let executable = stockade();
    let first = [url.as_str(), "ANTHROPIC_API_KEY=sk-test", "STOCKADE_MODEL_TRIES=1"];
    let program = executable.to_string_lossy();
    let all = [&first[..], &[&*program, "agent"], arguments].concat();
    Terminal::start(place, std::path::Path::new("/usr/bin/env"), &all)
}

/// Messages of the last request to the model.
fn told(server: &Server) -> String {
    server.received().pop().expect("a request").body["messages"].to_string()
}

#[test]
fn a_person_chooses_the_session_that_goes_on() {
    let place = Place::new("ag-choose");
    begin(&place);
    let test = "a_person_chooses_the_session_that_goes_on";
    let server = script(Form::Anthropic, &[&[say("more")]]);
    let Some(mut terminal) = on_terminal(&place, &server, &["-p", "go on", "--resume"]) else {
        return skip(test, "`script` is not installed");
    };
    terminal.wait_for("3 of 3 sessions");
    terminal.press("words");
    terminal.wait_for("Resume a session: words");
    terminal.wait_for("3 of 3 sessions");
    // The newest stands first; the second one is the green one.
    terminal.press("\u{1b}[B");
    terminal.wait_for("> green words");
    terminal.wait_for("3 of 3 sessions");
    terminal.press("\r");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(0), "{screen}");
    assert!(screen.contains("This branch") && screen.contains(" events"), "{screen}");
    assert!(screen.trim_end().ends_with("more"), "{screen}");
    assert!(told(&server).contains("green words") && !told(&server).contains("blue"));
    // Nothing that a session is called moves the cursor or clears the screen.
    assert!(!screen.contains("\u{1b}[2J"), "{screen:?}");

    // A beginning that several have shows those alone; Esc leaves, and no model is asked.
    let server = script(Form::Anthropic, &[&[say("no")]]);
    let arguments = ["-p", "go on", "--resume", "aaaa"];
    let mut terminal = on_terminal(&place, &server, &arguments).expect("as before");
    terminal.wait_for("2 of 2 sessions");
    terminal.press("\u{1b}");
    assert_eq!(terminal.end().0, Some(130));
    assert_eq!(server.received().len(), 0);

    // So does a word of their names; without `-p` the session is named for the next command.
    let arguments = ["--resume", "GREY"];
    let mut terminal = on_terminal(&place, &server, &arguments).expect("as before");
    terminal.wait_for("1 of 1 sessions");
    terminal.press("\r");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(2), "{screen}");
    assert!(screen.contains(&format!("stockade agent -p PROMPT --resume {}", IDS[2])), "{screen}");
}

#[test]
fn without_a_terminal_the_sessions_are_named_and_none_begins() {
    let place = Place::new("ag-unchosen");
    begin(&place);
    let server = script(Form::Anthropic, &[&[say("no")]]);
    let error = |arguments: &[&str]| {
        let output = run(&place, &server, &[&["-p", "go on"], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
        text(&output.stderr)
    };
    let found = error(&["--resume"]);
    assert!(found.contains("name one with `--resume ID`"), "{found}");
    let found = error(&["--resume", "aaaa"]);
    assert!(found.contains(IDS[0]) && found.contains(IDS[1]) && !found.contains(IDS[2]), "{found}");
    let found = error(&["--resume", "Blue W"]);
    assert!(found.contains(&format!("{} (blue words)", IDS[0])), "{found}");
    let found = error(&["--resume", "purple"]);
    assert!(found.contains("No conversation found with session ID: purple"), "{found}");
    assert_eq!(server.received().len(), 0);
}

/// Waits until the command has written its word. The file is there before, when the command opens it.
fn wait_for_the_command(place: &Place) {
    let begun = place.project().join("begun");
    let written = || std::fs::read_to_string(&begun).unwrap_or_default();
    until("the command begins", || written() == "begun\n");
}

/// Leaves a session whose agent was killed within a Write that its gateway had not finished, and one call behind it.
fn break_off(place: &Place, id: &str) {
    let server = script(
        Form::Anthropic,
        &[&[
            call("a", "Bash", json!({ "command": "echo begun >> begun; [ -e go ] || sleep 46.3" })),
            call("b", "Write", json!({ "file_path": "b.txt", "content": "whole" })),
        ]],
    );
    let arguments = ["-p", "first words", "--session-id", id, "--permission-mode", "acceptEdits"];
    let mut child = agent(place, &server, Form::Anthropic, &arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("the agent starts");
    wait_for_the_command(place);
    // The agent proper dies with its gateway: nothing can say how the call ended.
    child.kill().expect("a kill");
    child.wait().expect("an end");
    std::fs::write(place.project().join("go"), "").expect("a file");
    // The keeper holds the lock until it sees that the agent is gone.
    let is_held = || {
        let listed = place.output(["agent", "sessions", "--json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("an object");
        !listed["sessions"][0]["in_use"].is_null()
    };
    until("the session is free", || !is_held());
    // The agent may have lived long enough to note a result: take it away, as if it had not.
    let path = place.root.join(format!("state/stockade/agent/sessions/{id}/events.jsonl"));
    let events = std::fs::read_to_string(&path).expect("a log");
    let is_result = |line: &&str| line.contains("tool_result");
    let kept: Vec<&str> = events.lines().filter(|line| !is_result(line)).collect();
    std::fs::write(&path, kept.join("\n") + "\n").expect("a log");
}

#[test]
fn calls_that_a_crash_left_behind_are_decided_and_done_anew() {
    let place = Place::new("ag-pending");
    let id = "66666666-6666-4666-8666-666666666666";
    break_off(&place, id);
    // Without the option each call has a result that says so.
    let server = script(Form::Anthropic, &[&[say("more")]]);
    let copy = ["-p", "go on", "--resume", id, "--fork-session"];
    run(&place, &server, &copy);
    for call in ["a", "b"] {
        let (words, is_error) = result(&server, call);
        assert!(words.contains("ended before this call was finished") && is_error, "{words}");
    }
    assert!(!place.project().join("b.txt").exists());
    // With it they go through the gate of now: the command runs, and a rule that came meanwhile refuses the other.
    place.write(
        "home/.config/stockade/settings.json",
        r#"{"permissions": {"deny": ["Edit(b.txt)"]}}"#,
    );
    let server = script(Form::Anthropic, &[&[say("finished")], &[say("no")]]);
    let pending = ["-p", "--continue-pending", "--resume", id, "--permission-mode", "acceptEdits"];
    let output = run(&place, &server, &pending);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("finished".into(), String::new()));
    assert!(!result(&server, "a").1);
    let (words, is_error) = result(&server, "b");
    assert!(words.contains("Permission denied") && is_error, "{words}");
    assert!(!place.project().join("b.txt").exists());
    assert!(told(&server).contains("They may have run in part before"), "{}", told(&server));
    let begun = std::fs::read_to_string(place.project().join("begun")).expect("a file");
    assert_eq!(begun, "begun\nbegun\n");
    // The results are in the log: nothing is done a second time.
    let again = run(&place, &server, &pending);
    assert!(text(&again.stderr).contains("no call that was left unfinished"), "{again:?}");
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_session_in_use_says_who_has_it() {
    let place = Place::new("ag-holder");
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": "echo begun > begun; sleep 47.1" }))]],
    );
    let id = "77777777-7777-4777-8777-777777777777";
    let mut child = agent(&place, &server, Form::Anthropic, &["-p", "words", "--session-id", id])
        .stdout(Stdio::null())
        .spawn()
        .expect("the agent starts");
    wait_for_the_command(&place);
    let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
    let holder = format!("(started by {}", own.trim_end());
    let second = run(&place, &server, &["-p", "go on", "--resume", id]);
    let told = text(&second.stderr);
    assert!(told.contains("the session is in use by process") && told.contains(&holder), "{told}");
    let listed = place.output(["agent", "sessions"]);
    assert!(text(&listed.stdout).contains("in use by process"), "{}", text(&listed.stdout));
    let listed = place.output(["agent", "sessions", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("an object");
    assert_eq!(listed["sessions"][0]["in_use"]["program"], own.trim_end());
    let test = "a_session_in_use_says_who_has_it";
    match on_terminal(&place, &server, &["-p", "go on", "--resume"]) {
        Some(mut terminal) => {
            terminal.wait_for("1 of 1 sessions");
            terminal.press("\r");
            terminal.wait_for("It is in use by process");
            terminal.press("\u{3}");
            assert_eq!(terminal.end().0, Some(130));
        }
        None => skip(test, "`script` is not installed"),
    }
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

#[test]
fn a_signal_during_the_choice_gives_the_terminal_back() {
    let test = "a_signal_during_the_choice_gives_the_terminal_back";
    for (whom, signal, status) in [
        ("child", "TERM", 143),
        ("child", "HUP", 129),
        ("child", "QUIT", 131),
        ("parent", "TERM", 143),
    ] {
        let place = Place::new("ag-choose-signal");
        begin(&place);
        let line = format!(
            "#!/bin/bash
before=$(stty -g)
(until [ -e now ]; do sleep 0.05; done; parent=$(cat pid); child=$(pgrep -P $parent); kill -s {signal} ${whom}; echo $child >child) &
bash start.sh; echo \"status $?\"
for turn in $(seq 600); do [ -s child ] && break; sleep 0.05; done; while kill -0 $(cat child); do sleep 0.05; done 2>/dev/null
test \"$before\" = \"$(stty -g)\" && echo as before\n"
        );
        place.write("project/choose.sh", &line);
        let agent = stockade_tests::stockade_word();
        place.write(
            "project/start.sh",
            &format!("echo $$ >pid\nexec {agent} agent -p x --resume\n"),
        );
        let bash = std::path::Path::new("/bin/bash");
        let Some(mut terminal) = Terminal::start(&place, bash, &["choose.sh"]) else {
            return skip(test, "`script` is not installed");
        };
        terminal.wait_for("3 of 3 sessions");
        place.write("project/now", "");
        let (_, screen) = terminal.end();
        let told = format!("status {status}");
        assert!(
            screen.contains(&told) && screen.contains("as before"),
            "{whom} {signal}: {screen}"
        );
    }
}
