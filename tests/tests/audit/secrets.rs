//! The tables of secrets and of texts that look like some: none of the first is found in the log, all of the others
//! are readable there.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stockade_tests::{Place, root};

use super::{text, verifies};

/// One line of a table: where the text stands, and the text, with `§` for the secret.
struct Row {
    place: String,
    text: String,
}

fn rows(name: &str) -> Vec<Row> {
    let table = fs::read_to_string(root().join("tests/cases").join(name)).expect("the table");
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a row");
        let of = |key: &str| row[key].as_str().expect("a text").to_owned();
        Row { place: of("in"), text: of("text") }
    };
    table.lines().map(row).collect()
}

/// The secret of row `number`: two letters that stand nowhere else, its number, and letters.
fn secret(number: usize) -> String {
    format!("Zq{number:03}wX9v")
}

/// Returns the secrets that stand in `bytes`.
fn secrets_in(bytes: &[u8]) -> BTreeSet<String> {
    let found = bytes.windows(9).filter(|it| it.starts_with(b"Zq") && it.ends_with(b"wX9v"));
    found.map(text).collect()
}

/// Gives `input` to a hook of an agent that asks about `tool`.
fn hook(place: &Place, tool: &str, input: &Value) -> Output {
    let frame = json!({
        "session_id": "s", "transcript_path": "/x", "cwd": place.project(), "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
    });
    let mut command = place.stockade(["hook", "claude"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(frame.to_string().as_bytes()).expect("the frame is read");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// Asks about a command by one of three doors.
fn ask(place: &Place, number: usize, command: &str) -> Output {
    match number % 3 {
        0 => place.output(["run", command]),
        1 => place.output(["check", "--record", command]),
        _ => hook(place, "Bash", &json!({ "command": command })),
    }
}

/// Puts texts of settings into force that hold the secrets of their rows.
fn settle(place: &Place, rows: &[Row]) {
    let of = |place: &str| -> Vec<String> {
        let fitting = rows.iter().enumerate().filter(|(_, row)| row.place == place);
        fitting.map(|(number, row)| row.text.replace('§', &secret(number))).collect()
    };
    let hooks: Vec<Value> =
        of("hook").iter().map(|it| json!({ "type": "command", "command": it })).collect();
    let settings = json!({
        "permissions": { "ask": of("rule"), "allow": of("warning") },
        "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": hooks }] },
    });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Calls `each` with every row, by as many threads as there are processors.
fn at_once(rows: &[Row], each: impl Fn(usize, &Row) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(row) = rows.get(number)
        {
            each(number, row);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

/// Adds all files below `folder`.
fn content(folder: &Path, all: &mut Vec<u8>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => content(&path, all),
            kind if kind.is_file() => {
                all.extend(path.as_os_str().as_encoded_bytes());
                all.extend(fs::read(&path).expect("a file"));
            }
            _ => {}
        }
    }
}

#[test]
fn no_secret_of_the_table_is_found_in_the_log_or_its_views() {
    let rows = rows("secrets.jsonl");
    assert!(rows.len() >= 150, "{} rows", rows.len());
    let (place, settled) = (Place::new("placements"), Place::new("settled"));
    settle(&settled, &rows);
    // Messages are not looked at: they show a person the text of their own command or settings file.
    at_once(&rows, |number, row| {
        let text = row.text.replace('§', &secret(number));
        match row.place.as_str() {
            "command" => drop(ask(&place, number, &text)),
            "input" => drop(hook(&place, "mcp__a__b", &serde_json::from_str(&text).expect("JSON"))),
            _ => drop(settled.output(["run", "true"])),
        }
    });
    for place in [&place, &settled] {
        verifies(place);
        let mut stored = Vec::new();
        content(&place.state(), &mut stored);
        assert_eq!(secrets_in(&stored), BTreeSet::new(), "in the files");
        for view in [
            &["tail", "-n", "100000", "--json"][..],
            &["search", "--limit", "100000"],
            &["report", "--by", "program"],
            &["report", "--by", "rule"],
            &["why", "last"],
        ] {
            let output = place.output([&["audit"], view].concat());
            assert_eq!(output.status.code(), Some(0), "{view:?}: {}", text(&output.stderr));
            let shown = [output.stdout, output.stderr].concat();
            assert_eq!(secrets_in(&shown), BTreeSet::new(), "{view:?}");
        }
    }
    let records = text(&place.output(["audit", "tail", "-n", "100000", "--json"]).stdout);
    let decisions = records.lines().filter(|line| line.contains(r#""kind":"decision""#)).count();
    let asked = rows.iter().filter(|row| ["command", "input"].contains(&&*row.place)).count();
    assert_eq!(decisions, asked, "each row has its decision");
}

#[test]
fn texts_that_only_look_like_secrets_are_readable_in_the_log() {
    let rows = rows("harmless.jsonl");
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let place = Place::new("harmless");
    at_once(&rows, |_, row| {
        let output = place.output(["check", "--record", &row.text]);
        assert!(output.status.code().is_some_and(|it| it < 122), "{}", text(&output.stderr));
    });
    let stored = text(&place.output(["audit", "tail", "-n", "10000", "--json"]).stdout);
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("a record");
    let decisions = stored.lines().map(read).filter(|record| record["kind"] == "decision");
    let mut kept: Vec<String> = decisions
        .inspect(|it| assert_eq!(it["redacted"], json!([]), "{}", it["request"]["command"]))
        .map(|it| it["request"]["command"].as_str().expect("a command").to_owned())
        .collect();
    let mut written: Vec<String> = rows.into_iter().map(|row| row.text).collect();
    kept.sort_unstable();
    written.sort_unstable();
    assert_eq!(kept, written);
}
