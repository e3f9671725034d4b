//! Notes of pid 1 to the monitor about directories that are inspected at the end.

use std::ffi::OsString;
use std::path::PathBuf;

/// Why a directory is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Git directory that the run made: its configuration is inspected.
    Repository,
    /// Directory in which a rebase or a sequence of picks may have been stopped: its instructions are inspected.
    Work,
    /// Directory that names another one as its common directory: that of a linked worktree, or none.
    Pointer,
    /// Directory with a `.git` file that the run made, which names a git directory.
    File,
}

/// Facts that pid 1 knows about a directory that is inspected at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Why it is remembered.
    pub kind: Kind,
    /// Where it lay.
    pub path: PathBuf,
    /// Instructions that were there before the run touched them.
    pub known: Vec<OsString>,
}
