//! Subscriptions to records: replay, what comes later, gaps, and who is told what.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::{Gateway, Peer};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The stored lines of the log.
fn stored(place: &Place) -> Vec<String> {
    let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    log.trim_end_matches('\0').lines().map(str::to_owned).collect()
}

/// Has a call recorded.
fn record(place: &Place, line: &str) {
    let output = place.output(["check", "--record", line]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Returns what a subscription tells next.
fn told(peer: &mut Peer) -> Value {
    loop {
        let message = peer.message().expect("it goes on");
        if message["method"] == "told" {
            return message["params"]["told"].clone();
        }
        assert!(message["error"].is_null(), "{message}");
    }
}

/// Returns the stored lines that a subscription tells up to its mark or its end, and that.
fn told_until_end(peer: &mut Peer) -> (Vec<String>, Value) {
    let mut lines = Vec::new();
    loop {
        let told = told(peer);
        match told.get("record") {
            Some(record) => lines.push(record.to_string()),
            None => return (lines, told),
        }
    }
}

#[test]
fn what_was_missed_comes_first_and_then_what_is_written() {
    let place = Place::new("ev-replay");
    let gateway = Gateway::start(&place);
    record(&place, "echo one");
    record(&place, "echo two");
    let mut peer = gateway.greet();
    peer.request("subscribe", json!({ "from": 0, "follow": true }));
    let (lines, end) = told_until_end(&mut peer);
    assert_eq!(lines, stored(&place), "byte for byte as stored");
    assert_eq!(end, json!({ "caught_up": {} }));
    record(&place, "echo three");
    let live = told(&mut peer)["record"].clone();
    assert_eq!(live["request"]["command"], "echo three", "{live}");
    assert_eq!(live["seq"], lines.len());
    // Whoever comes back goes on where they were.
    drop(peer);
    record(&place, "echo four");
    let mut peer = gateway.greet();
    peer.request("subscribe", json!({ "from": lines.len() + 1 }));
    let (missed, end) = told_until_end(&mut peer);
    assert_eq!(missed, stored(&place)[lines.len() + 1..]);
    assert_eq!(end, json!({ "ended": {} }));
}

#[test]
fn a_subscription_begins_at_a_time_or_now_and_is_about_chosen_kinds() {
    let place = Place::new("ev-since");
    let gateway = Gateway::start(&place);
    record(&place, "echo one");
    let before = serde_json::from_str::<Value>(stored(&place).last().expect("a record")).unwrap();
    record(&place, "echo two");
    let mut peer = gateway.greet();
    peer.request("subscribe", json!({ "since": before["time"], "kinds": ["decision"] }));
    let (decisions, _) = told_until_end(&mut peer);
    let commands: Vec<Value> = decisions
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request"]["command"].clone())
        .collect();
    // The record of that moment is the decision about the first call.
    assert_eq!(commands, [json!("echo one"), json!("echo two")]);
    peer.request("subscribe", json!({ "follow": true }));
    assert_eq!(told(&mut peer), json!({ "caught_up": {} }), "nothing that was before");
    for (params, message) in [
        (json!({ "kinds": ["nonsense"] }), "unknown kind of record `nonsense`"),
        (json!({ "from": 1, "since": "today" }), "a subscription begins at a number or at a time"),
        (json!({ "since": "soon" }), "invalid time `soon`"),
        (json!({ "from": 999_999 }), "there is no record 999999: the next one is"),
    ] {
        peer.request("subscribe", params);
        let answer = loop {
            let answer = peer.message().expect("an answer");
            if !answer["id"].is_null() {
                break answer;
            }
        };
        let told = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.starts_with(message), "{answer}");
    }
}

/// A request that has a call recorded.
fn check(id: u64, place: &Place) -> Value {
    let context = json!({ "settings": [], "setting_sources": null, "mode": null, "allowed_tools": [],
        "disallowed_tools": [], "import": [], "additional_directories": [], "project": null, "profile": null,
        "session": null, "interactive": false, "environment": [], "door": "socket", "agent": null });
    let params = json!({ "tool": "Bash", "input": { "command": "echo much" }, "cwd": place.project(),
        "record": true, "context": context });
    json!({ "jsonrpc": "2.0", "id": id, "method": "check", "params": params })
}

#[test]
fn a_slow_reader_is_told_what_it_missed_and_can_come_back_for_it() {
    let place = Place::new("ev-slow");
    let gateway = Gateway::start(&place);
    let mut slow = gateway.greet();
    slow.request("subscribe", json!({ "follow": true, "kinds": ["decision"] }));
    assert_eq!(told(&mut slow), json!({ "caught_up": {} }));
    // The slow reader reads nothing while many calls are recorded; nobody else waits for it.
    let mut busy = gateway.greet();
    let (mut asked, mut answered) = (0, 0);
    while answered < 1800 {
        while asked < answered + 32 {
            asked += 1;
            busy.send(&check(1000 + asked, &place).to_string());
        }
        let answer = busy.message().expect("an answer");
        assert!(answer["error"].is_null(), "{answer}");
        answered += 1;
    }
    drop(busy);
    let (mut sequences, mut gap) = (Vec::new(), None);
    while gap.is_none() {
        let told = told(&mut slow);
        match told.get("gap") {
            Some(found) => gap = Some(found.clone()),
            None => sequences.push(told["record"]["seq"].as_u64().expect("a number")),
        }
    }
    let gap = gap.expect("a gap");
    let (first, last) = (gap["first"].as_u64().unwrap(), gap["last"].as_u64().unwrap());
    assert!(first > *sequences.last().expect("some came before"), "{gap} {sequences:?}");
    let next = told(&mut slow)["record"]["seq"].as_u64().expect("a number");
    assert!(next > last, "{gap} {next}");
    // The records that were left out can be had.
    let mut again = gateway.greet();
    again.request("subscribe", json!({ "from": first, "kinds": ["decision"] }));
    let (lines, _) = told_until_end(&mut again);
    let missed = lines.iter().filter(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        (first..=last).contains(&record["seq"].as_u64().unwrap())
    });
    assert_eq!(Some(missed.count() as u64), gap["count"].as_u64());
}

#[test]
fn the_command_line_prints_what_the_gateway_tells() {
    let place = Place::new("ev-cli");
    let none = place.output(["events", "--follow"]);
    assert_eq!(none.status.code(), Some(122));
    assert!(
        text(&none.stderr).starts_with("stockade: none of your gateways is running\n"),
        "{}",
        text(&none.stderr)
    );
    let gateway = Gateway::start(&place);
    record(&place, "echo one");
    let all = place.output(["events", "--from", "0", "--json"]);
    assert_eq!(all.status.code(), Some(0), "{}", text(&all.stderr));
    assert_eq!(text(&all.stdout).lines().collect::<Vec<_>>(), stored(&place));
    let table = text(&place.output(["events", "--since", "1h", "--kind", "decision"]).stdout);
    // The form of times is that of `stockade usage`.
    for same in ["-1h", "7d", "-7d"] {
        let told = place.output(["events", "--since", same, "--kind", "decision"]);
        assert_eq!(text(&told.stdout), table, "{same}");
    }
    let wrong = place.output(["events", "--since", "soon"]);
    assert_eq!(wrong.status.code(), Some(122));
    assert!(
        text(&wrong.stderr).contains("try: use 2h, 7d, today or RFC 3339"),
        "{}",
        text(&wrong.stderr)
    );
    let rows: Vec<&str> = table.lines().collect();
    assert!(
        rows.len() == 2 && rows[0].starts_with("SEQ") && rows[1].ends_with("echo one"),
        "{table}"
    );
    let mut following = place.stockade(["events", "--follow", "--json"]);
    let mut following =
        following.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(following.stdout.take().expect("its output")).lines();
    let end = Instant::now() + Duration::from_secs(60);
    // `events` prints nothing before it listens, so calls are recorded until it prints one.
    let (told, first) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let line = lines.next().expect("a line").expect("a line");
        told.send(line).expect("it is waited for");
        lines
    });
    let line = loop {
        record(&place, "echo later");
        match first.recv_timeout(Duration::from_millis(300)) {
            Ok(line) => break line,
            Err(_) => assert!(Instant::now() < end, "nothing is told"),
        }
    };
    // The pipe stays open: more calls may have been recorded than one.
    let _lines = reading.join().expect("it ends");
    let record: Value = serde_json::from_str(&line).expect("a record");
    assert_eq!(record["request"]["command"], "echo later");
    // When the gateway goes, it says where to go on.
    assert_eq!(gateway.end(), Some(0));
    assert_eq!(following.wait().expect("it ends").code(), Some(122));
    let mut said = String::new();
    following.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    assert!(said.contains("stockade events --follow --from "), "{said}");
}

#[test]
fn a_gateway_serves_so_many_subscriptions_and_each_place_comes_free() {
    let place = Place::new("ev-many");
    let gateway = Gateway::start(&place);
    let mut peer = gateway.greet();
    for _ in 0..16 {
        peer.request("subscribe", json!({ "follow": true }));
        assert_eq!(told(&mut peer), json!({ "caught_up": {} }));
    }
    let mut late = gateway.greet();
    let refused = late.ask(
        &json!({ "jsonrpc": "2.0", "id": 9, "method": "subscribe", "params": { "follow": true } }),
    );
    assert_eq!(refused["error"]["message"], "16 subscriptions are open already", "{refused}");
    drop(peer);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let request = json!({ "jsonrpc": "2.0", "id": 10, "method": "subscribe", "params": { "follow": true } });
        if late.ask(&request)["error"].is_null() {
            break;
        }
        assert!(Instant::now() < end, "no place comes free");
    }
}

#[test]
fn a_sandboxed_command_is_told_nothing() {
    let place = Place::new("ev-confined");
    let _gateway = Gateway::start(&place);
    let stockade = stockade_tests::stockade();
    let line = format!("'{}' events --from 0", stockade.display());
    let output = place.output(["run", "--allowed-tools", "Bash", "--", &line]);
    assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("a sandboxed command cannot read records"),
        "{}",
        text(&output.stderr)
    );
}
