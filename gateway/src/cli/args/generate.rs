//! Options of the subcommands that print what is made of the command line itself.

use clap::Args;

/// `stockade completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// `stockade man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The subcommand whose page is printed [default: the page of stockade itself].
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommand: Option<String>,
}
