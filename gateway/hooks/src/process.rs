//! One command hook: started behind a keeper, with bounded time and output, and gone afterwards with everything it
//! started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stockade_policy::CommandHook;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use super::reaper;

/// Most bytes that are read of each stream of a hook.
pub(super) const MAX_OUTPUT: u64 = 1 << 20;
/// The variable by which the processes of a hook are found when it has killed its keeper.
const MARK: &str = "STOCKADE_HOOK";
/// Time beyond its limit in which a hook that was ended must be gone.
const ENDING: Duration = Duration::from_secs(5);
/// How often the process table is searched for what a hook left behind.
const SWEEPS: usize = 16;

/// One hook to run.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Command of the hook.
    pub(super) command: CommandHook,
    /// For how long at most.
    pub(super) limit: Duration,
    /// Its environment.
    pub(super) variables: BTreeMap<String, String>,
    /// Its working directory.
    pub(super) cwd: PathBuf,
    /// Its standard input.
    pub(super) input: String,
    /// The executable that is its keeper.
    pub(super) executable: PathBuf,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ended {
    /// Exit status, if it exited.
    pub(super) exit: Option<i32>,
    /// Standard output.
    pub(super) stdout: Vec<u8>,
    /// Standard error.
    pub(super) stderr: Vec<u8>,
    /// How long it took.
    pub(super) milliseconds: u64,
    /// Reason why the hook did not end in order.
    pub(super) failure: Option<String>,
}

impl Ended {
    /// Returns the end of a hook that never ran in order.
    pub(super) fn failed(failure: impl Into<String>) -> Ended {
        Ended { failure: Some(failure.into()), ..Ended::default() }
    }
}

/// Runs one hook to its end. A run that is given up ends the hook as well: the keeper sees the lifeline go.
pub(super) async fn run(job: Job) -> Ended {
    let start = Instant::now();
    let mut ended = attempt(&job).await.unwrap_or_else(Ended::failed);
    ended.milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    ended
}

async fn attempt(job: &Job) -> Result<Ended, String> {
    let mark = mark()?;
    let mut command = kept(job, &mark, 0, reaper::NO_FILE);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("it has no standard streams".into());
    };
    let talk = async {
        let feed = async {
            give(&mut stdin, &job.input).await;
            Ok(())
        };
        let life = async { Ok(until_end(&mut child, &mark).await) };
        tokio::try_join!(bounded(stdout), bounded(stderr), feed, life)
    };
    let talked = tokio::time::timeout(job.limit, talk).await;
    drop(stdin);
    match talked {
        Ok(Ok((stdout, stderr, (), exit))) => {
            let failure = match exit {
                Some(_) => None,
                None => Some(own_words(&stderr)),
            };
            Ok(Ended { exit, stdout, stderr, milliseconds: 0, failure })
        }
        Ok(Err(failure)) => {
            finish(&mut child, &mark).await;
            Err(failure)
        }
        Err(_) => {
            finish(&mut child, &mark).await;
            Err(format!("it did not end within {} seconds", job.limit.as_secs_f64()))
        }
    }
}

/// Starts a hook for which nothing waits: its keeper holds its time limit and writes its outcome to `report`.
pub(super) async fn start_beside(
    job: &Job,
    report: Option<&std::path::Path>,
) -> Result<(), String> {
    let report = report.map(|path| path.as_os_str().to_owned());
    let report = report.unwrap_or_else(|| reaper::NO_FILE.into());
    let limit = u64::try_from(job.limit.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut command = kept(job, &mark()?, limit, report);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let mut stdin = child.stdin.take().ok_or("it has no standard input")?;
    let given = tokio::time::timeout(ENDING, give(&mut stdin, &job.input)).await;
    given.map_err(|_| "it does not read its input".to_owned())
}

fn mark() -> Result<String, String> {
    let mut mark = [0; 16];
    stockade_base::random::fill(&mut mark)
        .map_err(|_| "cannot get random bytes from the system")?;
    Ok(stockade_base::hex(&mark))
}

/// Returns the keeper of a hook, not yet started.
#[expect(clippy::disallowed_methods, reason = "the keeper of a hook, which is this executable")]
fn kept(job: &Job, mark: &str, limit: u64, report: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(&job.executable);
    command.arg(reaper::ROLE).arg(limit.to_string()).arg(report);
    command.args(arguments(&job.command, &job.variables));
    command.env_clear().envs(&job.variables).env(MARK, mark).current_dir(&job.cwd);
    command.stdin(Stdio::piped());
    command
}

/// Returns the program of a hook and its arguments.
pub(super) fn arguments(
    command: &CommandHook,
    variables: &BTreeMap<String, String>,
) -> Vec<String> {
    let shell = if command.bash { "/bin/bash" } else { "/bin/sh" };
    match &command.arguments {
        Some(arguments) => {
            let words = std::iter::once(&command.command).chain(arguments);
            words.map(|word| filled(word, variables)).collect()
        }
        None => vec![shell.to_owned(), "-c".to_owned(), command.command.clone()],
    }
}

/// Returns a literal word of a hook with the directory of the project put in.
pub(super) fn filled(word: &str, variables: &BTreeMap<String, String>) -> String {
    let project = variables.get("CLAUDE_PROJECT_DIR").map(String::as_str);
    word.replace("${CLAUDE_PROJECT_DIR}", project.unwrap_or_default())
}

/// Gives a keeper its hook's input. One that is gone closes the pipe, and its status tells why.
async fn give(stdin: &mut ChildStdin, input: &str) {
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX).to_be_bytes();
    let written = match stdin.write_all(&length).await {
        Ok(()) => stdin.write_all(input.as_bytes()).await,
        Err(error) => Err(error),
    };
    drop(written);
}

/// Waits for a keeper. One that was killed could not end what it held, so that is searched for.
async fn until_end(child: &mut Child, mark: &str) -> Option<i32> {
    let exit = child.wait().await.ok().and_then(|status| status.code());
    if exit.is_none() {
        sweep(mark).await;
    }
    exit
}

/// Waits until a keeper whose lifeline is cut is gone.
async fn finish(child: &mut Child, mark: &str) {
    if tokio::time::timeout(ENDING, until_end(child, mark)).await.is_err() {
        let _ = child.start_kill(); // one that is gone is what is wanted
        sweep(mark).await;
    }
}

/// Returns what a keeper said before it ended itself.
fn own_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let said = text.lines().rev().find_map(|line| line.strip_prefix(reaper::VOICE));
    said.unwrap_or("it was ended by a signal").to_owned()
}

/// Reads a stream to its end. What is too much stays unread, and its writer is stopped.
pub(super) async fn bounded(stream: impl AsyncRead + Unpin) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = stream.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await;
    read.map_err(|error| format!("its output cannot be read: {error}"))?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_OUTPUT) {
        true => Ok(bytes),
        false => Err(format!("it wrote more than {MAX_OUTPUT} bytes")),
    }
}

/// Ends every process that carries a mark in its environment.
async fn sweep(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    let swept = tokio::task::spawn_blocking(move || {
        for _ in 0..SWEEPS {
            let left = marked(&wanted);
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL); // it may have ended by itself
            }
        }
    });
    let _ = swept.await; // a search that broke off ended what it had found
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
