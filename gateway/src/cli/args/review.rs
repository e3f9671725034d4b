//! The options of `stockade review`.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Example of `stockade review`.
pub(crate) const EXAMPLE: &str = "Example:\n  stockade review --done\n\n\
    Exit status: 0 nothing waits for a look, or all of it is marked; 1 something waits; 120 not marked;\n\
    121 there is no terminal to mark at; 122 could not look.";

/// `stockade review`.
#[derive(Debug, Args)]
pub(crate) struct Review {
    #[command(flatten)]
    pub common: Common,
    /// Look at these files, or at those beneath these directories, alone.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Look at the files of all projects.
    #[arg(long)]
    pub all: bool,
    /// Show every line of each difference.
    #[arg(long)]
    pub diff: bool,
    /// Show the files, and mark them as looked at when you say so at a terminal.
    #[arg(long, visible_alias = "accept")]
    pub done: bool,
}
