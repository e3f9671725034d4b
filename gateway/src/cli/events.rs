//! `stockade events`: records, as the gateway that runs tells them.

use std::collections::{BTreeMap, BTreeSet};

use stockade_wire::subscriptions::{SubscribeRequest, Told};

use super::args::events::Events;
use super::{context, failure};
use crate::audit::query::filter::when;
use crate::audit::query::{self, QueryResult, Record};
use crate::cli::exit::ExitCode;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::shell::inside::own_confinement;

/// Prints until there is nothing more, nobody reads, or the gateway is gone.
pub(super) fn events(options: Events) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot read records";
        let help = "run `stockade events` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let Events { common, from, since, kind, follow } = options;
    let since = match since {
        None => None,
        Some(text) => Some(when(&text).ok_or_else(|| {
            let message = format!("invalid time {}", words::quoted(&text));
            let help = "use 2h, 7d, today or RFC 3339, such as 2026-01-31T08:00:00Z";
            Failure::new(Code::InvalidRequest, message, help)
        })?),
    };
    let mut gateway = context::running(&common)?.ok_or_else(|| {
        let message = "none of your gateways is running";
        let help = "`stockade audit tail` reads the log; `stockade serve` starts a gateway";
        Failure::new(Code::GatewayUnreachable, message, help)
    })?;
    let request = SubscribeRequest { from, since, kinds: kind, follow };
    let mut next = gateway.subscribe(&request)?.next;
    let mut is_first = true;
    loop {
        match gateway.told().map_err(|failure| come_back(failure, next))? {
            Told::Record(record) => {
                next = record.get("seq").and_then(serde_json::Value::as_u64).unwrap_or(next) + 1;
                let text = match common.json {
                    true => record.to_string(),
                    false => row(record.to_string(), std::mem::take(&mut is_first))?,
                };
                if failure::print(&text).is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Told::Gap { first, last, count } => {
                next = last + 1;
                let records = if count == 1 { "record was" } else { "records were" };
                failure::tell(&format!(
                    "stockade: {count} {records} left out (seq {first} to {last}): the output is read too slowly\n  \
                     try: `stockade events --from {first}`"
                ));
            }
            Told::CaughtUp {} => {}
            Told::Ended { error: None } => return Ok(ExitCode::SUCCESS),
            Told::Ended { error: Some(error) } => return Err(error),
        }
    }
}

/// Says where to go on when the gateway is gone.
fn come_back(failure: Failure, next: u64) -> Failure {
    Failure { help: format!("`stockade events --follow --from {next}` goes on"), ..failure }
}

/// Returns the row of a record, the first one below the head.
fn row(line: String, is_first: bool) -> Result<String, Failure> {
    let record = Record::of_line(line.into_bytes()).map_err(|reason| {
        Failure::new(Code::Internal, format!("the gateway told no record: {reason}"), "")
    })?;
    let (endings, unsigned) = (BTreeMap::new(), BTreeSet::new());
    let table =
        query::table(&QueryResult { records: vec![record], endings, unsigned, broken: None });
    let table = table.trim_end();
    Ok(match table.split_once('\n') {
        Some((_, row)) if !is_first => row.to_owned(),
        Some(_) | None => table.to_owned(),
    })
}
