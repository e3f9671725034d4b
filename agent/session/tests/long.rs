//! A long log: it is folded while it is read. Alone in its process, since the memory of the process is looked at.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

use std::io::{BufWriter, Write as _};

use serde_json::json;
use stockade_session::{Kind, Store};

mod common;
use common::peak;

#[test]
fn a_long_log_resumes_at_its_last_summary_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (lock, mut log, _) = store.open("a").unwrap();
    let start = log.append(Kind::Start, json!({ "session": "a", "cwd": "/p" })).unwrap();
    drop((lock, log));
    let path = Store::log(&store.folder("a").unwrap());
    let mut file = BufWriter::new(std::fs::File::options().append(true).open(&path).unwrap());
    let mut line = |kind: &str, uuid: &str, content: &str| {
        let data = json!({ "uuid": uuid, "content": content });
        let event = json!({ "v": 1, "id": start.id, "parent": null, "at": start.at, "type": kind, "data": data });
        writeln!(file, "{event}").unwrap();
    };
    let text = "words ".repeat(180_000);
    for round in 0..16 {
        for it in 0..8 {
            line("assistant.message", &format!("{round}-{it}"), &text);
        }
        line("compaction.complete", &format!("s{round}"), "summary");
    }
    line("user.message", "last", "last words");
    drop(file);
    assert!(path.metadata().unwrap().len() > 128 << 20);
    let before = peak();
    let (_lock, _log, state) = store.open("a").unwrap();
    let said: Vec<_> = state.messages.iter().map(|it| it.uuid.as_str()).collect();
    assert_eq!(said, ["s15", "last"]);
    let more = peak() - before;
    assert!(more < 48, "{more} MiB");
}
