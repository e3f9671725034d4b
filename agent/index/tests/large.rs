//! A log of ordinary events that is far too long for one conversation. Alone in its process, since the memory of the process
//! is looked at. `STOCKADE_LARGE_LOG_MIB=1024` makes it as long as that.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use stockade_index::Index;
use stockade_session::{Error, Here, Kind, Store};

/// Most memory that this process has had, in MiB (proc_pid_status(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Appends turns until the log has so many MiB: words, an answer with a call, and its result.
fn fill(path: &Path, mib: u64) -> u64 {
    let mut file = BufWriter::new(std::fs::File::options().append(true).open(path).unwrap());
    let result = "fn line() -> usize { 42 } // ordinary source\n".repeat(500);
    let (mut written, mut turn) = (0, 0_u64);
    while written < mib << 20 {
        let call = format!("call-{turn}");
        let answer = format!("turn {turn} is answered with some words about it");
        let events = [
            (
                "user.message",
                json!({ "uuid": format!("u{turn}"), "content": format!("please do step {turn}") }),
            ),
            (
                "assistant.message",
                json!({ "uuid": format!("a{turn}"), "content": [{ "type": "text", "text": answer },
                { "type": "tool_use", "id": call, "name": "Read", "input": { "file_path": format!("/p/{}.rs", turn % 50) } }] }),
            ),
            (
                "user.message",
                json!({ "uuid": format!("r{turn}"),
                "content": [{ "type": "tool_result", "tool_use_id": call, "content": result }] }),
            ),
        ];
        for (kind, data) in events {
            let event: Value = json!({ "v": 1, "id": format!("e{written}"), "parent": null,
                "at": "2026-11-28T00:00:00.000Z", "type": kind, "data": data });
            let line = format!("{event}\n");
            written += line.len() as u64;
            file.write_all(line.as_bytes()).unwrap();
        }
        turn += 1;
    }
    file.flush().unwrap();
    turn
}

fn begins_with(path: &Path, length: u64, other: &Path) -> bool {
    let open = |path: &Path| std::fs::File::open(path).unwrap().take(length);
    let (mut one, mut two) = (open(path), open(other));
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = one.read(&mut left).unwrap();
        if count == 0 {
            return true;
        }
        two.read_exact(&mut right[..count]).unwrap();
        if left[..count] != right[..count] {
            return false;
        }
    }
}

#[test]
fn a_log_that_is_far_too_long_is_listed_named_searched_and_refused_in_bounded_memory() {
    let mib = std::env::var("STOCKADE_LARGE_LOG_MIB").map_or(132, |it| it.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    log.append(Kind::Start, json!({ "session": "a", "cwd": "/p" })).unwrap();
    drop((lock, log));
    let path = Store::log(&store.folder("a").unwrap());
    let turns = fill(&path, mib);
    let (length, copy) = (path.metadata().unwrap().len(), folder.path().join("copy"));
    std::fs::copy(&path, &copy).unwrap();
    let before = peak();
    let timed = |what: &str, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        println!(
            "{mib} MiB, {what}: {} ms, {} MiB more",
            begun.elapsed().as_millis(),
            peak() - before
        );
    };
    timed("list", &mut || assert_eq!(store.list().len(), 1));
    let found = store.find("a").unwrap();
    timed("events", &mut || assert!(found.events().0 > 1_000));
    timed("name", &mut || store.rename(&found, "the long one").unwrap());
    let is_refused = |error: Error| match error {
        Error::TooLong { most, .. } => assert_eq!(most, 128),
        other => panic!("{other}"),
    };
    timed("resume", &mut || is_refused(store.open("a").map(drop).unwrap_err()));
    timed("show", &mut || is_refused(store.state(&found).map(drop).unwrap_err()));
    let mut index = Index::open(&Index::path(&store)).unwrap();
    timed("index", &mut || assert_eq!(index.rebuild(&store).unwrap().sessions, 1));
    let here = Here::default();
    timed("search", &mut || {
        for words in ["step 0", &format!("step {}", turns - 1), "long one"] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let hits = index.search(&store, &words, &here, 20).unwrap();
            assert_eq!(hits.len(), 1, "{words:?}");
        }
    });
    let more = peak() - before;
    assert!(more < 512, "{more} MiB");
    // Nothing is lost: there is the name, and nothing else has changed.
    assert!(begins_with(&path, length, &copy));
    // With a summary at its end it goes on.
    let summary = json!({ "v": 1, "id": "s", "parent": null, "at": "2026-11-28T00:00:00.000Z",
        "type": "compaction.complete", "data": { "uuid": "s", "content": "what counts" } });
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    writeln!(file, "{summary}").unwrap();
    let (_lock, _log, state) = store.open("a").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(state.messages.len(), 1);
}
