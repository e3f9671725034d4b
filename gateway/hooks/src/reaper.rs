//! `stockade hook-reaper`: the process between the gateway and one hook. It gives the hook a session of its own,
//! adopts whatever the hook leaves behind (prctl(2), `PR_SET_CHILD_SUBREAPER`), and ends all of it when the hook has
//! ended or the gateway wants it ended. No process of a hook gets away from it: changing the session, the group or
//! the environment does not change whose descendant it is.
//!
//! Its standard input begins with the length of the hook's input (eight bytes, big end first) and that input. What
//! comes after is the lifeline: when the gateway closes it, or is gone, the hook ends. A hook that runs beside has no
//! lifeline but a time limit, and its outcome goes into a file.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open,
    set_child_subreaper, setsid, wait,
};

/// Word that tells the executable to be the keeper.
pub const ROLE: &str = "hook-reaper";
/// Stands for "no file" in the arguments.
pub(super) const NO_FILE: &str = "-";
/// Begins each line in which the keeper speaks for itself on standard error.
pub(super) const VOICE: &str = "stockade: ";
/// Time in which all processes of a hook must be gone after they were killed.
const ENDING: Duration = Duration::from_secs(4);
/// Pause between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest input of a hook, in bytes.
const MAX_INPUT: u64 = 64 << 20;
/// Most bytes that are kept of each stream of a hook that runs beside.
const MAX_KEPT: usize = 64 << 10;

/// Is the keeper. Returns the exit status of the hook; ends by a signal when there is none.
pub fn main(arguments: &[OsString]) -> u8 {
    let ended = Order::read(arguments).and_then(|order| order.keep());
    match ended {
        Ok(Ended::Status(status)) => status,
        Ok(Ended::Signal(signal)) => fail(&format!("it was ended by signal {signal}")),
        Err(reason) => fail(&reason),
    }
}

/// Tells what went wrong and ends by a signal, which no answer of the hook can be mistaken for.
fn fail(reason: &str) -> u8 {
    // Nobody may be there to read it; the signal says enough.
    let _ = writeln!(std::io::stderr(), "\n{VOICE}{reason}");
    let _ = kill_process(getpid(), Signal::KILL); // a process may always end itself
    u8::MAX
}

/// How the hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Status(u8),
    Signal(i32),
}

/// Order of the gateway for a hook to keep.
struct Order {
    /// Time limit of a hook that runs beside; the gateway keeps the time of any other.
    limit: Option<Duration>,
    /// Where the outcome of a hook that runs beside goes.
    report: Option<PathBuf>,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Order {
    fn read(arguments: &[OsString]) -> Result<Order, String> {
        let [_, _, limit, report, program, rest @ ..] = arguments else {
            return Err("the hook reaper was started without its arguments".into());
        };
        let limit = limit.to_str().and_then(|limit| limit.parse::<u64>().ok());
        let limit = limit.ok_or("the hook reaper was started without a time limit")?;
        Ok(Order {
            limit: (limit > 0).then(|| Duration::from_millis(limit)),
            report: (report != OsStr::new(NO_FILE)).then(|| PathBuf::from(report)),
            program: program.clone(),
            arguments: rest.to_vec(),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the keeper becomes the hook that settings of a person name"
    )]
    fn keep(&self) -> Result<Ended, String> {
        setsid().map_err(|error| format!("it cannot be given a session of its own: {error}"))?;
        set_child_subreaper(Some(getpid()))
            .map_err(|error| format!("its child processes cannot be tracked: {error}"))?;
        let input = read_input(std::io::stdin().lock())?;
        let beside = self.limit.is_some();
        let stream = || if beside { Stdio::piped() } else { Stdio::inherit() };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(stream()).stderr(stream());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Err(format!("it cannot be started: {error}")),
        };
        let kept = self.follow(&mut child, input);
        let (status, gone) = end_all(&child);
        if !gone {
            return Err("its child processes cannot be stopped".into());
        }
        let ended = match status {
            Some(status) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ended::Status(u8::try_from(code).unwrap_or(u8::MAX)),
                (None, signal) => Ended::Signal(signal.unwrap_or_default()),
            },
            None => return Err("its exit status is unknown".into()),
        };
        if let Some(report) = &self.report {
            write_report(report, ended, &kept)?;
        }
        Ok(ended)
    }

    /// Feeds the hook until it ends, its time is over, or the lifeline is cut.
    fn follow(&self, child: &mut Child, input: Vec<u8>) -> [Vec<u8>; 2] {
        let mut kept = [Vec::new(), Vec::new()];
        let exited = pid_of(child).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        // A hook that cannot be watched ends here.
        let Some(Ok(exited)) = exited else { return kept };
        let mut feed = Feed { stream: child.stdin.take().map(OwnedFd::from), input, given: 0 };
        let mut streams =
            [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        for fd in feed.stream.iter().chain(streams.iter().flatten()) {
            // A pipe that stays blocking could hold the keeper up, but not past the lifeline.
            let _ = fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK));
        }
        let deadline = self.limit.map(|limit| Instant::now() + limit);
        let lifeline = std::io::stdin();
        loop {
            let ready =
                wait_for(&exited, &lifeline, self.limit.is_none(), &feed, &streams, deadline);
            feed.go_on();
            for (stream, kept) in streams.iter_mut().zip(&mut kept) {
                drain(stream, kept);
            }
            match ready {
                Ready::Again => {}
                Ready::Exited | Ready::Cut => return kept,
            }
        }
    }
}

/// Reason for which the keeper woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// Streams moved.
    Again,
    /// The hook ended.
    Exited,
    /// The lifeline is cut, or the time is over.
    Cut,
}

fn wait_for(
    exited: &OwnedFd,
    lifeline: &std::io::Stdin,
    has_lifeline: bool,
    feed: &Feed,
    streams: &[Option<OwnedFd>; 2],
    deadline: Option<Instant>,
) -> Ready {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let limit = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    });
    // Without events only a hang-up is told of.
    let mut fds = vec![PollFd::new(exited, PollFlags::IN)];
    fds.push(match has_lifeline {
        true => PollFd::new(lifeline, PollFlags::empty()),
        false => PollFd::new(exited, PollFlags::empty()),
    });
    fds.extend(feed.stream.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
    fds.extend(streams.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)));
    match poll(&mut fds, limit.as_ref()) {
        Ok(0) => Ready::Cut,
        Ok(_) => {
            let told = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            match (told(0), told(1)) {
                (true, _) => Ready::Exited,
                (false, true) => Ready::Cut,
                (false, false) => Ready::Again,
            }
        }
        Err(Errno::INTR) => Ready::Again,
        Err(_) => Ready::Cut,
    }
}

/// The input on its way to the hook.
struct Feed {
    stream: Option<OwnedFd>,
    input: Vec<u8>,
    given: usize,
}

impl Feed {
    /// Writes what fits. A hook that does not read its input is none the worse for it.
    fn go_on(&mut self) {
        while let Some(stream) = &self.stream {
            let rest = self.input.get(self.given..).unwrap_or_default();
            match rest.is_empty() {
                true => self.stream = None,
                false => match rustix::io::write(stream, rest) {
                    Ok(written) => self.given += written,
                    Err(Errno::AGAIN) => return,
                    Err(Errno::INTR) => {}
                    Err(_) => self.stream = None,
                },
            }
        }
    }
}

/// Reads what a stream holds; beyond the bound it is thrown away.
fn drain(stream: &mut Option<OwnedFd>, kept: &mut Vec<u8>) {
    let mut buffer = [0; 8192];
    while let Some(fd) = stream.as_ref().map(AsFd::as_fd) {
        match read_some(fd, &mut buffer) {
            Ok(0) => *stream = None,
            Ok(count) => {
                let room = MAX_KEPT.saturating_sub(kept.len());
                kept.extend(buffer.iter().take(count.min(room)));
            }
            Err(Errno::AGAIN) => return,
            Err(Errno::INTR) => {}
            Err(_) => *stream = None,
        }
    }
}

fn read_some(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    rustix::io::read(fd, buffer)
}

fn read_input(mut stdin: impl Read) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("it got no input: {error}");
    let mut length = [0; 8];
    stdin.read_exact(&mut length).map_err(unread)?;
    let length = u64::from_be_bytes(length);
    if length > MAX_INPUT {
        return Err(format!("its input is longer than {MAX_INPUT} bytes"));
    }
    let mut input = vec![0; usize::try_from(length).unwrap_or_default()];
    stdin.read_exact(&mut input).map_err(unread)?;
    Ok(input)
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Kills and reaps every descendant. Returns how the hook itself ended, if this saw it, and whether all are gone:
/// each process whose parent dies becomes a child of this one, so when there is no child there is no descendant.
fn end_all(hook: &Child) -> (Option<WaitStatus>, bool) {
    let limit = Instant::now() + ENDING;
    let mut status = None;
    loop {
        // First what ended by itself: a hook that did keeps its status.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, found))) if Some(pid) == pid_of(hook) => status = Some(found),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return (status, true),
            }
        }
        if Instant::now() > limit {
            return (status, false);
        }
        for child in children() {
            let _ = kill_process(child, Signal::KILL); // one that is gone is what is wanted
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the children of this process (proc_pid_children(5); without that file, by each process's parent).
fn children() -> Vec<Pid> {
    let listed = std::fs::read_to_string("/proc/thread-self/children").ok();
    let pids: Vec<i32> = match listed {
        Some(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        None => {
            let own = getpid().as_raw_nonzero().get();
            let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
            let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            pids.filter(|pid: &i32| parent_of(*pid) == Some(own)).collect()
        }
    };
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything (proc_pid_stat(5)).
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn write_report(path: &Path, ended: Ended, kept: &[Vec<u8>; 2]) -> Result<(), String> {
    let exit = match ended {
        Ended::Status(status) => Some(status),
        Ended::Signal(_) => None,
    };
    let [stdout, stderr] = kept;
    let report = serde_json::json!({
        "exit": exit,
        "stdout": STANDARD.encode(stdout),
        "stderr": STANDARD.encode(stderr),
    });
    // The folder goes when what was in it has been told.
    if let Some(folder) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("its result cannot be saved: {error}"))?;
    }
    let new = path.with_extension("tmp");
    let written =
        std::fs::write(&new, report.to_string()).and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| format!("its result cannot be saved: {error}"))
}
