//! One hook as a process: its input, its bounded output, its end and the end of everything it started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use stockade_policy::CommandHook;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

/// Most bytes that are read of each stream of a hook.
const MAX_OUTPUT: u64 = 1 << 20;
/// The variable by which the processes of a hook are found again.
const MARK: &str = "STOCKADE_HOOK";
/// Time beyond its limit in which a hook that was ended must be gone.
const ENDING: Duration = Duration::from_secs(5);
/// How often the process table is searched for what a hook left behind.
const SWEEPS: usize = 16;

/// One hook to run.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// What runs, and for how long at most.
    pub(super) command: CommandHook,
    /// Its environment.
    pub(super) variables: BTreeMap<String, String>,
    /// Its working directory.
    pub(super) cwd: PathBuf,
    /// Its standard input.
    pub(super) input: String,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ended {
    /// Exit status, if it exited.
    pub(super) exit: Option<i32>,
    /// What it wrote.
    pub(super) stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub(super) stderr: Vec<u8>,
    /// How long it took.
    pub(super) milliseconds: u64,
    /// It did not end in order, and why.
    pub(super) failure: Option<String>,
}

impl Ended {
    /// Returns the end of a hook that never ran in order.
    pub(super) fn failed(failure: impl Into<String>) -> Ended {
        Ended { failure: Some(failure.into()), ..Ended::default() }
    }
}

/// Runs one hook to its end.
pub(super) async fn run(job: Job) -> Ended {
    let start = Instant::now();
    let mut mark = [0; 16];
    if getrandom::fill(&mut mark).is_err() {
        return Ended::failed("the system gives no random bytes");
    }
    let mark = crate::places::hex(&mark);
    let mut child = match command(&job, &mark).spawn() {
        Ok(child) => child,
        Err(error) => return Ended::failed(format!("it cannot be started: {error}")),
    };
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let sweep = Sweep { group, mark };
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Ended::failed("it has no standard streams");
    };
    let streams = async { tokio::join!(bounded(stdout), bounded(stderr)) };
    let life = async {
        let status = tokio::time::timeout(job.command.timeout, child.wait()).await;
        // Whatever still holds the pipes open ends here, so that reading ends.
        let swept = tokio::task::spawn_blocking(move || drop(sweep)).await;
        (status, swept)
    };
    let talk = async { tokio::join!(life, give(stdin, job.input), streams) };
    let Ok(((status, swept), (), streams)) =
        tokio::time::timeout(job.command.timeout + ENDING, talk).await
    else {
        return Ended::failed("its output cannot be read to the end");
    };
    let failure = match (&status, &streams, swept) {
        (Err(_), _, _) => {
            Some(format!("it did not end within {} seconds", job.command.timeout.as_secs_f64()))
        }
        (Ok(Err(error)), _, _) => Some(format!("it cannot be waited for: {error}")),
        (_, (None, _) | (_, None), _) => Some(format!("it wrote more than {MAX_OUTPUT} bytes")),
        (_, _, Err(_)) => Some("what it started cannot be ended".into()),
        (Ok(Ok(_)), (Some(_), Some(_)), Ok(())) => None,
    };
    Ended {
        exit: status.ok().and_then(Result::ok).and_then(|status| status.code()),
        stdout: streams.0.unwrap_or_default(),
        stderr: streams.1.unwrap_or_default(),
        milliseconds: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        failure,
    }
}

/// Gives a hook its input. One that does not read it closes the pipe, which is no failure.
async fn give(mut stdin: ChildStdin, input: String) {
    let written = stdin.write_all(input.as_bytes()).await;
    drop((written, stdin));
}

fn command(job: &Job, mark: &str) -> Command {
    let mut command = match &job.command.arguments {
        Some(arguments) => {
            let mut command = Command::new(&job.command.command);
            command.args(arguments);
            command
        }
        None => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(&job.command.command);
            command
        }
    };
    command.env_clear().envs(&job.variables).env(MARK, mark).current_dir(&job.cwd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

/// Reads a stream to its end; none when it cannot be read or holds too much. What is too much stays unread,
/// and its writer is stopped by the closed pipe.
async fn bounded(stream: impl AsyncRead + Unpin) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_OUTPUT);
    (read.is_ok() && fits).then_some(bytes)
}

/// Ends everything that a hook started when it goes out of scope: its process group, then whatever left the
/// group but still carries the mark in its environment.
struct Sweep {
    group: Option<Pid>,
    mark: String,
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL); // a group that is gone is what is wanted
        }
        let wanted = format!("{MARK}={}", self.mark);
        for _ in 0..SWEEPS {
            let left = marked(&wanted);
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL); // it may have ended by itself
            }
        }
    }
}

/// Returns the living processes whose environment holds `wanted`.
fn marked(wanted: &str) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        // The environment of a process that has ended but is not reaped is empty.
        let variables = std::fs::read(entry.path().join("environ")).ok()?;
        let found = variables.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes());
        found.then_some(Pid::from_raw(pid)?)
    };
    processes.filter_map(process).collect()
}
