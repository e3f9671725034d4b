//! The process beside the one that speaks with a collector: it is the gateway's client, and hands on what the gateway tells.
//!
//! The other one is confined, and has no way to the gateway: a client could have commands run. A process in a Landlock domain could
//! not look at the gateway that it connects to either, as each client does. From the other one come requests for records and nothing else.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use stockade_client::{Client, Options};
use stockade_wire::errors::Failure;
use stockade_wire::subscriptions::{SubscribeRequest, Told};
use tokio::signal::unix::{SignalKind, signal};

/// How often it is looked whether anybody still wants messages.
const LOOK: Duration = Duration::from_millis(200);
/// Longest request, in bytes.
const LONGEST: u64 = 64 << 10;

/// A request for records, with its number; without one nothing more is wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) number: u64,
    pub(crate) request: Option<SubscribeRequest>,
}

/// Message from the gateway.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum News {
    /// The gateway tells records from this one on.
    Begins(u64),
    Told(Told),
    /// The connection is over, or there was none.
    Gone(Failure),
    /// No gateway runs.
    Nobody,
}

/// Starts this program once more with `words`, as the process that is confined, and is its way to records until it ends.
pub(crate) fn run(options: Options, words: &[OsString]) -> anyhow::Result<ExitStatus> {
    let (ours, theirs) = UnixStream::pair()?;
    let executable = std::env::current_exe().context("its own path is unknown")?;
    let mut command = Command::new(executable);
    command.arg0("stockade-agent").args(words).stdin(OwnedFd::from(theirs));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut child = tokio::process::Command::from(command).spawn()?;
        std::thread::Builder::new()
            .name("requests".into())
            .spawn(move || serve(&options, &ours))?;
        loop {
            tokio::select! {
                ended = child.wait() => return Ok(ended?),
                _ = terminate.recv() => end(&child),
                _ = interrupt.recv() => end(&child),
            }
        }
    })
}

/// Has the other process end as this one was told to.
fn end(child: &tokio::process::Child) {
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM); // it ended already
    }
}

/// Serves requests until the other process is gone: one at a time, the last one counts.
fn serve(options: &Options, stream: &UnixStream) {
    let current = Arc::new(AtomicU64::new(0));
    let mut telling: Option<std::thread::JoinHandle<()>> = None;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match (&mut lines).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(count) if count > 0 && line.ends_with(b"\n") => {}
            Ok(_) | Err(_) => return,
        }
        let Ok(Wanted { number, request }) = serde_json::from_slice(&line) else { return };
        current.store(number, Ordering::Release);
        if let Some(before) = telling.take() {
            let _ = before.join(); // it is over, however it ended
        }
        let (Some(request), Ok(to)) = (request, stream.try_clone()) else { continue };
        let (options, current) = (options.clone(), Arc::clone(&current));
        let thread = std::thread::Builder::new().name("records".into());
        telling = thread.spawn(move || tell(&options, &request, (&to, number, &current))).ok();
    }
}

/// Tells of records until another request counts, and at last why there are no more.
fn tell(options: &Options, request: &SubscribeRequest, to: (&UnixStream, u64, &AtomicU64)) {
    let last = match follow(options, request, to) {
        Ok(true) => return,
        Ok(false) => News::Nobody,
        Err(failure) => News::Gone(failure),
    };
    say(to, &last);
}

/// Hands on what is told until nobody wants it. Says whether there is a gateway.
fn follow(
    options: &Options,
    request: &SubscribeRequest,
    to: (&UnixStream, u64, &AtomicU64),
) -> Result<bool, Failure> {
    let Some(mut client) = Client::reach(options)? else { return Ok(false) };
    let next = client.subscribe(request)?.next;
    let mut is_wanted = say(to, &News::Begins(next));
    while is_wanted {
        let Some(told) = client.told(Some(LOOK))? else {
            is_wanted = counts(to);
            continue;
        };
        let is_last = matches!(told, Told::Ended { .. });
        is_wanted = say(to, &News::Told(told)) && !is_last;
    }
    Ok(true)
}

fn counts((_, number, current): (&UnixStream, u64, &AtomicU64)) -> bool {
    current.load(Ordering::Acquire) == number
}

/// Writes a message; says whether more of this request are wanted.
fn say(to: (&UnixStream, u64, &AtomicU64), news: &News) -> bool {
    let line = serde_json::to_vec(&(to.1, news)).map(|line| [line, b"\n".to_vec()].concat());
    counts(to) && line.is_ok_and(|line| { to.0 }.write_all(&line).is_ok())
}
