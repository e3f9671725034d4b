//! Large logs: a line without an end costs no more than the longest event, and many events resume whole.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;

use serde_json::json;
use stockade_session::{Kind, Store, read};

mod common;
use common::peak;

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
    // The shortest of some.
    let opened = (0..10).map(|_| {
        let begun = used();
        let (_lock, _log, state) = store.open("a").unwrap();
        assert_eq!(state.messages.len(), 9_999);
        used() - begun
    });
    let took = opened.min().unwrap() as f64 / 1e6;
    println!("10,000 events: {took:.1} ms");
    let most = if cfg!(debug_assertions) { 1_000.0 } else { 100.0 };
    assert!(took < most, "{took}");
}

/// Processor time of this thread, in nanoseconds: others that use the machine do not count.
fn used() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Time for a log of so many events with calls, results, lists, changes, marks, and results that are taken out.
fn fold(events: usize) -> i64 {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    let mut all = vec![(Kind::Start, json!({ "session": "a", "cwd": "/p" }))];
    for it in 1..events {
        let id = format!("call-{it}");
        all.push(match it % 8 {
            0 => {
                let results: serde_json::Map<String, serde_json::Value> =
                    (it.saturating_sub(40)..it).map(|it| (format!("call-{it}"), json!("gone"))).collect();
                // Of the last calls alone, as compaction does it, and rarely.
                match it % 1_000 {
                    0 => (Kind::TakenOut, json!({ "results": results })),
                    _ => (Kind::Usage, json!({ "dollars": 0.1 })),
                }
            }
            1 => (Kind::User, json!({ "uuid": id, "content": "words" })),
            2 => (Kind::Todos, json!({ "todos": [{ "content": id }] })),
            3 => (Kind::Changed, json!({ "path": id, "before": null, "after": "x", "seen": it })),
            4 | 6 => (Kind::Assistant, json!({ "uuid": id, "content": [{ "type": "tool_use", "id": id, "name": "Read", "input": {} }] })),
            _ => {
                let id = format!("call-{}", it - 1);
                (Kind::User, json!({ "uuid": format!("r{it}"), "content": [{ "type": "tool_result", "tool_use_id": id, "content": "text" }] }))
            }
        });
    }
    log.append_all(all).unwrap();
    drop((lock, log));
    let times = (0..5).map(|_| {
        let begun = used();
        let (_lock, _log, state) = store.open("a").unwrap();
        assert_eq!(state.events, events as u64);
        used() - begun
    });
    times.min().unwrap()
}

#[test]
fn ten_times_as_many_events_cost_about_ten_times_as_much() {
    let (few, many) = (fold(1_000), fold(10_000));
    println!(
        "1,000 events: {:.2} ms, 10,000 events: {:.2} ms",
        few as f64 / 1e6,
        many as f64 / 1e6
    );
    // A hundred times is what quadratic work would cost.
    assert!(many < few * 40, "{few} ns, {many} ns");
}

#[test]
fn a_log_that_was_read_before_is_read_behind_that() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    log.append(Kind::Start, json!({ "session": "a", "cwd": "/p" })).unwrap();
    log.append(Kind::User, json!({ "uuid": "1", "content": "one" })).unwrap();
    let (known, notes) = store.known(&store.find("a").unwrap()).unwrap();
    assert_eq!((known.state.events, notes.len()), (2, 0));
    log.append(Kind::User, json!({ "uuid": "2", "content": "two" })).unwrap();
    drop((lock, log));
    let (lock, mut log, state) = store.open_known("a", known.clone()).unwrap();
    assert_eq!(state, store.state(&store.find("a").unwrap()).unwrap().0);
    // The chain of events goes on behind what was read.
    log.append(Kind::User, json!({ "uuid": "3", "content": "three" })).unwrap();
    drop((lock, log));
    let path = Store::log(&store.folder("a").unwrap());
    let events = read(&path).unwrap().events;
    let parents: Vec<_> = events.iter().skip(1).map(|it| it.parent.clone()).collect();
    let ids: Vec<_> = events.iter().take(3).map(|it| Some(it.id.clone())).collect();
    assert_eq!(parents, ids);
    // A log that became shorter is read from its beginning.
    let first = std::fs::read_to_string(&path).unwrap().lines().next().unwrap().to_owned();
    std::fs::write(&path, first + "\n").unwrap();
    let (_lock, _log, state) = store.open_known("a", known).unwrap();
    assert_eq!(state.events, 1);
}
