//! The log while it is being opened: a call is judged meanwhile, and waits for it before anything is recorded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::audit::{self, Log, Writer};
use crate::judge;
use crate::protocol::errors::{Code, Failure};
use crate::response;

/// The log, or why there is none, as soon as that is known.
#[derive(Clone)]
pub(super) struct Opening {
    directory: PathBuf,
    stage: watch::Receiver<Stage>,
    prepare: Arc<Prepare>,
}

/// Changes something on the disk of the state directory, or asks to: where the disk hangs, it waits.
type Prepare = dyn Fn() -> Result<(), Failure> + Send + Sync;

/// How long a log is waited for until the disk is asked for a change, and how long that may take: together
/// [`audit::PATIENCE`].
const HALF: Duration = Duration::from_millis(2500);

/// How far the opening is.
#[derive(Debug, Clone)]
enum Stage {
    /// Nothing is known of the disk.
    Begun,
    /// The disk takes changes.
    Writable,
    /// The log is open, or cannot be opened.
    Done(Result<Log, Failure>),
}

impl Opening {
    /// Opens the log of `directory` by `open` on a thread of its own, which appends to it afterwards. Before that,
    /// `prepare` is called.
    pub(super) fn start(
        directory: &Path,
        prepare: impl Fn() -> Result<(), Failure> + Send + Sync + 'static,
        open: impl FnOnce() -> Result<(Log, Writer), Failure> + Send + 'static,
    ) -> Result<Opening, Failure> {
        let (done, stage) = watch::channel(Stage::Begun);
        let prepare: Arc<Prepare> = Arc::new(prepare);
        let prepared = Arc::clone(&prepare);
        let work = move || {
            let opened = prepared().and_then(|()| {
                done.send_replace(Stage::Writable);
                open()
            });
            let (log, writer) = match opened {
                Ok((log, writer)) => (Ok(log), Some(writer)),
                Err(failure) => (Err(failure), None),
            };
            // Whoever needs the log waits for the channel; a thread that breaks off closes it.
            done.send_replace(Stage::Done(log));
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
        Ok(Opening { directory: directory.to_path_buf(), stage, prepare })
    }

    /// Waits until the disk of the state directory has taken a change. A file system that is frozen (fsfreeze(8)) or
    /// gone lets nobody return who changes something on it, so the thread that answers does not try before this.
    pub(super) async fn is_writable(&self) -> Result<(), Failure> {
        let mut stage = self.stage.clone();
        let known = stage.wait_for(|stage| !matches!(stage, Stage::Begun));
        match tokio::time::timeout(audit::PATIENCE, known).await {
            Ok(known) => known.map(drop).map_err(|_| broken()),
            Err(_) => Err(response::unrecorded(&audit::Error::slow(&self.directory))),
        }
    }

    /// Returns the log when it is open. One that is long, and whose cache is gone, may take its time as long as the disk
    /// takes changes.
    pub(super) async fn log(&self) -> Result<Log, Failure> {
        self.is_writable().await?;
        let mut stage = self.stage.clone();
        let is_done = |stage: &Stage| matches!(stage, Stage::Done(_));
        while tokio::time::timeout(HALF, stage.wait_for(is_done)).await.is_err() {
            self.still_takes_changes().await?;
        }
        let opened = stage.wait_for(is_done).await;
        match &*opened.map_err(|_| broken())? {
            Stage::Done(log) => log.clone(),
            Stage::Begun | Stage::Writable => Err(broken()),
        }
    }

    /// Checks, on a thread of its own, that the disk still takes changes.
    async fn still_takes_changes(&self) -> Result<(), Failure> {
        let (prepare, (done, taken)) = (Arc::clone(&self.prepare), oneshot::channel());
        let probe = move || {
            let _ = done.send(prepare()); // nobody waits any more: nothing else is to be done
        };
        let started = std::thread::Builder::new().name("probe".into()).spawn(probe);
        started.map_err(|_| broken())?;
        match tokio::time::timeout(HALF, taken).await {
            Ok(taken) => taken.map_err(|_| broken())?,
            Err(_) => Err(response::unrecorded(&audit::Error::slow(&self.directory))),
        }
    }

    /// Leaves the log to the end of this process: what was answered is on disk, and nothing else is under way. To take
    /// the writer's thread down in order would only keep the caller waiting.
    pub(super) fn leave(&self) {
        let is_idle = match &*self.stage.borrow() {
            Stage::Done(Ok(log)) => log.is_idle(),
            Stage::Done(Err(_)) | Stage::Begun | Stage::Writable => false,
        };
        if is_idle {
            std::mem::forget(self.clone());
        }
    }
}

fn broken() -> Failure {
    judge::broken("the log could not be opened")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Waits until the test is over, as a change of a frozen file system waits.
    fn hang(end: &std::sync::Mutex<mpsc::Receiver<()>>) -> Failure {
        let _ = end.lock().unwrap().recv(); // it ends by the other side's going
        broken()
    }

    #[tokio::test]
    async fn a_disk_that_hangs_while_the_log_is_opened_refuses_in_five_seconds() {
        let (over, end) = mpsc::channel::<()>();
        let (later, too) = mpsc::channel::<()>();
        let (end, too) = (std::sync::Mutex::new(end), std::sync::Mutex::new(too));
        let calls = AtomicUsize::new(0);
        let prepare = move || match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(hang(&end)),
        };
        let opening = Opening::start(Path::new("/log"), prepare, move || Err(hang(&too))).unwrap();
        let begun = Instant::now();
        let refused = opening.log().await.unwrap_err();
        assert_eq!(
            refused.message,
            response::unrecorded(&audit::Error::slow(Path::new("/log"))).message
        );
        let took = begun.elapsed();
        assert!(took >= audit::PATIENCE && took < 2 * audit::PATIENCE, "{took:?}");
        drop((over, later));
    }

    #[tokio::test]
    async fn a_log_that_takes_long_on_a_disk_that_works_is_waited_for() {
        let open = || {
            // Longer than the disk is left unasked.
            std::thread::sleep(HALF + Duration::from_millis(100));
            Err(Failure::new(Code::AuditUnavailable, "opened at last".to_owned(), ""))
        };
        let opening = Opening::start(Path::new("/log"), || Ok(()), open).unwrap();
        assert_eq!(opening.log().await.unwrap_err().message, "opened at last");
    }
}
