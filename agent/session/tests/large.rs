//! Large logs: a line without an end costs no more than the longest event, and many events resume whole.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;
use std::time::Instant;

use serde_json::json;
use stockade_session::{Kind, Store, read};

/// Most memory that this process has had, in MiB (proc_pid_status(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn a_line_of_a_gigabyte_is_skipped_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    log.append(Kind::Start, json!({ "session": "a", "cwd": "/p" })).unwrap();
    drop((lock, log));
    let path = Store::log(&store.folder("a").unwrap());
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + (1 << 30)).unwrap();
    file.write_all(b"\n").unwrap();
    let before = peak();
    let (_lock, mut log, _) = store.open("a").unwrap();
    log.append(Kind::User, json!({ "uuid": "1", "content": "words" })).unwrap();
    let found = read(&path).unwrap();
    assert_eq!(found.notes, ["line 2 is not an event and is skipped"]);
    let kinds: Vec<_> = found.events.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Start, Kind::User]);
    let more = peak() - before;
    assert!(more < 320, "{more} MiB");
}

#[test]
fn ten_thousand_events_resume_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    let start = (Kind::Start, json!({ "session": "a", "cwd": "/p" }));
    let said = (1..10_000).map(|it| {
        let text = json!([{ "type": "text", "text": format!("answer {it}") }]);
        match it % 2 {
            0 => (Kind::Assistant, json!({ "uuid": it.to_string(), "content": text })),
            _ => (Kind::User, json!({ "uuid": it.to_string(), "content": "words" })),
        }
    });
    log.append_all(std::iter::once(start).chain(said).collect()).unwrap();
    drop((lock, log));
    // The shortest of some: others use this machine as well.
    let opened = (0..10).map(|_| {
        let begun = Instant::now();
        let (_lock, _log, state) = store.open("a").unwrap();
        assert_eq!(state.messages.len(), 9_999);
        begun.elapsed()
    });
    let took = opened.min().unwrap();
    println!("10,000 events: {:.1} ms", took.as_secs_f64() * 1e3);
    let most = if cfg!(debug_assertions) { 1_000 } else { 100 };
    assert!(took.as_millis() < most, "{took:?}");
}
