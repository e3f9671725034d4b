//! Why a session cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::holder::Holder;

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be used.
    #[error("`{}` cannot be {act}: {cause}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed, such as `read`.
        act: &'static str,
        /// The error of the system, which the message tells already.
        cause: io::Error,
    },
    /// The log does not begin as one does.
    #[error("`{}` is not the log of a session: its first event must be `session.start`", .path.display())]
    NoLog {
        /// The file.
        path: PathBuf,
    },
    /// The log belongs to another user.
    #[error("`{}` belongs to another user and is not read", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A new session cannot have the identity of another one.
    #[error("the session `{0}` is there already; go on with it by `--resume`")]
    There(String),
    /// The log is another file than the one that was opened.
    #[error("`{}` was replaced or removed while the session was open; put it back, or end the session", .path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The conversation does not fit into memory.
    #[error(
        "the conversation in `{}` has more than {most} MiB since its last summary and does not go on; nothing of it is lost: \
         find its words with `stockade agent sessions search`, and begin a new session", .path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
    /// The log is too large for something that needs all of it at once.
    #[error("`{}` has more than {most} MiB, and a session of that size is not {act}", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
        /// The operation that failed, such as `copied`.
        act: &'static str,
    },
    /// The log was written by a later version.
    #[error("`{}` was written by a later version (event format {version})", .path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// The format of its first event that is not known here.
        version: u64,
    },
    /// No session has this identity, prefix or name.
    #[error("No conversation found with session ID: {0}")]
    Unknown(String),
    /// Several sessions have this prefix or name.
    #[error("several sessions are called `{wanted}`: {}; name one by its identity", .found.join(", "))]
    Ambiguous {
        /// The prefix or name.
        wanted: String,
        /// Identities with their names.
        found: Vec<String>,
    },
    /// No session is called so, but these have the words in their names.
    #[error("no session is called `{wanted}`; its words stand in: {}; name one by its identity", .found.join(", "))]
    Near {
        /// The words.
        wanted: String,
        /// Identities with their names.
        found: Vec<String>,
    },
    /// The session has no such message of the user.
    #[error("the session has no message of the user `{0}`; `/rewind` lists them")]
    NoMessage(String),
    /// A session cannot be exported or imported.
    #[error("the archive cannot be used: {0}")]
    Archive(String),
    /// Another process has the session open.
    #[error("the session is in use by {0}; end that, or go on in a copy with `--fork-session`")]
    InUse(Holder),
    /// A name that cannot be one.
    #[error(
        "`{0}` cannot be the name of a session: 1 to 100 characters without line breaks and control characters"
    )]
    Name(String),
}

impl Error {
    pub(crate) fn file(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::File { path: path.to_owned(), act, cause }
    }
}
