//! Requests that fail before anything is decided leave a record.

use std::fs::{self, File};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

use super::{text, verifies};

fn decisions(place: &Place) -> Vec<Value> {
    let found = place.output(["audit", "search", "--kind", "decision", "--json"]);
    let stored = text(&found.stdout);
    stored.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

#[test]
fn a_request_that_fails_before_it_is_decided_leaves_a_record_without_its_secrets() {
    let place = Place::new("failed");
    place.write("project/bad.json", "{ \"permissions\": { \"deny\": 3 } }");
    let secret = "curl -u bob:hunter2hunter2 https://example.com";
    let failing: [&[&str]; 3] = [
        &["run", "--settings", "bad.json", secret],
        &["run", "--timeout", "99999999s", "echo late"],
        &["run", ""],
    ];
    for arguments in failing {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(122), "{arguments:?}: {}", text(&output.stderr));
    }
    let found = place.output(["audit", "search", "--kind", "decision", "--json"]);
    let stored = text(&found.stdout);
    assert!(!stored.contains("hunter2"), "{stored}");
    let records: Vec<Value> =
        stored.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let told: Vec<Value> = records
        .iter()
        .map(|record| {
            json!([
                record["verdict"]["decision"],
                record["verdict"]["by"],
                record["verdict"]["code"],
                record["runs"]
            ])
        })
        .collect();
    let refused = |code: &str| json!(["deny", "error", code, "nobody"]);
    assert_eq!(
        told,
        [refused("settings_rejected"), refused("invalid_request"), refused("invalid_request"),]
    );
    assert_eq!(records[1]["request"]["command"], "echo late");
    verifies(&place);
}

/// Returns the parts of a record that tell of such a request.
fn told(record: &Value) -> Value {
    let (verdict, request) = (&record["verdict"], &record["request"]);
    let reason = verdict["reason"].as_str().unwrap_or_default();
    json!([
        verdict["decision"],
        verdict["code"],
        request["tool"],
        request["input"],
        reason.len() < 2000
    ])
}

fn refuses_all(place: &Place) {
    let secret = "curl -u bob:hunter2hunter2 https://example.com";
    for (arguments, status) in [
        (&["run", "--cwd", "gone", secret][..], 122),
        (&["run", "--add-dir", "gone", "--json", "--", "ls", "-l"], 122),
        (&["check", "--record", "--cwd", "gone", "ls"], 122),
        (&["check", "--cwd", "gone", "ls"], 122),
    ] {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("gone"), "{}", text(&output.stderr));
    }
    let event = format!(r#"{{"hook_event_name":"{}"}}"#, "x".repeat(100_000));
    for frame in ["[1]", r#"{"password":"hunter2hunter2""#, &event] {
        let path = place.root.join("frame");
        fs::write(&path, frame).expect("a frame");
        let mut command = place.stockade(["hook", "claude"]);
        let output =
            command.stdin(File::open(&path).expect("the frame")).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}

fn expected() -> Vec<Value> {
    let frame = |bytes: usize| {
        let input = json!({"agent": "claude", "frame_bytes": bytes});
        json!(["deny", "invalid_request", "hook", input, true])
    };
    let command =
        |command: &str| json!(["deny", "directory_unusable", "Bash", {"command": command}, true]);
    vec![
        command("curl -u bob:[masked] https://example.com"),
        command("ls -l"),
        command("ls"),
        frame(3),
        frame(28),
        frame(100_022),
    ]
}

/// Returns `records` with each mask of a secret written alike.
fn unmarked(records: &[Value]) -> Vec<Value> {
    let told = records.iter().map(|record| {
        let text = told(record).to_string();
        let Some((before, rest)) = text.split_once("[redacted:") else { return told(record) };
        let after = rest.split_once(']').expect("the end of a mask").1;
        serde_json::from_str(&format!("{before}[masked]{after}")).expect("JSON")
    });
    told.collect()
}

#[test]
fn frames_and_directories_that_are_refused_at_the_door_leave_a_record() {
    let place = Place::new("door");
    refuses_all(&place);
    assert_eq!(unmarked(&decisions(&place)), expected());
    verifies(&place);
}

#[test]
fn a_gateway_that_runs_records_what_its_clients_refuse() {
    let place = Place::new("door-served");
    let gateway = Gateway::start(&place);
    refuses_all(&place);
    assert_eq!(gateway.end(), Some(0));
    assert_eq!(unmarked(&decisions(&place)), expected());
    verifies(&place);
}
