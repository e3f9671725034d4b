//! The session that goes on: which one it is, and what it begins with.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stockade_session::{Error, Found, Here, Known, Nearness, State, Store};

use super::projection::Folder;
use crate::flags::Flags;

/// Modes that allow no more than any other mode.
const NARROW: [&str; 2] = ["plan", "dontAsk"];

/// The session that goes on, as far as the agent has to know it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Before {
    /// Messages, as lines of the projection.
    pub(crate) lines: Vec<Value>,
    pub(crate) todos: Value,
    pub(crate) list: Value,
    /// Files that were in use at the last compaction.
    pub(crate) files: Vec<Value>,
    /// The permission mode, if it is one that allows no more than any other: the log is no reason to allow more.
    pub(crate) mode: Option<String>,
    /// They come from a projection, and are in no log yet.
    pub(crate) is_import: bool,
    /// Part of the log that was read, for the process that opens it.
    #[serde(skip)]
    pub(crate) known: Known,
}

/// Returns where sessions are kept: below the state directory, as the XDG Base Directory Specification has it.
pub(crate) fn store() -> anyhow::Result<Store> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .context("sessions have no place; set `HOME` or `XDG_STATE_HOME`")?;
    Ok(Store::new(state.join("stockade/agent/sessions")))
}

/// Longest configuration of a repository that is read, in bytes.
const LONGEST_CONFIG: u64 = 1 << 20;

/// Finds out where a directory is: repository, address of its `origin`, branch.
pub(crate) fn here(cwd: &Path) -> Here {
    let root = cwd.ancestors().find(|it| it.join(".git").exists());
    let config = root.map(|it| it.join(".git/config"));
    let config =
        config.and_then(|it| crate::regular::text(&it, LONGEST_CONFIG)).unwrap_or_default();
    Here {
        cwd: cwd.to_string_lossy().into_owned(),
        git_root: root.map(|it| it.to_string_lossy().into_owned()),
        repository: origin(&config),
        branch: crate::prompt::branch(cwd),
    }
}

/// Returns the address of `origin` in a configuration of git (git-config(1)).
fn origin(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim).skip_while(|it| *it != "[remote \"origin\"]");
    lines.next()?;
    let values = lines.take_while(|it| !it.starts_with('['));
    let mut addresses = values.filter_map(|it| it.strip_prefix("url")?.trim().strip_prefix('='));
    addresses.next().map(|it| it.trim().to_owned())
}

/// Finds the session that goes on: the one that is named, or the one that is nearest to here.
pub(crate) fn before(flags: &Flags, cwd: &Path) -> anyhow::Result<Option<(String, Before)>> {
    before_in(&store()?, flags, cwd)
}

pub(super) fn before_in(
    store: &Store,
    flags: &Flags,
    cwd: &Path,
) -> anyhow::Result<Option<(String, Before)>> {
    let folder = Folder::of(cwd);
    let of_file = |id: String| {
        let folder = folder.as_ref().context("sessions have no place; set `HOME`")?;
        let lines = folder.load(&id)?;
        anyhow::Ok(Some((id, Before { lines, is_import: true, ..Before::default() })))
    };
    let found = match (flags.resumes(), flags.continue_last) {
        (Some(""), _) => bail!(
            "`--resume` without a session lets a person choose on a terminal; name one with `--resume ID` (`stockade agent sessions` lists them)"
        ),
        (Some(wanted), _) => match store.find(wanted) {
            Ok(found) => found,
            Err(Error::Unknown(_)) => {
                return of_file(wanted.to_owned()).map_err(|error| near(store, wanted, error));
            }
            Err(error) => return Err(error.into()),
        },
        (None, true) => match store.nearest(&here(cwd)) {
            Some((near, found)) if near < Nearness::Other => found,
            Some(_) | None => {
                let last = folder.as_ref().and_then(Folder::last);
                return last.map_or(Ok(None), of_file);
            }
        },
        (None, false) => return Ok(None),
    };
    let (known, notes) = store.known(&found)?;
    for note in notes {
        eprintln!("stockade: {}: {note}", found.line());
    }
    let state = &known.state;
    let before = Before {
        lines: lines(state),
        todos: state.todos.clone(),
        list: state.list.clone(),
        files: state.files.clone(),
        mode: state.mode.clone().filter(|mode| NARROW.contains(&mode.as_str())),
        is_import: false,
        known,
    };
    Ok(Some((found.id, before)))
}

/// Returns the error of a name that no session has: with the sessions that have its words, if there are some.
fn near(store: &Store, wanted: &str, unknown: anyhow::Error) -> anyhow::Error {
    let found: Vec<String> = store.about(wanted).iter().map(Found::line).collect();
    match found.is_empty() {
        true => unknown,
        false => Error::Near { wanted: wanted.escape_debug().to_string(), found }.into(),
    }
}

/// Says whether a session of this identity is where the packages keep theirs.
pub(crate) fn is_stored_elsewhere(id: &str, cwd: &Path) -> bool {
    Folder::of(cwd).is_some_and(|folder| folder.load(id).is_ok())
}

/// Returns the messages of a state as lines of the projection.
pub(super) fn lines(state: &State) -> Vec<Value> {
    let mut parent = Value::Null;
    let line = |said: &stockade_session::Said| {
        let role = if said.by_model { "assistant" } else { "user" };
        let line = json!({
            "type": role, "uuid": said.uuid, "parentUuid": parent,
            "message": { "role": role, "content": said.content },
        });
        parent = json!(said.uuid);
        line
    };
    state.messages.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_repository_is_that_of_origin() {
        let config = "[core]\n\turl = x\n[remote \"up\"]\n\turl = y\n[remote \"origin\"]\n\tfetch = z\n\turl = git@h:p.git\n[a]\n";
        assert_eq!(origin(config), Some("git@h:p.git".into()));
        assert_eq!(origin("[remote \"origin\"]\n[branch]\nurl = x\n"), None);
    }
}
