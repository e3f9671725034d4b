//! Options that choose records of the log.

use clap::Args;

/// Conditions on records; all must hold.
#[derive(Debug, Args)]
pub(crate) struct Conditions {
    /// Records since this time: such as 2h, today or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Records until this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Kind of record, such as decision or result.
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Decision: allow, ask or deny.
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Option<String>,
    /// Code of the reason.
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// Text of a rule that matched.
    #[arg(long, value_name = "TEXT")]
    pub rule: Option<String>,
    /// Layer of a rule that matched.
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// File and line of a rule that matched.
    #[arg(long, value_name = "PATH[:LINE]")]
    pub file: Option<String>,
    /// User of the caller.
    #[arg(long, value_name = "UID")]
    pub uid: Option<u64>,
    /// Agent of the call.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The agent's own ID of the call.
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// Front end, such as run or hook.
    #[arg(long, value_name = "NAME")]
    pub door: Option<String>,
    /// Program in the command.
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// Text in the command.
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// Path in the decision or the result.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Name of the machine.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Exit status.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub exit: Option<i64>,
    /// Signal that ended the command.
    #[arg(long, value_name = "NAME")]
    pub signal: Option<String>,
    /// A decision and its other records.
    #[arg(long, value_name = "ID")]
    pub r#ref: Option<String>,
    /// Tag of a masked secret.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
}
