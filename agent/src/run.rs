//! `stockade-agent run`: one command through a gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use stockade::client::{Client, Conversation, Options};
use stockade::protocol::types::{CommandRequest, CommandText, Context, Control, RunOutcome};
use stockade::protocol::{status, words};
use tokio::sync::mpsc;

use crate::view::{self, View};

const SIGINT: i32 = 2;
/// How often the status line is drawn again while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// Options of `stockade-agent run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Use the gateway that listens on this socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Keep keys, output and state in this directory.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Work in this directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The command: one shell text, or the words of one command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command to its end and returns its exit status.
pub(crate) fn run(options: Run) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(converse(options))?;
    Ok(ExitCode::from(status::of(&outcome)))
}

async fn converse(options: Run) -> anyhow::Result<RunOutcome> {
    let cwd = match &options.cwd {
        Some(directory) => directory.canonicalize().with_context(|| {
            format!(
                "the directory `{}` cannot be used",
                words::one_line(&directory.to_string_lossy())
            )
        })?,
        None => std::env::current_dir().context("the working directory cannot be used")?,
    };
    let cwd = cwd.to_str().context("the working directory is not UTF-8")?.to_owned();
    let shown = options.command.join(" ");
    let request = request(options.command, cwd.clone());
    let connected = Client::connect(Options {
        socket: options.socket.map(std::path::absolute).transpose()?,
        state_directory: options.state_dir.map(std::path::absolute).transpose()?,
        // Launcher and scan worker are the executable that lies beside this one.
        executable: Some(std::env::current_exe()?.with_file_name("stockade")),
        ..Options::from_environment()
    });
    let mut client = match connected.await {
        Ok(client) => client,
        Err(failure) => return Ok(tell(RunOutcome::Failed(failure), &shown, &cwd)),
    };
    let (events_in, mut events) = mpsc::channel(64);
    let (_, input) = mpsc::channel(1);
    let (control_in, control) = mpsc::channel(16);
    let talk = Conversation { events: events_in, questions: None, input, control };
    let mut view = View::new();
    let mut tick = tokio::time::interval(TICK);
    let running = client.run(request, talk);
    tokio::pin!(running);
    let outcome = loop {
        tokio::select! {
            outcome = &mut running => break outcome,
            Some(event) = events.recv() => view.show(event),
            _ = tick.tick() => view.tick(),
            _ = tokio::signal::ctrl_c() => {
                let _ = control_in.try_send(Control::Signal(SIGINT)); // sixteen that nobody took are enough
            }
        }
    };
    while let Some(event) = events.recv().await {
        view.show(event);
    }
    view.end(&outcome);
    Ok(tell(outcome, &shown, &cwd))
}

fn request(command: Vec<String>, cwd: String) -> CommandRequest {
    let command = match command.as_slice() {
        [text] => CommandText::Shell(text.clone()),
        _ => CommandText::Words(command),
    };
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    CommandRequest {
        command,
        cwd,
        timeout_ms: None,
        background: false,
        pty: false,
        description: None,
        unsandboxed: false,
        stdin: false,
        context: Context {
            environment: std::env::vars_os().filter_map(text).collect(),
            door: "agent".into(),
            ..Context::default()
        },
    }
}

/// Tells what did not run, or ran out of time, in the words of every front door.
fn tell(outcome: RunOutcome, command: &str, cwd: &str) -> RunOutcome {
    match &outcome {
        RunOutcome::Ran(result) => {
            if result.timed_out {
                view::tell(&words::timed_out(result));
            }
            if !result.footer.is_empty() {
                view::tell(&words::lines(&result.footer));
            }
        }
        RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
            view::tell(&words::verdict(&refusal.decision, command, cwd));
        }
        RunOutcome::Failed(failure) => view::tell(&words::failure(failure)),
    }
    outcome
}
