//! The options of `stockade grants`.

use clap::{Args, Subcommand};

use super::Common;

/// Examples of `stockade grants`.
pub(crate) const EXAMPLE: &str = "Examples:\n  stockade grants\n  stockade grants revoke 1f2e3d4c\n  stockade grants revoke --all\n\n\
    Permanent rules are in settings files: `stockade policy show` lists them.";

/// List and revoke rules that were allowed for a while.
#[derive(Debug, Args)]
pub(crate) struct Grants {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand [default: list].
    #[command(subcommand)]
    pub command: Option<GrantsCommand>,
}

/// The subcommands about rules that were allowed for a while.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List the grants that hold, oldest first.
    List(List),
    /// Revoke a grant. The next call that needs it is asked about.
    Revoke(Revoke),
}

/// List the grants that hold, oldest first.
#[derive(Debug, Args, Default)]
pub(crate) struct List {
    #[command(flatten)]
    pub common: Common,
}

/// Revoke a grant. The next call that needs it is asked about.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    pub common: Common,
    /// The grant.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub id: Option<String>,
    /// Revoke all grants.
    #[arg(long)]
    pub all: bool,
}

impl GrantsCommand {
    /// Returns the common options behind the subcommand.
    pub(crate) fn common(&self) -> &Common {
        match self {
            GrantsCommand::List(options) => &options.common,
            GrantsCommand::Revoke(options) => &options.common,
        }
    }
}
