//! Where the gateway keeps its things, and whose they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use stockade_wire::errors::{Code, Failure};

use crate::directories::{home, private_directory};
use crate::names::Names;
use crate::{hex, links};

/// Directory of the managed settings; no option and no variable moves it.
pub const MANAGED: &str = "/etc/stockade";

/// Where the gateway of the machine listens; root alone can put anything there.
pub const SYSTEM_SOCKET: &str = "/run/stockade/gateway.sock";
/// The log of the machine.
pub const SYSTEM_LOG: &str = "/var/log/stockade";
/// Keys and state of the log of the machine.
pub const SYSTEM_LOG_STATE: &str = "/var/lib/stockade/log";

/// Says whether the gateway of the machine is there for this process: for all but root.
fn is_served_by_the_system() -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let socket = Path::new(SYSTEM_SOCKET);
    let is_roots = |folder: &Path| {
        folder
            .symlink_metadata()
            .is_ok_and(|it| it.is_dir() && it.uid() == 0 && it.mode() & 0o022 == 0)
    };
    !rustix::process::geteuid().is_root()
        && socket.parent().is_some_and(is_roots)
        && socket.symlink_metadata().is_ok_and(|it| it.file_type().is_socket())
}

/// Words for paths in messages.
const STATE: &str = "state directory";
const LOG: &str = "directory of the log";
const SOCKET: &str = "socket";

const STATE_HELP: &str = "specify your own directory on a writable disk with `--state-dir DIR`";

/// The gateway that a client uses: its socket and its directories.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--socket`: use the gateway that listens there, or fail.
    pub socket: Option<PathBuf>,
    /// The place where a gateway may listen; without one, be the gateway.
    pub default_socket: Option<PathBuf>,
    /// `--no-daemon`: be the gateway even if one listens.
    pub embedded: bool,
    /// `--audit-dir`.
    pub audit_directory: Option<PathBuf>,
    /// `--state-dir`.
    pub state_directory: Option<PathBuf>,
    /// The `stockade` executable, which is also launcher and scan worker; none means this process's own.
    pub executable: Option<PathBuf>,
}

impl Options {
    /// Returns the options of a call without any: the place of the socket from `XDG_RUNTIME_DIR`.
    pub fn from_environment() -> Options {
        Options {
            default_socket: default_socket(|name| std::env::var_os(name)),
            ..Options::default()
        }
    }

    /// Says whether this process will be the gateway, as far as can be seen without asking: nothing listens.
    pub fn stays_embedded(&self) -> bool {
        let named_places = self.audit_directory.is_some() || self.state_directory.is_some();
        let listens = self.default_socket.as_ref().is_some_and(|path| path.exists());
        self.socket.is_none() && (self.embedded || named_places || !listens)
    }

    /// Returns the real path of a socket; the gateway there finds it in the same way.
    pub fn real(&self, socket: &Path) -> Result<PathBuf, Failure> {
        self::socket(socket, self, |name| std::env::var_os(name))
    }

    /// Returns the `stockade` executable, to be started as launcher and as scan worker.
    pub fn executable(&self) -> Result<PathBuf, Failure> {
        match &self.executable {
            Some(executable) => Ok(executable.clone()),
            None => std::env::current_exe().map_err(|error| {
                let message = format!("cannot find the executable of this process: {error}");
                Failure::new(Code::Internal, message, "mount `/proc`")
            }),
        }
    }
}

/// Returns where a gateway listens: that of the machine if there is one, else that of this user at `stockade/gateway.sock` in
/// `XDG_RUNTIME_DIR`, else in `run/` of the state directory. None when there is neither.
pub fn default_socket(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if is_served_by_the_system() {
        return Some(SYSTEM_SOCKET.into());
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(runtime) = absolute("XDG_RUNTIME_DIR") {
        return Some(runtime.join("stockade/gateway.sock"));
    }
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("stockade/run/gateway.sock"))
}

/// The directories of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// State: trust, shell facts, temporary directories, task output.
    pub state: PathBuf,
    /// The audit log.
    pub audit: PathBuf,
    /// State of the audit log: keys and the newest known head.
    pub audit_state: PathBuf,
    /// Where the state would lie without options, when it lies elsewhere: another gateway's, perhaps.
    pub usual: Option<PathBuf>,
    /// The directory in which a gateway listens for clients, or would.
    pub socket: Option<PathBuf>,
    /// The paths that options and variables name, with a word for each: the others are free of symbolic links.
    pub given: Vec<(&'static str, PathBuf)>,
}

impl Places {
    /// Finds the directories from options, then from variables (XDG base directories), then from the home
    /// directory of the password database.
    ///
    /// They are returned without the symbolic links that lead to them. A link that a command could have made, and links
    /// in a circle, are errors.
    pub fn find(
        options: &Options,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Places, Failure> {
        let usual = || match variable("XDG_STATE_HOME").map(PathBuf::from) {
            // A relative value is invalid and to be ignored (XDG Base Directory Specification).
            Some(base) if base.is_absolute() => Ok(base.join("stockade")),
            Some(_) | None => home(&variable).map(|home| home.join(".local/state/stockade")),
        };
        let (given, usual) = match &options.state_directory {
            Some(directory) => (absolute(directory)?, usual().ok()),
            None => (usual()?, None),
        };
        let state = real(STATE, &given)?;
        let mut given = vec![(STATE, given)];
        given.extend(usual.iter().map(|usual| (STATE, usual.clone())));
        let log = options.audit_directory.as_deref().map(absolute).transpose()?;
        let real_log = log.as_deref().map(|log| real(LOG, log)).transpose()?;
        let (audit, audit_state) = match (real_log, &options.state_directory) {
            (None, _) => (state.join("audit"), state.clone()),
            (Some(audit), Some(_)) => (audit, state.clone()),
            (Some(audit), None) => {
                let places = LogPlaces::of(&audit, &state);
                (places.directory, places.state)
            }
        };
        given.extend(log.map(|log| (LOG, log)));
        let socket = options.socket.as_ref().or(options.default_socket.as_ref());
        let socket = socket.map(|path| absolute(path)).transpose()?;
        let real_socket = socket.as_deref().map(|path| real(SOCKET, path)).transpose()?;
        given.extend(socket.map(|path| (SOCKET, path)));
        let socket = real_socket.and_then(|path| path.parent().map(Path::to_path_buf));
        let places = Places { state, audit, audit_state, usual, socket, given };
        links::check_links(&places.given, places.states())?;
        Ok(places)
    }

    /// Returns the directories that remember where commands could write.
    fn states(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.state).chain(&self.usual).map(PathBuf::as_path)
    }

    /// Makes the state directory if it is not there, for its owner alone.
    pub fn prepare(&self) -> Result<(), Failure> {
        private_directory(&self.state).map_err(|source| {
            let state = self.state.display();
            Failure::new(
                Code::StateUnusable,
                format!("the state directory `{state}` cannot be used: {source}"),
                STATE_HELP,
            )
        })
    }

    /// Returns the places of the log.
    pub fn of_log(&self) -> LogPlaces {
        LogPlaces { directory: self.audit.clone(), state: self.audit_state.clone() }
    }

    /// Returns the directory of one task, for its output.
    pub fn task(&self, id: &str) -> PathBuf {
        self.state.join("tasks").join(id)
    }
}

/// Where a log and its keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlaces {
    /// The folder of the log.
    pub directory: PathBuf,
    /// The folder of keys, the newest checkpoint known here, and marks of running commands.
    pub state: PathBuf,
}

impl LogPlaces {
    /// Returns the places of the log in `directory` when only that was named: its state is a folder of
    /// `default_state` named after the real path, so that two logs never share a state. The machine's log has its own.
    pub fn of(directory: &Path, default_state: &Path) -> LogPlaces {
        let real = nearest(directory);
        if real == Path::new(SYSTEM_LOG) {
            return LogPlaces { directory: directory.to_owned(), state: SYSTEM_LOG_STATE.into() };
        }
        let digest = hex(&Sha256::digest(real.as_os_str().as_encoded_bytes()));
        let name = digest.get(..16).unwrap_or(&digest);
        LogPlaces { directory: directory.to_owned(), state: default_state.join("logs").join(name) }
    }
}

/// Returns the real path of `path`; of one that does not exist yet, that of its nearest parent and the
/// rest.
fn nearest(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(found) = std::fs::canonicalize(above) {
            let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
    }
    absolute
}

/// Returns the real path of a gateway's socket, for those who listen there and those who connect.
///
/// A symbolic link that a command could have made, and links in a circle, are errors.
pub fn socket(
    path: &Path,
    options: &Options,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, Failure> {
    let path = absolute(path)?;
    let found = real(SOCKET, &path)?;
    if found != path {
        // The state tells where commands could write.
        let places =
            Places::find(&Options { socket: Some(path.clone()), ..options.clone() }, variable);
        match places {
            Ok(_) => {}
            Err(failure) if failure.code == Code::StateUnusable => {
                links::check_links(&[(SOCKET, path)], std::iter::empty())?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

/// Returns `path` without symbolic links.
fn real(what: &str, path: &Path) -> Result<PathBuf, Failure> {
    let way = Names::default().way(path, Path::new("/"));
    if !way.is_endless {
        return Ok(way.real().to_path_buf());
    }
    let message = format!("the symbolic links of the {what} `{}` form a loop", path.display());
    let link = way.links.last().map_or(path, PathBuf::as_path);
    let help = format!("remove the link `{}`, or specify another path", link.display());
    Err(Failure::new(Code::DirectoryUnusable, message, help))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|source| {
        let message = format!("the path `{}` cannot be made absolute: {source}", path.display());
        Failure::new(Code::InvalidRequest, message, "give an absolute path")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &Options, variables: &[(&str, &str)], state: &str, audit: &str) {
        let places = Places::find(options, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
        .unwrap();
        assert_eq!((places.state.to_str(), places.audit.to_str()), (Some(state), Some(audit)));
    }

    #[test]
    fn options_beat_variables_and_variables_beat_home() {
        let plain = Options::default();
        let home = [("HOME", "/h")];
        check(&plain, &home, "/h/.local/state/stockade", "/h/.local/state/stockade/audit");
        let both = [("HOME", "/h"), ("XDG_STATE_HOME", "/x")];
        check(&plain, &both, "/x/stockade", "/x/stockade/audit");
        let relative = [("HOME", "/h"), ("XDG_STATE_HOME", "x")];
        check(&plain, &relative, "/h/.local/state/stockade", "/h/.local/state/stockade/audit");
        let named = Options { state_directory: Some("/s".into()), ..Options::default() };
        check(&named, &both, "/s", "/s/audit");
    }

    #[test]
    fn two_logs_never_share_a_state() {
        let of = |audit: &str| {
            let options = Options { audit_directory: Some(audit.into()), ..Options::default() };
            Places::find(&options, |_| Some("/h".into())).unwrap().audit_state
        };
        assert_ne!(of("/logs/a"), of("/logs/b"));
        assert_eq!(of("/logs/a"), of("/logs/a"));
    }
}
