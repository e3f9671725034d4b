//! `stockade agent`: starts the executable that lies beside this one, and is the gateway of its session unless one listens
//! already.
//!
//! The agent is two processes. The keeper reads files and variables and holds the key of the model. The agent proper runs
//! confined to a directory with five files: what it begins with, and the sockets of gateway, model, session and databases.

mod between;
mod choose;
mod settings;
pub(crate) mod stand;

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stockade_base::sockets::Address;
use stockade_client::Client;
use stockade_monitor::start_confined;
use stockade_scene::protections::is_available;
use stockade_scene::scene::Scene;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::process::Child;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Agent;
use super::context;
use super::failure;
use crate::Gateway;
use crate::audit::GatewayMode;
use crate::cli::exit::ExitCode;
use crate::places::Places;
use crate::plan;
use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::route::Options;
use crate::serve::rights::{self, Rights};
use crate::serve::socket::{Idle, Listener};

/// Name of the executable beside this one.
const BESIDE: &str = "stockade-agent";
/// The variable that tells the agent its directory.
const PLACE: &str = "STOCKADE_AGENT_PLACE";
/// First words of what `stockade-agent` does without a session: it becomes that at once.
const PLAIN: [&str; 15] = [
    "acp",
    "rpc",
    "run",
    "sessions",
    "tls",
    "usage",
    "telemetry",
    "files",
    "web",
    "webhook",
    "help",
    "--help",
    "-h",
    "--version",
    "-V",
];
/// Longest line in which a keeper tells the rights of a session, in bytes.
const LONGEST: u64 = 4 << 20;
/// Signals that are handed on to the agent, which ends by itself with its last words.
const HANDED_ON: [fn() -> SignalKind; 3] =
    [SignalKind::interrupt, SignalKind::terminate, SignalKind::hangup];

/// Starts `stockade-agent` and serves it until it ends; its status is the status of this process.
#[expect(
    clippy::disallowed_methods,
    reason = "the executable of the agent, which has no rights of the gateway"
)]
pub(crate) fn start(options: &Agent) -> Result<ExitCode, Failure> {
    let beside = beside()?;
    let first = options.arguments.first().map(String::as_str);
    if first.is_some_and(|word| PLAIN.contains(&word)) {
        let error = Command::new(&beside).args(&options.arguments).exec();
        return Err(failed(&format!("{}: {error}", beside.display())));
    }
    let arguments = match choose::choose(&beside, &options.arguments)? {
        choose::Choice::Arguments(arguments) => arguments,
        choose::Choice::Ended(status) => return Ok(ExitCode::from(status)),
    };
    let at = stockade_client::Options::from_environment();
    let gateway = Options { at, runs: true, ..Options::default() };
    let places = Places::find(&gateway, |name| std::env::var_os(name))?;
    let listens = Client::reach(&gateway)?.is_some();
    let agent = Session { beside, arguments, places };
    match gateway.default_socket.as_ref().filter(|_| listens) {
        Some(path) => {
            let path = gateway.real(path)?;
            super::wait(agent.run(&path))?
        }
        None => {
            let prefork = Prefork::fork(Purpose::Serve);
            super::wait(agent.serve(Options { prefork, ..gateway }))?
        }
    }
}

/// Becomes what sends telemetry. Its position is in the state directory, which no command can read or write.
pub(crate) fn telemetry(mut options: Agent) -> Result<ExitCode, Failure> {
    let usual = Options::default();
    let state = Places::find(&usual, |name| std::env::var_os(name))?.state;
    let state = state.into_os_string().into_string().map_err(|path| {
        let message = format!("the path `{}` is not UTF-8", path.display());
        Failure::new(Code::NotUtf8, message, "rename it")
    })?;
    options.arguments.splice(0..0, ["--state".to_owned(), state]);
    start_as("telemetry", options)
}

/// Starts one of the servers of `stockade-agent`.
pub(crate) fn start_as(word: &str, mut options: Agent) -> Result<ExitCode, Failure> {
    // Two dashes first say that another agent follows; the reader of options takes them away.
    let mut words = std::env::args_os().skip_while(|it| it != word).skip(1);
    if words.next().is_some_and(|it| it == "--")
        && options.arguments.first().is_none_or(|it| it != "--")
    {
        options.arguments.insert(0, "--".to_owned());
    }
    options.arguments.insert(0, word.to_owned());
    start(&options)
}

/// One agent to start.
struct Session {
    beside: PathBuf,
    arguments: Vec<String>,
    places: Places,
}

/// The directory of an agent. It goes with the agent.
struct AgentFolder(PathBuf);

impl AgentFolder {
    fn make(state: &Path) -> Result<AgentFolder, Failure> {
        let run = state.join("run");
        let path = run.join(format!("agent-{}", std::process::id()));
        let unusable = |error: std::io::Error| {
            let message =
                format!("the agent's directory cannot be made: `{}`: {error}", path.display());
            let help = "free disk space, or specify another state directory with `XDG_STATE_HOME`";
            Failure::new(Code::StateUnusable, message, help)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&run).map_err(unusable)?;
        match std::fs::remove_dir_all(&path) {
            // One of a process that had this number and was killed.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(unusable(error));
            }
            Ok(()) | Err(_) => {}
        }
        DirBuilder::new().mode(0o700).create(&path).map_err(unusable)?;
        Ok(AgentFolder(path))
    }
}

impl Drop for AgentFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // the next agent with this number removes it
    }
}

impl Session {
    /// Is the gateway of the agent, until that ends.
    async fn serve(&self, options: Options) -> Result<ExitCode, Failure> {
        let path = self.places.state.join(format!("run/agent-{}.sock", std::process::id()));
        let gateway = Gateway::open_as(options, GatewayMode::Embedded).await?.keeping_tasks();
        let listener = Listener::bind(&path)?;
        let mut ended = None;
        listener.serve(gateway, async { ended = Some(self.run(&path).await) }, Idle::NEVER).await;
        ended.unwrap_or_else(|| Err(failed("its exit status is unknown")))
    }

    /// Runs keeper and agent to their end, with the gateway at `gateway`.
    async fn run(&self, gateway: &Path) -> Result<ExitCode, Failure> {
        let place = AgentFolder::make(&self.places.state)?;
        let mut keeper = self.keeper(&place.0)?;
        let rights = match self.told(&mut keeper).await? {
            Told::Rights(rights) => *rights,
            Told::Ended(code) => return Ok(code),
        };
        let path = place.0.join("gateway.sock");
        let unusable = |error: std::io::Error| failed(&format!("`{}`: {error}", path.display()));
        let address = Address::of(&path).map_err(unusable)?;
        let listener = UnixListener::bind(address.path()).map_err(unusable)?;
        let left_out = rights.left_out()?;
        if !left_out.is_empty() {
            let keys = left_out.join("`, `");
            let line = format!("stockade: `--managed-settings` only tightens: `{keys}` is ignored");
            failure::tell(&words::one_line(&line));
        }
        let confines = self.confines(&rights)?;
        let settings = settings::Settings::new(rights.clone(), self.places.clone());
        let host = rights.host().map(|said| (said, settings));
        let (streams, carried) = between::streams(host).map_err(unusable)?;
        let serving = rights::serve(listener, rights, gateway.to_path_buf());
        let signals = Signals::new()?;
        let code = tokio::select! {
            code = async { match confines {
                true => self.confined(&place.0, streams, signals).await,
                false => self.unconfined(&place.0, streams, signals).await,
            } } => code?,
            () = serving => return Err(failed("its gateway cannot be reached")),
        };
        carried.finish().await;
        drop(keeper.stdin.take());
        let _ = keeper.wait().await; // the session is over, however its keeper ends
        Ok(code)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the executable of the agent, which has no rights of the gateway"
    )]
    fn keeper(&self, place: &Path) -> Result<Child, Failure> {
        let mut command = tokio::process::Command::new(&self.beside);
        command.arg("keep").arg("--place").arg(place).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C is for the agent: the keeper stays until that has said its last words.
        command.process_group(0);
        command.spawn().map_err(|error| failed(&format!("{}: {error}", self.beside.display())))
    }

    /// Reads the rights that the session has. A keeper that ends before has told a person why, or printed help.
    async fn told(&self, keeper: &mut Child) -> Result<Told, Failure> {
        let stdout = keeper.stdout.take().ok_or_else(|| failed("its keeper does not answer"))?;
        let mut stdout = BufReader::new(stdout.take(LONGEST));
        let mut line = String::new();
        let read = stdout.read_line(&mut line).await.map_err(|error| failed(&error.to_string()))?;
        if read > 0
            && let Ok(rights) = serde_json::from_str::<Rights>(&line)
        {
            return Ok(Told::Rights(Box::new(rights.with(context::environment()))));
        }
        stdout.read_to_string(&mut line).await.map_err(|error| failed(&error.to_string()))?;
        let _ = std::io::stdout().write_all(line.as_bytes()); // nobody reads it
        let status = keeper.wait().await.map_err(|error| failed(&error.to_string()))?;
        Ok(Told::Ended(ExitCode::from(code(status.code(), status.signal()))))
    }

    /// Says whether the agent is to be confined, which settings alone decide. Settings that cannot be read do not open
    /// anything.
    fn confines(&self, rights: &Rights) -> Result<bool, Failure> {
        let scene = Scene::find(rights.directory(), &rights.context(), &self.places);
        let scene = match scene {
            Err(failure) if rights.brings_settings() => return Err(failure),
            scene => scene,
        };
        let place = scene.ok().and_then(|scene| plan::agent::unconfined_by(&scene));
        match place {
            Some(place) => {
                let line = format!("stockade: the agent runs without a sandbox, by {place}");
                failure::tell(&words::one_line(&line));
                Ok(false)
            }
            None if is_available() => Ok(true),
            None => {
                let message = "the agent cannot be sandboxed on this machine";
                let help = "`stockade doctor` shows why; `\"agent\": {\"confine\": false}` in the user settings starts it without a sandbox";
                Err(Failure::new(Code::SandboxUnavailable, message, help))
            }
        }
    }

    fn environment(&self, place: &Path) -> Vec<(OsString, OsString)> {
        let mut environment = plan::agent::variables();
        environment.push((PLACE.into(), place.into()));
        environment
    }

    async fn confined(
        &self,
        place: &Path,
        stdio: stockade_spec::Stdio,
        mut signals: Signals,
    ) -> Result<ExitCode, Failure> {
        let name = OsString::from(BESIDE);
        let argv = std::iter::once(name).chain(self.arguments.iter().map(OsString::from));
        let (argv, environment) = (argv.collect(), self.environment(place));
        let spec = plan::agent::plan(&self.beside, argv, environment, place)
            .map_err(|error| failed(&error.to_string()))?;
        let launcher = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
        let started =
            tokio::task::spawn_blocking(move || start_confined(&launcher, &spec, stdio)).await;
        let started = started.map_err(|error| failed(&error.to_string()))?;
        let (child, _) = started.map_err(|error| failed(&format!("confined: {error}")))?;
        let stopper = child.stopper().map_err(|error| failed(&error.to_string()))?;
        let mut end = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                ended = &mut end => {
                    let exit = ended.map_err(|error| failed(&error.to_string()))?;
                    let exit = exit.map_err(|error| failed(&error.to_string()))?;
                    return Ok(ExitCode::from(code(exit.code, exit.signal)));
                }
                // One that has ended takes none.
                number = signals.next() => drop(stopper.signal(number)),
            }
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the executable of the agent, which has no rights of the gateway"
    )]
    async fn unconfined(
        &self,
        place: &Path,
        stdio: stockade_spec::Stdio,
        mut signals: Signals,
    ) -> Result<ExitCode, Failure> {
        let mut command = tokio::process::Command::new(&self.beside);
        command.args(&self.arguments).current_dir(place).env_clear();
        command.envs(self.environment(place)).kill_on_drop(true);
        command.stdin(stdio.stdin).stdout(stdio.stdout).stderr(stdio.stderr);
        let mut child = command
            .spawn()
            .map_err(|error| failed(&format!("{}: {error}", self.beside.display())))?;
        // The specification holds copies of the streams, which end with the agent's.
        drop(command);
        loop {
            let number = tokio::select! {
                ended = child.wait() => {
                    let ended = ended.map_err(|error| failed(&error.to_string()))?;
                    return Ok(ExitCode::from(code(ended.code(), ended.signal())));
                }
                number = signals.next() => number,
            };
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            let pid = pid.and_then(rustix::process::Pid::from_raw);
            if let (Some(pid), Some(number)) =
                (pid, rustix::process::Signal::from_named_raw(number))
            {
                let _ = rustix::process::kill_process(pid, number); // it may have ended meanwhile
            }
        }
    }
}

/// A message of a keeper.
enum Told {
    Rights(Box<Rights>),
    Ended(ExitCode),
}

/// Signals to this process.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let [interrupt, terminate, hangup] = HANDED_ON.map(|kind| signal(kind()));
        let all = || Ok::<_, std::io::Error>([interrupt?, terminate?, hangup?]);
        all().map(Signals).map_err(|error| failed(&error.to_string()))
    }

    /// Waits for the next one, and returns its number.
    async fn next(&mut self) -> i32 {
        let [interrupt, terminate, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value()
    }
}

/// Returns the status of a process that ended so, as shells tell it.
fn code(code: Option<i32>, signal: Option<i32>) -> u8 {
    let code = code.or_else(|| signal.map(|number| 128 + number));
    code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1)
}

/// Returns the agent's executable.
fn beside() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let beside = own.with_file_name(BESIDE);
    match beside.is_file() {
        true => Ok(beside),
        false => Err(failed(&format!("`{}` does not exist", beside.display()))),
    }
}

fn failed(reason: &str) -> Failure {
    let message = format!("`{BESIDE}` cannot be started: {reason}");
    let help = "install it beside `stockade`: `cargo install --locked --path agent` in a clone, or a package";
    Failure::new(Code::InvalidRequest, message, help)
}
