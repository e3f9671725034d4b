//! Launchers that wait for their spec. A launcher makes its namespaces before it knows what it will run, so one
//! that was started early costs a command nothing; it holds nothing and does nothing until it has a spec.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_sandbox::{Error, Launcher, Nursery};
use tokio::task::JoinHandle;

use super::pipes;
use crate::Spare;

/// Most launchers that wait at once.
const MOST_READY: usize = 4;
/// How long after the start of a command its successor's launcher is made: a short one has ended by then and has had the
/// processors for itself, and the next call is still to come.
const PAUSE: Duration = Duration::from_millis(5);

/// Starts launchers, some of them ahead.
#[derive(Debug)]
pub(crate) struct Launchers {
    executable: PathBuf,
    /// Where they are forked; those that it cannot make are executed.
    nursery: Option<Arc<Mutex<Nursery>>>,
    ready: Arc<Mutex<Vec<Ready>>>,
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
        Launchers { executable, nursery, ready: Arc::new(Mutex::new(ready)) }
    }

    /// The executable, which is also the proxy of a run.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// Makes sure that one is ready or on its way, and does not wait for it. Needs a runtime.
    pub(crate) fn warm(&self) {
        // A list that a panic left behind is not used again: every command then starts its own.
        if let Ok(mut ready) = self.ready.lock()
            && ready.is_empty()
        {
            ready.push(Ready::Starting(start(&self.executable, self.nursery.clone())));
        }
    }

    /// Starts one for one that was used, in a while, unless there are enough. Needs a runtime.
    pub(crate) fn replace(&self) {
        let (executable, nursery) = (self.executable.clone(), self.nursery.clone());
        let ready = Arc::clone(&self.ready);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            if let Ok(mut ready) = ready.lock()
                && ready.len() < MOST_READY
            {
                ready.push(Ready::Starting(start(&executable, nursery)));
            }
        });
    }

    /// Returns one that waits for its spec.
    pub(super) async fn take(&self) -> Result<Launcher, Error> {
        // The oldest is the most likely to be there.
        let oldest = |ready: &mut Vec<Ready>| (!ready.is_empty()).then(|| ready.remove(0));
        let ready = self.ready.lock().ok().and_then(|mut ready| oldest(&mut ready));
        match ready {
            Some(Ready::Forked(launcher)) => return Ok(launcher),
            // What it failed for may be over.
            Some(Ready::Starting(starting)) => {
                if let Ok(Ok(launcher)) = starting.await {
                    return Ok(launcher);
                }
            }
            None => {}
        }
        let starting = start(&self.executable, self.nursery.clone());
        starting.await.map_err(|_| pipes::broken("the launcher's thread"))?
    }
}

fn start(
    executable: &Path,
    nursery: Option<Arc<Mutex<Nursery>>>,
) -> JoinHandle<Result<Launcher, Error>> {
    let executable = executable.to_path_buf();
    tokio::task::spawn_blocking(move || {
        let forked = nursery.and_then(|nursery| nursery.lock().ok()?.launcher().ok());
        forked.map_or_else(|| Launcher::start(&executable), Ok)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_launcher_that_could_not_be_started_ahead_is_started_anew() {
        let launchers = Launchers::new("/no/such/executable".into(), &Spare::default());
        let ahead = tokio::spawn(async { Err(pipes::broken("the launcher made ahead")) });
        launchers.ready.lock().unwrap().push(Ready::Starting(ahead));
        let error = launchers.take().await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start the launcher `/no/such/executable`");
    }
}
