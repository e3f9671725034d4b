//! Launchers that wait for their spec. A launcher makes its namespaces before it knows what it will run, so one
//! that was started early costs a command nothing; it holds nothing and does nothing until it has a spec.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use stockade_sandbox::{Error, Launcher, Nursery};
use tokio::task::JoinHandle;

use super::pipes;
use crate::Spare;

/// Most launchers that wait at once.
const MOST_READY: usize = 4;

/// Starts launchers, some of them ahead.
#[derive(Debug)]
pub(crate) struct Launchers {
    executable: PathBuf,
    /// Where they are forked; those that it cannot make are executed.
    nursery: Option<Arc<Mutex<Nursery>>>,
    ready: Mutex<Vec<Ready>>,
}

/// One that is there, or on its way.
#[derive(Debug)]
enum Ready {
    Forked(Launcher),
    Starting(JoinHandle<Result<Launcher, Error>>),
}

impl Launchers {
    /// Launchers of this executable, the first of which, or what forks them, may be there already.
    pub(crate) fn new(executable: PathBuf, spare: &Spare) -> Launchers {
        let ready = spare.launcher().map(Ready::Forked).into_iter().collect();
        let nursery = spare.nursery().map(|nursery| Arc::new(Mutex::new(nursery)));
        Launchers { executable, nursery, ready: Mutex::new(ready) }
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
        // The oldest is the most likely to be there.
        let oldest = |ready: &mut Vec<Ready>| (!ready.is_empty()).then(|| ready.remove(0));
        let ready = self.ready.lock().ok().and_then(|mut ready| oldest(&mut ready));
        let starting = match ready {
            Some(Ready::Forked(launcher)) => return Ok(launcher),
            Some(Ready::Starting(starting)) => starting,
            None => self.start(),
        };
        starting.await.map_err(|_| pipes::broken("the launcher's thread"))?
    }

    fn start(&self) -> JoinHandle<Result<Launcher, Error>> {
        let (executable, nursery) = (self.executable.clone(), self.nursery.clone());
        tokio::task::spawn_blocking(move || {
            let forked = nursery.and_then(|nursery| nursery.lock().ok()?.launcher().ok());
            forked.map_or_else(|| Launcher::start(&executable), Ok)
        })
    }
}
