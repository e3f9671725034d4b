//! Background commands of a session: tasks of the gateway, under short names for the model, and what watches them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use stockade_files::visible;
use stockade_wire::tasks::{OutputRequest, TaskAct, TaskState, TaskView};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::host::{Host, Note};

/// Longest wait of one request to the gateway.
const WAIT: Duration = Duration::from_secs(600);
/// How long a task is watched when the call names no time.
const WATCHED: Duration = Duration::from_secs(300);
/// How often a watched task is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Most lines of one watch that the model is told in a minute.
const LINES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Most characters of such a line.
const LONGEST_LINE: usize = 500;

/// The tasks of a session.
pub(crate) struct Tasks {
    gateway: Gateway,
    host: Arc<dyn Host>,
    known: Mutex<BTreeMap<String, String>>,
    /// Ends and lines that the model has not been told of.
    news: Mutex<Vec<String>>,
}

/// The description of a task.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) call_id: String,
    pub(crate) description: String,
}

/// A watch for lines of a task.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) call_id: String,
    /// Regular expression; empty for every line.
    pub(crate) pattern: String,
    /// How long it is watched; none to its end.
    pub(crate) limit: Option<Duration>,
    /// The task was started for this watch, and ends with it.
    pub(crate) is_own: bool,
}

impl Watch {
    /// Reads the input of a Monitor call.
    pub(crate) fn of(input: &Value, call_id: &str, is_own: bool) -> Watch {
        let number = input.get("timeout_ms").and_then(Value::as_f64).filter(|it| *it >= 1.0);
        let limit = number.map_or(WATCHED, |it| Duration::from_secs_f64(it / 1_000.0));
        let persists = input.get("persistent").and_then(Value::as_bool) == Some(true);
        Watch {
            call_id: call_id.to_owned(),
            pattern: input.get("pattern").and_then(Value::as_str).unwrap_or_default().to_owned(),
            limit: (!persists).then_some(limit),
            is_own,
        }
    }
}

impl Tasks {
    pub(crate) fn new(gateway: Gateway, host: Arc<dyn Host>) -> Tasks {
        Tasks { gateway, host, known: Mutex::default(), news: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, text: String) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Takes what the model has to be told.
    pub(crate) fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in a command that runs in the background now, and returns its name.
    pub(crate) fn add(self: &Arc<Self>, task: &TaskView, about: About) -> String {
        let mut known = self.known();
        let name = format!("b{:04}", known.len() + 1);
        known.insert(name.clone(), task.task_id.clone());
        drop(known);
        self.host.note(Note::TaskStarted {
            task: name.clone(),
            call_id: about.call_id.clone(),
            description: about.description.clone(),
        });
        let (tasks, id, told) = (Arc::clone(self), task.task_id.clone(), name.clone());
        tokio::spawn(async move {
            let (status, how) = tasks.end(&id).await;
            let summary = format!("Background command \"{}\" {status} ({how})", about.description);
            tasks.tell(format!("{summary}; its id is {told}."));
            tasks.host.note(Note::TaskEnded {
                task: told,
                call_id: about.call_id,
                status: status.into(),
                summary,
            });
        });
        name
    }

    /// Waits for the end of a task, and says in words how it ended.
    async fn end(&self, id: &str) -> (&'static str, String) {
        loop {
            let timeout_ms = u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX);
            let act = TaskAct::Wait { task_id: id.to_owned(), timeout_ms };
            match self.gateway.task(act).await.map(|told| told.tasks.into_iter().next()) {
                Ok(Some(task)) if task.state.has_ended() => {
                    return (word(task.state), task.reason);
                }
                Ok(Some(_)) => {}
                Ok(None) => return ("failed", "the gateway does not know it".to_owned()),
                Err(failure) => return ("failed", failure.message),
            }
        }
    }

    /// Returns the gateway's identity of a task.
    pub(crate) fn identity(&self, name: &str) -> Result<String, String> {
        let known = self.known();
        if let Some(id) = known.get(name) {
            return Ok(id.clone());
        }
        if let Some(id) = known.values().find(|id| *id == name) {
            return Ok(id.clone());
        }
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
        Err(format!(
            "there is no background command `{}`; known ones: {names}",
            name.escape_debug()
        ))
    }

    /// Returns what a task wrote since the last call, and its state. Waits for its end for at most `wait`.
    pub(crate) async fn output(
        &self,
        name: &str,
        filter: Option<&str>,
        wait: Option<Duration>,
    ) -> Result<(String, String), String> {
        let wait_ms = wait.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        let request = OutputRequest {
            task_id: self.identity(name)?,
            offset: None,
            filter: filter.map(str::to_owned),
            wait_ms,
        };
        let told = self.gateway.task(TaskAct::Output(request)).await;
        let told = told.map_err(|failure| failure.message)?;
        let task = told.tasks.into_iter().next().ok_or("the gateway does not know the task")?;
        let output = told.output.ok_or("the gateway told no output")?;
        let mut text = visible(output.text.trim_end_matches('\n'));
        if output.left_out > 0 {
            text = format!("({} bytes before this are left out)\n{text}", output.left_out);
        }
        let state = match task.state.has_ended() {
            true => format!("{} ({})", word(task.state), task.reason),
            false => "running".to_owned(),
        };
        Ok((text, state))
    }

    /// Ends a task: the command with its whole tree.
    pub(crate) async fn stop(&self, name: &str) -> Result<(), String> {
        let task_id = self.identity(name)?;
        let stopped = self.gateway.task(TaskAct::Stop { task_id }).await;
        stopped.map(drop).map_err(|failure| failure.message)
    }

    /// Tells the model each line of a task that a pattern matches, at most [`LINES`] a minute; further ones are counted.
    pub(crate) async fn watch(self: &Arc<Self>, name: &str, watch: Watch) -> Result<(), String> {
        let id = self.identity(name)?;
        let offset = if watch.is_own { 0 } else { self.written(&id).await? };
        // A pattern that cannot be used is told at once.
        self.lines(&id, &watch.pattern, offset).await?;
        let (tasks, name) = (Arc::clone(self), name.to_owned());
        tokio::spawn(async move { tasks.follow(&name, &id, (watch, offset)).await });
        Ok(())
    }

    async fn written(&self, id: &str) -> Result<u64, String> {
        let told = self.gateway.task(TaskAct::Show { task_id: id.to_owned() }).await;
        let told = told.map_err(|failure| failure.message)?;
        Ok(told.tasks.first().map_or(0, |task| task.output_bytes))
    }

    /// Returns matching lines from `offset` on, where to go on, and whether the task is over.
    async fn lines(
        &self,
        id: &str,
        pattern: &str,
        offset: u64,
    ) -> Result<(Vec<String>, u64, bool), String> {
        let request = OutputRequest {
            task_id: id.to_owned(),
            offset: Some(offset),
            filter: Some(pattern.to_owned()),
            wait_ms: 0,
        };
        let told = self.gateway.task(TaskAct::Output(request)).await;
        let told = told.map_err(|failure| failure.message)?;
        let output = told.output.ok_or("the gateway told no output")?;
        let lines = output.text.lines().map(str::to_owned).collect();
        let is_over = told.tasks.first().is_some_and(|task| task.state.has_ended());
        Ok((lines, output.next_offset, is_over))
    }

    async fn follow(self: Arc<Self>, name: &str, id: &str, (watch, mut offset): (Watch, u64)) {
        let until = watch.limit.map(|limit| Instant::now() + limit);
        let mut rate = Rate::new(Instant::now());
        loop {
            let Ok((lines, next, is_over)) = self.lines(id, &watch.pattern, offset).await else {
                return;
            };
            offset = next;
            for line in &lines {
                if rate.takes(Instant::now()) {
                    let line: String = line.chars().take(LONGEST_LINE).collect();
                    self.event(name, &watch.call_id, &visible(&line));
                }
            }
            if let Some(count) = rate.left_out(Instant::now(), is_over) {
                let text = format!("{count} further lines matched; TaskOutput shows them");
                self.event(name, &watch.call_id, &text);
            }
            if is_over {
                return;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                self.event(name, &watch.call_id, "the time of this watch is over");
                if watch.is_own {
                    let _ = self.stop(name).await; // it may have ended meanwhile
                }
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn event(&self, name: &str, call_id: &str, text: &str) {
        self.tell(format!("Monitor of {name}: {text}"));
        self.host.note(Note::TaskEvent {
            task: name.to_owned(),
            call_id: call_id.to_owned(),
            text: text.to_owned(),
        });
    }
}

/// How many lines were told in the running minute.
#[derive(Debug)]
struct Rate {
    begun: Instant,
    told: usize,
    left_out: usize,
}

impl Rate {
    fn new(now: Instant) -> Rate {
        Rate { begun: now, told: 0, left_out: 0 }
    }

    /// Says whether one more line is told; else it is counted.
    fn takes(&mut self, now: Instant) -> bool {
        if now.duration_since(self.begun) >= MINUTE && self.left_out == 0 {
            *self = Rate::new(now);
        }
        let takes = self.told < LINES;
        if takes {
            self.told += 1;
        } else {
            self.left_out += 1;
        }
        takes
    }

    /// Returns how many lines were only counted, once their minute or the task is over.
    fn left_out(&mut self, now: Instant, is_over: bool) -> Option<usize> {
        let is_due = is_over || now.duration_since(self.begun) >= MINUTE;
        if self.left_out == 0 || !is_due {
            return None;
        }
        let count = self.left_out;
        *self = Rate::new(now);
        Some(count)
    }
}

/// Returns the word that agents' users know for a state.
fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Completed => "completed",
        TaskState::Stopped => "stopped",
        TaskState::Failed | TaskState::Lost => "failed",
        TaskState::Pending | TaskState::Running => "running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_minute_are_told_and_the_rest_is_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rate = Rate::new(start);
        let told = (0..25).filter(|_| rate.takes(at(1))).count();
        assert_eq!((told, rate.left_out(at(2), false)), (10, None));
        assert_eq!(rate.left_out(at(61), false), Some(15));
        assert!(rate.takes(at(62)));
        assert_eq!(rate.left_out(at(200), true), None);
        let told = (0..12).filter(|_| rate.takes(at(300))).count();
        assert_eq!((told, rate.left_out(at(301), true)), (10, Some(2)));
    }
}
