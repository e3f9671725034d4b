//! The options of `stockade approvals`.

use clap::{Args, Subcommand};
use stockade_wire::types::Lasting;

use super::Common;

/// Examples of `stockade approvals`.
pub(crate) const EXAMPLE: &str = "Examples:\n  stockade approvals\n  stockade approvals allow 1f2e3d4c\n  stockade approvals allow 1f2e3d4c --minutes 30\n\n\
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
    Deny(Deny),
    /// Print each new question until interrupted.
    Watch(List),
    /// Serve a web page for open questions on the loopback interface, and print its link, which opens once.
    Web(Web),
    /// Send open questions to a webhook, and take signed answers at a loopback port.
    Webhook(Webhook),
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

/// Serve a web page for open questions on the loopback interface, and print its link, which opens once.
#[derive(Debug, Args)]
pub(crate) struct Web {
    #[command(flatten)]
    pub common: Common,
    /// Listen at this port [default: any free one].
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

/// Send open questions to a webhook, and take signed answers at a loopback port.
#[derive(Debug, Args)]
pub(crate) struct Webhook {
    #[command(flatten)]
    pub common: Common,
    /// Send questions to this address: `https`, or `http` on this machine.
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// Take answers at this loopback port [default: any free one].
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// The form of the messages.
    #[arg(long, value_name = "FORM", default_value = "plain", value_parser = ["plain", "slack", "teams"])]
    pub form: String,
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
    #[arg(long, group = "lasts")]
    pub always: bool,
    /// Also allow what that rule matches until the session ends.
    #[arg(long, group = "lasts")]
    pub for_session: bool,
    /// Also allow what that rule matches for so many minutes.
    #[arg(long, group = "lasts", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Lasting::MOST_MINUTES)))]
    pub minutes: Option<u32>,
    /// Allow so many calls that this rule matches, the first one included.
    #[arg(long, group = "lasts", value_name = "N",
        value_parser = clap::value_parser!(u32).range(2..=i64::from(Lasting::MOST_USES)))]
    pub uses: Option<u32>,
    /// Allow it alone in an emergency, where the managed settings let you. Others are told.
    #[arg(long, value_name = "REASON")]
    pub break_glass: Option<String>,
}

/// Deny what the question asks.
#[derive(Debug, Args)]
pub(crate) struct Deny {
    #[command(flatten)]
    pub common: Common,
    /// The question.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Tell the agent why.
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

impl ApprovalsCommand {
    /// Returns the common options behind the subcommand.
    pub(crate) fn common(&self) -> &Common {
        match self {
            ApprovalsCommand::List(options) | ApprovalsCommand::Watch(options) => &options.common,
            ApprovalsCommand::Web(options) => &options.common,
            ApprovalsCommand::Webhook(options) => &options.common,
            ApprovalsCommand::Show(options) => &options.common,
            ApprovalsCommand::Deny(options) => &options.common,
            ApprovalsCommand::Allow(options) => &options.common,
        }
    }
}
