//! The open sessions of a gateway: which there are, and how one ends.

#[path = "session_list/directory.rs"]
mod directory;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(place: &Place, options: &[&str], line: &str) -> String {
    let arguments = [&["run", "--quiet"], options, &["--", line]].concat();
    let output = place.output(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Returns name, front end and number of tasks of each open session.
fn open(place: &Place) -> Value {
    let output = place.output(["sessions", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let sessions = object["sessions"].as_array().expect("a list").iter();
    sessions.map(|one| json!([one["session"], one["door"], one["tasks"]])).collect()
}

fn state(place: &Place, id: &str) -> (Value, Value) {
    let output = place.output(["tasks", "show", id, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    (object["task"]["state"].clone(), object["task"]["reason"].clone())
}

#[test]
fn sessions_are_listed_and_closing_one_ends_its_tasks_and_no_others() {
    let place = Place::new("sl-close");
    let _gateway = Gateway::start(&place);
    assert_eq!(open(&place), json!([]));
    run(&place, &["--session", "first"], "true");
    let first = run(&place, &["--session", "first", "--background"], "sleep 1000");
    let second = run(&place, &["--session", "second", "--background"], "sleep 1000");
    assert_eq!(open(&place), json!([["first", "run", 1], ["second", "run", 1]]));
    let table = text(&place.output(["sessions", "list"]).stdout);
    let head = table.lines().next().expect("a head").split_whitespace().collect::<Vec<_>>();
    assert_eq!(head, ["NAME", "FROM", "AGE", "IDLE", "TASKS", "DIRECTORY"]);
    let closed = place.output(["sessions", "close", "first"]);
    assert_eq!(text(&closed.stderr), "stockade: closed session first; stopped 1 task\n");
    assert_eq!(state(&place, &first), (json!("stopped"), json!("its session ended")));
    assert_eq!(state(&place, &second).0, json!("running"));
    assert_eq!(open(&place), json!([["second", "run", 1]]));
    let again = place.output(["sessions", "close", "first"]);
    let told = text(&again.stderr);
    assert_eq!(again.status.code(), Some(122));
    assert!(told.starts_with("stockade: no open session `first`\n"), "{told}");
}

#[test]
fn a_session_without_use_ends_and_one_with_a_task_does_not() {
    let place = Place::new("sl-idle");
    let _gateway = Gateway::start_with(&place, serve(&place, &["--session-idle", "1s"]));
    let id = run(&place, &["--session", "busy", "--background"], "sleep 1000");
    run(&place, &["--session", "idle"], "true");
    let end = Instant::now() + Duration::from_secs(60);
    while open(&place) != json!([["busy", "run", 1]]) {
        assert!(Instant::now() < end, "{}", open(&place));
        std::thread::yield_now();
    }
    assert_eq!(state(&place, &id).0, json!("running"));
}

fn serve(place: &Place, options: &[&str]) -> Command {
    place.stockade([&["serve"], options].concat())
}

#[test]
fn a_sandboxed_command_sees_no_session_and_without_a_gateway_there_is_none() {
    let place = Place::new("sl-none");
    assert_eq!(open(&place), json!([]));
    let closed = place.output(["sessions", "close", "x"]);
    assert_eq!(closed.status.code(), Some(122));
    assert_eq!(
        text(&closed.stderr).lines().next(),
        Some("stockade: none of your gateways is running, so no session is open")
    );
    let _gateway = Gateway::start(&place);
    let inside = format!("'{}' sessions 2>&1 || true", stockade_tests::stockade().display());
    let told = run(&place, &["--session", "s"], &inside);
    assert!(told.starts_with("stockade: a sandboxed command cannot see sessions"), "{told}");
}

/// A process that plays an agent; ended with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    /// Starts it, and waits until it has asked. `through` is a program that asks for it and ends.
    fn start(place: &Place, session: &str, calls: u32, through: Option<&str>) -> Agent {
        let frame = json!({"session_id": session, "cwd": place.project(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": "true"}});
        place.write(&format!("project/{session}.json"), &frame.to_string());
        let asks = format!(
            "for _ in $(seq {calls}); do {} hook claude --rewrite < {session}.json > answer || exit; done\n\
             echo asked\n",
            stockade_tests::stockade_word()
        );
        let asks = match through {
            // A shell that was given a file is not part of the hook's line.
            Some(helper) => {
                place.write(&format!("project/{helper}"), &asks);
                format!("sh {helper}\n")
            }
            None => asks,
        };
        place.write(&format!("project/{session}.sh"), &format!("{asks}exec sleep 1000\n"));
        let plain = place.stockade([""; 0]);
        let mut agent = Command::new("sh");
        agent.arg(format!("{session}.sh")).current_dir(place.project()).env_clear();
        agent.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let mut agent = agent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("sh");
        let mut line = String::new();
        let said = agent.stdout.take().expect("its output");
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert_eq!(line, "asked\n");
        Agent(agent)
    }
}

fn wait_until_open(place: &Place, wanted: &Value) {
    let end = Instant::now() + Duration::from_secs(60);
    while open(place) != *wanted {
        assert!(Instant::now() < end, "{}", open(place));
        std::thread::yield_now();
    }
}

/// Waits until the gateway knows which process the agent of a session is.
fn wait_until_known(place: &Place, name: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let is_known = || {
        let output = place.output(["sessions", "--json"]);
        let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
        let mut sessions = object["sessions"].as_array().expect("a list").iter();
        sessions.any(|one| one["session"] == name && one["agent_pid"].is_u64())
    };
    while !is_known() {
        assert!(Instant::now() < end, "{}", open(place));
        std::thread::yield_now();
    }
}

#[test]
fn a_session_ends_with_the_process_of_its_agent_and_so_do_its_tasks() {
    let place = Place::new("sl-agent");
    let _gateway = Gateway::start(&place);
    // A program that only carries a call out is not an agent: its end ends nothing.
    let _helped = Agent::start(&place, "helped", 1, Some("helper.sh"));
    let agent = Agent::start(&place, "own", 2, None);
    // One that hands several calls on and ends is none, either.
    let _twice = Agent::start(&place, "twice", 2, Some("hands-on.sh"));
    let id = run(&place, &["--session", "own", "--background"], "sleep 1000");
    let (helped, twice) = (json!(["helped", "hook", 0]), json!(["twice", "hook", 0]));
    assert_eq!(open(&place), json!([helped, ["own", "hook", 1], twice]));
    wait_until_known(&place, "own");
    drop(agent);
    wait_until_open(&place, &json!([helped, twice]));
    // The session is gone first; then its tasks end.
    let end = Instant::now() + Duration::from_secs(60);
    while state(&place, &id).0 == "running" && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(state(&place, &id), (json!("stopped"), json!("its session ended")));
}

#[test]
fn a_session_whose_agent_runs_does_not_end_for_want_of_use() {
    let place = Place::new("sl-agent-idle");
    let _gateway = Gateway::start_with(&place, serve(&place, &["--session-idle", "1s"]));
    let _agent = Agent::start(&place, "agent", 2, None);
    let begun = Instant::now();
    run(&place, &["--session", "idle"], "true");
    let seen = open(&place);
    // On a slow machine its second is over already.
    if begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(seen, json!([["agent", "hook", 0], ["idle", "run", 0]]));
    }
    // The older one would have gone at the same moment or before.
    wait_until_open(&place, &json!([["agent", "hook", 0]]));
}

#[test]
fn tasks_outlive_their_session_where_the_settings_of_the_user_say_so() {
    for (outlives, told, word) in [(true, "0 tasks", "running"), (false, "1 task", "stopped")] {
        let place = Place::new(&format!("sl-outlives-{outlives}"));
        let settings = json!({ "tasks": { "outliveSession": outlives } }).to_string();
        place.write("home/.config/stockade/settings.json", &settings);
        // A project has no say in that.
        place.write("project/.stockade/settings.json", r#"{"tasks":{"outliveSession":true}}"#);
        let _gateway = Gateway::start(&place);
        let id = run(&place, &["--session", "s", "--background"], "sleep 1000");
        let closed = place.output(["sessions", "close", "s"]);
        assert_eq!(text(&closed.stderr), format!("stockade: closed session s; stopped {told}\n"));
        assert_eq!(state(&place, &id).0, json!(word));
        if outlives {
            assert!(place.output(["tasks", "stop", &id]).status.success());
            assert_eq!(state(&place, &id).0, json!("stopped"));
        }
    }
}
