//! The options of `stockade snapshot`.

use clap::Args;

use super::Common;

/// Examples of `stockade snapshot`.
pub(crate) const EXAMPLE: &str = "Examples:\n  { alias -p; declare -f; } | stockade snapshot\n  stockade snapshot --show\n\n\
    Run the first line in your bash. Exit status: 0 kept, also if some are left out; 122 nothing is kept.";

/// Keep aliases and functions of your shell for commands: reads what bash prints from standard input.
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pub common: Common,
    /// Print what is kept.
    #[arg(long, conflicts_with = "remove")]
    pub show: bool,
    /// Remove what is kept.
    #[arg(long)]
    pub remove: bool,
}
