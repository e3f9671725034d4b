//! A hook that may be what a command wrote: it runs sandboxed like a command of the project, with no network, and all that
//! it started ends with it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stockade_policy::{CommandHook, Handler, Layer};
use tokio::io::AsyncWriteExt as _;

use super::Means;
use super::process::{self, Ended};
use crate::pipes::{self, Input, Outputs};
use stockade_plan::temporary::Temporary;
use stockade_review::Journal;
use stockade_scene::scene::Scene;
use stockade_spec::Confined;

/// Time beyond its limit in which a hook that was ended must be gone.
const ENDING: Duration = Duration::from_secs(15);

/// Begins the failure of a hook of which nothing is known, since nothing confines it here.
pub(super) const UNCONFINABLE: &str = "it cannot be confined";

/// One hook to run.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) command: CommandHook,
    pub(super) limit: Duration,
    /// Variables that the hook would get unconfined.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) layer: Layer,
    pub(super) input: String,
    pub(super) means: Means,
    pub(super) scene: Scene,
}

/// Runs one hook to its end.
pub(super) async fn run(job: Job) -> Ended {
    let start = Instant::now();
    let mut ended = attempt(job).await.unwrap_or_else(Ended::failed);
    ended.milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    ended
}

async fn attempt(job: Job) -> Result<Ended, String> {
    let unconfined = |error: stockade_spec::Error| format!("{UNCONFINABLE}: {error}");
    let (theirs, ours) = pipes::stdio(Input::Piped, Outputs::Apart).map_err(unconfined)?;
    let (limit, input, state) = (job.limit, job.input.clone(), job.means.places.state.clone());
    let handler = format!("the hook `{}`", Handler::Command(job.command.clone()).text());
    let started = tokio::task::spawn_blocking(move || start(&job, theirs));
    let (child, temporary, journal) = started.await.map_err(|_| "it cannot be started")??;
    let stop = Stop(child.stopper().map_err(|error| format!("it cannot be stopped: {error}"))?);
    let mut life = tokio::task::spawn_blocking(move || {
        let exit = child.wait();
        drop(temporary);
        // One that cannot be taken now is by whoever looks next.
        let _ = journal.end(&state, || handler);
        exit
    });
    let pipes::Ours { stdin, stdout, stderr } = ours;
    let feed = async {
        if let Some(mut stdin) = stdin {
            // One that does not read its input is none the worse for it.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        Ok(())
    };
    let talk = async {
        let stderr = stderr.ok_or("its standard error is missing")?;
        let all = tokio::try_join!(process::bounded(stdout), process::bounded(stderr), feed);
        let (stdout, stderr, ()) = all?;
        let exit =
            (&mut life).await.ok().and_then(Result::ok).ok_or("its exit status is unknown")?;
        Ok((stdout, stderr, exit))
    };
    let late = || Err(format!("it did not end within {} seconds", limit.as_secs_f64()));
    let talked = tokio::time::timeout(limit, talk).await.unwrap_or_else(|_| late());
    drop(stop);
    let (stdout, stderr, exit) = match talked {
        Ok(talked) => talked,
        Err(failure) => {
            let gone = tokio::time::timeout(ENDING, life).await;
            gone.map_err(|_| "its child processes cannot be stopped")?
                .map_err(|_| failure.clone())?
                .ok();
            return Err(failure);
        }
    };
    let failure = exit.signal.map(|signal| format!("it was ended by signal {signal}"));
    Ok(Ended { exit: exit.code, stdout, stderr, milliseconds: 0, failure })
}

/// Ends a hook that nobody waits for any more.
struct Stop(Box<dyn stockade_spec::Stop>);

impl Drop for Stop {
    fn drop(&mut self) {
        let _ = self.0.stop(Duration::ZERO); // nothing is left of one that ended
    }
}

/// Starts a hook; blocks. Returns what it is and the directory of its temporary files.
fn start(
    job: &Job,
    stdio: stockade_spec::Stdio,
) -> Result<(Box<dyn Confined>, Temporary, Journal), String> {
    let mut variables = match job.layer {
        Layer::Policy => job.variables.clone(),
        Layer::Builtin | Layer::User | Layer::Project | Layer::Local | Layer::Flag => {
            job.scene.environment.variables.clone()
        }
    };
    let told = job.variables.iter().filter(|(name, _)| name.ends_with("_PROJECT_DIR"));
    variables.extend(told.map(|(name, value)| (name.clone(), value.clone())));
    let argv = process::arguments(&job.command, &job.variables);
    let planned = stockade_plan::hook::plan(&job.scene, &job.means.places, argv, variables);
    let (spec, temporary, journal) =
        planned.map_err(|failure| format!("{UNCONFINABLE}: {}", failure.message))?;
    match (job.means.start)(&job.means.executable, &spec, stdio) {
        Ok((child, _)) => Ok((child, temporary, journal)),
        Err(error @ stockade_spec::Error::Exec { .. }) => {
            Err(format!("it cannot be started: {error}"))
        }
        Err(error) => Err(format!("{UNCONFINABLE}: {error}")),
    }
}
