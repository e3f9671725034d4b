//! A command hook on its way: the person's own runs apart from the project, any other one like a command of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use stockade_policy::{CommandHook, Hook};
use tokio::task::JoinHandle;

use super::process::{self, Ended};
use super::standing::{self, Standing};
use super::{Around, HookAnswer, Means, confined, describe};

/// A hook as it runs.
pub(super) struct Prepared {
    pub(super) task: Task,
    /// Why what it allows does not count; none for the person's own.
    pub(super) bound: Option<String>,
}

/// Way in which a hook is handled.
pub(super) enum Task {
    /// The hook runs, and its end is waited for.
    Waited(JoinHandle<Ended>),
    /// The hook is to run beside the agent.
    Beside(process::Job),
    /// The hook does not run, and this is told.
    Left(HookAnswer),
}

impl Prepared {
    pub(super) async fn new(
        hook: &Hook,
        command: &CommandHook,
        mut variables: BTreeMap<String, String>,
        limit: Duration,
        input: String,
        around: Around<'_>,
        means: &Means,
    ) -> Prepared {
        let scene = around.scene;
        let (cwd, bound) = match standing::of(hook, command, &variables, around).await {
            Standing::Own(search) => {
                variables.extend([("PATH".into(), search), ("PWD".into(), "/".into())]);
                (PathBuf::from("/"), None)
            }
            Standing::Bound(reason) => (scene.place.cwd.clone(), Some(reason)),
        };
        let command = command.clone();
        // Also where the sandbox is off: settings that let commands run unconfined let no hook do so.
        if let Some(reason) = bound.clone() {
            let (layer, scene) = (hook.origin.layer, scene.clone());
            let means = means.clone();
            let task = match hook.runs_beside {
                true => Task::Left(left(hook, &reason)),
                false => Task::Waited(tokio::spawn(confined::run(confined::Job {
                    command,
                    limit,
                    variables,
                    layer,
                    input,
                    means,
                    scene,
                }))),
            };
            return Prepared { task, bound };
        }
        let executable = means.executable.clone();
        let job = process::Job { command, limit, variables, cwd, input, executable };
        let task = match hook.runs_beside {
            true => Task::Beside(job),
            false => Task::Waited(tokio::spawn(process::run(job))),
        };
        Prepared { task, bound }
    }
}

/// Returns the message about a hook that nothing waits for, and that would have to be confined.
fn left(hook: &Hook, reason: &str) -> HookAnswer {
    let message = format!(
        "the hook {} does not run: nothing waits for it (`async`), so nothing would confine it, and {reason}; keep it where commands cannot write, or remove `async`",
        describe(&hook.origin)
    );
    HookAnswer { message: Some(message), ..HookAnswer::default() }
}
