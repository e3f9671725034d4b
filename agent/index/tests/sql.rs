//! Statements of a model: they end, and read and write nothing but their database.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_index::{Database, Index, Rows, Table, ask};
use stockade_session::{Kind, Store, Workspace};

/// Puts a session into the index.
fn put(store: &Store, (id, cwd): (&str, &str), words: &str) {
    let (_lock, mut log, _) = store.open(id).unwrap();
    log.append(Kind::Start, json!({ "session": id, "cwd": cwd })).unwrap();
    log.append(Kind::User, json!({ "content": words })).unwrap();
    let mut workspace = Workspace { id: id.into(), cwd: cwd.into(), ..Workspace::default() };
    workspace.write(&store.folder(id).unwrap()).unwrap();
    let mut index = Index::open(&Index::path(store)).unwrap();
    index.put(&Rows::of(&store.find(id).unwrap()).unwrap()).unwrap();
}

/// An index with sessions of two projects.
fn index(folder: &Path) -> PathBuf {
    let store = Store::new(folder.join("sessions"));
    put(&store, ("a", "/p"), "the blue door");
    put(&store, ("b", "/p/deep"), "the red door");
    put(&store, ("c", "/private"), "the secret door");
    Index::path(&store)
}

fn of_store(index: &Path, sql: &str) -> Result<Table, String> {
    ask(Database::Store { index, root: "/p" }, sql)
}

fn rows(answer: Result<Table, String>) -> Value {
    json!(answer.unwrap().rows)
}

#[test]
fn the_store_shows_the_sessions_of_the_project_and_finds_words() {
    let folder = tempfile::tempdir().unwrap();
    let index = index(folder.path());
    let ids = of_store(&index, "SELECT id, cwd FROM sessions ORDER BY id");
    assert_eq!(rows(ids), json!([["a", "/p"], ["b", "/p/deep"]]));
    let found = "SELECT session_id FROM search_index WHERE search_index MATCH 'door' ORDER BY 1";
    assert_eq!(rows(of_store(&index, found)), json!([["a"], ["b"]]));
    let other = "SELECT count(*) FROM search_index WHERE search_index MATCH 'secret'";
    assert_eq!(rows(of_store(&index, other)), json!([[0]]));
    let all = "SELECT count(*) FROM turns WHERE user_message LIKE '%secret%'";
    assert_eq!(rows(of_store(&index, all)), json!([[0]]));
    // Names of what the copy was made from lead nowhere.
    for sql in ["SELECT * FROM source.sessions", "SELECT * FROM near", "SELECT * FROM temp.near"] {
        assert!(of_store(&index, sql).unwrap_err().contains("no such table"), "{sql}");
    }
}

#[test]
fn the_store_is_read_only_and_no_database_reaches_further() {
    let folder = tempfile::tempdir().unwrap();
    let index = index(folder.path());
    let before = std::fs::read(&index).unwrap();
    let target = folder.path().join("target.db");
    let own = folder.path().join("session.db");
    let session = |sql: &str| ask(Database::Session(Some(&own)), sql);
    let both = [
        format!("ATTACH '{}' AS other", target.display()),
        format!("VACUUM INTO '{}'", target.display()),
        "VACUUM".to_owned(),
        "DETACH main".to_owned(),
        "SELECT load_extension('libm.so.6')".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA journal_mode = WAL".to_owned(),
        "PRAGMA temp_store_directory = '/'".to_owned(),
        "PRAGMA max_page_count = 1000000000".to_owned(),
        "BEGIN".to_owned(),
        "CREATE TEMP TABLE t(a)".to_owned(),
        "CREATE VIRTUAL TABLE t USING rtree(id, a, b)".to_owned(),
    ];
    for sql in &both {
        for refused in [of_store(&index, sql), session(sql)] {
            let error = refused.expect_err(sql);
            assert!(
                error.contains("not allowed") || error.contains("not authorized"),
                "{sql}: {error}"
            );
        }
    }
    for sql in [
        "DELETE FROM turns",
        "UPDATE sessions SET cwd = '/'",
        "CREATE TABLE t(a)",
        "DROP TABLE turns",
    ] {
        assert!(of_store(&index, sql).unwrap_err().contains("not allowed"), "{sql}");
    }
    assert_eq!(of_store(&index, "SELECT 1; SELECT 2"), Err("give one statement a call".into()));
    assert!(!target.exists());
    assert_eq!(std::fs::read(&index).unwrap(), before);
}

#[test]
fn the_database_of_a_session_keeps_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("session.db");
    let session = |sql: &str| ask(Database::Session(Some(&own)), sql);
    session("CREATE TABLE found(file TEXT, line INTEGER)").unwrap();
    let changed = session("INSERT INTO found VALUES ('a.rs', 1), ('b.rs', NULL)").unwrap().changed;
    assert_eq!(changed, 2);
    let table = session("SELECT file, line FROM found ORDER BY file").unwrap();
    assert_eq!(table.columns, ["file", "line"]);
    assert_eq!(json!(table.rows), json!([["a.rs", 1], ["b.rs", null]]));
    session("CREATE VIRTUAL TABLE words USING fts5(text)").unwrap();
    session("INSERT INTO words VALUES ('one two')").unwrap();
    assert_eq!(
        rows(session("SELECT text FROM words WHERE words MATCH 'two'")),
        json!([["one two"]])
    );
    let mode = std::fs::metadata(&own).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    // A file that is a link is not followed.
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    assert!(ask(Database::Session(Some(&link)), "SELECT 1").is_err());
    // In memory nothing stays.
    ask(Database::Session(None), "CREATE TABLE t(a)").unwrap();
    assert!(ask(Database::Session(None), "SELECT * FROM t").is_err());
}

#[test]
fn a_statement_has_limits_of_time_rows_bytes_and_space() {
    let count = |to: u64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to}) ")
    };
    let session = |sql: String| ask(Database::Session(None), &sql);
    let table = session(count(1_000) + "SELECT i FROM n").unwrap();
    assert_eq!((table.rows.len(), table.is_cut), (1_000, false));
    let table = session(count(1_001) + "SELECT i FROM n").unwrap();
    assert_eq!((table.rows.len(), table.is_cut), (1_000, true));
    let table = session(count(100) + "SELECT printf('%.*c', 20000, 'x') FROM n").unwrap();
    assert_eq!((table.rows.len(), table.is_cut), (10, true));
    assert_eq!(table.rows[0][0].as_str().map(str::len), Some(10_000));
    assert!(session("SELECT zeroblob(5000000)".into()).unwrap_err().contains("too big"));
    let begun = std::time::Instant::now();
    let endless = session(count(u64::from(u32::MAX) * 1_000) + "SELECT count(*) FROM n");
    assert_eq!(endless, Err("the statement took longer than 5 s; ask for less".into()));
    assert!(begun.elapsed().as_secs() < 30);
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("session.db");
    ask(Database::Session(Some(&own)), "CREATE TABLE t(a)").unwrap();
    // In parts: one statement that fills all may take too long on a slow disk.
    let fill = count(10) + "INSERT INTO t SELECT zeroblob(1000000) FROM n";
    let full = (0..10).find_map(|_| ask(Database::Session(Some(&own)), &fill).err());
    assert_eq!(full.as_deref(), Some("the session's database is full (64 MiB)"));
}
