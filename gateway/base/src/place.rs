//! Where a call happens: its directories, and those from which its settings are read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::directories::directory;
use crate::names::root_above;

use stockade_wire::errors::Failure;
use stockade_wire::types::Context;

/// Where a call happens. All paths are absolute and real.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Working directory.
    pub cwd: PathBuf,
    /// Where the session works, if the call chose the working directory itself.
    pub session: Option<PathBuf>,
    /// Root of the project.
    pub project: PathBuf,
    /// The roots at and around these: what refuses or asks begins at each.
    pub roots: Vec<PathBuf>,
    /// Home directory of the caller.
    pub home: PathBuf,
    /// Home directory in the password database, where it is another one.
    pub homes: Vec<PathBuf>,
    /// Directories that the call adds.
    pub additional: Vec<PathBuf>,
}

impl Place {
    /// Finds and checks the directories of a call, but for the roots, which the crate of settings knows.
    pub fn find(cwd: &str, context: &Context) -> Result<Place, Failure> {
        let cwd = directory(cwd, "working directory")?;
        let session = context.session_directory.as_deref();
        let session = session.map(|it| directory(it, "session's directory")).transpose()?;
        let project = match &context.project {
            Some(project) => directory(project, "project")?,
            None => root_above(session.as_ref().unwrap_or(&cwd)),
        };
        let home = crate::directories::home(|name| variable(context, name))?;
        // A home that does not exist (as for service accounts) still anchors `~/` patterns.
        let home = home.canonicalize().unwrap_or(home);
        let mut additional = Vec::new();
        for added in &context.additional_directories {
            additional.push(directory(added, "additional directory")?);
        }
        let homes = other_home(&home).into_iter().collect();
        Ok(Place { cwd, session, project, roots: Vec::new(), home, homes, additional })
    }

    /// Returns the directory at which rules and settings of the call begin: no call chooses it.
    pub fn anchor(&self) -> &Path {
        self.session.as_ref().unwrap_or(&self.cwd)
    }

    /// Returns the directories in which commands of the call may write, but for those of the settings.
    pub fn regions(&self) -> Vec<PathBuf> {
        let project = (!self.project_is_too_wide()).then(|| self.project.clone());
        project.into_iter().chain(self.additional.iter().cloned()).collect()
    }

    /// Returns the repository that `directory` lies in, if it is one piece of work.
    pub fn repository_above(&self, directory: &Path) -> Option<PathBuf> {
        let root = root_above(directory);
        let is_one = root != Path::new("/") && !self.home.starts_with(&root);
        let is_repository = root.join(".git").symlink_metadata().is_ok();
        (is_one && is_repository).then_some(root)
    }

    /// Says whether the project holds more than one piece of work: the whole disk, or the home directory
    /// of this user. Nothing in such a project is made writable: what starts with the next login lies there.
    pub fn project_is_too_wide(&self) -> bool {
        self.project == Path::new("/") || self.home.starts_with(&self.project)
    }
}

/// Returns a variable of the caller.
pub fn variable(context: &Context, name: &str) -> Option<OsString> {
    let found = context.environment.iter().rev().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into())
}

/// Returns the folder of the user settings.
pub fn user_directory(context: &Context, place: &Place) -> PathBuf {
    match variable(context, "XDG_CONFIG_HOME").map(PathBuf::from) {
        Some(directory) if directory.is_absolute() => directory.join("stockade"),
        Some(_) | None => place.home.join(".config/stockade"),
    }
}

/// Returns the folder of the user settings of the product that is read beside ours.
pub fn imported_directory(context: &Context, place: &Place) -> PathBuf {
    match variable(context, "CLAUDE_CONFIG_DIR").map(PathBuf::from) {
        Some(directory) if directory.is_absolute() => directory,
        Some(_) | None => place.home.join(".claude"),
    }
}

/// Returns the folders from which the settings of the caller are read.
pub fn own_directories(context: &Context, place: &Place) -> [PathBuf; 2] {
    [user_directory(context, place), imported_directory(context, place)]
}

/// Returns the home directory of the password database where it is not `home`, real if it is there.
fn other_home(home: &Path) -> Option<PathBuf> {
    let users = std::fs::read("/etc/passwd").ok()?;
    let found = crate::directories::home_of(rustix::process::getuid().as_raw(), &users)?;
    let found = found.canonicalize().unwrap_or(found);
    (found != home && found != Path::new("/")).then_some(found)
}
