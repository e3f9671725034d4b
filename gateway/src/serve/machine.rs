//! The gateway of one user in the service of the machine: its connections come from the keeper, its records go to the recorder.
//!
//! The process begins as root with two capabilities and becomes its user before it reads anything.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use stockade_base::places::{self, SYSTEM_LOG, SYSTEM_SOCKET};
use stockade_system::handing;
use stockade_system::identity::Identity;
use tokio::sync::{mpsc, oneshot};

use super::socket::{self, Idle};
use crate::audit::GatewayMode;
use crate::prefork::Purpose;
use crate::protocol::errors::{Code, Failure};
use crate::route::Options;
use crate::{Gateway, Prefork};

/// Connections that wait to be taken.
const WAITING: usize = 64;
/// A gateway, or a session, ends after so long without use.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// The beginning of a gateway of the machine.
pub(crate) struct Beginning {
    control: UnixStream,
    recorder: UnixStream,
    prefork: Prefork,
}

impl Beginning {
    /// Becomes the user that the arguments name, and forks what forks launchers. Must come first of all: it needs one thread.
    pub(crate) fn of(arguments: &[OsString]) -> Result<Beginning, Failure> {
        let broken = |error: std::io::Error| {
            let message = format!("not started by the keeper: {error}");
            Failure::new(
                Code::Internal,
                message,
                "`sudo stockade install --system` starts the keeper",
            )
        };
        let identity = arguments.get(2).and_then(|word| Identity::read(word.to_str()?));
        let missing = || std::io::Error::other("no user is named");
        let identity = identity.ok_or_else(missing).map_err(broken)?;
        identity.assume().map_err(broken)?;
        let take = |end: OwnedFd| UnixStream::from(end);
        let control = std::io::stdin().as_fd().try_clone_to_owned().map(take).map_err(broken)?;
        let recorder = std::io::stdout().as_fd().try_clone_to_owned().map(take).map_err(broken)?;
        let nothing = std::fs::File::options().read(true).write(true).open("/dev/null");
        let nothing = nothing.map_err(broken)?;
        rustix::stdio::dup2_stdin(&nothing).map_err(|it| broken(it.into()))?;
        rustix::stdio::dup2_stdout(&nothing).map_err(|it| broken(it.into()))?;
        let prefork = Prefork::fork(Purpose::Serve);
        // The launcher zygote is forked already: the rest of this process needs neither namespaces nor mounts.
        stockade_kernel::confine_gateway().map_err(broken)?;
        Ok(Beginning { control, recorder, prefork })
    }

    /// Serves until keeper or recorder is gone, or nobody uses it.
    pub(crate) async fn serve(self) -> Result<(), Failure> {
        let Beginning { control, recorder, prefork } = self;
        let broken = |error: std::io::Error| Failure::new(Code::Internal, error.to_string(), "");
        let watched = recorder.try_clone().map_err(broken)?;
        let at = places::Options {
            default_socket: Some(SYSTEM_SOCKET.into()),
            audit_directory: Some(SYSTEM_LOG.into()),
            ..places::Options::default()
        };
        let options = Options { at, runs: true, prefork, recorder: Some(Arc::new(recorder)) };
        let gateway = Gateway::open_as(options, GatewayMode::System).await?;
        let (handed, connections) = mpsc::channel(WAITING);
        let (end, ended) = oneshot::channel::<()>();
        let (gone, lost) = oneshot::channel::<()>();
        let begin = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(work);
        begin(Box::new(move || {
            while let Ok(Some(connection)) = handing::take(&control) {
                if handed.blocking_send(connection).is_err() {
                    break;
                }
            }
            drop(end);
        }))
        .map_err(broken)?;
        begin(Box::new(move || {
            // Answers of the recorder are read elsewhere: here its end is waited for.
            let mut events = [PollFd::new(&watched, PollFlags::RDHUP)];
            while poll(&mut events, None).is_err() {}
            drop(gone);
        }))
        .map_err(broken)?;
        let end = async move {
            tokio::select! {
                _ = ended => {}
                _ = lost => {}
            }
        };
        let idle = Idle { gateway: Some(IDLE), session: IDLE };
        socket::serve_handed(connections, gateway, end, idle).await;
        Ok(())
    }
}
