//! The index: equal after a rebuild, found by words and nearness, and never believed.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use serde_json::{Value, json};
use stockade_index::{Index, Rows};
use stockade_session::{Here, Kind, Store, Workspace};

fn store(folder: &Path) -> Store {
    Store::new(folder.join("sessions"))
}

/// Adds events to a session, which is begun if there is none.
fn append(store: &Store, id: &str, events: &[(Kind, Value)]) {
    let (_lock, mut log, state) = store.open(id).unwrap();
    if state.events == 0 {
        log.append(Kind::Start, json!({ "session": id, "cwd": format!("/{id}") })).unwrap();
    }
    for (kind, data) in events {
        log.append(kind.clone(), data.clone()).unwrap();
    }
    let folder = store.folder(id).unwrap();
    let mut workspace = Workspace { id: id.into(), cwd: format!("/{id}"), ..Workspace::default() };
    workspace.repository = Some(format!("git@h:{id}"));
    workspace.write(&folder).unwrap();
}

fn user(words: &str) -> (Kind, Value) {
    (Kind::User, json!({ "content": words }))
}

fn model(words: &str) -> (Kind, Value) {
    (Kind::Assistant, json!({ "content": [{ "type": "text", "text": words }] }))
}

fn put(index: &mut Index, store: &Store, id: &str) {
    index.put(&Rows::of(&store.find(id).unwrap()).unwrap()).unwrap();
}

/// Returns the identities that a search finds, in order.
fn found(index: &Index, store: &Store, words: &str, here: &Here) -> Vec<String> {
    let hits = index.search(store, &[words.to_owned()], here, 10).unwrap();
    hits.into_iter().map(|hit| hit.found.id).collect()
}

#[test]
fn an_index_that_was_written_turn_by_turn_equals_one_that_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let path = Index::path(&store);
    let mut index = Index::open(&path).unwrap();
    let read = json!([{ "type": "tool_use", "id": "t", "name": "Read", "input": { "file_path": "/p/a.rs" } }]);
    let result =
        json!([{ "type": "tool_result", "tool_use_id": "t", "content": "[main 1a2b3c4] done" }]);
    let summary = "# Goal\nshrink it\n# Decisions\nnone\n# Next steps\ntest it\n";
    let turns: [&[(Kind, Value)]; 4] = [
        &[user("first words, see #7"), model("an answer")],
        &[
            user("more"),
            (Kind::Assistant, json!({ "content": read })),
            (Kind::User, json!({ "content": result })),
            model("read"),
        ],
        &[
            (Kind::Compaction, json!({ "content": summary })),
            (Kind::Name, json!({ "name": "The Task" })),
        ],
        &[(Kind::Rewind, json!({ "before": "x" })), user("after"), model("the end")],
    ];
    for turn in turns {
        for id in ["a", "b"] {
            append(&store, id, turn);
            put(&mut index, &store, id);
        }
    }
    let files = store.folder("a").unwrap().join("files/sub");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("note.md"), "a violet note").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", files.join("link")).unwrap();
    put(&mut index, &store, "a");
    append(&store, "gone", &[user("nobody")]);
    put(&mut index, &store, "gone");
    store.delete(&store.find("gone").unwrap()).unwrap();
    index.remove("gone").unwrap();
    let live = index.dump().unwrap();
    for part in [
        "first words, see #7",
        "issue",
        "1a2b3c4",
        "/p/a.rs",
        "shrink it",
        "test it",
        "sub/note.md",
        "The Task",
    ] {
        assert!(live.contains(part), "{part}: {live}");
    }
    assert!(!live.contains("root:") && !live.contains("nobody"), "{live}");
    assert!(!index.is_whole());
    let rebuilt = index.rebuild(&store).unwrap();
    assert_eq!((rebuilt.sessions, rebuilt.left_out), (2, vec![]));
    assert_eq!(index.dump().unwrap(), live);
    assert!(index.is_whole());
    drop(index);
    std::fs::remove_file(&path).unwrap();
    let mut fresh = Index::open(&path).unwrap();
    assert_eq!(fresh.dump().unwrap(), "");
    fresh.rebuild(&store).unwrap();
    assert_eq!(fresh.dump().unwrap(), live);
    assert_eq!(found(&fresh, &store, "violet", &Here::default()), ["a"]);
}

#[test]
fn what_fits_best_and_is_nearest_comes_first_and_each_word_is_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut index = Index::open(&Index::path(&store)).unwrap();
    for (id, words) in
        [("a", "blue birds"), ("b", "blue birds"), ("c", "birds OR NOT near \"stone")]
    {
        append(&store, id, &[user(words)]);
        put(&mut index, &store, id);
    }
    let at = |id: &str| Here { repository: Some(format!("git@h:{id}")), ..Here::default() };
    assert_eq!(found(&index, &store, "blue birds", &at("a")), ["a", "b"]);
    assert_eq!(found(&index, &store, "blue birds", &at("b")), ["b", "a"]);
    // Operators of the query language are words, and a quote ends nothing.
    assert_eq!(found(&index, &store, "NOT birds", &at("a")), ["c"]);
    assert_eq!(found(&index, &store, "\"stone", &at("a")), ["c"]);
    assert_eq!(found(&index, &store, "content:blue", &at("a")), Vec::<String>::new());
    for nothing in ["", " ", "\"", "* -"] {
        assert!(index.search(&store, &[nothing.to_owned()], &at("a"), 9).is_err(), "{nothing}");
    }
    // Words that were changed are found no more, and a session that is gone is no hit.
    append(&store, "b", &[user("green")]);
    std::fs::remove_dir_all(store.folder("a").unwrap()).unwrap();
    assert_eq!(found(&index, &store, "blue", &at("a")), ["b"]);
}

#[test]
fn a_database_that_is_damaged_foreign_or_of_another_form_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let path = Index::path(&store);
    append(&store, "a", &[user("blue")]);
    let spoil = |sql: &str| {
        let index = Index::open(&path).unwrap();
        drop(index);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    };
    let spoils: [&dyn Fn(); 5] = [
        &|| {
            std::fs::write(&path, "no database at all, but long enough to be one. ".repeat(40))
                .unwrap()
        },
        &|| spoil("PRAGMA user_version = 7"),
        &|| spoil("CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM turns; END"),
        &|| spoil("DROP TABLE search_index"),
        &|| spoil("CREATE VIEW more AS SELECT * FROM turns"),
    ];
    for (number, spoil) in spoils.iter().enumerate() {
        let mut index = Index::open(&path).unwrap();
        index.rebuild(&store).unwrap();
        assert_eq!(found(&index, &store, "blue", &Here::default()), ["a"], "{number}");
        drop(index);
        spoil();
        let index = Index::open(&path).unwrap();
        assert_eq!((index.is_whole(), index.dump().unwrap()), (false, String::new()), "{number}");
    }
}

#[test]
fn a_damage_further_in_is_told_and_the_file_is_the_owners_alone() {
    use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let path = Index::path(&store);
    for id in 0..40 {
        append(&store, &format!("s{id}"), &[user(&"blue words ".repeat(200))]);
    }
    let mut index = Index::open(&path).unwrap();
    index.rebuild(&store).unwrap();
    drop(index);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut at = 4096 * 16;
    while at + 4096 < length {
        file.write_all_at(&[0xff; 512], at).unwrap();
        at += 4096;
    }
    let mut index = Index::open(&path).unwrap();
    let error = index.rebuild(&store).expect_err("it is damaged");
    assert!(error.is_damage(), "{error}");
    // A link in its place is not followed.
    drop(index);
    let other = folder.path().join("other");
    std::fs::rename(&path, &other).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(Index::open(&path).is_err());
}
