//! The `stockade-agent` executable: the agent, and front ends that talk to a gateway through its public API alone.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod agents;
mod ask;
mod choose;
mod editor;
mod flags;
mod hosted;
mod keep;
mod keeper;
mod logging;
mod memory;
mod models;
mod notes;
mod output;
mod plugins;
mod print;
mod prompt;
mod regular;
mod rpc;
mod run;
mod session;
mod sessions;
mod shown;
mod since;
mod stream;
mod telemetry;
mod tls;
mod usage;
mod view;
mod webhook;

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::words;

use crate::flags::Flags;

/// The variable that tells a process that it is the agent of a gateway, in a directory with all that it may use.
const PLACE: &str = "STOCKADE_AGENT_PLACE";
/// Status of a command line that cannot be used.
const USAGE: u8 = 2;

/// An agent whose every command and file access goes through the gate.
#[derive(Debug, Parser)]
#[command(
    name = "stockade-agent",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_help = "Examples:\n  stockade agent -p 'fix the failing test'\n  stockade agent run 'echo hello'\n\n\
        Exit status of a prompt: 0 done, 1 the result is an error, 2 usage, 130 interrupted."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
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
    /// Do one statement of the `sql` tool: a line of JSON on standard input, its answer on standard output.
    #[command(hide = true)]
    Sql,
    /// Serve an editor: the Agent Client Protocol on standard input and output.
    ///
    /// Behind `--` stands another agent: its questions are answered by the rules, and it gets none of the editor's files and
    /// terminals.
    #[command(
        override_usage = "stockade acp [OPTION]...\n       stockade acp -- AGENT [ARGUMENT]...",
        after_help = "Examples, in the settings of an editor:\n  stockade acp --model opus\n  stockade acp -- gemini --acp"
    )]
    Acp(editor::Acp),
    /// Serve sessions to other programs: JSON-RPC on standard input and output, or on a socket.
    #[command(after_help = "Example:\n  stockade rpc --socket \"$XDG_RUNTIME_DIR/sessions.sock\"")]
    Rpc(rpc::Rpc),
    /// List, show, name and remove sessions.
    #[command(
        after_help = "Example:\n  stockade agent sessions prune --older-than 30d --keep-named --dry-run"
    )]
    Sessions(sessions::Sessions),
    /// Show tokens and cost by day, session, project or model.
    #[command(
        override_usage = "stockade usage [OPTIONS]",
        after_help = "Example:\n  stockade usage --by model --since 7d"
    )]
    Usage(usage::Usage),
    /// Serve a page on the loopback interface for questions that wait.
    #[command(hide = true)]
    Web(Web),
    /// Send open questions to a webhook, and take signed answers.
    #[command(hide = true)]
    Webhook(webhook::Webhook),
    /// Have a person choose the session that goes on.
    #[command(hide = true, override_usage = "stockade agent [OPTIONS] [PROMPT]")]
    Choose(Box<choose::Choose>),
    /// Send records to a collector of OpenTelemetry.
    #[command(
        override_usage = "stockade telemetry [OPTIONS]",
        after_help = "Example:\n  OTEL_EXPORTER_OTLP_ENDPOINT=https://collector.example:4318 stockade telemetry\n\n\
            The variables of OpenTelemetry for OTLP exporters say where to and how. Exit status: 0 ended, 122 stockade failed."
    )]
    Telemetry(telemetry::Telemetry),
    /// Hold the key and the session's file of one agent.
    #[command(hide = true, override_usage = "stockade agent [OPTIONS] [PROMPT]")]
    Keep(Box<keep::Keep>),
}

/// `stockade approvals web`.
#[derive(Debug, clap::Args)]
struct Web {
    /// Listen at this port [default: any free one].
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Use the gateway that listens at this socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

impl Web {
    fn run(self) -> ExitCode {
        let served = stockade_web::run(self.socket, self.port);
        served.map_or_else(
            |error| {
                fail(&format!("{error:#}"), "");
                ExitCode::from(stockade_wire::status::FAILED)
            },
            |()| ExitCode::SUCCESS,
        )
    }
}

/// Returns the agent behind `acp --` and its arguments: two dashes first would be lost among options.
fn other_agent() -> Option<Vec<std::ffi::OsString>> {
    let mut words = std::env::args_os().skip(1);
    let is_other = words.next()? == "acp" && words.next()? == "--";
    is_other.then(|| words.collect())
}

fn main() -> ExitCode {
    if let Some(words) = other_agent() {
        return ended(editor::stand_between(&words));
    }
    if let Err(error) = logging::begin() {
        fail(&error, "`STOCKADE_LOG=stockade_telemetry=debug` has one part say what it does");
        return ExitCode::from(stockade_wire::status::FAILED);
    }
    match Arguments::try_parse() {
        Ok(Arguments { command: Some(Command::Tls(options)), .. }) => tls::run(&options),
        Ok(Arguments { command: Some(Command::Files), .. }) => {
            ExitCode::from(stockade_files::serve())
        }
        Ok(Arguments { command: Some(Command::Sql), .. }) => session::database::serve(),
        Ok(Arguments { command: Some(Command::Keep(options)), .. }) => keep::run(&options),
        Ok(Arguments { command: Some(Command::Choose(options)), .. }) => choose::run(&options),
        Ok(Arguments { command: Some(Command::Sessions(options)), .. }) => sessions::run(&options),
        Ok(Arguments { command: Some(Command::Usage(options)), .. }) => options.run(),
        Ok(Arguments { command: Some(Command::Acp(options)), .. }) => ended(editor::run(options)),
        Ok(Arguments { command: Some(Command::Rpc(options)), .. }) => ended(rpc::run(options)),
        Ok(Arguments { command: Some(Command::Web(options)), .. }) => options.run(),
        Ok(Arguments { command: Some(Command::Webhook(options)), .. }) => options.run(),
        Ok(Arguments { command: Some(Command::Telemetry(options)), .. }) => options.run(),
        Ok(Arguments { command: Some(Command::Run(options)), .. }) => run::run(options)
            .unwrap_or_else(|error| {
                fail(&format!("{error:#}"), "");
                ExitCode::from(stockade_wire::status::FAILED)
            }),
        Ok(Arguments { command: None, flags }) => agent(flags),
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = line.strip_prefix("error: ").unwrap_or(&line);
            let is_run = std::env::args().nth(1).is_some_and(|it| it == "run");
            let help = if is_run {
                "`stockade-agent run --help` shows what it takes"
            } else {
                "`stockade agent --help` shows the options"
            };
            fail(line, help);
            ExitCode::from(if is_run { stockade_wire::status::FAILED } else { USAGE })
        }
        Err(help) => {
            let _ = help.print(); // nobody reads it
            ExitCode::SUCCESS
        }
    }
}

/// Returns the status of a server, after it told why it failed.
fn ended(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        fail(&format!("{error:#}"), "");
        ExitCode::FAILURE
    })
}

fn fail(message: &str, help: &str) {
    view::tell(&words::failure(&Failure::new(Code::InvalidRequest, message, help)));
}

/// Says whether a front end exists for the options; else tells so.
fn has_front_end(flags: &Flags) -> bool {
    let prints = flags.print.is_some() || flags.output_format != "text" || flags.init_only;
    if !flags.streams() && !prints {
        let session = flags.chosen.as_ref().map(|id| format!(" --resume {id}"));
        let session = session.unwrap_or_default();
        fail(
            "the terminal front end is not built yet",
            &format!("give one prompt with `stockade agent -p PROMPT{session}`"),
        );
        return false;
    }
    true
}

/// Is the agent. Without a gateway this process becomes `stockade agent`, which starts the agent with one.
fn agent(flags: Flags) -> ExitCode {
    if !has_front_end(&flags) {
        return ExitCode::from(USAGE);
    }
    if std::env::var_os(PLACE).is_none() {
        return become_gateway();
    }
    let streams = flags.streams() && !flags.init_only;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            fail(&format!("cannot start the runtime: {error}"), "");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        if streams { stream::serve(flags).await } else { print::print(flags).await }
    });
    // A thread that still reads standard input holds nothing up.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| {
        fail(&format!("{error:#}"), "");
        ExitCode::FAILURE
    })
}

fn become_gateway() -> ExitCode {
    let beside = std::env::current_exe().map(|own| own.with_file_name("stockade"));
    let error = match &beside {
        Ok(beside) => {
            std::process::Command::new(beside).arg("agent").args(std::env::args_os().skip(1)).exec()
        }
        Err(error) => std::io::Error::new(error.kind(), error.to_string()),
    };
    let shown = beside.map(|it| it.display().to_string()).unwrap_or_else(|_| "stockade".into());
    fail(
        &format!("`{shown}` cannot be started: {error}"),
        "install `stockade` into the directory of `stockade-agent`",
    );
    ExitCode::FAILURE
}
