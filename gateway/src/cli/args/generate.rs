//! Options of the subcommands that print what is made of the command line itself.

use clap::Args;

/// Print shell completions.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// Print a manual page.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// A subcommand [default: stockade itself].
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommand: Option<String>,
    /// Print the names of all subcommands.
    #[arg(long, conflicts_with = "subcommand")]
    pub list: bool,
}
