//! `stockade agent`: starts the executable that lies beside this one and is the gateway of its session, on a socket of its
//! own that ends with it. Where a gateway listens already, the agent uses that one.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

use super::args::Agent;
use crate::Gateway;
use crate::audit::GatewayMode;
use crate::cli::exit::ExitCode;
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::route::Options;
use crate::serve::socket::{Idle, Listener};
use crate::spare::{Purpose, Spare};
use stockade_client::Client;

/// Name of the executable beside this one.
const BESIDE: &str = "stockade-agent";
/// The variable that tells the agent where its gateway listens.
const PLACE: &str = "STOCKADE_GATEWAY";
/// First words of what `stockade-agent` does without a session: it becomes that at once.
const PLAIN: [&str; 8] = ["run", "tls", "files", "help", "--help", "-h", "--version", "-V"];

/// Starts `stockade-agent` and serves it until it ends; its status is the status of this process.
pub(crate) fn start(options: &Agent) -> Result<ExitCode, Failure> {
    let beside = beside()?;
    let first = options.arguments.first().map(String::as_str);
    if first.is_some_and(|word| PLAIN.contains(&word)) {
        let error = Command::new(&beside).args(&options.arguments).exec();
        return Err(failed(&format!("{}: {error}", beside.display())));
    }
    let at = stockade_client::Options::from_environment();
    let gateway = Options { at, runs: true, ..Options::default() };
    let listens = Client::reach(&gateway)?.is_some();
    match gateway.default_socket.as_ref().filter(|_| listens) {
        Some(path) => {
            let path = gateway.real(path)?;
            super::wait(async { status(spawn(&beside, &options.arguments, &path)?).await })?
        }
        None => {
            let spare = Spare::fork(Purpose::Serve);
            super::wait(serve(&beside, options, Options { spare, ..gateway }))?
        }
    }
}

/// Is the gateway of one agent, until that ends.
async fn serve(beside: &Path, agent: &Agent, options: Options) -> Result<ExitCode, Failure> {
    let places = Places::find(&options, |name| std::env::var_os(name))?;
    let path = places.state.join(format!("run/agent-{}.sock", std::process::id()));
    let gateway = Gateway::open_as(options, GatewayMode::Embedded).await?;
    let listener = Listener::bind(&path)?;
    let child = spawn(beside, &agent.arguments, &path)?;
    let mut ended = None;
    listener.serve(gateway, async { ended = Some(status(child).await) }, Idle::NEVER).await;
    ended.unwrap_or_else(|| Err(failed("its end is not known")))
}

/// Starts the agent, and tells it where its gateway listens.
fn spawn(beside: &Path, arguments: &[String], gateway: &Path) -> Result<Child, Failure> {
    let mut command = tokio::process::Command::new(beside);
    command.args(arguments).env(PLACE, gateway);
    command.spawn().map_err(|error| failed(&format!("{}: {error}", beside.display())))
}

/// Waits for the end of the agent. Signals that would end this process are handed on: the agent ends by itself, with its
/// last words, and this process with it.
async fn status(mut child: Child) -> Result<ExitCode, Failure> {
    let receive = |kind| signal(kind).map_err(|error| failed(&error.to_string()));
    let mut terminate = receive(SignalKind::terminate())?;
    let mut interrupt = receive(SignalKind::interrupt())?;
    let mut hangup = receive(SignalKind::hangup())?;
    loop {
        let number = tokio::select! {
            ended = child.wait() => {
                let ended = ended.map_err(|error| failed(&error.to_string()))?;
                let code = ended.code().or_else(|| ended.signal().map(|number| 128 + number));
                return Ok(ExitCode::from(code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1)));
            }
            _ = terminate.recv() => rustix::process::Signal::TERM,
            _ = interrupt.recv() => rustix::process::Signal::INT,
            _ = hangup.recv() => rustix::process::Signal::HUP,
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, number); // it may have ended meanwhile
        }
    }
}

/// Returns the agent's executable.
fn beside() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let beside = own.with_file_name(BESIDE);
    match beside.is_file() {
        true => Ok(beside),
        false => Err(failed(&format!("`{}` is not there", beside.display()))),
    }
}

fn failed(reason: &str) -> Failure {
    let message = format!("`{BESIDE}` cannot be started: {reason}");
    let help = "`cargo install --locked stockade-agent` installs it; it belongs into the directory of `stockade`";
    Failure::new(Code::InvalidRequest, message, help)
}
