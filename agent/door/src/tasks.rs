//! Background commands of a session: each is a run of the gateway that goes on while the agent works.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_files::visible;
use stockade_wire::types::{Event, RunOutcome};
use tokio::sync::{Notify, watch};

use crate::gateway::{Heard, Run};
use crate::host::{Host, Note};

/// Most bytes that are kept of a task's output.
const KEPT: usize = 8 << 20;
/// Most characters that one call returns.
const CHARACTERS: usize = 30_000;
/// Most tasks at once.
const MOST: usize = 32;

/// The tasks of a session.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    known: Mutex<BTreeMap<String, Task>>,
    /// Ends that the model has not been told of.
    ended: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Task {
    output: Arc<Mutex<Vec<u8>>>,
    read: usize,
    state: watch::Receiver<Option<String>>,
    stop: Arc<Notify>,
}

/// The description of a task.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) call_id: String,
    pub(crate) description: String,
}

impl Tasks {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Task>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a run going as a task; `output` is what it wrote so far. Returns the task's identity.
    pub(crate) fn keep(
        self: &Arc<Self>,
        run: Run,
        output: Vec<u8>,
        (about, host): (About, Arc<dyn Host>),
    ) -> Result<String, String> {
        let mut known = self.known();
        let running = known.values().filter(|task| task.state.borrow().is_none()).count();
        if running >= MOST {
            return Err(format!(
                "{MOST} background commands are running; stop one with TaskStop first"
            ));
        }
        let id = format!("b{:04}", known.len() + 1);
        let output = Arc::new(Mutex::new(output));
        let (ending, state) = watch::channel(None);
        host.note(Note::TaskStarted {
            task: id.clone(),
            call_id: about.call_id.clone(),
            description: about.description.clone(),
        });
        let (tasks, name, kept) = (Arc::clone(self), id.clone(), Arc::clone(&output));
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        tokio::spawn(async move {
            let (status, how) = follow(run, &kept, &stopped).await;
            let summary = format!("Background command \"{}\" {status} ({how})", about.description);
            tasks
                .ended
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(format!("{summary}; its id is {name}."));
            ending.send_replace(Some(format!("{status} ({how})")));
            host.note(Note::TaskEnded { task: name, call_id: about.call_id, status, summary });
        });
        known.insert(id.clone(), Task { output, read: 0, state, stop });
        Ok(id)
    }

    /// Returns what a task wrote since the last call, and its state. Waits for its end for at most `wait`.
    pub(crate) async fn output(
        &self,
        id: &str,
        wait: Option<Duration>,
    ) -> Result<(String, String), String> {
        let state = self.known().get(id).map(|task| task.state.clone());
        let Some(mut state) = state else { return Err(self.unknown(id)) };
        if let Some(wait) = wait {
            let _ = tokio::time::timeout(wait, state.wait_for(Option::is_some)).await; // it may go on
        }
        let mut known = self.known();
        let Some(task) = known.get_mut(id) else { return Err(format!("there is no task `{id}`")) };
        let output = task.output.lock().unwrap_or_else(PoisonError::into_inner);
        let new = output.get(task.read..).unwrap_or_default();
        let text: String = String::from_utf8_lossy(new).chars().take(CHARACTERS).collect();
        task.read = output.len();
        let state = task.state.borrow().clone().unwrap_or_else(|| "running".into());
        Ok((visible(&text), state))
    }

    /// Ends a task: the command with its whole tree.
    pub(crate) fn stop(&self, id: &str) -> Result<(), String> {
        let stop = self.known().get(id).map(|task| Arc::clone(&task.stop));
        match stop {
            Some(stop) => {
                stop.notify_one();
                Ok(())
            }
            None => Err(self.unknown(id)),
        }
    }

    fn unknown(&self, id: &str) -> String {
        let known = self.known();
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
        format!("there is no background command `{}`; known ones: {names}", id.escape_debug())
    }

    /// Takes what the model has to be told.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn follow(mut run: Run, kept: &Mutex<Vec<u8>>, stop: &Notify) -> (String, String) {
    loop {
        let heard = tokio::select! {
            heard = run.next() => heard,
            () = stop.notified() => {
                run.stop();
                continue;
            }
        };
        match heard {
            Heard::Event(Event::Output { bytes, .. }) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = KEPT.saturating_sub(kept.len());
                kept.extend(bytes.iter().take(room));
            }
            Heard::Event(Event::Notice(_) | Event::Terminal | Event::Background(_)) => {}
            // Nobody is there for a question of a command that runs by itself.
            Heard::Question(id, _) => run.answer(&id, stockade_wire::types::Answer::Withdrawn),
            Heard::Ended(outcome) => return ended(&outcome),
        }
    }
}

fn ended(outcome: &RunOutcome) -> (String, String) {
    match outcome {
        RunOutcome::Ran(result) => match (&result.signal, result.exit_code) {
            _ if result.timed_out => ("failed".into(), "it ran out of time".into()),
            _ if result.interrupted => ("stopped".into(), "it was stopped".into()),
            (_, Some(0)) => ("completed".into(), "exit code 0".into()),
            (_, Some(code)) => ("failed".into(), format!("exit code {code}")),
            (signal, None) => {
                ("failed".into(), signal.clone().unwrap_or_else(|| "no exit code".into()))
            }
        },
        RunOutcome::Denied(refusal) | RunOutcome::NeedsPerson(refusal) => {
            ("failed".into(), refusal.decision.reason.clone())
        }
        RunOutcome::Background(task) => {
            ("failed".into(), format!("the gateway keeps it as {}", task.task_id))
        }
        RunOutcome::Failed(failure) => ("failed".into(), failure.message.clone()),
    }
}
