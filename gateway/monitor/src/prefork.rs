//! Processes that are forked when this one begins, before it has read settings, keys or an environment: to execute
//! this program again for each of them would cost more than a millisecond.

use std::sync::{Arc, Mutex};

use stockade_kernel::ForkedWorker;
use stockade_sandbox::{Launcher, LauncherZygote};

/// A scan worker and a launcher that wait for their first use, or what makes launchers. Without them each is executed
/// when it is needed.
#[derive(Debug, Clone, Default)]
pub struct Prefork(Arc<Mutex<Processes>>);

#[derive(Debug, Default)]
struct Processes {
    worker: Option<ForkedWorker>,
    /// As far as is foreseen, no text comes that a worker has to read.
    is_idle: bool,
    launcher: Option<Launcher>,
    zygote: Option<LauncherZygote>,
}

/// The purpose of the calls of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Commands are judged.
    Judge,
    /// A command is judged and run.
    Run {
        /// Its text is one that a worker has to read.
        is_read: bool,
    },
    /// Commands of others are judged and run, as long as this process lives.
    Serve,
}

impl Prefork {
    /// Forks what `purpose` needs. Must come first of all; with a second thread nothing is forked.
    pub fn fork(purpose: Purpose) -> Prefork {
        // The launcher first: it has the longest way to go.
        let (launcher, zygote) = match purpose {
            Purpose::Judge => (None, None),
            Purpose::Run { .. } => (Launcher::fork().ok(), None),
            Purpose::Serve => (None, LauncherZygote::fork().ok()),
        };
        let is_idle = purpose == Purpose::Run { is_read: false };
        let worker =
            if is_idle { None } else { ForkedWorker::fork(stockade_worker::scan::main).ok() };
        Prefork(Arc::new(Mutex::new(Processes { worker, is_idle, launcher, zygote })))
    }

    /// Says whether, as far as is foreseen, no text comes that a scan worker has to read.
    pub fn is_idle(&self) -> bool {
        self.0.lock().is_ok_and(|processes| processes.is_idle)
    }

    /// Returns what takes the scan worker.
    pub fn scan_worker(&self) -> stockade_worker::Prefork {
        let processes = Arc::clone(&self.0);
        let take = move || processes.lock().ok().and_then(|mut it| it.worker.take());
        stockade_worker::Prefork(Arc::new(take))
    }

    /// Takes the launcher.
    pub fn launcher(&self) -> Option<Launcher> {
        self.0.lock().ok().and_then(|mut processes| processes.launcher.take())
    }

    /// Takes what makes launchers.
    pub fn zygote(&self) -> Option<LauncherZygote> {
        self.0.lock().ok().and_then(|mut processes| processes.zygote.take())
    }
}
