//! `stockade telemetry`: the records of a gateway as traces, metrics and logs of OpenTelemetry.
//!
//! A client like every other: it subscribes to the records that a gateway tells, and sends what it makes of them to a
//! collector over OTLP/HTTP. It is two processes: the client, and one that speaks with the collector and has no other rights. No decision waits for it, and the log is its only buffer: while the collector is away it holds
//! no connection to the gateway, and afterwards it has the records told again from the first one that was not accepted.
//! Command lines, paths and hosts stay here unless `--include` names them.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod calls;
mod confine;
mod deliver;
mod export;
mod follow;
mod logs;
mod metrics;
mod position;
mod proto;
mod read;
mod record;
mod relay;
mod send;
mod sessions;
mod settings;
mod span;

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use stockade_client::Options;

use follow::{Follow, Start};
use read::Feed;
pub use record::Include;
use settings::Settings;

/// Options of `stockade telemetry`.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// The directory of the position in the log.
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

/// Starts this program with `words` as the process that sends, and is its client of the gateway at `socket`, or of the usual one.
/// Returns the exit status of that process.
pub fn stand_beside(socket: Option<PathBuf>, words: &[OsString]) -> anyhow::Result<u8> {
    let options = Options { socket, ..Options::from_environment() };
    let status = relay::run(options, words)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Sends records until a signal, or with `once` until there is none left. Says on standard error what is not sent. Standard input is
/// the way to the process that [`stand_beside`] is; all that is not needed is given up before anything is read from it.
pub fn run(telemetry: Telemetry) -> anyhow::Result<()> {
    let gone = rustix::process::Signal::TERM;
    rustix::process::set_parent_process_death_signal(Some(gone))?;
    let settings = Settings::read(&|name| std::env::var(name).ok())?;
    let Telemetry { position, from, since, once, include } = telemetry;
    let start = match (from, since) {
        (Some(seq), _) => Start::Record(seq),
        (None, Some(time)) => Start::Time(time),
        (None, None) => Start::Position,
    };
    let beside = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let ports = settings.ports(&|name| std::env::var(name).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let follow = Follow::new(settings, &position, include)?;
        if !confine::confine(&position, &ports)? {
            deliver::say(
                "this kernel has no Landlock: files are not kept from what sends telemetry",
            );
        }
        follow.run(Feed::new(beside)?, start, once).await
    });
    // The thread that reads ends with this process.
    runtime.shutdown_background();
    done
}
