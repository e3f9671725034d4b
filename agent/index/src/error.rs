//! Why the index cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refuses.
    #[error("the index `{}` cannot be used: {source}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file or its folder cannot be used.
    #[error("the index `{}` cannot be {act}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed, such as `made`.
        act: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A session cannot be read.
    #[error(transparent)]
    Session(#[from] stockade_session::Error),
    /// Nothing to look for.
    #[error("there is no word to look for; give at least one with letters or digits")]
    NoWords,
}

impl Error {
    pub(crate) fn file(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::File { path: path.to_owned(), act, source }
    }

    /// Says whether the database itself is damaged, or none: a new one is the remedy.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SchemaChanged, Unknown};
        match self {
            Error::Database { source: rusqlite::Error::SqliteFailure(error, _), .. } => {
                // `Unknown` is SQL that does not fit to the tables that are there.
                matches!(error.code, DatabaseCorrupt | NotADatabase | SchemaChanged | Unknown)
            }
            Error::Database { source, .. } => matches!(
                source,
                rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::Utf8Error(..)
            ),
            Error::File { .. } | Error::Session(_) | Error::NoWords => false,
        }
    }
}
