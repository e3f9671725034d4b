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
use stockade_screen::Screen;

/// The key that detaches: Ctrl-], as of telnet(1).
const DETACH: u8 = 0x1d;
/// Bytes of earlier output of which the screen is made: those of a day at a terminal, read in a second or two.
const EARLIER: u64 = 64 << 20;
/// Bytes of earlier output that are printed where there is no screen.
const EARLIER_BYTES: u64 = 64 << 10;
/// Size of a terminal of which no other is known, as the gateway gives it.
const USUAL: Window = Window { rows: 24, columns: 80 };
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
        let help = format!("`stockade tasks output {name}` shows its output");
        return Err(invalid(format!("task `{name}` has ended"), help));
    }
    if !task.pty {
        let help =
            format!("watch it with `stockade tasks follow {name}`, or start it with `--pty`");
        return Err(invalid(format!("task `{name}` has no terminal"), help));
    }
    let mut attached = Attached::new(tasks, &task)?;
    let terminal = Raw::begin();
    let carried = attached.draw().and_then(|()| attached.carry(tasks, terminal.is_some()));
    let left = attached.leave();
    drop(terminal);
    let is_over = carried?;
    left?;
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
    /// The task's screen in the terminal of this process; none where it is no terminal.
    screen: Option<Screen>,
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
        let client = tasks.gateway_of(task)?;
        let mut output = follow::open(task, 0)?;
        let screen = match isatty(rustix::stdio::stdout()) {
            true => {
                let size = tasks.store.window(&task.task_id).unwrap_or(USUAL);
                Some(folded(&mut output, size).map_err(broken)?)
            }
            false => None,
        };
        if screen.is_none() {
            from_end(&mut output, EARLIER_BYTES).map_err(broken)?;
        }
        Ok(Attached {
            client,
            session: tasks.session.map(str::to_owned),
            id: task.task_id.clone(),
            output,
            screen,
            watch,
            window: None,
            types: true,
        })
    }

    /// Draws the screen as the task left it, in the size of this terminal.
    fn draw(&mut self) -> Result<(), Failure> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        if let Some(Window { rows, columns }) = streams::window() {
            screen.resize(rows, columns);
        }
        match screen.picture() {
            Some(picture) => follow::write(&picture).map(drop),
            None => {
                let broken = |error: std::io::Error| unfollowed(self.id.as_ref(), &error);
                from_end(&mut self.output, EARLIER_BYTES).map(drop).map_err(broken)
            }
        }
    }

    /// Leaves the terminal of this process as a shell wants it.
    fn leave(&self) -> Result<(), Failure> {
        match &self.screen {
            Some(screen) => follow::write(&screen.farewell()).map(drop),
            None => Ok(()),
        }
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
            if let Some(screen) = &mut self.screen {
                screen.take(piece);
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
        if let (Some(screen), Some(Window { rows, columns })) = (&mut self.screen, window) {
            screen.resize(rows, columns);
        }
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

/// Returns the screen that output makes on a terminal of a size; what follows is read from its end.
fn folded(output: &mut File, Window { rows, columns }: Window) -> std::io::Result<Screen> {
    let mut left = from_end(output, EARLIER)?;
    let mut screen = Screen::new(rows, columns);
    let mut buffer = vec![0; PIECE];
    // No further than it reaches now: a task may write faster than this reads.
    while left > 0 {
        let count = output.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        screen.take(buffer.get(..count).unwrap_or_default());
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(screen)
}

/// Goes to at most so many bytes before the end of a file; returns how many they are.
fn from_end(file: &mut File, bytes: u64) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    Ok(length.min(bytes))
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
