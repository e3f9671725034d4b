//! Launchers that wait for their spec. A launcher makes its namespaces before it knows what it will run, so one
//! that was started early costs a command nothing; it holds nothing and does nothing until it has a spec.

use std::path::{Path, PathBuf};
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
    ready: Mutex<Vec<Ready>>,
}

/// One that is there, or on its way.
#[derive(Debug)]
enum Ready {
    Forked(Launcher),
    Starting(JoinHandle<Result<Launcher, Error>>),
}

impl Launchers {
    /// Launchers of this executable, the first of which may be there already.
    pub(crate) fn new(executable: PathBuf, first: Option<Launcher>) -> Launchers {
        let ready = first.map(Ready::Forked).into_iter().collect();
        Launchers { executable, ready: Mutex::new(ready) }
    }

    /// The executable, which is also the proxy of a run.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// Makes sure that one is ready or on its way, and does not wait for it. Needs a runtime.
    pub(crate) fn warm(&self) {
        let none = self.ready.lock().is_ok_and(|ready| ready.is_empty());
        if none {
            self.replace();
        }
    }

    /// Starts one for one that was used, unless there are enough. Needs a runtime.
    pub(crate) fn replace(&self) {
        // A list that a panic left behind is not used again: every command then starts its own.
        if let Ok(mut ready) = self.ready.lock()
            && ready.len() < MOST_READY
        {
            ready.push(Ready::Starting(self.start()));
        }
    }

    /// Returns one that waits for its spec.
    pub(super) async fn take(&self) -> Result<Launcher, Error> {
        let ready = self.ready.lock().ok().and_then(|mut ready| ready.pop());
        let starting = match ready {
            Some(Ready::Forked(launcher)) => return Ok(launcher),
            Some(Ready::Starting(starting)) => starting,
            None => self.start(),
        };
        starting.await.map_err(|_| pipes::broken("the launcher's thread"))?
    }

    fn start(&self) -> JoinHandle<Result<Launcher, Error>> {
        let executable = self.executable.clone();
        tokio::task::spawn_blocking(move || Launcher::start(&executable))
    }
}
