//! All sessions of a user: the folder that holds one folder for each.

use std::fs::{DirBuilder, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::event::Kind;
use crate::folded::Folded;
use crate::holder::Holder;
use crate::lock::Lock;
use crate::log::{Log, each_behind};
use crate::relevance::{Here, Nearness, nearness};
use crate::state::State;
use crate::workspace::Workspace;

/// Name of the log in the folder of a session.
pub(crate) const LOG: &str = "events.jsonl";
/// Name of the lock.
const LOCK: &str = "lock";
/// Most bytes of a log in which events are counted for a list.
const COUNTED: u64 = 16 << 20;
/// Most characters of a name.
const LONGEST_NAME: usize = 100;

/// The sessions below one folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Part of a session's log that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The state after these events.
    pub state: State,
    /// Bytes of the log that were read.
    pub whole: u64,
}

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Identity.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The content of `workspace.yaml`; empty where there is none.
    pub workspace: Workspace,
    /// Bytes of its files.
    pub bytes: u64,
    /// When its log was written last.
    pub written: SystemTime,
}

/// Whether sessions that a person named are removed with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// They stay.
    Stay,
    /// They are removed as well.
    Go,
}

/// Whether sessions are removed, or only named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Names what would be removed.
    Preview,
    /// Removes the sessions.
    Apply,
}

/// The space that a removal freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Sessions that were removed, or would be.
    pub sessions: Vec<Found>,
    /// Sessions that are in use and stay.
    pub in_use: Vec<String>,
}

impl Store {
    /// Returns the store below `root`, which need not exist.
    #[must_use]
    pub fn new(root: PathBuf) -> Store {
        Store { root }
    }

    /// Returns the folder that holds them all.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of a session. An identity that is a path, or no name of a file, has none.
    #[must_use]
    pub fn folder(&self, id: &str) -> Option<PathBuf> {
        let is_plain = !id.is_empty() && id.len() <= 128;
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        (is_plain && id.chars().all(plain)).then(|| self.root.join(id))
    }

    /// Returns the path of a session's log.
    #[must_use]
    pub fn log(folder: &Path) -> PathBuf {
        folder.join(LOG)
    }

    /// Opens a session for writing, and makes its folder if there is none. Returns its lock, its log and its state.
    ///
    /// # Errors
    ///
    /// Another process has it open, or its files cannot be used.
    pub fn open(&self, id: &str) -> Result<(Lock, Log, State), Error> {
        self.open_known(id, Known::default())
    }

    /// Opens a session whose log was read before: only what came since is read.
    ///
    /// # Errors
    ///
    /// Another process has it open, or its files cannot be used.
    pub fn open_known(&self, id: &str, known: Known) -> Result<(Lock, Log, State), Error> {
        let folder = self.folder(id).ok_or_else(|| Error::Unknown(id.to_owned()))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(Error::file(&folder, "made"))?;
        let lock = Lock::take(&folder.join(LOCK))?;
        let path = Store::log(&folder);
        // A log that became shorter is another one.
        let is_known = path.metadata().is_ok_and(|found| found.len() >= known.whole);
        let Known { state, whole } = if is_known { known } else { Known::default() };
        let last = state.last.clone();
        let mut folded = Folded::behind(state);
        let take = |event, bytes| folded.take(&event, bytes);
        let (log, _) = Log::open_behind(&path, (whole, last), take)?;
        let state = folded.done(&path)?;
        Ok((lock, log, state))
    }

    /// Says whether a session of this very identity is there.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.folder(id).is_some_and(|folder| Store::log(&folder).exists())
    }

    /// Returns every session, newest first. What cannot be read is left out.
    #[must_use]
    pub fn list(&self) -> Vec<Found> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut found: Vec<Found> = entries
            .filter_map(|entry| {
                let id = entry.file_name().into_string().ok()?;
                self.found(&id)
            })
            .collect();
        found.sort_by(|one, other| other.written.cmp(&one.written).then(one.id.cmp(&other.id)));
        found
    }

    fn found(&self, id: &str) -> Option<Found> {
        let folder = self.folder(id)?;
        let log = Store::log(&folder).metadata().ok().filter(std::fs::Metadata::is_file)?;
        let workspace = Workspace::read(&folder).unwrap_or_default();
        let entries = std::fs::read_dir(&folder).ok()?.flatten();
        let bytes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
        let written = log.modified().ok()?;
        Some(Found { id: id.to_owned(), folder, workspace, bytes, written })
    }

    /// Finds the session with this identity, this beginning of one, or this name (letter case does not matter).
    ///
    /// # Errors
    ///
    /// There is none, or there are several.
    pub fn find(&self, wanted: &str) -> Result<Found, Error> {
        if let Some(found) = self.found(wanted) {
            return Ok(found);
        }
        let unknown = || Error::Unknown(wanted.escape_debug().to_string());
        let mut found = self.meant(wanted);
        match found.len() {
            0 => Err(unknown()),
            1 => found.pop().ok_or_else(unknown),
            _ => Err(Error::Ambiguous {
                wanted: wanted.escape_debug().to_string(),
                found: found.iter().map(Found::line).collect(),
            }),
        }
    }

    /// Returns the sessions with this name or this beginning of an identity, newest first.
    #[must_use]
    pub fn meant(&self, wanted: &str) -> Vec<Found> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let name = wanted.to_lowercase();
        let fits = |found: &Found| {
            let named = found.workspace.user_named
                && found.workspace.name.as_ref().is_some_and(|it| it.to_lowercase() == name);
            named || found.id.starts_with(wanted)
        };
        self.list().into_iter().filter(fits).collect()
    }

    /// Returns the sessions in whose name or first words a text stands, newest first. Letter case does not matter.
    #[must_use]
    pub fn about(&self, words: &str) -> Vec<Found> {
        let words = words.to_lowercase();
        let has = |found: &Found| {
            found.workspace.name.as_ref().is_some_and(|it| it.to_lowercase().contains(&words))
        };
        self.list().into_iter().filter(has).collect()
    }

    /// Returns the session that is nearest to here, and of those the newest.
    #[must_use]
    pub fn nearest(&self, here: &Here) -> Option<(Nearness, Found)> {
        let all = self.list().into_iter();
        // The first of equals is the newest.
        all.map(|found| (nearness(&found.workspace, here), found)).min_by_key(|it| it.0)
    }

    /// Gives a session a name.
    ///
    /// # Errors
    ///
    /// The name cannot be one, the session is in use, or its files cannot be written.
    pub fn rename(&self, found: &Found, name: &str) -> Result<(), Error> {
        let name = checked(name)?;
        let _lock = Lock::take(&found.folder.join(LOCK))?;
        // The conversation does not matter, however long it is.
        let (mut log, _) = Log::open_behind(&Store::log(&found.folder), (0, None), |_, _| {})?;
        log.append(Kind::Name, serde_json::json!({ "name": name }))?;
        let mut workspace = Workspace::read(&found.folder).unwrap_or_default();
        workspace.id.clone_from(&found.id);
        (workspace.name, workspace.user_named) = (Some(name.to_owned()), true);
        workspace.write(&found.folder)
    }

    /// Removes a session with all its files.
    ///
    /// # Errors
    ///
    /// The session is in use, or its files cannot be removed.
    pub fn delete(&self, found: &Found) -> Result<(), Error> {
        let lock = Lock::take(&found.folder.join(LOCK))?;
        let removed = std::fs::remove_dir_all(&found.folder);
        drop(lock);
        removed.map_err(Error::file(&found.folder, "removed"))
    }

    /// Removes the sessions whose log was not written for `age`, or returns which those are.
    ///
    /// # Errors
    ///
    /// Files of a session cannot be removed.
    pub fn prune(&self, age: Duration, named: Named, removal: Removal) -> Result<Pruned, Error> {
        let now = SystemTime::now();
        let is_old = |found: &Found| now.duration_since(found.written).is_ok_and(|it| it >= age);
        let stays = |found: &Found| named == Named::Stay && found.workspace.user_named;
        let mut pruned = Pruned::default();
        for found in self.list().into_iter().filter(|it| is_old(it) && !stays(it)) {
            let done = match removal {
                Removal::Preview => Ok(()),
                Removal::Apply => self.delete(&found),
            };
            match done {
                Ok(()) => pruned.sessions.push(found),
                Err(Error::InUse(_)) => pruned.in_use.push(found.id),
                Err(error) => return Err(error),
            }
        }
        Ok(pruned)
    }

    /// Reads the state of a session without opening it for writing.
    ///
    /// # Errors
    ///
    /// Its log cannot be read.
    pub fn state(&self, found: &Found) -> Result<(State, Vec<String>), Error> {
        let (known, notes) = self.known(found)?;
        Ok((known.state, notes))
    }

    /// Does the same, and says how far the log was read.
    ///
    /// # Errors
    ///
    /// Its log cannot be read.
    pub fn known(&self, found: &Found) -> Result<(Known, Vec<String>), Error> {
        let (mut folded, path) = (Folded::default(), Store::log(&found.folder));
        let read = each_behind(&path, 0, |event, bytes| folded.take(&event, bytes))?;
        let state = folded.done(&path)?;
        Ok((Known { state, whole: read.whole }, read.notes))
    }
}

impl Found {
    /// Returns identity and name in one line.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.workspace.name {
            Some(name) => format!("{} ({name})", self.id),
            None => self.id.clone(),
        }
    }

    /// Returns who has the session open.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        Lock::holder(&self.folder.join(LOCK))
    }

    /// Returns how many lines its log has, and whether these are all: a long log is not read to its end for a list.
    #[must_use]
    pub fn events(&self) -> (usize, bool) {
        let Ok(file) = File::open(Store::log(&self.folder)) else { return (0, true) };
        let (mut input, mut lines, mut bytes) = (BufReader::new(file), 0, 0_u64);
        while bytes < COUNTED {
            let Ok(part) = input.fill_buf() else { break };
            if part.is_empty() {
                return (lines, true);
            }
            lines += part.iter().filter(|byte| **byte == b'\n').count();
            let length = part.len();
            bytes += length as u64;
            input.consume(length);
        }
        (lines, false)
    }
}

/// Returns a name that a session may have.
///
/// # Errors
///
/// The name is empty or too long, or has control characters.
pub fn checked(name: &str) -> Result<&str, Error> {
    let name = name.trim();
    let is_usable = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.chars().any(char::is_control);
    match is_usable {
        true => Ok(name),
        false => Err(Error::Name(name.escape_debug().to_string())),
    }
}
