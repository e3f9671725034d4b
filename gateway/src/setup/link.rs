//! The link under which an agent finds our shell: one for each agent, called `bash`, for some look at the name.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::Folders;
use super::{Change, Kind, Surroundings, text_of};
use crate::protocol::errors::{Code, Failure};
use crate::serve::hook::Agent;

/// Returns the path of the link.
pub(super) fn path(agent: Agent, around: &Surroundings) -> PathBuf {
    around.home.join(".local/share").join(tail(agent).trim_start_matches('/'))
}

/// Returns how the path of the link ends, wherever the home directory is.
pub(super) fn tail(agent: Agent) -> String {
    format!("/stockade/{}/bash", agent.name())
}

/// Returns the change that makes the link.
pub(super) fn made(agent: Agent, around: &Surroundings) -> Result<Change, Failure> {
    let path = path(agent, around);
    let before = target(&path)?;
    let after = Some(text_of(&around.executable)?);
    Ok(change(path, before, after))
}

/// Returns the change that takes the link away.
pub(super) fn removed(agent: Agent, around: &Surroundings) -> Result<Change, Failure> {
    let path = path(agent, around);
    let before = target(&path)?;
    Ok(change(path, before, None))
}

fn change(path: PathBuf, before: Option<String>, after: Option<String>) -> Change {
    let (kind, after_words) = (Kind::Link, String::new());
    Change { path, kind, before, after, is_first: false, mode: 0, after_words }
}

/// Returns where the link leads; none when nothing is there. What is no link is not ours.
fn target(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_link(path) {
        Ok(target) => text_of(&target).map(Some),
        Err(_) if path.symlink_metadata().is_err() => Ok(None),
        Err(_) => Err(Failure::new(
            Code::InvalidRequest,
            format!("`{}` exists and was not made by stockade", path.display()),
            "move it",
        )),
    }
}

/// Makes a change of a link, whole or not at all.
pub(super) fn apply(change: &Change, folders: &mut Folders) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("`{}` cannot be written: {error}", change.path.display());
        Failure::new(Code::InvalidRequest, message, "check the owner of the directory")
    };
    let folder = change.path.parent().unwrap_or(Path::new("/"));
    let Some(after) = &change.after else {
        fs::remove_file(&change.path).map_err(failed)?;
        // The folder of the agent and that of stockade are ours, whoever made them, when nothing else lies there.
        for folder in [Some(folder), folder.parent()].into_iter().flatten() {
            let _ = fs::remove_dir(folder); // it is not part of the gate
        }
        return Ok(());
    };
    folders.make(folder).map_err(failed)?;
    let new = folder.join(format!(".bash.{}.tmp", std::process::id()));
    let made =
        std::os::unix::fs::symlink(after, &new).and_then(|()| fs::rename(&new, &change.path));
    if made.is_err() {
        let _ = fs::remove_file(&new); // the error that counts is the first
    }
    made.map_err(failed)
}
