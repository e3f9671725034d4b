//! `stockade telemetry`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use stockade_telemetry::Include;

use crate::fail;
use crate::since::since;

/// Options of `stockade telemetry`.
#[derive(Debug, clap::Args)]
pub(crate) struct Telemetry {
    /// Use the gateway that listens at this socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Begin with the record of this number, not where the last one ended
    #[arg(long, value_name = "SEQ", conflicts_with = "since")]
    from: Option<u64>,
    /// Begin with records of this time, such as 2h, today or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Also send texts, masked as in the log (repeatable)
    #[arg(long, value_name = "WHAT")]
    include: Vec<Texts>,
    /// End when all records are sent
    #[arg(long)]
    once: bool,
    /// Keep the position in this directory
    #[arg(long, value_name = "DIR", hide = true)]
    state: PathBuf,
    /// Be the process that speaks with the collector
    #[arg(long, hide = true)]
    confined: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Texts {
    /// Command lines, reasons and rules
    Commands,
    /// Working directories and projects
    Paths,
    /// Hosts of connections
    Hosts,
}

impl Telemetry {
    /// Sends until Ctrl-C.
    pub(crate) fn run(self) -> ExitCode {
        let Telemetry { socket, from, since: time, include, once, state, confined } = self;
        if !confined {
            let words: Vec<_> = std::env::args_os().skip(1).chain(["--confined".into()]).collect();
            return ended(stockade_telemetry::stand_beside(socket, &words).map(ExitCode::from));
        }
        let include = include.into_iter().map(|it| match it {
            Texts::Commands => Include::Commands,
            Texts::Paths => Include::Paths,
            Texts::Hosts => Include::Hosts,
        });
        ended(time.map(|text| since(&text)).transpose().and_then(|time| {
            stockade_telemetry::run(stockade_telemetry::Telemetry {
                position: state.join("telemetry"),
                from,
                since: time.map(|it| it.to_string()),
                once,
                include: include.collect(),
            })?;
            Ok(ExitCode::SUCCESS)
        }))
    }
}

fn ended(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        fail(&format!("{error:#}"), "`stockade telemetry --help` shows the options");
        ExitCode::from(stockade_wire::status::FAILED)
    })
}
