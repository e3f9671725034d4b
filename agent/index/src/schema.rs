//! Tables of the index.

/// Number of the form of the tables; another one is begun anew.
pub(crate) const FORM: i64 = 1;

/// The tables, as they are made.
pub(crate) const TABLES: &str = "
CREATE TABLE about(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sessions(id TEXT PRIMARY KEY, cwd TEXT NOT NULL, repository TEXT, branch TEXT, summary TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL) STRICT;
CREATE TABLE turns(session_id TEXT NOT NULL, turn_index INTEGER NOT NULL, user_message TEXT NOT NULL,
  assistant_response TEXT NOT NULL, timestamp TEXT NOT NULL) STRICT;
CREATE INDEX turns_of ON turns(session_id);
CREATE TABLE checkpoints(session_id TEXT NOT NULL, checkpoint_number INTEGER NOT NULL, title TEXT NOT NULL,
  overview TEXT NOT NULL, history TEXT NOT NULL, work_done TEXT NOT NULL, technical_details TEXT NOT NULL,
  important_files TEXT NOT NULL, next_steps TEXT NOT NULL) STRICT;
CREATE INDEX checkpoints_of ON checkpoints(session_id);
CREATE TABLE session_files(session_id TEXT NOT NULL, file_path TEXT NOT NULL, tool_name TEXT NOT NULL,
  turn_index INTEGER NOT NULL, first_seen_at TEXT NOT NULL) STRICT;
CREATE INDEX session_files_of ON session_files(session_id);
CREATE TABLE session_refs(session_id TEXT NOT NULL, ref_type TEXT NOT NULL, ref_value TEXT NOT NULL,
  turn_index INTEGER NOT NULL, created_at TEXT NOT NULL) STRICT;
CREATE INDEX session_refs_of ON session_refs(session_id);
CREATE TABLE search_rows(id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, source_type TEXT NOT NULL,
  source_id TEXT NOT NULL, content TEXT NOT NULL) STRICT;
CREATE INDEX search_rows_of ON search_rows(session_id);
CREATE VIRTUAL TABLE search_index USING fts5(content, session_id UNINDEXED, source_type UNINDEXED,
  source_id UNINDEXED, content='search_rows', content_rowid='id');
";

/// Each table with the column that names the session and the others, in order.
pub(crate) const OF_SESSIONS: [(&str, &str, &[&str]); 6] = [
    ("sessions", "id", &["cwd", "repository", "branch", "summary", "created_at", "updated_at"]),
    ("turns", "session_id", &["turn_index", "user_message", "assistant_response", "timestamp"]),
    (
        "checkpoints",
        "session_id",
        &[
            "checkpoint_number",
            "title",
            "overview",
            "history",
            "work_done",
            "technical_details",
            "important_files",
            "next_steps",
        ],
    ),
    ("session_files", "session_id", &["file_path", "tool_name", "turn_index", "first_seen_at"]),
    ("session_refs", "session_id", &["ref_type", "ref_value", "turn_index", "created_at"]),
    ("search_rows", "session_id", &["source_type", "source_id", "content"]),
];

/// The table whose rows are found by their words.
pub(crate) const SEARCHED: &str = "search_rows";
