//! Why a call fails, in words for the model: what failed, where, and what helps.

use std::io;
use std::path::{Path, PathBuf};

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call is not one that can be done.
    #[error("{0}")]
    Call(String),
    /// The file does not exist.
    #[error("{} does not exist. Check the path, or find the file with Glob.", .0.display())]
    Missing(PathBuf),
    /// The file system refuses.
    #[error("{action} {} failed: {reason}", .path.display())]
    System {
        /// The attempt, such as `Reading`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason that the system gives.
        reason: String,
    },
}

impl Error {
    /// Returns the error of `action` on `path`.
    pub(crate) fn of(action: &'static str, path: &Path, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::System {
                action,
                path: path.to_owned(),
                reason: format!("{error}. The sandbox of this session does not grant it."),
            },
            _ => Error::System { action, path: path.to_owned(), reason: error.to_string() },
        }
    }
}

/// Returns the error of a call that cannot be done.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Call(message.into()))
}
