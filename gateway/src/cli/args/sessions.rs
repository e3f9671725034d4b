//! The options of `stockade sessions`.

use clap::{Args, Subcommand};

use super::Common;

/// Examples of `stockade sessions`.
pub(crate) const EXAMPLE: &str =
    "Examples:\n  stockade sessions\n  stockade sessions close my-agent";

/// List and close sessions.
#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand [default: list].
    #[command(subcommand)]
    pub command: Option<SessionsCommand>,
}

/// The subcommands about the sessions of a gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List open sessions, oldest first.
    List(List),
    /// End a session: stop its tasks and remove its network.
    Close(Close),
}

/// List open sessions, oldest first.
#[derive(Debug, Args, Default)]
pub(crate) struct List {
    #[command(flatten)]
    pub common: Common,
}

/// End a session: stop its tasks and remove its network.
#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    pub common: Common,
    /// The session.
    #[arg(value_name = "NAME")]
    pub name: String,
}

impl SessionsCommand {
    /// Returns the common options behind the subcommand.
    pub(crate) fn common(&self) -> &Common {
        match self {
            SessionsCommand::List(options) => &options.common,
            SessionsCommand::Close(options) => &options.common,
        }
    }
}
