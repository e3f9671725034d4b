//! What pid 1 tells the monitor of directories that are inspected at the end.

use std::ffi::OsString;
use std::path::PathBuf;

/// Why a directory is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// It is a git directory that the run made: its configuration.
    Repository,
    /// It may be one in which a rebase or a sequence of picks was stopped: its instructions.
    Work,
    /// It names another directory as its common one: that of a linked worktree, or none.
    Pointer,
    /// It holds a `.git` file that the run made, which names a git directory.
    File,
}

/// What pid 1 knows of a directory that is looked at in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) kind: Kind,
    /// Where it lay.
    pub(crate) path: PathBuf,
    /// Instructions that were there before the run touched them.
    pub(crate) known: Vec<OsString>,
}
