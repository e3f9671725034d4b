//! The `stockade-agent` executable: front ends that talk to a gateway through its public API alone.
#![forbid(unsafe_code)]

mod run;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(Arguments { command: Command::Run(options) }) => {
            run::run(options).unwrap_or_else(|error| {
                view::tell(&format!("stockade: {error:#}"));
                ExitCode::from(stockade::protocol::status::FAILED)
            })
        }
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            view::tell(&format!("stockade: {}", stockade::protocol::words::lines(text.trim_end())));
            ExitCode::from(stockade::protocol::status::FAILED)
        }
        Err(help) => {
            let _ = help.print(); // nobody reads it
            ExitCode::SUCCESS
        }
    }
}
