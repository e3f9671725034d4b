//! `stockade tasks attach`: the terminal of this process becomes that of a task until the task ends or a key detaches.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::route::Route;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use super::follow::{self, unfollowed};
use super::{Tasks, shown};
use crate::cli::exit::ExitCode;
use crate::cli::{failure, streams};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::{TaskAct, TaskRequest, TaskView};
use crate::protocol::types::{Input, Window};
use crate::tasks::wait::Watch;

/// The key that detaches: Ctrl-], as of telnet(1).
const DETACH: u8 = 0x1d;
/// Bytes of earlier output that are printed first, so that the screen is as the task left it.
const EARLIER: u64 = 64 << 10;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// At the latest after this time the size of the window is looked at again.
const LOOK: Duration = Duration::from_millis(250);

/// Types to a task and prints what it writes.
pub(super) fn attach(tasks: &Tasks<'_>, id: &str) -> Result<ExitCode, Failure> {
    let task = tasks.find(id)?;
    let invalid = |message: String, help: String| Failure::new(Code::InvalidRequest, message, help);
    let name = &task.task_id;
    if task.state.has_ended() {
        let help = format!("read what it wrote: `stockade tasks output {name}`");
        return Err(invalid(format!("task `{name}` has ended"), help));
    }
    if !task.pty {
        let help =
            format!("watch it with `stockade tasks follow {name}`, or start it with `--pty`");
        return Err(invalid(format!("task `{name}` has no terminal"), help));
    }
    let mut attached = Attached::new(tasks, &task)?;
    let terminal = Raw::begin();
    let is_over = attached.carry(tasks, terminal.is_some())?;
    drop(terminal);
    match is_over {
        true => tasks.ended(&tasks.find(name)?),
        false => {
            failure::tell(&format!("stockade: detached; {}", shown::line(&task)));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A connection to a task.
struct Attached {
    client: Route,
    session: Option<String>,
    id: String,
    output: File,
    watch: Watch,
    /// The size that the task was told last.
    window: Option<Window>,
    /// More may come on standard input.
    types: bool,
}

impl Attached {
    fn new(tasks: &Tasks<'_>, task: &TaskView) -> Result<Attached, Failure> {
        let folder = tasks.store.folder(&task.task_id);
        let broken = |error: std::io::Error| unfollowed(&folder, &error);
        let watch = Watch::new(&folder).map_err(broken)?;
        let mut output = follow::open(task, 0)?;
        let length = output.metadata().map_err(broken)?.len();
        output.seek(SeekFrom::Start(length.saturating_sub(EARLIER))).map_err(broken)?;
        Ok(Attached {
            client: tasks.gateway_of(task)?,
            session: tasks.session.map(str::to_owned),
            id: task.task_id.clone(),
            output,
            watch,
            window: None,
            types: true,
        })
    }

    /// Carries keys and output. Returns whether the task is over; else the person detached.
    fn carry(&mut self, tasks: &Tasks<'_>, has_keys: bool) -> Result<bool, Failure> {
        loop {
            // Looked at before the output is read: what it wrote until its end is printed.
            let is_over = tasks.store.find(&self.id, tasks.session)?.state.has_ended();
            if !self.print()? || is_over {
                return Ok(is_over);
            }
            self.resize()?;
            let input = self.types.then(rustix::stdio::stdin);
            let folder = tasks.store.folder(&self.id);
            let waited = self.watch.wait_or(input, Instant::now() + LOOK);
            waited.map_err(|error| unfollowed(&folder, &error))?;
            if self.types && is_readable(rustix::stdio::stdin()) && !self.type_keys(has_keys)? {
                return Ok(false);
            }
        }
    }

    /// Prints what is there; returns whether anybody still reads.
    fn print(&mut self) -> Result<bool, Failure> {
        let mut buffer = vec![0; PIECE];
        loop {
            let count = self.output.read(&mut buffer);
            let count = count.map_err(|error| unfollowed(self.id.as_ref(), &error))?;
            let piece = buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                return Ok(true);
            }
            if !follow::write(piece)? {
                return Ok(false);
            }
        }
    }

    /// Types what came on standard input; returns whether the person stays.
    fn type_keys(&mut self, has_keys: bool) -> Result<bool, Failure> {
        let mut keys = vec![0; PIECE];
        let count = rustix::io::read(rustix::stdio::stdin(), &mut keys).unwrap_or(0);
        keys.truncate(count);
        self.types = count > 0;
        let detaches = keys.iter().position(|key| has_keys && *key == DETACH);
        keys.truncate(detaches.unwrap_or(keys.len()));
        if !keys.is_empty() {
            self.ask(TaskAct::Input { task_id: self.id.clone(), input: Input::Stdin(keys) })?;
        }
        Ok(detaches.is_none())
    }

    /// Tells the task of another size of the window.
    fn resize(&mut self) -> Result<(), Failure> {
        let window = streams::window();
        if window == self.window {
            return Ok(());
        }
        self.window = window;
        match window {
            Some(window) => self.ask(TaskAct::Resize { task_id: self.id.clone(), window }),
            None => Ok(()),
        }
    }

    /// Asks the gateway for something that a task that has ended meanwhile does not need.
    fn ask(&mut self, act: TaskAct) -> Result<(), Failure> {
        let request = TaskRequest { session: self.session.clone(), act };
        match self.client.task(&request) {
            Err(failure) if failure.code != Code::TaskUnknown => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn is_readable(input: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// The terminal of this process, which hands on each key as it is. Dropping it restores the modes.
struct Raw(Termios);

impl Raw {
    /// Begins; none where standard input is not a terminal.
    fn begin() -> Option<Raw> {
        let stdin = rustix::stdio::stdin();
        let plain = isatty(stdin).then(|| tcgetattr(stdin).ok()).flatten()?;
        let mut raw = plain.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).ok()?;
        Some(Raw(plain))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone has no modes.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}
