//! Options that choose records of the log.

use clap::Args;

/// Conditions on records; all must hold.
#[derive(Debug, Args)]
pub(crate) struct Conditions {
    /// From this time on: RFC 3339, -2h, or today.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Up to this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Kind of the record, such as decision or result.
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// What was decided: allow, ask or deny.
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Option<String>,
    /// Code of the reason.
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// A rule that matched, as it is written.
    #[arg(long, value_name = "TEXT")]
    pub rule: Option<String>,
    /// The layer of a rule that matched.
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// The file of a rule that matched, and its line.
    #[arg(long, value_name = "PATH[:LINE]")]
    pub file: Option<String>,
    /// The user who asked.
    #[arg(long, value_name = "UID")]
    pub uid: Option<u64>,
    /// The agent that asked.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The call, as the agent numbers it.
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// The front door.
    #[arg(long, value_name = "NAME")]
    pub door: Option<String>,
    /// A program of the command.
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// A part of the command's text.
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// A path that was judged or touched.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// The machine.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The exit status.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub exit: Option<i64>,
    /// The signal that ended the command.
    #[arg(long, value_name = "NAME")]
    pub signal: Option<String>,
    /// A decision and all that belongs to it.
    #[arg(long, value_name = "ID")]
    pub r#ref: Option<String>,
    /// Tag of something that is masked.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
}
