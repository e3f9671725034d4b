//! Launchers that wait for their spec. A launcher makes its namespaces before it knows what it will run, so one
//! that was started early costs a command nothing; it holds nothing and does nothing until it has a spec.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_sandbox::{Launcher, LauncherZygote, Loopback};
use stockade_spec::Error;
use tokio::task::JoinHandle;

use crate::Prefork;
use crate::hooks::pipes;

/// Most launchers that wait at once.
const MOST_READY: usize = 4;
/// How long after the start of a command its successor's launcher is made: a short one has ended by then and has had the
/// processors for itself, and the next call is still to come.
const PAUSE: Duration = Duration::from_millis(5);

/// Starts launchers, some of them ahead.
#[derive(Debug)]
pub struct Launchers {
    executable: PathBuf,
    /// Where they are forked; those that it cannot make are executed.
    zygote: Option<Arc<Mutex<LauncherZygote>>>,
    ready: Arc<Mutex<Vec<Ready>>>,
}

/// One that is there, or on its way.
#[derive(Debug)]
struct Ready {
    /// Of the session that it was made for. INVARIANT: it serves no other one.
    loopback: Option<Arc<Loopback>>,
    launcher: Progress,
}

#[derive(Debug)]
enum Progress {
    Forked(Launcher),
    Starting(JoinHandle<Result<Launcher, Error>>),
}

impl Ready {
    fn is_for(&self, loopback: Option<&Arc<Loopback>>) -> bool {
        match (&self.loopback, loopback) {
            (Some(own), Some(wanted)) => Arc::ptr_eq(own, wanted),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Launchers {
    /// Launchers of this executable, the first of which, or what forks them, may be there already.
    pub fn new(executable: PathBuf, prefork: &Prefork) -> Launchers {
        let forked = |launcher| Ready { loopback: None, launcher: Progress::Forked(launcher) };
        let ready = prefork.launcher().map(forked).into_iter().collect();
        let zygote = prefork.zygote().map(|zygote| Arc::new(Mutex::new(zygote)));
        Launchers { executable, zygote, ready: Arc::new(Mutex::new(ready)) }
    }

    /// The executable, which is also the proxy of a run.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Makes a loopback interface for the commands of a session. Fails where nothing is forked.
    pub async fn loopback(&self) -> io::Result<Arc<Loopback>> {
        let zygote = self.zygote.clone().ok_or(io::ErrorKind::Unsupported)?;
        let make = move || {
            let mut zygote =
                zygote.lock().map_err(|_| io::Error::other("the zygote has exited"))?;
            zygote.loopback().map(Arc::new)
        };
        tokio::task::spawn_blocking(make).await?
    }

    /// Makes TCP sockets in `loopback`, for IPv4 and for IPv6. Fails where nothing is forked.
    pub async fn sockets(&self, loopback: Arc<Loopback>) -> io::Result<[OwnedFd; 2]> {
        let zygote = self.zygote.clone().ok_or(io::ErrorKind::Unsupported)?;
        let make = move || {
            let mut zygote =
                zygote.lock().map_err(|_| io::Error::other("the zygote has exited"))?;
            zygote.sockets(&loopback)
        };
        tokio::task::spawn_blocking(make).await?
    }

    /// Makes sure that one is ready or on its way, and does not wait for it. Needs a runtime.
    pub fn warm(&self) {
        // A list that a panic left behind is not used again: every command then starts its own.
        if let Ok(mut ready) = self.ready.lock()
            && ready.is_empty()
        {
            ready.push(start(&self.executable, self.zygote.clone(), None));
        }
    }

    /// The same for a command that has `loopback`.
    pub fn foresee(&self, loopback: &Arc<Loopback>) {
        if let Ok(mut ready) = self.ready.lock()
            && !ready.iter().any(|it| it.is_for(Some(loopback)))
        {
            make_room(&mut ready);
            let loopback = Some(Arc::clone(loopback));
            ready.push(start(&self.executable, self.zygote.clone(), loopback));
        }
    }

    /// Starts one for one that was used, in a while, unless there are enough. Needs a runtime.
    pub fn replace(&self, loopback: Option<Arc<Loopback>>) {
        let (executable, zygote) = (self.executable.clone(), self.zygote.clone());
        let ready = Arc::clone(&self.ready);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            let Ok(mut ready) = ready.lock() else { return };
            if ready.len() < MOST_READY || !ready.iter().any(|it| it.is_for(loopback.as_ref())) {
                make_room(&mut ready);
                ready.push(start(&executable, zygote, loopback));
            }
        });
    }

    /// Lets go of those that were made for a session that is over.
    pub fn forget(&self, loopback: &Arc<Loopback>) {
        if let Ok(mut ready) = self.ready.lock() {
            let over = ready.extract_if(.., |it| it.is_for(Some(loopback)));
            over.for_each(dismiss);
        }
    }

    /// Returns one that waits for its spec, with `loopback` or one of its own.
    pub(super) async fn take(&self, loopback: Option<&Arc<Loopback>>) -> Result<Launcher, Error> {
        // The oldest is the most likely to be there.
        let oldest = |ready: &mut Vec<Ready>| {
            let index = ready.iter().position(|it| it.is_for(loopback))?;
            Some(ready.remove(index).launcher)
        };
        let ready = self.ready.lock().ok().and_then(|mut ready| oldest(&mut ready));
        match ready {
            Some(Progress::Forked(launcher)) => return Ok(launcher),
            // The cause of a failed start may be over, so a failure here starts another launcher.
            Some(Progress::Starting(starting)) => {
                if let Ok(Ok(launcher)) = starting.await {
                    return Ok(launcher);
                }
            }
            None => {}
        }
        let starting = begin(&self.executable, self.zygote.clone(), loopback.cloned());
        starting.await.map_err(|_| pipes::broken("the launcher's thread"))?
    }
}

/// Makes room for one more: the one goes that has waited longest.
fn make_room(ready: &mut Vec<Ready>) {
    if ready.len() >= MOST_READY {
        dismiss(ready.remove(0));
    }
}

/// Ends one that is not needed; that waits for its end, which holds nobody up. Needs a runtime.
fn dismiss(ready: Ready) {
    drop(tokio::task::spawn_blocking(move || drop(ready)));
}

fn start(
    executable: &Path,
    zygote: Option<Arc<Mutex<LauncherZygote>>>,
    loopback: Option<Arc<Loopback>>,
) -> Ready {
    let launcher = Progress::Starting(begin(executable, zygote, loopback.clone()));
    Ready { loopback, launcher }
}

fn begin(
    executable: &Path,
    zygote: Option<Arc<Mutex<LauncherZygote>>>,
    loopback: Option<Arc<Loopback>>,
) -> JoinHandle<Result<Launcher, Error>> {
    let executable = executable.to_path_buf();
    tokio::task::spawn_blocking(move || {
        let forked = zygote.and_then(|it| it.lock().ok()?.launcher(loopback.as_deref()).ok());
        // One that is executed makes a network of its own.
        forked.map_or_else(|| Launcher::start(&executable), Ok)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_launcher_that_could_not_be_started_ahead_is_started_anew() {
        let launchers = Launchers::new("/no/such/executable".into(), &Prefork::default());
        let ahead = tokio::spawn(async { Err(pipes::broken("the launcher made ahead")) });
        let ahead = Ready { loopback: None, launcher: Progress::Starting(ahead) };
        launchers.ready.lock().unwrap().push(ahead);
        let error = launchers.take(None).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start the launcher `/no/such/executable`");
    }
}
