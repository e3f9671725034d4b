//! SQL of a model: one statement on a database of its session, or on a copy of the rows about the sessions of its project.
//! Whatever it says, it reads and writes nothing else, and it ends.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::schema::{OF_SESSIONS, TABLES};

/// How long a statement takes at most, and another process is waited for.
const TIME: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(2);
/// Most rows of an answer, most bytes of all its values, and most characters of one.
const ROWS: usize = 1_000;
const BYTES: usize = 100_000;
const CHARACTERS: usize = 10_000;
/// Most pages of the session's own database, of 4 KiB each.
const PAGES: u32 = 16_384;
/// Most characters of conversations that are copied, those of the newest sessions.
const COPIED: u32 = 32_000_000;
/// Instructions between two looks at the clock.
const OFTEN: i32 = 1_000;
/// Limits of SQLite (sqlite.org/limits.html).
const LIMITS: [(Limit, i32); 8] = [
    (Limit::SQLITE_LIMIT_LENGTH, 4 << 20),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_COLUMN, 200),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];
/// Functions that reach further than the database.
const REFUSED: [&str; 2] = ["load_extension", "fts3_tokenizer"];
/// Pragmas that only tell something. FTS5 itself asks for the last one.
const TELLING: [&str; 7] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
    "data_version",
];

/// The database of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Database<'a> {
    /// The session's own, in a file, or in memory for a session that is not stored.
    Session(Option<&'a Path>),
    /// The index of sessions: those that worked in a directory or below it.
    Store {
        /// File of the index.
        index: &'a Path,
        /// The directory.
        root: &'a str,
    },
}

/// The answer to a statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Values, row by row.
    pub rows: Vec<Vec<Value>>,
    /// Rows that were inserted, changed or deleted.
    pub changed: u64,
    /// There are more rows, or a value is longer.
    pub is_cut: bool,
}

impl Table {
    /// Returns the answer as JSON.
    #[must_use]
    pub fn object(&self) -> Value {
        json!({ "columns": self.columns, "rows": self.rows, "changed": self.changed, "is_cut": self.is_cut })
    }
}

/// Does one statement.
///
/// # Errors
///
/// SQLite refuses it, it wants what is not allowed, or it takes too long. The message is for whoever wrote the statement.
pub fn ask(database: Database<'_>, sql: &str) -> Result<Table, String> {
    let opened = match database {
        Database::Session(path) => own(path),
        Database::Store { index, root } => {
            copy(index, root).map_err(|error| format!("the index cannot be read: {error}"))
        }
    };
    let mut connection = opened?;
    let may_write = matches!(database, Database::Session(_));
    confine(&mut connection, may_write).map_err(|error| error.to_string())?;
    run(&connection, sql).map_err(|error| told(&error))
}

fn told(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => {
            format!("the statement took longer than {} s; ask for less", TIME.as_secs())
        }
        Some(rusqlite::ErrorCode::AuthorizationForStatementDenied) => {
            "the statement is not allowed here: `store` is read only; ATTACH, VACUUM, transactions, extensions and pragmas that \
             change something are refused"
                .to_owned()
        }
        Some(rusqlite::ErrorCode::DiskFull) => "the session's database is full (64 MiB)".to_owned(),
        Some(_) | None => match error {
            rusqlite::Error::MultipleStatement => "give one statement a call".to_owned(),
            other => other.to_string(),
        },
    }
}

/// Opens the session's own database.
fn own(path: Option<&Path>) -> Result<Connection, String> {
    let Some(path) = path else {
        return Connection::open_in_memory().map_err(|error| error.to_string());
    };
    let failed = |error: String| format!("the session's database cannot be opened: {error}");
    // SQLite would make a file that others can read.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map_err(|error| failed(error.to_string()))?;
    // A link on the way to the folder is the user's; the file itself must be none.
    let real = path.parent().and_then(|it| it.canonicalize().ok()).zip(path.file_name());
    let real =
        real.map(|(folder, name)| folder.join(name)).ok_or_else(|| failed("no folder".into()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection =
        Connection::open_with_flags(real, flags).map_err(|error| failed(error.to_string()))?;
    let ready = connection
        .busy_timeout(PATIENCE)
        .and_then(|()| connection.execute_batch(&format!("PRAGMA max_page_count = {PAGES}")));
    ready.map_err(|error| failed(error.to_string()))?;
    Ok(connection)
}

/// Copies the rows about the sessions that worked in a directory or below it into memory: a statement on the copy finds no
/// others, however it is written.
fn copy(index: &Path, root: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch(TABLES)?;
    connection.execute("ATTACH ?1 AS source", [index.to_string_lossy()])?;
    connection.execute_batch("PRAGMA source.query_only = ON; PRAGMA query_only = OFF; BEGIN")?;
    let near = "CREATE TEMP TABLE near AS SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY updated_at DESC, id) AS \
        total FROM (SELECT id, updated_at, (SELECT ifnull(sum(length(content)), 0) FROM source.search_rows \
        WHERE session_id = s.id) AS size FROM source.sessions s \
        WHERE cwd = ?1 OR substr(cwd, 1, length(?2)) = ?2)) WHERE total <= ?3";
    let below = format!("{}/", root.trim_end_matches('/'));
    connection.execute(near, (root, below, COPIED))?;
    for (table, session, columns) in OF_SESSIONS {
        let columns = format!("rowid, {session}, {}", columns.join(", "));
        connection.execute_batch(&format!(
            "INSERT INTO main.{table}({columns}) SELECT {columns} FROM source.{table} WHERE {session} IN (SELECT id FROM near)"
        ))?;
    }
    connection.execute_batch(
        "INSERT INTO main.search_index(search_index) VALUES('rebuild'); COMMIT; DROP TABLE near; DETACH source",
    )?;
    Ok(connection)
}

/// Takes away all that a statement does not need, and starts the clock.
fn confine(connection: &mut Connection, may_write: bool) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY",
    )?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for (limit, value) in LIMITS {
        connection.set_limit(limit, value)?;
    }
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        match is_allowed(&context.action, may_write) {
            true => Authorization::Allow,
            false => Authorization::Deny,
        }
    }))?;
    let end = Instant::now() + TIME;
    connection.progress_handler(OFTEN, Some(move || Instant::now() > end))
}

/// Says whether a step of a statement is allowed. What is not named is not.
fn is_allowed(action: &AuthAction<'_>, may_write: bool) -> bool {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !REFUSED.iter().any(|it| it.eq_ignore_ascii_case(function_name))
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            // The value of these is the name of a table.
            TELLING.contains(&name.as_str()) && (name != "data_version" || pragma_value.is_none())
        }
        AuthAction::CreateVtable { module_name, .. }
        | AuthAction::DropVtable { module_name, .. } => {
            may_write && module_name.eq_ignore_ascii_case("fts5")
        }
        AuthAction::Insert { .. }
        | AuthAction::Update { .. }
        | AuthAction::Delete { .. }
        | AuthAction::CreateTable { .. }
        | AuthAction::CreateIndex { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropView { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::AlterTable { .. }
        | AuthAction::Reindex { .. }
        | AuthAction::Analyze { .. } => may_write,
        _ => false,
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<Table> {
    let before = connection.total_changes();
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut table = Table { columns, ..Table::default() };
    let mut bytes = 0;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if table.rows.len() >= ROWS || bytes >= BYTES {
            table.is_cut = true;
            break;
        }
        let mut values = Vec::new();
        for at in 0..table.columns.len() {
            let (value, length, is_cut) = value(row.get_ref(at)?);
            table.is_cut |= is_cut;
            bytes += length;
            values.push(value);
        }
        table.rows.push(values);
    }
    drop(rows);
    table.changed = connection.total_changes().saturating_sub(before);
    Ok(table)
}

/// Returns a value as JSON, its bytes, and whether it was cut.
fn value(value: ValueRef<'_>) -> (Value, usize, bool) {
    let text = |text: &str| {
        let cut: String = text.chars().take(CHARACTERS).collect();
        let is_cut = cut.len() < text.len();
        (json!(cut), cut.len(), is_cut)
    };
    match value {
        ValueRef::Null => (Value::Null, 4, false),
        ValueRef::Integer(number) => (json!(number), 8, false),
        ValueRef::Real(number) => (json!(number), 8, false),
        ValueRef::Text(bytes) => text(&String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => {
            let shown = bytes.iter().take(CHARACTERS).map(|byte| format!("{byte:02x}"));
            text(&format!("x'{}'", shown.collect::<String>()))
        }
    }
}
