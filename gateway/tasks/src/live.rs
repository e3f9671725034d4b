//! The tasks that this gateway runs, and what can be done to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::{Control, Input};

/// Cause of a task's stop, as its `reason`.
pub const ON_REQUEST: &str = "stopped on request";
/// The same, of tasks whose session ended.
pub const SESSION_ENDED: &str = "its session ended";
/// The same, of all tasks of a gateway that ends.
pub const GATEWAY_ENDED: &str = "the gateway was stopped";

/// Why a task is being stopped; empty while nobody stops it. The one who carries its streams reads it at the end.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<Mutex<Option<&'static str>>>);

impl Stopping {
    /// Returns why the task was stopped.
    pub fn reason(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why; the first reason stays.
    pub fn because(&self, reason: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }
}

/// The ways to one running task.
#[derive(Debug, Clone)]
pub struct Ways {
    /// Signals, sizes, the end.
    pub control: mpsc::Sender<Control>,
    /// Input; none for a task that reads nothing.
    pub input: Option<mpsc::Sender<Input>>,
    /// Why it is being stopped.
    pub stopping: Stopping,
    /// Its session.
    pub session: Option<String>,
    /// True if the task goes on when its session ends.
    pub outlives_session: bool,
}

/// All running tasks of a gateway, and the work that carries commands.
#[derive(Debug, Default)]
pub struct Live {
    running: Mutex<BTreeMap<String, Ways>>,
    /// The servers of each task's forwards.
    forwards: Mutex<BTreeMap<String, Vec<AbortHandle>>>,
    work: Mutex<JoinSet<()>>,
}

impl Live {
    /// Carries a command: its work is waited for at the end of the gateway.
    pub fn carry(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut all = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        while all.try_join_next().is_some() {}
        all.spawn(work);
    }

    /// Notes that a command is a task now.
    pub fn add(&self, id: &str, ways: Ways) {
        self.running().insert(id.to_owned(), ways);
    }

    /// Notes that a task is over.
    pub fn remove(&self, id: &str) {
        self.running().remove(id);
        let mut forwards = self.forwards.lock().unwrap_or_else(PoisonError::into_inner);
        forwards.remove(id).into_iter().flatten().for_each(|forward| forward.abort());
    }

    /// Serves a forward until the task ends; nothing for one that has ended.
    pub fn forward(&self, id: &str, serve: impl Future<Output = ()> + Send + 'static) {
        let serve = tokio::spawn(serve).abort_handle();
        let mut forwards = self.forwards.lock().unwrap_or_else(PoisonError::into_inner);
        forwards.entry(id.to_owned()).or_default().push(serve);
        drop(forwards);
        if !self.running().contains_key(id) {
            self.remove(id);
        }
    }

    /// Returns how many tasks run.
    pub fn count(&self) -> usize {
        self.running().len()
    }

    /// Returns how many tasks of a session run.
    pub fn count_of(&self, session: &str) -> usize {
        self.running().values().filter(|ways| ways.session.as_deref() == Some(session)).count()
    }

    /// Returns how many tasks of a session end with it.
    pub fn count_ending_with(&self, session: &str) -> usize {
        let running = self.running();
        let is_meant =
            |ways: &&Ways| ways.session.as_deref() == Some(session) && !ways.outlives_session;
        running.values().filter(is_meant).count()
    }

    /// Returns the ways to a running task.
    pub fn find(&self, id: &str) -> Result<Ways, Failure> {
        self.running().get(id).cloned().ok_or_else(|| {
            Failure::new(
                Code::TaskUnknown,
                format!("task `{id}` does not run in this gateway"),
                format!("`stockade tasks show {id}` has its state"),
            )
        })
    }

    /// Stops all tasks, or those of one session that end with it.
    pub async fn stop_all(&self, session: Option<&str>, reason: &'static str) {
        let meant: Vec<Ways> = self
            .running()
            .values()
            .filter(|ways| {
                let is_of_session = ways.session.as_deref() == session && !ways.outlives_session;
                session.is_none() || is_of_session
            })
            .cloned()
            .collect();
        for ways in meant {
            ways.stop(reason).await;
        }
    }

    /// Stops all tasks and waits until the end of each is recorded.
    pub async fn end(&self) {
        self.stop_all(None, GATEWAY_ENDED).await;
        let mut work =
            std::mem::take(&mut *self.work.lock().unwrap_or_else(PoisonError::into_inner));
        while work.join_next().await.is_some() {}
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Ways>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ways {
    /// Stops the task; one that is over by now needs no stop.
    pub async fn stop(&self, reason: &'static str) {
        self.stopping.because(reason);
        let _ = self.control.send(Control::Stop).await;
    }
}
