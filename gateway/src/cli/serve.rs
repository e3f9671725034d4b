//! `stockade serve`: a gateway for others, until it is told to end.

use crate::cli::exit::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::{args, context, failure};
use crate::audit::GatewayMode;
use crate::client::Options;
use crate::facts::Place;
use crate::protocol::errors::{Code, Failure};
use crate::serve::socket::Listener;
use crate::{Gateway, Spare, client, plan};

/// Serves until SIGTERM, SIGINT or SIGHUP.
pub(crate) async fn serve(options: args::Serve, spare: Spare) -> Result<ExitCode, Failure> {
    let call = context::call(&options.common, "serve")?;
    let path = socket_path(&call.options)?;
    // At the default place every run of this user knows of it. Where no command can work, none can write.
    if call.options.socket.is_some()
        && let Ok(place) = Place::find(&call.cwd, &call.context)
    {
        plan::socket_is_out_of_reach(&path, &place)?;
    }
    let internal = |error: std::io::Error| {
        Failure::new(Code::Internal, format!("signals cannot be received: {error}"), "")
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(internal)?;
    let listener = Listener::bind(&path)?;
    let options = Options { embedded: true, runs: true, spare, ..call.options };
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
    listener.serve(gateway, end).await;
    Ok(ExitCode::SUCCESS)
}

fn socket_path(options: &client::Options) -> Result<std::path::PathBuf, Failure> {
    let path = options.socket.as_ref().or(options.default_socket.as_ref());
    let path = path.ok_or_else(|| {
        Failure::new(
            Code::InvalidRequest,
            "there is no place for the socket: neither XDG_RUNTIME_DIR nor HOME is set",
            "name one with `--socket PATH`",
        )
    })?;
    options.real(path)
}
