//! `stockade-agent run`: one command through a gateway.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use stockade_client::{Client, Conversation, Options, PendingQuestion};
use stockade_wire::types::{
    Answer, AtLimit, CommandRequest, CommandText, Context, Control, Input, RunOutcome,
};
use stockade_wire::{status, words};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::ask::Terminal;
use crate::view::{self, View};

const SIGINT: i32 = 2;
/// How often Ctrl-C is handed on before it ends the command.
const PATIENCE: u32 = 3;
/// Bytes of standard input that are read at once.
const PIECE: usize = 64 << 10;
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
    // A thread that still reads standard input or the terminal would hold the end up.
    runtime.shutdown_background();
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
    let terminal = Terminal::open();
    let mut request = request(options.command, cwd.clone());
    request.stdin = !std::io::stdin().is_terminal();
    request.context.interactive = terminal.is_some();
    let connected = Client::connect(&Options {
        socket: options.socket.map(std::path::absolute).transpose()?,
        state_directory: options.state_dir.map(std::path::absolute).transpose()?,
        // Launcher and scan worker are the executable that lies beside this one.
        executable: Some(std::env::current_exe()?.with_file_name("stockade")),
        ..Options::from_environment()
    });
    let outcome = match connected {
        Ok(client) => watch(client, request, terminal).await?,
        Err(failure) => RunOutcome::Failed(failure),
    };
    Ok(tell(outcome, &shown, &cwd))
}

/// Runs the command, and meanwhile shows its output and passes on input, Ctrl-C, the end and questions.
async fn watch(
    mut client: Client,
    request: CommandRequest,
    terminal: Option<Terminal>,
) -> anyhow::Result<RunOutcome> {
    let (events_in, mut events) = mpsc::channel(64);
    let (input_in, input) = mpsc::channel(4);
    let (control_in, control) = mpsc::channel(16);
    let (asking, mut asked) = mpsc::channel::<PendingQuestion>(1);
    if request.stdin {
        std::thread::Builder::new().name("stdin".into()).spawn(move || read_stdin(&input_in))?;
    }
    let questions = terminal.is_some().then_some(asking);
    let talk = Conversation { events: events_in, questions, input, control };
    let mut view = View::new();
    let mut tick = tokio::time::interval(TICK);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupts = 0;
    let mut answering: Option<Answering> = None;
    let running = client.run(request, talk);
    tokio::pin!(running);
    let outcome = loop {
        let control = tokio::select! {
            outcome = &mut running => break outcome,
            // Output of the command must not look like the question, or hide it.
            Some(event) = events.recv(), if answering.is_none() => { view.show(event); continue }
            _ = tick.tick(), if answering.is_none() => { view.tick(); continue }
            Some(pending) = asked.recv(), if answering.is_none() => {
                view.clear();
                answering = terminal.clone().map(|terminal| Answering::start(terminal, pending));
                continue
            }
            answer = answered(&mut answering) => {
                if let Some(Answering { pending, .. }) = answering.take() {
                    let _ = pending.answer.send(answer); // a question withdrawn meanwhile needs no answer
                }
                continue
            }
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts < PATIENCE { Control::Signal(SIGINT) } else { Control::Stop }
            }
            _ = terminate.recv() => Control::Stop,
            _ = hangup.recv() => Control::Stop,
        };
        // Without a command yet the question goes away, and with it the request.
        answering = None;
        let _ = control_in.try_send(control); // sixteen that nobody took are enough
    };
    while let Some(event) = events.recv().await {
        view.show(event);
    }
    view.end(&outcome);
    Ok(outcome)
}

/// A question that a person is reading.
struct Answering {
    pending: PendingQuestion,
    reading: tokio::task::JoinHandle<Answer>,
}

impl Answering {
    fn start(terminal: Terminal, pending: PendingQuestion) -> Answering {
        let question = pending.question.clone();
        let reading = tokio::task::spawn_blocking(move || terminal.ask(&question));
        Answering { pending, reading }
    }
}

async fn answered(answering: &mut Option<Answering>) -> Answer {
    match answering {
        Some(answering) => (&mut answering.reading).await.unwrap_or(Answer::Withdrawn),
        None => std::future::pending().await,
    }
}

/// Hands standard input on to its end. Nobody joins this thread: it ends with the process.
fn read_stdin(input: &mpsc::Sender<Input>) {
    let mut piece = vec![0; PIECE];
    let mut stdin = std::io::stdin().lock();
    loop {
        match stdin.read(&mut piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(length) => {
                let bytes = piece.get(..length).unwrap_or_default().to_vec();
                if input.blocking_send(Input::Stdin(bytes)).is_err() {
                    return;
                }
            }
        }
    }
    let _ = input.blocking_send(Input::StdinEnd); // the command ended first
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
        at_limit: AtLimit::Stop,
        one_stream: false,
        pty: false,
        window: None,
        description: None,
        unsandboxed: false,
        stdin: false,
        report_cwd: false,
        carry_cwd: false,
        call_id: None,
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
        RunOutcome::Background(task) => {
            view::tell(&format!(
                "stockade: the command runs in the background as task {}",
                task.task_id
            ));
        }
        RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
            view::tell(&words::verdict(&refusal.decision, command, cwd));
        }
        RunOutcome::Failed(failure) => view::tell(&words::failure(failure)),
    }
    outcome
}
