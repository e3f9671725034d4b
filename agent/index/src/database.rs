//! The database: opened, written, and begun anew.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Transaction, params_from_iter};
use stockade_session::Store;

use crate::error::Error;
use crate::rows::Rows;
use crate::schema::{FORM, OF_SESSIONS, SEARCHED, TABLES};

/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Row of `about` that says that every session is in the index.
const WHOLE: &str = "whole";
/// Suffixes of a database and of the files that SQLite puts beside it.
const BESIDE: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// The index of all sessions.
#[derive(Debug)]
pub struct Index {
    pub(crate) connection: Connection,
    path: PathBuf,
}

/// The result of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Sessions in the index.
    pub sessions: usize,
    /// Sessions that cannot be read, each with the reason.
    pub left_out: Vec<String>,
}

/// One row, without its session.
type Row = Vec<Value>;

impl Index {
    /// Returns where the index of the sessions in `store` lies: beside the folder that holds them.
    #[must_use]
    pub fn path(store: &Store) -> PathBuf {
        store.root().with_file_name("index.db")
    }

    /// Opens the index. One that is missing, damaged or of another form is begun anew, and is empty then.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or another process does not let it go.
    pub fn open(path: &Path) -> Result<Index, Error> {
        match Index::try_open(path) {
            Ok(Some(index)) => Ok(index),
            Ok(None) => Index::anew(path),
            Err(error) if error.is_damage() => Index::anew(path),
            Err(error) => Err(error),
        }
    }

    /// Removes the database and makes an empty one.
    ///
    /// # Errors
    ///
    /// The file cannot be removed or made.
    pub fn anew(path: &Path) -> Result<Index, Error> {
        for more in BESIDE {
            let mut name = path.as_os_str().to_owned();
            name.push(more);
            let name = PathBuf::from(name);
            match fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file(&name, "removed")(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        let none = || Error::Database {
            path: path.to_owned(),
            source: rusqlite::Error::InvalidPath(path.to_owned()),
        };
        Index::try_open(path)?.ok_or_else(none)
    }

    /// Opens the index, or makes one where there is none; nothing where its tables are not those of this version.
    fn try_open(path: &Path) -> Result<Option<Index>, Error> {
        let made = |error| Error::file(path, "made")(error);
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(made)?;
        }
        // SQLite would make a file that others can read.
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let is_new = file.and_then(|file| file.metadata()).map_err(made)?.len() == 0;
        // A link on the way to the folder is the user's; the file itself must be none.
        let real = path.parent().and_then(|it| it.canonicalize().ok());
        let real = real.zip(path.file_name()).map_or(path.to_owned(), |(it, name)| it.join(name));
        let failed = |source| Error::Database { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&real, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        connection.execute_batch("PRAGMA trusted_schema = OFF").map_err(failed)?;
        if is_new {
            begin(&connection).map_err(failed)?;
        }
        let fits = form(&connection)
            .and_then(|form| Ok(form == FORM && tables(&connection)? == expected()?));
        Ok(fits.map_err(failed)?.then(|| Index { connection, path: path.to_owned() }))
    }

    pub(crate) fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = self.path.clone();
        move |source| Error::Database { path: path.clone(), source }
    }

    /// Says whether every session is in the index: a rebuild has been through since it was begun.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let sql = "SELECT count(*) FROM about WHERE name = ?1";
        self.connection.query_row(sql, [WHOLE], |row| row.get::<_, i64>(0)) == Ok(1)
    }

    /// Brings the rows of one session up to date. Rows that are the same stay as they are.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn put(&mut self, rows: &Rows) -> Result<(), Error> {
        let failed = self.failed();
        let change = self.begin_writing()?;
        put(&change, &rows.id, &values(rows)).map_err(&failed)?;
        change.commit().map_err(failed)
    }

    /// Takes the rows of one session out.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn remove(&mut self, id: &str) -> Result<(), Error> {
        let failed = self.failed();
        let change = self.begin_writing()?;
        put(&change, id, &BTreeMap::new()).map_err(&failed)?;
        change.commit().map_err(failed)
    }

    /// Puts every session of the store in, and takes out all that is not there any more. A session that cannot be read is
    /// left out, and named.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn rebuild(&mut self, store: &Store) -> Result<Rebuilt, Error> {
        let failed = self.failed();
        let change = self.begin_writing()?;
        let mut rebuilt = Rebuilt::default();
        change.execute_batch(EMPTY).map_err(&failed)?;
        for found in store.list() {
            match Rows::of(&found) {
                Ok(rows) => {
                    put(&change, &rows.id, &values(&rows)).map_err(&failed)?;
                    rebuilt.sessions += 1;
                }
                Err(error) => rebuilt.left_out.push(format!("{}: {error}", found.line())),
            }
        }
        let sql = "INSERT INTO about(name, value) VALUES (?1, 'yes')";
        change.execute(sql, [WHOLE]).map_err(&failed)?;
        change.commit().map_err(failed)?;
        Ok(rebuilt)
    }

    fn begin_writing(&mut self) -> Result<Transaction<'_>, Error> {
        let failed = self.failed();
        let behavior = rusqlite::TransactionBehavior::Immediate;
        self.connection.transaction_with_behavior(behavior).map_err(failed)
    }

    /// Returns every row of every table as text, in an order that does not depend on when it was written.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn dump(&self) -> Result<String, Error> {
        let mut lines = Vec::new();
        for (table, session, columns) in OF_SESSIONS {
            let sql = format!("SELECT {session}, {} FROM {table}", columns.join(", "));
            let rows = all(&self.connection, &sql, columns.len() + 1, &[]);
            for (_, row) in rows.map_err(self.failed())? {
                lines.push(format!("{table} {row:?}"));
            }
        }
        lines.sort();
        Ok(lines.join("\n"))
    }
}

/// Takes every row out.
const EMPTY: &str = "DELETE FROM about; DELETE FROM sessions; DELETE FROM turns; DELETE FROM checkpoints; \
    DELETE FROM session_files; DELETE FROM session_refs; DELETE FROM search_rows; \
    INSERT INTO search_index(search_index) VALUES('rebuild');";

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    // Two processes may find the file empty at once: the second one has nothing to do.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = form(connection).and_then(|form| match form {
        0 => connection.execute_batch(&format!("{TABLES} PRAGMA user_version = {FORM};")),
        _ => Ok(()),
    });
    connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

fn form(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns the texts of all tables, indexes, views and triggers.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_schema ORDER BY 1";
    let mut statement = connection.prepare(sql)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

fn expected() -> rusqlite::Result<Vec<String>> {
    let fresh = Connection::open_in_memory()?;
    fresh.execute_batch(TABLES)?;
    tables(&fresh)
}

/// Returns rows with their numbers.
fn all(
    connection: &Connection,
    sql: &str,
    columns: usize,
    given: &[&str],
) -> rusqlite::Result<Vec<(i64, Row)>> {
    let mut statement = connection.prepare_cached(sql)?;
    let has_number = sql.starts_with("SELECT rowid");
    let first = usize::from(has_number);
    let rows = statement.query_map(params_from_iter(given), |row| {
        let number = if has_number { row.get(0)? } else { 0 };
        let values = (first..first + columns).map(|at| row.get(at));
        Ok((number, values.collect::<rusqlite::Result<Row>>()?))
    })?;
    rows.collect()
}

/// Makes the rows of a session those that are given, by table.
fn put(
    change: &Transaction<'_>,
    id: &str,
    rows: &BTreeMap<&str, Vec<Row>>,
) -> rusqlite::Result<()> {
    for (table, session, columns) in OF_SESSIONS {
        let names = columns.join(", ");
        let sql = format!("SELECT rowid, {names} FROM {table} WHERE {session} = ?1");
        let there = all(change, &sql, columns.len(), &[id])?;
        let mut wanted: Vec<Option<&Row>> =
            rows.get(table).into_iter().flatten().map(Some).collect();
        let delete = format!("DELETE FROM {table} WHERE rowid = ?1");
        // Rows were written in their order, so that the next one is mostly at hand.
        let mut next = 0;
        for (number, row) in there {
            let at_hand = wanted.get(next).is_some_and(|it| *it == Some(&row));
            let found = match at_hand {
                true => Some(next),
                false => wanted.iter().position(|it| *it == Some(&row)),
            };
            match found {
                Some(at) => {
                    next = at + 1;
                    wanted.get_mut(at).map(|it| *it = None).unwrap_or_default();
                }
                None => {
                    if table == SEARCHED {
                        forget(change, number, id, &row)?;
                    }
                    change.prepare_cached(&delete)?.execute([number])?;
                }
            }
        }
        let marks = vec!["?"; columns.len() + 1].join(", ");
        let insert = format!("INSERT INTO {table}({session}, {names}) VALUES ({marks})");
        for row in wanted.into_iter().flatten() {
            let own = std::iter::once(Value::from(id.to_owned())).chain(row.iter().cloned());
            change.prepare_cached(&insert)?.execute(params_from_iter(own))?;
            if table == SEARCHED {
                let number = change.last_insert_rowid();
                learn(change, number, id, row)?;
            }
        }
    }
    Ok(())
}

/// Adds the words of a text to the index of words.
fn learn(change: &Transaction<'_>, number: i64, id: &str, row: &Row) -> rusqlite::Result<()> {
    let sql = "INSERT INTO search_index(rowid, session_id, source_type, source_id, content) \
        VALUES (?, ?, ?, ?, ?)";
    change.prepare_cached(sql)?.execute(params_from_iter(words(number, id, row))).map(drop)
}

/// Takes the words of a text out of the index of words, which has to be told them (FTS5, section 4.4.3).
fn forget(change: &Transaction<'_>, number: i64, id: &str, row: &Row) -> rusqlite::Result<()> {
    let sql = "INSERT INTO search_index(search_index, rowid, session_id, source_type, source_id, content) \
        VALUES ('delete', ?, ?, ?, ?, ?)";
    change.prepare_cached(sql)?.execute(params_from_iter(words(number, id, row))).map(drop)
}

fn words(number: i64, id: &str, row: &Row) -> impl Iterator<Item = Value> {
    let first = [Value::from(number), Value::from(id.to_owned())];
    first.into_iter().chain(row.clone())
}

/// Returns the rows of each table.
fn values(rows: &Rows) -> BTreeMap<&'static str, Vec<Row>> {
    let text = |text: &str| Value::from(text.to_owned());
    let number = |number: usize| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let optional = |text: &Option<String>| Value::from(text.clone());
    let session = vec![
        text(&rows.cwd),
        optional(&rows.repository),
        optional(&rows.branch),
        text(&rows.summary),
        text(&rows.created_at),
        text(&rows.updated_at),
    ];
    let turns = rows.turns.iter().enumerate().map(|(at, turn)| {
        vec![number(at), text(&turn.user), text(&turn.assistant), text(&turn.at)]
    });
    let checkpoints = rows.checkpoints.iter().enumerate().map(|(at, checkpoint)| {
        let sections = checkpoint.sections.iter().map(|it| text(it));
        [number(at), text(&checkpoint.title)].into_iter().chain(sections).collect()
    });
    let files = rows
        .files
        .iter()
        .map(|(path, tool, turn, at)| vec![text(path), text(tool), number(*turn), text(at)]);
    let refs = rows
        .refs
        .iter()
        .map(|(kind, value, turn, at)| vec![text(kind), text(value), number(*turn), text(at)]);
    let texts = rows
        .texts
        .iter()
        .map(|it| vec![text(it.source_type), text(&it.source_id), text(&it.content)]);
    BTreeMap::from([
        ("sessions", vec![session]),
        ("turns", turns.collect()),
        ("checkpoints", checkpoints.collect()),
        ("session_files", files.collect()),
        ("session_refs", refs.collect()),
        (SEARCHED, texts.collect()),
    ])
}
