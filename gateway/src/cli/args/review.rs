//! The options of `stockade review`.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Example of `stockade review`.
pub(crate) const EXAMPLE: &str = "Example:\n  stockade review --done\n\n\
    Exit status: 0 nothing waits for a look, or all of it is marked; 1 something waits; 120 not marked;\n\
    121 there is no terminal to mark at; 122 could not look.";

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
