//! The open sessions of a gateway: which there are, and how one ends.

use std::process::Command;
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
        Some("stockade: no gateway of yours is running, so no session is open")
    );
    let _gateway = Gateway::start(&place);
    let inside = format!("'{}' sessions 2>&1 || true", stockade_tests::stockade().display());
    let told = run(&place, &["--session", "s"], &inside);
    assert!(told.starts_with("stockade: a sandboxed command cannot see sessions"), "{told}");
}
