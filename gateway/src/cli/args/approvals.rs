//! The options of `stockade approvals`.

use clap::{Args, Subcommand};

use super::Common;

/// Examples of `stockade approvals`.
pub(crate) const EXAMPLE: &str = "Examples:\n  stockade approvals\n  stockade approvals allow 1f2e3d4c\n\n\
    A question stays open if `approvals.waitSeconds` is set in the user or managed settings and nobody can be asked at the call.";

/// List and answer open questions.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand [default: list].
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
}

/// The subcommands about questions that wait.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List open questions, oldest first.
    List(List),
    /// Show one question.
    Show(One),
    /// Allow what the question asks.
    Allow(Allow),
    /// Deny what the question asks.
    Deny(One),
    /// Print each new question until interrupted.
    Watch(List),
}

/// List open questions, oldest first.
#[derive(Debug, Args, Default)]
pub(crate) struct List {
    #[command(flatten)]
    pub common: Common,
}

/// A subcommand about one question.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    pub common: Common,
    /// The question.
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Allow what the question asks.
#[derive(Debug, Args)]
pub(crate) struct Allow {
    #[command(flatten)]
    pub common: Common,
    /// The question.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Also write the rule that show names.
    #[arg(long)]
    pub always: bool,
}

impl ApprovalsCommand {
    /// Returns the common options behind the subcommand.
    pub(crate) fn common(&self) -> &Common {
        match self {
            ApprovalsCommand::List(options) | ApprovalsCommand::Watch(options) => &options.common,
            ApprovalsCommand::Show(options) | ApprovalsCommand::Deny(options) => &options.common,
            ApprovalsCommand::Allow(options) => &options.common,
        }
    }
}
