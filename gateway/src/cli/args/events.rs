//! The options of `stockade events`.

use clap::Args;

use super::Common;

/// Examples of `stockade events`.
pub(crate) const EXAMPLE: &str = "Examples:\n  stockade events --follow\n  stockade events --follow --since 1h --kind decision --json\n  stockade events --from 120\n\n\
    Exit status: 0 printed, 122 stockade failed. `stockade audit tail` reads the log without a gateway.";

/// Print records of the log as the running gateway tells them.
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    pub common: Common,
    /// Begin with the record of this number.
    #[arg(long, value_name = "SEQ", conflicts_with = "since")]
    pub from: Option<u64>,
    /// Begin with records of this time, such as 2h, today or 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, required_unless_present_any = ["from", "follow"])]
    pub since: Option<String>,
    /// Print only this kind of record (repeatable).
    #[arg(long, value_name = "KIND", value_parser = stockade_wire::subscriptions::KINDS)]
    pub kind: Vec<String>,
    /// Keep printing new records.
    #[arg(long)]
    pub follow: bool,
}
