//! `stockade telemetry`: the records of a gateway as traces, metrics and logs of OpenTelemetry.
//!
//! A client like every other: it subscribes to the records that a gateway tells, and sends what it makes of them to a
//! collector over OTLP/HTTP. No decision waits for it, and the log is its only buffer: while the collector is away it holds
//! no connection to the gateway, and afterwards it has the records told again from the first one that was not accepted.
//! Command lines, paths and hosts stay here unless `--include` names them.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod calls;
mod deliver;
mod export;
mod follow;
mod logs;
mod metrics;
mod position;
mod proto;
mod read;
mod record;
mod send;
mod sessions;
mod settings;

use std::path::PathBuf;

use stockade_client::Options;

use follow::{Follow, Start};
pub use record::Include;
use settings::Settings;

/// Options of `stockade telemetry`.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// The socket of the gateway; none means the usual one.
    pub socket: Option<PathBuf>,
    /// The file with the position in the log.
    pub position: PathBuf,
    /// Number of the first record, in place of the position.
    pub from: Option<u64>,
    /// Time of the first record, RFC 3339, in place of the position.
    pub since: Option<String>,
    /// Ends when all records are sent.
    pub once: bool,
    /// Texts to send beside names, numbers and times.
    pub include: Vec<Include>,
}

/// Sends records until a signal, or with `once` until there is none left. Says on standard error what is not sent.
pub fn run(telemetry: Telemetry) -> anyhow::Result<()> {
    let settings = Settings::read(&|name| std::env::var(name).ok())?;
    let Telemetry { socket, position, from, since, once, include } = telemetry;
    let options = Options { socket, ..Options::from_environment() };
    let start = match (from, since) {
        (Some(seq), _) => Start::Record(seq),
        (None, Some(time)) => Start::Time(time),
        (None, None) => Start::Position,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        Follow::new(options, settings, &position, include)?.run(start, once).await
    });
    // The thread that reads from the gateway ends with this process.
    runtime.shutdown_background();
    done
}
