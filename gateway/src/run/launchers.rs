//! Launchers that wait for their spec. A launcher makes its namespaces before it knows what it will run, so one
//! that was started early costs a command nothing; it holds nothing and does nothing until it has a spec.

use std::path::PathBuf;
use std::sync::Mutex;

use stockade_sandbox::{Error, Launcher};
use tokio::task::JoinHandle;

use super::pipes;

/// Most launchers that wait at once.
const MOST_READY: usize = 4;

/// Starts launchers, some of them ahead.
#[derive(Debug)]
pub(crate) struct Launchers {
    executable: PathBuf,
    ready: Mutex<Vec<JoinHandle<Result<Launcher, Error>>>>,
}

impl Launchers {
    /// Launchers of this executable; none is started yet.
    pub(crate) fn new(executable: PathBuf) -> Launchers {
        Launchers { executable, ready: Mutex::new(Vec::new()) }
    }

    /// Starts one ahead, unless there are enough, and does not wait for it. Needs a runtime.
    pub(crate) fn warm(&self) {
        // A list that a panic left behind is not used again: every command then starts its own.
        if let Ok(mut ready) = self.ready.lock()
            && ready.len() < MOST_READY
        {
            ready.push(self.start());
        }
    }

    /// Returns one that waits for its spec.
    pub(super) async fn take(&self) -> Result<Launcher, Error> {
        let ready = self.ready.lock().ok().and_then(|mut ready| ready.pop());
        let starting = ready.unwrap_or_else(|| self.start());
        starting.await.map_err(|_| pipes::broken("the launcher's thread"))?
    }

    fn start(&self) -> JoinHandle<Result<Launcher, Error>> {
        let executable = self.executable.clone();
        tokio::task::spawn_blocking(move || Launcher::start(&executable))
    }
}
