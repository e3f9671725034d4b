//! A command as a background task: what its folder says, and requests about tasks.

use std::time::{Duration, Instant};

use super::answered::Call;
use super::sessions::Sessions;
use super::{Gateway, blocking};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::{
    OutputRequest, TaskAct, TaskAnswer, TaskRequest, TaskState, TaskView,
};
use crate::protocol::types::{AuditReference, Control, Input, Window};
use crate::request::size;
use crate::response::Case;
use crate::run::{Execution, Task};
use crate::tasks::folder::{End, Folder, now_ms};
use crate::tasks::live::{Live, ON_REQUEST};
use crate::tasks::store::Store;
use crate::tasks::{output, wait};
use stockade_base::signals::signal_name;
use tokio::sync::mpsc::Sender;

/// Longest wait for a task.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

impl Gateway {
    /// Returns the executable of this gateway.
    pub fn executable(&self) -> &std::path::Path {
        &self.executable
    }

    /// Returns the tasks that run here.
    pub fn tasks(&self) -> &Live {
        &self.tasks
    }

    /// Says whether a session is open or a task runs.
    pub fn is_used(&self) -> bool {
        self.tasks.count() > 0 || self.sessions.as_ref().is_some_and(Sessions::are_open)
    }

    /// Returns the folder of a command that is, or may become, a background task; none where no gateway stays to run it.
    pub(super) fn task(
        &self,
        Call { request, command, log, .. }: Call<'_>,
        Case { scene, judged, receipt, .. }: &Case,
    ) -> Option<Task> {
        if !self.keeps_tasks {
            return None;
        }
        let view = TaskView {
            task_id: receipt.id.clone(),
            state: TaskState::Pending,
            reason: String::new(),
            session: request.context.session.clone(),
            outlives_session: request.context.session.is_some() && command.limits.tasks_stay,
            // As the log has it: without what it takes for secrets.
            command: log.redactor().command(judged.tree.as_ref(), &command.text),
            description: request.description.clone(),
            cwd: scene.place.cwd.to_string_lossy().into_owned(),
            started_ms: now_ms(),
            ended_ms: None,
            exit_code: None,
            signal: None,
            signal_number: None,
            output_path: String::new(),
            output_bytes: 0,
            pty: request.pty,
            ports: Vec::new(),
            audit: AuditReference { decision_id: receipt.id.clone(), sequence: receipt.sequence },
        };
        let mut folder = Folder::new(self.places.task(&receipt.id), view);
        if request.pty {
            let size = size(request.window);
            folder.has_window(Window { rows: size.rows, columns: size.columns });
        }
        Some(Task { folder, begins_so: request.background })
    }

    /// Answers a request about tasks.
    pub async fn about_tasks(&self, request: TaskRequest) -> Result<TaskAnswer, Failure> {
        let TaskRequest { session, act } = request;
        let store = Store::of(&self.places.state);
        let find = |name: String| {
            let (store, session) = (store.clone(), session.clone());
            blocking(move || store.find(&name, session.as_deref()))
        };
        let ways = async |name: String| {
            let task = find(name).await?;
            self.tasks.find(&task.task_id)
        };
        match act {
            TaskAct::List => {
                let (store, session) = (store.clone(), session.clone());
                let list = move || Ok(store.with_ports(store.list(session.as_deref())?));
                Ok(TaskAnswer { tasks: blocking(list).await?, output: None, forward: None })
            }
            TaskAct::Show { task_id } => {
                let task = find(task_id).await?;
                let tasks = blocking(move || Ok(store.with_ports(vec![task]))).await?;
                Ok(TaskAnswer { tasks, output: None, forward: None })
            }
            TaskAct::Open { task_id, port, listen } => {
                self.forward(find(task_id).await?, port, listen).await
            }
            TaskAct::Output(wanted) => {
                let session = session.clone();
                blocking(move || read(&store, &wanted, session.as_deref())).await
            }
            TaskAct::Wait { task_id, timeout_ms } => {
                let session = session.clone();
                let limit = Duration::from_millis(timeout_ms);
                blocking(move || until_end(&store, &task_id, session.as_deref(), limit).map(only))
                    .await
            }
            TaskAct::Stop { task_id } => {
                let task = find(task_id).await?;
                if task.state.has_ended() {
                    return Ok(only(task));
                }
                self.tasks.find(&task.task_id)?.stop(ON_REQUEST).await;
                let limit = LONGEST_WAIT;
                blocking(move || until_end(&store, &task.task_id, None, limit).map(only)).await
            }
            TaskAct::Input { task_id, input } => {
                let name = task_id.clone();
                type_to(&name, ways(task_id).await?.input, input).await?;
                Ok(only(find(name).await?))
            }
            TaskAct::Resize { task_id, window } => {
                let name = task_id.clone();
                // A task that takes nothing more is over: it needs no size.
                let _ = ways(task_id).await?.control.try_send(Control::Resize(window));
                Ok(only(find(name).await?))
            }
        }
    }
}

/// Passes input on to a task, by the way that it has for it.
async fn type_to(name: &str, way: Option<Sender<Input>>, input: Input) -> Result<(), Failure> {
    let sent = match way {
        Some(sender) => sender.send(input).await.is_ok(),
        None => false,
    };
    if sent {
        return Ok(());
    }
    let message = format!("task `{name}` accepts no input");
    let help = "start it with `--pty` to type to it";
    Err(Failure::new(Code::InvalidRequest, message, help))
}

fn only(task: TaskView) -> TaskAnswer {
    TaskAnswer { tasks: vec![task], output: None, forward: None }
}

/// Returns output of a task, if wanted when it has ended.
pub fn read(
    store: &Store,
    wanted: &OutputRequest,
    session: Option<&str>,
) -> Result<TaskAnswer, Failure> {
    let filter = wanted.filter.as_deref().map(output::filter).transpose()?;
    let limit = Duration::from_millis(wanted.wait_ms);
    let task = until_end(store, &wanted.task_id, session, limit)?;
    let folder = store.folder(&task.task_id);
    let found = output::read(&folder, wanted.offset, filter.as_ref(), task.state.has_ended())?;
    Ok(TaskAnswer { tasks: vec![task], output: Some(found), forward: None })
}

/// Waits until a task has ended, no longer than `limit`; returns what it is then.
pub fn until_end(
    store: &Store,
    name: &str,
    session: Option<&str>,
    limit: Duration,
) -> Result<TaskView, Failure> {
    let until = Instant::now() + limit.min(LONGEST_WAIT);
    let task = store.find(name, session)?;
    if task.state.has_ended() || limit.is_zero() {
        return Ok(task);
    }
    let folder = store.folder(&task.task_id);
    let unwatched = |error: std::io::Error| {
        let message = format!("cannot watch `{}`: {error}", folder.display());
        Failure::new(Code::StateUnusable, message, "raise `sysctl fs.inotify.max_user_instances`")
    };
    let watch = wait::Watch::new(&folder).map_err(unwatched)?;
    loop {
        let task = store.find(&task.task_id, session)?;
        if task.state.has_ended() || !watch.wait(until).map_err(unwatched)? {
            return Ok(task);
        }
    }
}

/// Notes that a command is about to be started as a task.
pub(super) fn pending(task: &mut Task) -> Result<(), Failure> {
    let begun = task.folder.begin(TaskState::Pending, "it is being started");
    begun.map(drop).map_err(|error| {
        let message = format!("the folder of the task cannot be written: {error}; nothing was run");
        Failure::new(Code::StateUnusable, message, "free space in the state directory")
    })
}

/// Notes that a task could not be started.
pub(super) fn not_started(task: Option<Task>, failure: &Failure) {
    let end = End {
        state: TaskState::Failed,
        reason: failure.message.clone(),
        exit_code: None,
        signal_number: None,
    };
    if let Some(task) = task {
        let _ = task.folder.end(end); // the log says it as well
    }
}

impl Gateway {
    /// Notes how a task ended, if the command became one, and which task has the port that it wanted.
    pub(super) async fn end_task(
        &self,
        task: Option<Task>,
        execution: &Execution,
        unrecorded: Option<&Failure>,
    ) {
        let Some(Task { folder, .. }) = task.filter(|task| task.folder.is_task()) else { return };
        let TaskView { task_id, session, command, .. } = folder.view();
        let stopped = self.tasks.find(task_id).ok().and_then(|ways| ways.stopping.reason());
        let busy = self.busy_port(session.as_deref(), command, execution).await;
        let (state, reason) = end_of(execution, stopped, unrecorded);
        let cut = execution.output.cut.as_ref().map(|cut| format!("its output was cut: {cut}"));
        let reason = std::iter::once(reason).chain(cut).chain(busy).collect::<Vec<_>>().join("; ");
        let exit = execution.exit.unwrap_or_default();
        // The log says it as well.
        let _ = folder.end(End { state, reason, exit_code: exit.code, signal_number: exit.signal });
    }
}

/// Returns the state of a task that ended, and why.
fn end_of(
    execution: &Execution,
    stopped: Option<&'static str>,
    unrecorded: Option<&Failure>,
) -> (TaskState, String) {
    let exit = execution.exit.unwrap_or_default();
    let signal = exit.signal.map(signal_name);
    let how = match (exit.code, &signal) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by {signal}"),
        (None, None) => "its exit status is unknown".to_owned(),
    };
    match (unrecorded, stopped) {
        (Some(failure), _) => (TaskState::Failed, failure.message.clone()),
        (None, Some(reason)) => (TaskState::Stopped, reason.to_owned()),
        (None, None) if execution.timed_out => {
            (TaskState::Failed, "its time limit passed".to_owned())
        }
        (None, None) if execution.interrupted => (TaskState::Stopped, ON_REQUEST.to_owned()),
        (None, None) if exit.code == Some(0) => (TaskState::Completed, how),
        (None, None) => (TaskState::Failed, how),
    }
}
