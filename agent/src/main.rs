//! The `stockade-agent` executable: front ends that talk to a gateway through its public API alone.
#![forbid(unsafe_code)]

mod ask;
mod run;
mod tls;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stockade::protocol::errors::{Code, Failure};
use stockade::protocol::words;

/// Front ends of stockade that are no part of the gate itself.
#[derive(Debug, Parser)]
#[command(
    name = "stockade-agent",
    version,
    after_help = "Example:\n  stockade-agent run 'echo hello'"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command behind the gate, with a live view of its output on a terminal.
    #[command(after_help = "Example:\n  stockade-agent run 'make && make test'")]
    Run(run::Run),
    /// Carry one request of the gate over TLS.
    #[command(hide = true)]
    Tls(tls::Tls),
    /// Do one call of a file tool: a line of JSON on standard input, its answer on standard output.
    #[command(hide = true)]
    Files,
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(Arguments { command: Command::Tls(options) }) => tls::run(&options),
        Ok(Arguments { command: Command::Files }) => ExitCode::from(stockade_files::serve()),
        Ok(Arguments { command: Command::Run(options) }) => {
            run::run(options).unwrap_or_else(|error| {
                let message = format!("{error:#}");
                view::tell(&words::failure(&Failure::new(Code::InvalidRequest, message, "")));
                ExitCode::from(stockade::protocol::status::FAILED)
            })
        }
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = line.strip_prefix("error: ").unwrap_or(&line);
            let help = "`stockade-agent run --help` shows what it takes";
            view::tell(&words::failure(&Failure::new(Code::InvalidRequest, line, help)));
            ExitCode::from(stockade::protocol::status::FAILED)
        }
        Err(help) => {
            let _ = help.print(); // nobody reads it
            ExitCode::SUCCESS
        }
    }
}
