//! `stockade serve`: a gateway for others, until it is told to end.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cli::exit::ExitCode;

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use tokio::signal::unix::{SignalKind, signal};

use super::{args, context, failure};
use crate::audit::GatewayMode;
use crate::protocol::errors::{Code, Failure};
use crate::route::Options;
use crate::serve::socket::{self, Idle, Listener};
use crate::{Gateway, Prefork, plan};
use stockade_base::place::Place;

/// How long a session stays open without use when nothing is said.
const USUAL_SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// Variables that a detached gateway keeps: who the person is, and where things are.
const KEPT: [&str; 11] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
];

/// Serves until SIGTERM, SIGINT or SIGHUP.
pub(crate) async fn serve(serving: args::Serve, prefork: Prefork) -> Result<ExitCode, Failure> {
    let call = context::call(&serving.common, "serve")?;
    if serving.stdin {
        let mut options = Options { runs: true, prefork, ..call.options };
        options.at.embedded = true;
        return serve_stdin(options).await;
    }
    let path = socket_path(&call.options)?;
    // At the default place every run of this user knows of it. Where no command can work, none can write.
    if call.options.socket.is_some()
        && let Ok(place) = Place::find(&call.cwd, &call.context)
    {
        plan::socket_is_out_of_reach(&path, &place)?;
    }
    let internal = |error: std::io::Error| {
        Failure::new(Code::Internal, format!("cannot receive signals: {error}"), "")
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(internal)?;
    let listener = match Listener::handed_over(&path)? {
        Some(listener) => listener,
        None => Listener::bind(&path)?,
    };
    let mut options = Options { runs: true, prefork, ..call.options };
    options.at.embedded = true;
    let gateway = Gateway::open_as(options, GatewayMode::Daemon).await?;
    let ready = format!("listening on {}", path.display());
    // Nobody needs to read it: the socket is what counts.
    let _ = failure::print(&ready);
    let end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    let idle =
        Idle { gateway: serving.idle, session: serving.session_idle.unwrap_or(USUAL_SESSION_IDLE) };
    listener.serve(gateway, end, idle).await;
    Ok(ExitCode::SUCCESS)
}

/// Starts the gateway in a session of its own and returns when it listens. It has no descriptor of the caller, none of its
/// variables but those that name the person and the places, and no terminal.
#[expect(
    clippy::disallowed_methods,
    reason = "this executable once more, as the gateway that stays"
)]
pub(crate) fn detach(options: &args::Serve) -> Result<ExitCode, Failure> {
    let broken = |error: std::io::Error| {
        let message = format!("the gateway cannot be started: {error}");
        Failure::new(Code::GatewayUnreachable, message, "start it with `stockade serve`")
    };
    let call = context::call(&options.common, "serve")?;
    let executable = call.options.executable()?;
    stockade_kernel::close_inherited().map_err(broken)?;
    // Not possible for the leader of a group, which a shell makes of it: then it has a group of its own already.
    let _ = rustix::process::setsid();
    let (mut said, says) = std::io::pipe().map_err(broken)?;
    let mut command = Command::new(executable);
    command.arg("serve").args(options.socket_arguments()).env_clear().current_dir("/");
    command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(Stdio::null()).stdout(says.try_clone().map_err(broken)?).stderr(says);
    let child = command.spawn().map_err(broken)?;
    drop(command);
    let mut told = Vec::new();
    let mut byte = [0];
    while !told.contains(&b'\n') && said.read(&mut byte).map_err(broken)? > 0 {
        told.extend_from_slice(&byte);
    }
    let told = String::from_utf8_lossy(&told).trim_end().to_owned();
    match told.starts_with("listening on ") {
        true => {
            let _ = failure::print(&told); // the socket is there, whether this is read or not
            Ok(ExitCode::SUCCESS)
        }
        false => {
            drop(child);
            Err(broken(std::io::Error::other(told.trim_start_matches("stockade: ").to_owned())))
        }
    }
}

/// Serves the client that started this process and holds the other end of standard input.
async fn serve_stdin(options: Options) -> Result<ExitCode, Failure> {
    let unusable = |error: std::io::Error| {
        let message = format!("standard input is not a connected socket: {error}");
        Failure::new(Code::InvalidRequest, message, "remove `--stdin`: only programs use it")
    };
    let stream = std::io::stdin().as_fd().try_clone_to_owned().map_err(unusable)?;
    let stream = UnixStream::from(stream);
    stream.peer_addr().map_err(unusable)?;
    let gateway = Gateway::open_as(options, GatewayMode::Embedded).await?;
    socket::serve_one(stream, gateway).await.map_err(unusable)?;
    Ok(ExitCode::SUCCESS)
}

fn socket_path(options: &stockade_client::Options) -> Result<std::path::PathBuf, Failure> {
    let path = options.socket.as_ref().or(options.default_socket.as_ref());
    let path = path.ok_or_else(|| {
        Failure::new(
            Code::InvalidRequest,
            "no directory for the socket: neither XDG_RUNTIME_DIR nor HOME is set",
            "specify one with `--socket PATH`",
        )
    })?;
    options.real(path)
}
