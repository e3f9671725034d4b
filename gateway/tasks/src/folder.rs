//! The folder of one task, as the gateway that runs it writes it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use stockade_base::directories::private_directory;
use stockade_base::signals::signal_name;
use stockade_wire::parts::Window;
use stockade_wire::tasks::{TaskState, TaskView};

/// Name of the file that says what a task is.
pub(super) const ABOUT: &str = "task.json";
/// Name of the file that holds its output.
pub const OUTPUT: &str = "output";
/// Name of the file that its gateway keeps locked.
pub(super) const HOLDER: &str = "holder";
/// Name of the file that tells where the last reading of the output ended.
pub(super) const READ: &str = "read";

/// Name of the file that keeps room for the end of a task on a disk that is full by then.
const ROOM: &str = "room";
/// Bytes of it besides those that tell of a task now: a reason, times, an end.
const ROOM_BYTES: usize = 16 << 10;

/// Version of `task.json`.
pub(super) const VERSION: u32 = 1;

/// The content of `task.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    /// Version of the form.
    pub(super) v: u32,
    /// Process number of the monitor, which is the parent of all that the task runs and lives as long as the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) monitor: Option<u32>,
    /// Process number of the gateway that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gateway: Option<u32>,
    /// The size of its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<Window>,
    /// The task, but for what its other files tell.
    #[serde(flatten)]
    pub(super) view: TaskView,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Its last state.
    pub state: TaskState,
    /// Why, in a few words.
    pub reason: String,
    /// Exit status.
    pub exit_code: Option<i32>,
    /// Number of the signal.
    pub signal_number: Option<i32>,
}

/// A task that this gateway runs.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    view: TaskView,
    monitor: Option<u32>,
    window: Option<Window>,
    /// Locked from the first to the last moment: none before and after.
    holder: Option<File>,
}

impl Folder {
    /// Returns the folder of a command that may become a task: nothing is written yet.
    pub fn new(path: PathBuf, view: TaskView) -> Folder {
        let output_path = path.join(OUTPUT).to_string_lossy().into_owned();
        Folder {
            path,
            view: TaskView { output_path, ..view },
            monitor: None,
            window: None,
            holder: None,
        }
    }

    /// Returns the message about the task.
    pub fn view(&self) -> &TaskView {
        &self.view
    }

    /// Says whether the command is a task.
    pub fn is_task(&self) -> bool {
        self.holder.is_some()
    }

    /// Notes the process number of the monitor of the command, which was started.
    pub fn runs_below(&mut self, monitor: u32) {
        self.monitor = Some(monitor);
    }

    /// Notes the size of the terminal of the command.
    pub fn has_window(&mut self, window: Window) {
        self.window = Some(window);
        if self.holder.is_some() {
            let _ = self.write(); // who attaches draws the screen for the size before
        }
    }

    /// Makes the command a task, in state `state`; returns what it is from then on.
    pub fn begin(&mut self, state: TaskState, reason: &str) -> io::Result<TaskView> {
        if self.holder.is_none() {
            private_directory(&self.path)?;
            let holder = private_file().create_new(true).open(self.path.join(HOLDER))?;
            rustix::fs::flock(&holder, FlockOperation::NonBlockingLockExclusive)?;
            private_file().create(true).truncate(false).open(self.path.join(OUTPUT))?;
            self.holder = Some(holder);
        }
        self.view.state = state;
        self.view.reason = reason.to_owned();
        let length = self.write()?;
        // Not sparse: the blocks are to be there.
        replace(&self.path.join(ROOM), &vec![b' '; length + ROOM_BYTES])?;
        Ok(self.view.clone())
    }

    /// Writes how the task ended, and lets go of it. Nothing happens to a command that is not a task.
    ///
    /// A folder that is gone by then is left alone: somebody removed it, and the log has the end as well.
    pub fn end(mut self, end: End) -> io::Result<()> {
        if self.holder.is_none() {
            return Ok(());
        }
        let End { state, reason, exit_code, signal_number } = end;
        let (signal, ended_ms) = (signal_number.map(signal_name), Some(now_ms()));
        self.view =
            TaskView { state, reason, exit_code, signal, signal_number, ended_ms, ..self.view };
        self.monitor = None;
        let _ = std::fs::remove_file(self.path.join(ROOM)); // it goes with the folder
        let written = self.write();
        self.holder = None;
        match written {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written.map(drop),
        }
    }

    /// Replaces `task.json` in one step, so that a reader finds one whole state; returns its length.
    fn write(&self) -> io::Result<usize> {
        let (view, gateway) = (self.view.clone(), Some(std::process::id()));
        let Folder { monitor, window, .. } = *self;
        let about = About { v: VERSION, monitor, gateway, window, view };
        let text = serde_json::to_vec(&about)?;
        replace(&self.path.join(ABOUT), &text).map(|()| text.len())
    }
}

/// Writes a file beside `path` and renames it into its place.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = private_file().create(true).truncate(true).open(&beside)?;
    file.write_all(bytes)?;
    std::fs::rename(&beside, path)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Returns the time in milliseconds since 1970 (UTC).
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
