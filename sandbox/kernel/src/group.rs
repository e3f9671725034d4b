//! A control group (version 2) of one run's own, where a place for one is delegated to this user.
//!
//! The kernel counts memory and processes there, and ends all of it at once. Where there is none, they are sampled.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::syscalls;
use stockade_spec::Limits;

/// Where version 2 is mounted: alone, or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Prefix of the names of our groups, in front of a number.
const PREFIX: &str = "stockade-";

/// Names that are tried: somebody else may clean up between two steps.
const TRIES: u32 = 3;

/// How often, and after which pauses, an ended group is asked to go.
const REMOVALS: (u32, Duration) = (50, Duration::from_millis(2));

/// Controllers that count in a group.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// A group that the monitor made, holds locked, and removes.
#[derive(Debug)]
pub struct Group {
    /// Locked as long as its monitor lives.
    directory: File,
    counters: Counters,
    place: Removed,
}

/// A group that is removed at the end.
#[derive(Debug)]
struct Removed(PathBuf);

/// Files that set and report the limits of a group, for pid 1 of the run.
#[derive(Debug)]
pub struct Counters {
    memory: Option<Counter>,
    processes: Option<Counter>,
    /// The limits of the group that this process is in, which its commands keep wherever they are.
    outer: [u64; 2],
}

#[derive(Debug)]
struct Counter {
    /// The files that are written once, with the limits, and closed.
    limits: Vec<File>,
    events: File,
    reached: &'static str,
}

/// Resources that a group counts once its limits are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes of memory.
    pub memory: bool,
    /// Number of processes.
    pub processes: bool,
}

impl Group {
    /// Makes one below the group of this process or beside it; none where that is not delegated.
    pub fn make() -> Option<Group> {
        // Beside version 1, whose groups count all, no group of version 2 counts anything.
        let read = |mount: &str| fs::read_to_string(Path::new(mount).join("cgroup.controllers"));
        let (mount, there) = MOUNTS.iter().find_map(|it| read(it).ok().map(|there| (it, there)))?;
        if !CONTROLLERS.iter().any(|name| is_listed(&there, name)) {
            return None;
        }
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = Path::new(mount).join(own_group(&groups)?);
        let outer = [least(&own.join("memory.max")), least(&own.join("pids.max"))];
        let above = own.parent().filter(|it| it.starts_with(mount));
        let mut places = [Some(own.as_path()), above].into_iter().flatten();
        places.find_map(|place| Group::make_in(place, outer))
    }

    fn make_in(place: &Path, outer: [u64; 2]) -> Option<Group> {
        if !gives_counters(place) {
            return None;
        }
        (0..TRIES).find_map(|number| {
            let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let place = Removed(path);
            let directory = File::open(&place.0).ok()?;
            directory.try_lock().ok()?;
            let counters = Counters::open(&place.0, outer).ok()?;
            Some(Group { directory, counters, place })
        })
    }

    /// Returns its directory, for a process that is to begin there.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Returns what the process that begins there needs. The group stays the other's, which made it.
    pub fn into_counters(self) -> Counters {
        let Group { counters, place, .. } = self;
        std::mem::forget(place);
        counters
    }

    /// Says what it would count.
    pub fn counts(&self) -> Counted {
        let Counters { memory, processes, .. } = &self.counters;
        Counted { memory: memory.is_some(), processes: processes.is_some() }
    }

    /// Kills all that is in it.
    pub fn kill(&self) {
        kill_all(&self.place.0);
    }

    /// Returns the limits that were reached, named as in settings.
    pub fn reached(&self) -> Vec<&'static str> {
        // Pid 1 of the run reads its own, which are the same open files.
        Counters::open(&self.place.0, [u64::MAX; 2]).map(|mut it| it.reached()).unwrap_or_default()
    }
}

impl Drop for Removed {
    /// Removes it, and what others of ours left behind when they were killed.
    fn drop(&mut self) {
        remove(&self.0);
        let beside = self.0.parent().and_then(|above| fs::read_dir(above).ok());
        for entry in beside.into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
            let path = entry.path();
            // Of a monitor that lives it is locked; one that was killed has left nothing that may stay.
            if ours && File::open(&path).is_ok_and(|directory| directory.try_lock().is_ok()) {
                kill_all(&path);
                remove(&path);
            }
        }
    }
}

fn kill_all(group: &Path) {
    // Linux before 5.14 has no such file; then the processes are found one by one, as without a group.
    let _ = fs::write(group.join("cgroup.kill"), "1");
}

/// Removes a group when the last of its processes is gone.
fn remove(group: &Path) {
    let (times, pause) = REMOVALS;
    for _ in 0..times {
        match fs::remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(pause),
            Ok(()) | Err(_) => return,
        }
    }
}

/// Returns the group of a process in the version 2 hierarchy, relative to its mount.
fn own_group(groups: &str) -> Option<&Path> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Outside of what this process is shown nothing is its own.
    (!own.split('/').any(|part| part == "..")).then_some(Path::new(own))
}

/// Says whether groups made in `place` count, and has them count where that was left to this user.
fn gives_counters(place: &Path) -> bool {
    let list = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
    let (there, given) = (list("cgroup.controllers"), list("cgroup.subtree_control"));
    if is_delegated(place) {
        for name in CONTROLLERS.iter().filter(|it| is_listed(&there, it) && !is_listed(&given, it))
        {
            // The kernel refuses this where the group has processes of its own.
            let _ = fs::write(place.join("cgroup.subtree_control"), format!("+{name}"));
        }
    }
    let given = list("cgroup.subtree_control");
    CONTROLLERS.iter().any(|name| is_listed(&given, name))
}

/// Says whether a file that lists names has this one.
fn is_listed(text: &str, name: &str) -> bool {
    text.split_whitespace().any(|it| it == name)
}

/// Says whether a group was handed to this user for its own use: by its owner, or by systemd's mark
/// (`systemd.resource-control(5)`, `Delegate=`).
fn is_delegated(place: &Path) -> bool {
    let Ok(directory) = File::open(place) else { return false };
    let uid = syscalls::ids().user;
    let owned = uid != 0 && directory.metadata().is_ok_and(|found| found.uid() == uid);
    let marks = [c"user.delegate", c"trusted.delegate"];
    owned || marks.iter().any(|name| syscalls::has_attribute(directory.as_fd(), name, b"1"))
}

/// Returns the number in a file of limits; for `max` and where there is none, the highest.
fn least(file: &Path) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}

impl Counters {
    fn open(group: &Path, outer: [u64; 2]) -> io::Result<Counters> {
        let write = |name: &str| File::options().write(true).open(group.join(name));
        let memory = match write("memory.max") {
            Err(_) => None,
            Ok(limit) => Some(Counter {
                // Without swap there is no file for it.
                limits: [Ok(limit), write("memory.swap.max")].into_iter().flatten().collect(),
                events: File::open(group.join("memory.events"))?,
                reached: "oom_kill",
            }),
        };
        let processes = match write("pids.max") {
            Err(_) => None,
            Ok(limit) => Some(Counter {
                limits: vec![limit],
                events: File::open(group.join("pids.events"))?,
                reached: "max",
            }),
        };
        Ok(Counters { memory, processes, outer })
    }

    /// Sets the limits of a run, once; says what is counted now.
    pub fn limit(&mut self, limits: &Limits) -> Counted {
        let [memory, processes] = self.outer;
        let memory = [limits.memory_bytes.min(memory), 0];
        // Pid 1 of the run is in it, too.
        let processes = [limits.processes.saturating_add(1).min(processes)];
        let counted = Counted {
            memory: set(&mut self.memory, &memory),
            processes: set(&mut self.processes, &processes),
        };
        // Counters without a limit count nothing that matters.
        self.memory.take_if(|_| !counted.memory);
        self.processes.take_if(|_| !counted.processes);
        counted
    }

    /// Returns the limits that were reached, named as in settings.
    pub fn reached(&mut self) -> Vec<&'static str> {
        let mut seen = Vec::new();
        for (name, counter) in [("memory", &mut self.memory), ("processes", &mut self.processes)] {
            if counter.as_mut().is_some_and(Counter::is_reached) {
                seen.push(name);
            }
        }
        seen
    }
}

/// Writes each limit of `counter` to its file, and closes the files.
fn set(counter: &mut Option<Counter>, values: &[u64]) -> bool {
    let Some(counter) = counter else { return false };
    let files = std::mem::take(&mut counter.limits);
    let mut set = files.iter().zip(values).map(|(mut file, value)| write!(file, "{value}").is_ok());
    !files.is_empty() && set.all(|it| it)
}

impl Counter {
    /// Says whether its events tell that the limit was reached.
    fn is_reached(&mut self) -> bool {
        let mut text = String::new();
        let read = self
            .events
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.events.read_to_string(&mut text));
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        read.is_ok() && fields.any(|(name, count)| name == self.reached && count != "0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_that_of_version_2_and_inside_of_what_is_shown() {
        let found = |text| own_group(text).map(|path| path.display().to_string());
        assert_eq!(
            found("9:pids:/x\n0::/user.slice/a.scope\n"),
            Some("user.slice/a.scope".to_owned())
        );
        assert_eq!(found("0::/\n"), Some(String::new()));
        assert_eq!(found("0::/../b.scope\n"), None);
        assert_eq!(found("9:pids:/x\n"), None);
    }

    #[test]
    fn a_file_of_limits_says_a_number_or_that_there_is_none() {
        let file = std::env::temp_dir().join(format!("stockade-group-{}", std::process::id()));
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            least(&file)
        };
        assert_eq!(
            [read("4096\n"), read("max\n"), least(Path::new("/nowhere"))],
            [4096, u64::MAX, u64::MAX]
        );
        fs::remove_file(&file).unwrap();
    }
}
