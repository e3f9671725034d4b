//! The log while it is being opened: a call is judged meanwhile, and waits for it before anything is recorded.

use tokio::sync::watch;

use crate::audit::{Log, Writer};
use crate::judge;
use crate::protocol::errors::{Code, Failure};

/// The log, or why there is none, as soon as that is known.
#[derive(Debug, Clone)]
pub(super) struct Opening(watch::Receiver<Option<Result<Log, Failure>>>);

impl Opening {
    /// Opens the log by `open` on a thread of its own, which appends to it afterwards.
    pub(super) fn start(
        open: impl FnOnce() -> Result<(Log, Writer), Failure> + Send + 'static,
    ) -> Result<Opening, Failure> {
        let (done, opening) = watch::channel(None);
        let work = move || {
            let (log, writer) = match open() {
                Ok((log, writer)) => (Ok(log), Some(writer)),
                Err(failure) => (Err(failure), None),
            };
            // Whoever needs the log waits for the channel; a thread that breaks off closes it.
            done.send_replace(Some(log));
            drop(done);
            if let Some(writer) = writer {
                writer.run();
            }
        };
        let started = std::thread::Builder::new().name("audit".into()).spawn(work);
        started.map_err(|error| {
            let message = format!("a thread for the log cannot be started: {error}");
            Failure::new(Code::AuditUnavailable, message, "")
        })?;
        Ok(Opening(opening))
    }

    /// Returns the log when it is open.
    pub(super) async fn log(&self) -> Result<Log, Failure> {
        let mut opening = self.0.clone();
        let opened = opening.wait_for(Option::is_some).await;
        let broken = || judge::broken("the opening of the log broke off");
        opened.map_err(|_| broken())?.clone().ok_or_else(broken)?
    }

    /// Leaves the log to the end of this process: what was answered is on disk, and nothing else is under way. To take
    /// the writer's thread down in order would only keep the caller waiting.
    pub(super) fn leave(&self) {
        let is_idle = match &*self.0.borrow() {
            Some(Ok(log)) => log.is_idle(),
            Some(Err(_)) | None => false,
        };
        if is_idle {
            std::mem::forget(self.clone());
        }
    }
}
