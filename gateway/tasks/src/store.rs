//! All tasks of a user, read from their folders: by whoever, at any time, also when no gateway runs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::folder::{ABOUT, About, HOLDER, OUTPUT, VERSION, now_ms};
use super::ports::{self, Processes};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::parts::Window;
use stockade_wire::tasks::{TaskState, TaskView};

/// Shortest part of an identity that names a task.
const SHORTEST: usize = 4;
/// Largest `task.json` that is read: the longest command takes six times its size as escapes.
const LARGEST: u64 = 8 << 20;

/// The tasks of a user.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Limits of what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Output of commands that ended longer ago is removed.
    pub age: Duration,
    /// Of the rest the oldest is removed until all that is kept has at most so many bytes.
    pub bytes: u64,
}

impl Default for Retention {
    /// A week, and 5 GiB.
    fn default() -> Retention {
        Retention { age: Duration::from_secs(7 * 24 * 3600), bytes: 5 << 30 }
    }
}

/// A folder that was, or would be, removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Identity of the task or of the decision.
    pub id: String,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Store {
    /// Returns the tasks below the state directory `state`.
    pub fn of(state: &Path) -> Store {
        Store { root: state.join("tasks") }
    }

    /// Returns the folder of a task.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// Returns all tasks, or those of one session, oldest first.
    pub fn list(&self, session: Option<&str>) -> Result<Vec<TaskView>, Failure> {
        let mut found = Vec::new();
        for (id, folder) in self.folders()? {
            // Output of a command in the foreground lies in a folder without this file.
            if let Some(view) = read(&id, &folder)
                && session.is_none_or(|session| view.session.as_deref() == Some(session))
            {
                found.push(view);
            }
        }
        // Identities are in the order of time.
        found.sort_by(|left, right| left.task_id.cmp(&right.task_id));
        Ok(found)
    }

    /// Returns tasks with the ports on which they listen now.
    pub fn with_ports(&self, mut tasks: Vec<TaskView>) -> Vec<TaskView> {
        let mut processes = None;
        for task in tasks.iter_mut().filter(|task| !task.state.has_ended()) {
            if let Some(monitor) = self.monitor(&task.task_id) {
                let processes = processes.get_or_insert_with(Processes::now);
                task.ports = ports::listening(processes, monitor);
            }
        }
        tasks
    }

    /// Returns the process number of the monitor of a task that runs.
    pub fn monitor(&self, id: &str) -> Option<u32> {
        let monitor = self.about(id)?.monitor;
        // Its number is another's once its gateway is gone.
        monitor.filter(|_| is_held(&self.folder(id)))
    }

    /// Returns the process number of the gateway that runs a task; none once that is gone.
    pub fn gateway(&self, id: &str) -> Option<u32> {
        self.about(id)?.gateway.filter(|_| is_held(&self.folder(id)))
    }

    /// Returns the size of the terminal of a task, as it was last.
    pub fn window(&self, id: &str) -> Option<Window> {
        self.about(id)?.window
    }

    fn about(&self, id: &str) -> Option<About> {
        let about = read_limited(&self.folder(id).join(ABOUT)).ok()?;
        serde_json::from_slice(&about).ok()
    }

    /// Returns the one task that `name` names: its identity, or a part at the beginning or the end of it that no other
    /// has. In a session only tasks of that session are found.
    pub fn find(&self, name: &str, session: Option<&str>) -> Result<TaskView, Failure> {
        let tasks = self.list(session)?;
        let name_upper = name.to_ascii_uppercase();
        let is_meant = |id: &str| {
            id == name
                || (name.len() >= SHORTEST
                    && (id.starts_with(&name_upper) || id.ends_with(&name_upper)))
        };
        let mut meant = tasks.into_iter().filter(|task| is_meant(&task.task_id));
        match (meant.next(), meant.next()) {
            (Some(task), None) => Ok(task),
            (None, _) => Err(Failure::new(
                Code::TaskUnknown,
                format!("no task `{}`", name.escape_debug()),
                "`stockade tasks list` lists all tasks",
            )),
            (Some(first), Some(second)) => Err(Failure::new(
                Code::TaskUnknown,
                format!(
                    "`{}` is ambiguous: {}, {}",
                    name.escape_debug(),
                    first.task_id,
                    second.task_id
                ),
                "use more characters of the task's ID",
            )),
        }
    }

    /// Returns what retention removes, oldest first; nothing that still runs.
    pub fn outdated(&self, keep: Retention) -> Result<Vec<Pruned>, Failure> {
        let mut ended = Vec::new();
        for (id, folder) in self.folders()? {
            let (bytes, at) = weigh(&folder);
            let runs = match read(&id, &folder) {
                Some(view) => !view.state.has_ended(),
                // Output of a command in the foreground: it may still run while its file is young.
                None => now_ms().saturating_sub(at) < 60_000,
            };
            if !runs {
                ended.push((at, Pruned { id, bytes }));
            }
        }
        ended.sort_by(|left, right| (right.0, &right.1.id).cmp(&(left.0, &left.1.id)));
        let mut kept = 0_u64;
        let now = now_ms();
        let age = u64::try_from(keep.age.as_millis()).unwrap_or(u64::MAX);
        let mut outdated = Vec::new();
        for (at, pruned) in ended {
            kept = kept.saturating_add(pruned.bytes);
            if now.saturating_sub(at) > age || kept > keep.bytes {
                outdated.push(pruned);
            }
        }
        outdated.reverse();
        Ok(outdated)
    }

    /// Removes the folder of a task that has ended, or of a command in the foreground.
    pub fn remove(&self, id: &str) -> Result<(), Failure> {
        let folder = self.folder(id);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(&folder, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn folders(&self) -> Result<Vec<(String, PathBuf)>, Failure> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(&self.root, &error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unusable(&self.root, &error))?;
            if let Ok(id) = entry.file_name().into_string() {
                found.push((id, entry.path()));
            }
        }
        Ok(found)
    }
}

/// Reads the task in `folder`; none when it is the folder of no task.
///
/// A `task.json` that cannot be read is a task that is lost: it is shown, and its output can be read.
fn read(id: &str, folder: &Path) -> Option<TaskView> {
    let about = match read_limited(&folder.join(ABOUT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        about => about,
    };
    let about = about.and_then(|bytes| Ok(serde_json::from_slice::<About>(&bytes)?));
    let mut view = match about {
        Ok(About { v: VERSION, view, .. }) if view.task_id == id => view,
        Ok(About { v, .. }) if v > VERSION => {
            lost(id, folder, "its file is from a newer version of stockade")
        }
        Ok(_) => lost(id, folder, "its file is of another task"),
        Err(error) => lost(id, folder, &format!("its file is invalid: {error}")),
    };
    if !view.state.has_ended() && !is_held(folder) {
        // Its gateway may have ended the task between these two looks.
        match read_limited(&folder.join(ABOUT)).map(|bytes| serde_json::from_slice::<About>(&bytes))
        {
            Ok(Ok(About { view: again, .. })) if again.state.has_ended() => view = again,
            Ok(_) | Err(_) => {
                view.state = TaskState::Lost;
                view.reason = "the gateway that ran it is gone".to_owned();
            }
        }
    }
    view.output_bytes = folder.join(OUTPUT).metadata().map_or(0, |found| found.len());
    Some(view)
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Says whether a gateway holds the task.
pub(super) fn is_held(folder: &Path) -> bool {
    let Ok(holder) = File::open(folder.join(HOLDER)) else { return false };
    rustix::fs::flock(&holder, FlockOperation::NonBlockingLockShared).is_err()
}

fn lost(id: &str, folder: &Path, reason: &str) -> TaskView {
    use stockade_wire::types::AuditReference;
    TaskView {
        task_id: id.to_owned(),
        state: TaskState::Lost,
        reason: reason.to_owned(),
        session: None,
        outlives_session: false,
        command: String::new(),
        description: None,
        cwd: String::new(),
        started_ms: 0,
        ended_ms: None,
        exit_code: None,
        signal: None,
        signal_number: None,
        output_path: folder.join(OUTPUT).to_string_lossy().into_owned(),
        output_bytes: 0,
        pty: false,
        ports: Vec::new(),
        audit: AuditReference { decision_id: id.to_owned(), sequence: 0 },
    }
}

/// Returns the bytes of all files of a folder, and when the last one changed.
fn weigh(folder: &Path) -> (u64, u64) {
    let mut found = (0_u64, 0_u64);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        let changed = about.modified().ok();
        let changed = changed.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let changed = changed.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        found = (found.0.saturating_add(about.len()), found.1.max(changed));
    }
    found
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Code::StateUnusable,
        format!("cannot use `{}`: {error}", path.display()),
        "make the directory accessible to you alone (`chmod 700`)",
    )
}
