//! The log while it is being opened: a call is judged meanwhile, and waits for it before anything is recorded.

use tokio::sync::watch;

use crate::audit::Log;
use crate::judge;
use crate::protocol::errors::Failure;

/// The log, or why there is none, as soon as that is known.
#[derive(Debug, Clone)]
pub(super) struct Opening(watch::Receiver<Option<Result<Log, Failure>>>);

impl Opening {
    /// Opens the log by `open`, on a thread that may wait for the file system. Needs a runtime.
    pub(super) fn start(open: impl FnOnce() -> Result<Log, Failure> + Send + 'static) -> Opening {
        let (done, opening) = watch::channel(None);
        // Whoever needs the log waits for the channel; a thread that breaks off closes it.
        drop(tokio::task::spawn_blocking(move || done.send_replace(Some(open()))));
        Opening(opening)
    }

    /// Returns the log when it is open.
    pub(super) async fn log(&self) -> Result<Log, Failure> {
        let mut opening = self.0.clone();
        let opened = opening.wait_for(Option::is_some).await;
        let broken = || judge::broken("the opening of the log broke off");
        opened.map_err(|_| broken())?.clone().ok_or_else(broken)?
    }
}
