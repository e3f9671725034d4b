//! Sessions as one file: whole and without secrets, and refused when it is not what was exported.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use stockade_session::{Kind, Store, read};

const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// A session with a secret, files of its own and an old content.
fn begin(store: &Store) {
    let (_lock, mut log, _) = store.open("a-1").unwrap();
    let event = |log: &mut stockade_session::Log, kind, data| log.append(kind, data).unwrap();
    event(&mut log, Kind::Start, json!({ "session": "a-1", "cwd": "/p" }));
    event(&mut log, Kind::User, json!({ "uuid": "1", "content": format!("use TOKEN={KEY}") }));
    event(
        &mut log,
        Kind::Changed,
        json!({ "path": "/p/x", "before": "0", "after": "1", "seen": 1 }),
    );
    event(
        &mut log,
        Kind::Assistant,
        json!({ "uuid": "2", "content": [{ "type": "text", "text": KEY }] }),
    );
    let folder = store.folder("a-1").unwrap();
    for (name, text) in
        [("files/sub/note.md", KEY), ("before/contents/0", "old"), ("plan.md", "plan")]
    {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/hostname", folder.join("files/link")).unwrap();
}

fn exported(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    let told = store.export(&store.find("a-1").unwrap(), &mut bytes).unwrap();
    assert_eq!((told.files, told.masked), (4, 3));
    bytes
}

fn refused(folder: &Path, bytes: &[u8]) -> String {
    let other = Store::new(folder.join("other"));
    let error = other.import(&mut &*bytes, "/q").unwrap_err().to_string();
    let entries = std::fs::read_dir(folder.join("other")).into_iter().flatten();
    assert_eq!(entries.count(), 0, "something is left: {error}");
    error
}

#[test]
fn a_session_comes_back_whole_without_secrets_and_old_contents() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    begin(&store);
    let bytes = exported(&store);
    let other = Store::new(folder.path().join("other"));
    assert_eq!(other.import(&mut &*bytes, "/q").unwrap(), "a-1");
    let found = other.find("a-1").unwrap();
    assert_eq!(found.workspace.cwd, "/q");
    let (state, notes) = other.state(&found).unwrap();
    assert_eq!((state.messages.len(), state.changes.len(), notes.len()), (2, 0, 0));
    let text = |name: &str| std::fs::read_to_string(found.folder.join(name)).unwrap();
    assert!(
        !text("events.jsonl").contains(KEY) && text("events.jsonl").contains("TOKEN=[redacted]")
    );
    assert_eq!(
        (text("files/sub/note.md").as_str(), text("plan.md").as_str()),
        ("[redacted]", "plan")
    );
    assert!(!found.folder.join("before").exists() && !found.folder.join("files/link").exists());
    let last = read(&Store::log(&found.folder)).unwrap().events.pop().unwrap();
    assert_eq!(last.kind, Kind::HandOff);
    let twice = other.import(&mut &*bytes, "/q").unwrap_err().to_string();
    assert!(twice.contains("is here already"), "{twice}");
}

#[test]
fn an_archive_that_is_cut_anywhere_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    begin(&store);
    let bytes = exported(&store);
    for cut in (0..bytes.len()).step_by(37) {
        refused(folder.path(), &bytes[..cut]);
    }
    refused(folder.path(), b"no archive");
}

/// Returns an archive of these files, with their manifest or another one.
fn archive(files: &[(&str, &str)], manifest: serde_json::Value) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let manifest = manifest.to_string();
    for (name, text) in [("manifest.json", manifest.as_str())].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        // The library refuses such names, an attacker does not.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(if text.is_empty() {
            tar::EntryType::Symlink
        } else {
            tar::EntryType::Regular
        });
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    let plain = archive.into_inner().unwrap();
    ruzstd::encoding::compress_to_vec(plain.as_slice(), ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn paths_elsewhere_links_other_digests_and_later_forms_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = |form: u64, session: &str, files: serde_json::Value| json!({ "form": form, "session": session, "made_at": "", "files": files });
    let none = || manifest(1, "a-1", json!({}));
    for name in
        ["../x", "/tmp/x", "files/../../x", "lock", "before/contents/0", "other.txt", "files"]
    {
        let told = refused(folder.path(), &archive(&[(name, "x")], none()));
        assert!(told.contains("does not belong to a session"), "{name}: {told}");
    }
    let link = refused(folder.path(), &archive(&[("files/x", "")], none()));
    assert!(link.contains("does not belong"), "{link}");
    let log = "{\"v\":1}\n";
    let changed = refused(
        folder.path(),
        &archive(&[("events.jsonl", log)], manifest(1, "a-1", json!({ "events.jsonl": "00" }))),
    );
    assert!(changed.contains("`events.jsonl` is missing or not what was exported"), "{changed}");
    let later = refused(folder.path(), &archive(&[], json!({ "form": 2, "more": true })));
    assert!(later.contains("a later version"), "{later}");
    let empty = refused(folder.path(), &archive(&[], none()));
    assert!(empty.contains("has no log"), "{empty}");
    for session in ["../a", "", "a/b"] {
        let told = refused(folder.path(), &archive(&[], manifest(1, session, json!({}))));
        assert!(!told.is_empty(), "{session}");
    }
}

#[test]
fn an_archive_says_nothing_about_changes_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    begin(&store);
    // As `export` never writes it: with the event about the change of a file.
    let log = std::fs::read_to_string(Store::log(&store.find("a-1").unwrap().folder)).unwrap();
    assert!(log.contains("file.changed"));
    let digest = Sha256::digest(log.as_bytes()).into_iter().map(|byte| format!("{byte:02x}"));
    let files = json!({ "events.jsonl": digest.collect::<String>() });
    let manifest = json!({ "form": 1, "session": "a-1", "made_at": "", "files": files });
    let other = Store::new(folder.path().join("other"));
    other.import(&mut &*archive(&[("events.jsonl", &log)], manifest), "/q").unwrap();
    let (state, _) = other.state(&other.find("a-1").unwrap()).unwrap();
    assert_eq!((state.messages.len(), state.changes, state.seen), (2, Vec::new(), 0));
}
