//! `stockade tasks`: background tasks, read from their folders; only a stop needs the gateway that runs them.

mod attach;
mod follow;
pub(super) mod progress;
pub(super) mod shown;

use std::time::{Duration, Instant};

use serde_json::json;

use super::args::Common;
use super::args::tasks::{List, Open, Output, Prune, TasksCommand, Wait};
use super::{context, failure};
use crate::cli::exit::ExitCode;
use crate::engine::tasks;
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::status;
use crate::protocol::tasks::{OutputRequest, TaskAct, TaskRequest, TaskState, TaskView};
use crate::route::Route;
use crate::serve::shell::inside::own_confinement;
use crate::tasks::store::{Retention, Store};

/// How long `wait` waits when nothing is said.
const USUAL_WAIT: Duration = Duration::from_secs(600);
/// How often a person sees how it stands.
const LOOK: Duration = Duration::from_secs(1);

/// Where the tasks are, and which of them are meant.
struct Tasks<'a> {
    store: Store,
    /// Only tasks of this session.
    session: Option<&'a str>,
    json: bool,
    common: &'a Common,
}

/// Does what the options say.
pub(super) fn tasks(common: &Common, command: Option<TasksCommand>) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot see background tasks";
        let help = "run `stockade tasks` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let command = command.unwrap_or_else(|| TasksCommand::List(List::default()));
    let after = command.common().clone();
    let common = &common.clone().join(after).map_err(super::twice)?;
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let places = Places::find(&context::options(common, &here), |name| std::env::var_os(name))?;
    let (store, session) = (Store::of(&places.state), common.session.as_deref());
    let tasks = Tasks { store, session, json: common.json, common };
    match command {
        TasksCommand::List(options) => tasks.list(&options),
        TasksCommand::Show(options) => tasks.show(tasks.find(&options.id)?),
        TasksCommand::Output(options) => tasks.output(options),
        TasksCommand::Wait(options) => tasks.wait(&options),
        TasksCommand::Follow(options) => follow::follow(&tasks, &options),
        TasksCommand::Attach(options) => attach::attach(&tasks, &options.id),
        TasksCommand::Open(options) => tasks.open(&options),
        TasksCommand::Stop(options) => tasks.stop(&options.id),
        TasksCommand::Prune(options) => tasks.prune(&options),
    }
}

impl Tasks<'_> {
    fn find(&self, id: &str) -> Result<TaskView, Failure> {
        self.store.find(id, self.session)
    }

    fn list(&self, options: &List) -> Result<ExitCode, Failure> {
        let mut found = self.store.list(self.session)?;
        found.retain(|task| !options.running || !task.state.has_ended());
        let found = self.store.with_ports(found);
        let text = match self.json {
            true => json!({ "tasks": found }).to_string(),
            false if found.is_empty() => return Ok(ExitCode::SUCCESS),
            false => shown::table(&found),
        };
        failure::print(&text).map_err(failure::unwritable)?;
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, task: TaskView) -> Result<ExitCode, Failure> {
        let tasks = self.store.with_ports(vec![task]);
        let Some(task) = tasks.first() else { return Ok(ExitCode::SUCCESS) };
        let text = match self.json {
            true => json!({ "task": task }).to_string(),
            false => shown::whole(task),
        };
        failure::print(&text).map_err(failure::unwritable)?;
        Ok(ExitCode::SUCCESS)
    }

    fn output(&self, options: Output) -> Result<ExitCode, Failure> {
        let wanted = OutputRequest {
            task_id: options.id,
            offset: options.offset,
            filter: options.filter,
            wait_ms: options
                .wait
                .map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        let answer = tasks::read(&self.store, &wanted, self.session)?;
        if self.json {
            let object = json!({ "task": answer.tasks.first(), "output": answer.output });
            failure::print(&object.to_string()).map_err(failure::unwritable)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(output) = answer.output else { return Ok(ExitCode::SUCCESS) };
        if output.left_out > 0
            && let Some(task) = answer.tasks.first()
        {
            let (count, path) = (output.left_out, &task.output_path);
            failure::tell(&format!(
                "stockade: {count} bytes left out; the whole output is in {path}"
            ));
        }
        follow::write(output.text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    fn wait(&self, options: &Wait) -> Result<ExitCode, Failure> {
        let limit = options.timeout.unwrap_or(USUAL_WAIT);
        let wait = |limit| tasks::until_end(&self.store, &options.id, self.session, limit);
        let task = match progress::Progress::begin(!self.json && !self.common.quiet) {
            None => wait(limit)?,
            Some(progress) => {
                let until = Instant::now() + limit;
                let mut task = wait(Duration::ZERO)?;
                while !task.state.has_ended() && Instant::now() < until {
                    progress.show(&task);
                    task = wait(LOOK.min(until.saturating_duration_since(Instant::now())))?;
                }
                task
            }
        };
        self.ended(&task)
    }

    /// Tells how a task ended, and returns the exit status that says the same.
    fn ended(&self, task: &TaskView) -> Result<ExitCode, Failure> {
        match self.json {
            true => {
                failure::print(&json!({ "task": task }).to_string()).map_err(failure::unwritable)?
            }
            false => failure::tell(&format!("stockade: {}", shown::line(task))),
        }
        let of_command = match (task.exit_code, task.signal_number) {
            (Some(code), _) => u8::try_from(code).ok(),
            (None, Some(number)) => u8::try_from(number.saturating_add(128)).ok(),
            (None, None) => None,
        };
        Ok(ExitCode::from(match task.state {
            TaskState::Pending | TaskState::Running => status::TIMED_OUT,
            TaskState::Completed | TaskState::Failed => of_command.unwrap_or(status::FAILED),
            TaskState::Stopped | TaskState::Lost => status::FAILED,
        }))
    }

    fn stop(&self, id: &str) -> Result<ExitCode, Failure> {
        let task = self.find(id)?;
        if task.state.has_ended() {
            failure::tell(&format!("stockade: {}; it had already ended", shown::line(&task)));
            return self.show_in_json(task);
        }
        let mut client = self.gateway_of(&task)?;
        let act = TaskAct::Stop { task_id: task.task_id };
        let session = self.session.map(str::to_owned);
        let mut answer = client.task(&TaskRequest { session, act })?;
        let Some(task) = answer.tasks.pop() else { return Ok(ExitCode::SUCCESS) };
        failure::tell(&format!("stockade: {}", shown::line(&task)));
        self.show_in_json(task)
    }

    /// Returns a connection to the gateway that runs a task.
    fn gateway_of(&self, task: &TaskView) -> Result<Route, Failure> {
        if let Some(pid) = self.store.gateway(&task.task_id)
            && let Some(left) = context::left_by(self.common, pid)?
        {
            return Ok(left);
        }
        context::running(self.common)?.ok_or_else(|| {
            let message = format!("none of your gateways runs task `{}`", task.task_id);
            Failure::new(Code::GatewayUnreachable, message, "see `stockade tasks show`")
        })
    }

    fn open(&self, options: &Open) -> Result<ExitCode, Failure> {
        let task = self.find(&options.id)?;
        if task.state.has_ended() {
            let message = format!("task `{}` has ended", task.task_id);
            return Err(Failure::new(Code::InvalidRequest, message, "start it again"));
        }
        let mut client = self.gateway_of(&task)?;
        let act =
            TaskAct::Open { task_id: task.task_id, port: options.port, listen: options.listen };
        let session = self.session.map(str::to_owned);
        let answer = client.task(&TaskRequest { session, act })?;
        let Some(forward) = &answer.forward else { return Ok(ExitCode::SUCCESS) };
        let text = match self.json {
            true => json!({ "task": answer.tasks.first(), "forward": forward }).to_string(),
            false => forward.address.clone(),
        };
        failure::print(&text).map_err(failure::unwritable)?;
        let port = forward.port;
        failure::tell(&format!(
            "stockade: forwards to port {port} of the task until the task ends"
        ));
        Ok(ExitCode::SUCCESS)
    }

    fn show_in_json(&self, task: TaskView) -> Result<ExitCode, Failure> {
        match self.json {
            true => self.show(task),
            false => Ok(ExitCode::SUCCESS),
        }
    }

    fn prune(&self, options: &Prune) -> Result<ExitCode, Failure> {
        let usual = Retention::default();
        let keep = Retention {
            age: options.older_than.unwrap_or(usual.age),
            bytes: options.keep.unwrap_or(usual.bytes),
        };
        let outdated = self.store.outdated(keep)?;
        for pruned in &outdated {
            if !options.dry_run {
                self.store.remove(&pruned.id)?;
            }
            if !self.json {
                let line = format!("{}  {}", pruned.id, shown::size(pruned.bytes));
                failure::print(&line).map_err(failure::unwritable)?;
            }
        }
        let bytes: u64 = outdated.iter().map(|pruned| pruned.bytes).sum();
        if self.json {
            let ids: Vec<&str> = outdated.iter().map(|pruned| pruned.id.as_str()).collect();
            let object = json!({ "removed": ids, "bytes": bytes, "dry_run": options.dry_run });
            failure::print(&object.to_string()).map_err(failure::unwritable)?;
        } else {
            let verb = if options.dry_run { "would remove" } else { "removed" };
            let (count, size) = (outdated.len(), shown::size(bytes));
            failure::tell(&format!("stockade: {verb} the output of {count} commands, {size}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
