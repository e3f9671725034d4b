//! Where the gateway keeps its things, and whose they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::client::Options;
use crate::facts::Names;
use crate::protocol::errors::{Code, Failure};
use crate::{audit, bounds};
pub(crate) use stockade_base::directories::{home, home_of, private_directory};
pub(crate) use stockade_base::hex;

/// Directory of the managed settings; no option and no variable moves it.
pub(crate) const MANAGED: &str = "/etc/stockade";

/// Words for paths in messages.
const STATE: &str = "state directory";
const LOG: &str = "directory of the log";
const SOCKET: &str = "socket";

const STATE_HELP: &str = "name a directory of yours on a writable disk with `--state-dir DIR`";

/// The directories of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// State: trust, shell facts, temporary directories, task output.
    pub(crate) state: PathBuf,
    /// The audit log.
    pub(crate) audit: PathBuf,
    /// State of the audit log: keys and the newest known head.
    pub(crate) audit_state: PathBuf,
    /// Where the state would lie without options, when it lies elsewhere: another gateway's, perhaps.
    pub(crate) usual: Option<PathBuf>,
    /// The directory in which a gateway listens for clients, or would.
    pub(crate) socket: Option<PathBuf>,
    /// The paths that options and variables name, with a word for each: the others are free of symbolic links.
    pub(crate) given: Vec<(&'static str, PathBuf)>,
}

impl Places {
    /// Finds the directories from options, then from variables (XDG base directories), then from the home
    /// directory of the password database.
    ///
    /// They are returned without the symbolic links that lead to them. A link that a command could have made, and links
    /// in a circle, are errors.
    pub(crate) fn find(
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
                let places = audit::Places::of(&audit, &state);
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
        bounds::check_links(&places.given, places.states())?;
        Ok(places)
    }

    /// Returns the directories that remember where commands could write.
    fn states(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.state).chain(&self.usual).map(PathBuf::as_path)
    }

    /// Makes the state directory if it is not there, for its owner alone.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
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
    pub(crate) fn of_log(&self) -> audit::Places {
        audit::Places { directory: self.audit.clone(), state: self.audit_state.clone() }
    }

    /// Returns the directory of one task, for its output.
    pub(crate) fn task(&self, id: &str) -> PathBuf {
        self.state.join("tasks").join(id)
    }
}

/// Returns the real path of a gateway's socket, for those who listen there and those who connect.
///
/// A symbolic link that a command could have made, and links in a circle, are errors.
pub(crate) fn socket(
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
                bounds::check_links(&[(SOCKET, path)], std::iter::empty())?;
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
    let message = format!("the symbolic links of the {what} `{}` lead in a circle", path.display());
    let link = way.links.last().map_or(path, PathBuf::as_path);
    let help = format!("remove the link `{}`, or name another path", link.display());
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
