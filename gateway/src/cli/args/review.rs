//! The options of `stockade review`.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Example of `stockade review`.
pub(crate) const EXAMPLE: &str = "Example:\n  stockade review --done\n\n\
    Exit status: 0 nothing to review, or all of it marked; 1 something to review; 120 not marked;\n\
    121 no terminal; 122 stockade failed.";

/// List changed files that your own tools execute.
#[derive(Debug, Args)]
pub(crate) struct Review {
    #[command(flatten)]
    pub common: Common,
    /// List only these files, or files in these directories.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// List files of all projects.
    #[arg(long)]
    pub all: bool,
    /// Print each difference whole.
    #[arg(long)]
    pub diff: bool,
    /// Print the files, then ask at the terminal whether to mark them as reviewed.
    #[arg(long, visible_alias = "accept")]
    pub done: bool,
}
