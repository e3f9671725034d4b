//! Access of one command, as plain data: complete, nothing is filled in later.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

#[cfg(target_os = "linux")]
pub mod codec;
mod enforced;
mod git_text;
#[cfg(target_os = "linux")]
pub mod help;
pub mod journal;
#[cfg(target_os = "linux")]
pub mod note;
pub mod run;
mod starter;
#[cfg(target_os = "linux")]
pub mod steps;
pub mod violation;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

pub use enforced::{Enforced, Protection, State};
pub use git_text::{GitVariable, git_variables};
pub use journal::{Before, Entry, MOST_KEPT_BYTES, Touched, read_journal};
pub use run::{Ending, Error, Exit, Listeners, Stdio};
pub use starter::{Confined, Start, Stop};
pub use stockade_pattern::{Match, Pattern, Wild};
pub use violation::{AT_TOP, OWN_LOOPBACK, UNSEEN_SOCKET, Violation};

/// Name that the kernel gives for pid 1 of a confined run (at most 15 bytes, `proc_pid_comm(5)`).
pub const INIT_NAME: &str = "stockade-init";

/// Ports of the two listeners of a run that has a loopback interface together with others, for HTTP and SOCKS. Commands
/// can neither listen there nor connect to those of another run.
pub const PROXY_PORTS: [u16; 2] = [29_128, 29_080];

/// Access of one command while it runs. Paths are absolute and already resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Program to run.
    pub program: Program,
    /// Files.
    pub files: Files,
    /// Network.
    pub network: Network,
    /// Limits of the whole process tree.
    pub limits: Limits,
    /// A terminal of its own in the place of the three descriptors, and its size; none leaves those.
    pub terminal: Option<Window>,
    /// Protections without which nothing starts.
    pub required: BTreeSet<Protection>,
    /// Calls that go through the supervisor.
    pub mediation: Mediation,
    /// Confine at all; false only for a call that a person or rule let out.
    pub confine: bool,
    /// Behavior where no namespaces can be had.
    pub fallback: Fallback,
}

impl SandboxSpec {
    /// Returns all of it as one text of bytes, as a launcher gets it.
    pub fn bytes(&self) -> Vec<u8> {
        codec::Wire::to_bytes(self)
    }

    /// Says whether a rule is the supervisor's alone where there is one: what is to be replaced cannot be covered by a mount.
    pub fn leaves_to_supervisor(&self, rule: &FileRule) -> bool {
        self.mediation == Mediation::Writes
            && rule.access == Access::Protected
            && (self.files.git_configurations.contains(&rule.path)
                || self.files.removable.contains(&rule.path))
    }
}

/// Behavior where no namespaces can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// Nothing runs.
    Refuse,
    /// Landlock, the filter and limits alone; the report says what that leaves open.
    Static,
}

/// Program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absolute path of the executable file.
    pub path: PathBuf,
    /// Arguments, the name first.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
}

/// File rules, in no order: the protections say which wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// Rules for paths.
    pub rules: Vec<FileRule>,
    /// Rules that refuse writing, whose path is a [`crate::Pattern`]: what comes to be in a writable region while the
    /// command runs, and what was there, may be neither made nor written. What was there is in `rules` as well.
    pub patterns: Vec<FileRule>,
    /// Names that may not be created, replaced or written anywhere in a writable region, such as
    /// `.envrc`, or with several parts `.cargo/config.toml`. Letter case does not matter.
    pub guarded_names: Vec<OsString>,
    /// Names that are guarded in the same way only where a writable region begins; further down they are free.
    pub guarded_at_top: Vec<OsString>,
    /// Absolute real paths that may be made and written, with all that lies below, although `guarded_at_top` names them.
    pub opened: Vec<PathBuf>,
    /// Files that rules protect and that may be removed all the same: neither written nor replaced. The supervisor alone keeps
    /// them, where there is one.
    pub removable: Vec<PathBuf>,
    /// Names, of which a part may be `*`, that a run may not make in large numbers in one directory of a writable region,
    /// because each of them costs a later run a mount.
    pub numerous_names: Vec<OsString>,
    /// Keys that configurations of git may hold.
    pub git_keys: GitKeys,
    /// Configurations of git directories, protected by rules, that may be replaced by others which differ in nothing but keys
    /// that may change.
    pub git_configurations: Vec<PathBuf>,
    /// Directories of git objects: what was there before the run is neither removed, moved nor written.
    pub kept_objects: Vec<PathBuf>,
    /// Where symbolic links that the run makes or moves may lead besides writable regions and what the caller can neither write
    /// nor make: directories, with all that lies below.
    pub link_roots: Vec<PathBuf>,
    /// Directory that `/tmp` and `/var/tmp` show; made by the gateway, 0700.
    pub private_tmp: Option<PathBuf>,
    /// Directories of the host that the run changes for itself alone, where nothing is against it.
    pub caches: Vec<Cache>,
    /// Sockets, and directories of sockets, that may be connected to besides those in writable regions.
    pub sockets: Vec<PathBuf>,
    /// Files whose first change is written down.
    pub watched: Option<Watched>,
    /// Lock files of the gateway, which no command can reach: the first is held during an act, the second until the run ends.
    pub turns: Option<(PathBuf, PathBuf)>,
    /// Texts that are shown for unreadable files: where there are mounts, the run reads this text and nothing of the
    /// file.
    pub copies: Vec<Shown>,
}

/// A file that rules make unreadable, and what a run reads in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Absolute real path of the file, for which there is a rule with [`Access::None`].
    pub path: PathBuf,
    /// The text.
    pub text: OsString,
}

/// Files in writable regions whose first change by a run is written down before it is done, with what they held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Ends of paths, of which a part may hold `*`; with `true` all that lies beneath counts, too.
    pub names: Vec<(OsString, bool)>,
    /// The same, in the directories of `except` as well.
    pub everywhere: Vec<(OsString, bool)>,
    /// Directories in which no other name counts that begins there.
    pub except: Vec<OsString>,
    /// Real paths that count with all that lies beneath.
    pub paths: Vec<PathBuf>,
    /// An empty file of the gateway, where no path of the run leads: see [`crate::read_journal`].
    pub journal: PathBuf,
}

/// Keys of git's configuration: each `section.name` in whatever subsection, or `section.*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitKeys {
    /// Those that the configuration of a git directory made by the run may not hold, and none that was there may change.
    pub refused: Vec<OsString>,
    /// Those that a new one may hold unless they are refused; it may hold no others.
    pub free: Vec<OsString>,
    /// Those that may change in one that was there.
    pub changeable: Vec<OsString>,
    /// Those that may be added there, where the variable is not set yet.
    pub addable: Vec<OsString>,
}

/// A directory that is read as it is on the host, and whose changes go elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Absolute real path; where it does not exist there is none.
    pub path: PathBuf,
    /// Directory with the directories `upper` and `work`, where no path of the run leads and no other run writes.
    pub store: PathBuf,
}

/// One path and what holds for it and everything beneath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRule {
    /// Absolute real path; need not exist.
    pub path: PathBuf,
    /// Access that holds for the path.
    pub access: Access,
    /// Where this comes from, for reports: a rule with file and line, or `builtin: NAME`.
    pub origin: String,
}

/// Access that holds for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// May be read and written.
    Write,
    /// May be read, not written, whatever a wider rule says.
    ReadOnly,
    /// May be read although a wider rule forbids it.
    Read,
    /// May be neither read nor written.
    None,
    /// Never writable, even by a `Write` rule for the same path.
    Protected,
    /// A symbolic link or a directory that leads to what another rule refuses: neither removed, renamed nor replaced. What
    /// lies in such a directory is free. The supervisor alone keeps it.
    Kept,
}

/// Network access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// A private loopback and nothing else.
    Off,
    /// A private loopback with two listeners, which the command finds on 127.0.0.1 and the gateway gets and serves: the only
    /// way out. Both are there before the command starts.
    Proxy {
        /// Port for HTTP.
        http: u16,
        /// Port for SOCKS.
        socks: u16,
    },
    /// The host's network.
    Host,
}

/// Limits of the whole process tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads.
    pub processes: u64,
    /// Memory of the tree.
    pub memory_bytes: u64,
    /// Size of one file.
    pub file_bytes: u64,
    /// Open descriptors of one process, soft.
    pub descriptors: u64,
    /// Open descriptors of one process, hard.
    pub descriptors_hard: u64,
    /// Private shared memory.
    pub shm_bytes: u64,
    /// Written to disks by the whole tree.
    pub disk_bytes: u64,
    /// Where those come from that settings say, by their names there: rules with file and line. The others are built in.
    pub origins: Vec<(String, String)>,
}

impl Limits {
    /// Returns where the limit with this name comes from, for reports.
    pub fn origin(&self, name: &str) -> String {
        let said = self.origins.iter().find(|origin| origin.0 == name);
        said.map_or_else(|| format!("builtin: sandbox.limits.{name}"), |origin| origin.1.clone())
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            processes: 2_048,
            memory_bytes: 2 << 30,
            file_bytes: 16 << 30,
            descriptors: 1_024,
            descriptors_hard: 65_536,
            shm_bytes: 2 << 30,
            disk_bytes: 64 << 30,
            origins: Vec::new(),
        }
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// Calls that go through the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mediation {
    /// Nothing.
    None,
    /// Calls that write.
    Writes,
}
