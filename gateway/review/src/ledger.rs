//! Files that wait for a person's look: each with its state before the first change since the last look, and who
//! changed it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stockade_spec::{Entry as Written, Touched};

use super::journal::{self, Journal, Told};
use super::{Found, Held, Writer, now};
use stockade_base::directories::private_directory;

const FOLDER: &str = "review";
const FILE: &str = "ledger.json";
const LOCK: &str = "lock";
/// Contents, by their digests.
const KEPT: &str = "kept";

/// Most files that are told of one by one.
const MOST_FILES: usize = 10_000;

/// Most writers of one file that are told of one by one.
const MOST_WRITERS: usize = 8;

/// So long what an agent's tool was about to write may still come.
const PENDING_MS: u64 = 24 * 60 * 60 * 1_000;

/// All that waits, and what is remembered to know what comes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub files: Vec<Entry>,
    /// Changes of files that found no room.
    pub more: u64,
    /// Confined commands that nothing watched.
    pub unseen: u64,
    /// Both together since the ledger began: no look makes it less.
    #[serde(default)]
    pub(super) lost: u64,
    /// Contents that are to be stored with the ledger.
    #[serde(skip)]
    contents: Vec<(String, Vec<u8>)>,
    /// Where each file is, as long as there are as many.
    #[serde(skip)]
    places: HashMap<OsString, usize>,
    /// Files that were told of now.
    #[serde(skip)]
    fresh: BTreeSet<OsString>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    path: OsString,
    /// State before the first change, or at the last look.
    pub before: Held,
    /// When that was, in milliseconds since 1970.
    pub since: u64,
    /// The last look, if something may go on changing the file after it.
    pub looked_at: Option<u64>,
    /// Oldest first.
    pub writers: Vec<Writer>,
    /// Those that are not listed.
    pub more_writers: u64,
    /// An agent's tool may write it until then.
    pub pending_until: u64,
}

impl Entry {
    pub fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    fn add(&mut self, writer: Writer) {
        let known = self.writers.iter().any(|it| {
            it.decision == writer.decision && it.call == writer.call && it.at == writer.at
        });
        if known {
            return;
        }
        if self.writers.len() >= MOST_WRITERS {
            // The first one and the latest.
            self.writers.remove(1);
            self.more_writers = self.more_writers.saturating_add(1);
        }
        self.writers.push(writer);
    }
}

impl Ledger {
    /// Reads it; empty where there is none. One that cannot be read is an error: what it said is not known.
    pub fn read(state: &Path) -> io::Result<Ledger> {
        match fs::read(state.join(FOLDER).join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ledger::default()),
            text => Ok(serde_json::from_slice(&text?)?),
        }
    }

    /// Returns what it says together with the journals of all runs, those that go on as well.
    pub fn with_journals(state: &Path) -> io::Result<(Ledger, Vec<Told>)> {
        // First the journals: one that is taken into the ledger meanwhile is then in both, which says nothing else.
        let journals = journal::all(state)?;
        let mut ledger = Ledger::read(state)?;
        for told in &journals {
            ledger.take(told, None);
        }
        Ok((ledger, journals))
    }

    /// Changes it while nobody else does. Journals of runs that are over come in first.
    pub fn change(
        state: &Path,
        change: impl FnOnce(&mut Ledger) -> io::Result<()>,
    ) -> io::Result<()> {
        let folder = state.join(FOLDER);
        private_directory(&folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join(LOCK))?;
        lock.lock()?;
        let mut ledger = Ledger::read(state)?;
        let over: Vec<Told> =
            journal::all(state)?.into_iter().filter(|told| !told.is_live).collect();
        for told in &over {
            ledger.take(told, None);
        }
        change(&mut ledger)?;
        ledger.tidy();
        ledger.write(&folder)?;
        for told in &over {
            // Somebody else may have removed it.
            let _ = fs::remove_file(&told.path);
        }
        // Held until here.
        lock.unlock()
    }

    /// Adds what a journal says.
    pub fn take(&mut self, told: &Told, act: Option<String>) {
        // Pid 1 of a run that is watched writes at once that it began.
        if told.entries.is_empty() && !told.is_live {
            self.unseen = self.unseen.saturating_add(1);
            self.lost = self.lost.saturating_add(1);
        }
        for entry in &told.entries {
            match entry {
                Written::Began => {}
                Written::Touched(touched) => {
                    self.touch(touched.clone(), told.writer(act.as_ref(), touched));
                }
                Written::More(count) => {
                    self.lose((*count).max(1));
                }
            }
        }
    }

    /// Notes changes that are not listed one by one.
    pub(super) fn lose(&mut self, count: u64) {
        self.more = self.more.saturating_add(count);
        self.lost = self.lost.saturating_add(count);
    }

    fn touch(&mut self, touched: Touched, writer: Writer) {
        self.note(&touched.path, Found::of(touched.before), writer, 0);
    }

    /// Notes a change of `path`, which held `before` until then.
    pub(super) fn note(&mut self, path: &Path, before: Found, writer: Writer, pending_until: u64) {
        let (at, Found { held, content, .. }) = (writer.at, before);
        self.fresh.insert(path.as_os_str().to_owned());
        let Some(entry) = self.place(path).and_then(|place| self.files.get_mut(place)) else {
            return self.add(
                Entry {
                    path: path.as_os_str().to_owned(),
                    before: held,
                    since: at,
                    looked_at: None,
                    writers: vec![writer],
                    more_writers: 0,
                    pending_until,
                },
                content,
            );
        };
        entry.pending_until = entry.pending_until.max(pending_until);
        entry.add(writer);
        // A state that a person has looked at counts, whatever was there before; else the first one.
        if entry.looked_at.is_none() && at < entry.since {
            entry.since = at;
            entry.before = held.clone();
            self.keep(&held, content);
        }
    }

    fn add(&mut self, entry: Entry, content: Option<Vec<u8>>) {
        if self.files.len() >= MOST_FILES {
            self.lose(1);
            return;
        }
        self.keep(&entry.before, content);
        self.places.insert(entry.path.clone(), self.files.len());
        self.files.push(entry);
    }

    /// Returns where the entry of `path` is.
    fn place(&mut self, path: &Path) -> Option<usize> {
        if self.places.len() != self.files.len() {
            let all = self.files.iter().enumerate();
            self.places = all.map(|(place, entry)| (entry.path.clone(), place)).collect();
        }
        self.places.get(path.as_os_str()).copied()
    }

    /// Has `content` stored, of which `held` has the digest.
    fn keep(&mut self, held: &Held, content: Option<Vec<u8>>) {
        if let (Some(digest), Some(content)) = (held.digest(), content) {
            self.contents.push((digest.to_owned(), content));
        }
    }

    /// Puts what a person has seen of a file in the place of what it held before, or forgets the file if nothing but a change
    /// that is told of can change it.
    pub fn looked(&mut self, path: &Path, seen: Found, stays: bool) {
        let now = now();
        let stays = stays || seen.is_shared;
        let there = Found::at(path).held;
        // Of what cannot be known nothing more will be known.
        let is_seen = there.is_same(&seen.held) || there == seen.held;
        let known = self.files.iter().position(|entry| entry.path() == path);
        let old = known.map(|place| self.files.remove(place));
        self.places.clear();
        if !stays && is_seen {
            return;
        }
        // One that goes on is known by its journal alone.
        let (writers, more_writers) =
            old.map_or((Vec::new(), 0), |old| (old.writers, old.more_writers));
        let entry = Entry {
            path: path.as_os_str().to_owned(),
            before: seen.held,
            since: now,
            looked_at: Some(now),
            writers,
            more_writers,
            pending_until: 0,
        };
        self.add(entry, seen.content);
    }

    /// Drops files told of now that are what they were, unless they may change without a further word.
    fn tidy(&mut self) {
        let (now, fresh) = (now(), std::mem::take(&mut self.fresh));
        self.files.retain(|entry| {
            if entry.pending_until > now || !fresh.contains(&entry.path) {
                return true;
            }
            let found = Found::at(entry.path());
            found.is_shared || !found.held.is_same(&entry.before)
        });
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let kept = folder.join(KEPT);
        private_directory(&kept)?;
        for (digest, content) in &self.contents {
            let path = kept.join(digest);
            if !path.exists() {
                store(&path, content)?;
            }
        }
        store(&folder.join(FILE), &serde_json::to_vec(self)?)?;
        let used: BTreeSet<&str> =
            self.files.iter().filter_map(|entry| entry.before.digest()).collect();
        for entry in fs::read_dir(&kept)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| used.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the content with this digest, which the ledger or a journal in it knows.
    pub fn content(&self, state: &Path, held: &Held) -> Option<Vec<u8>> {
        let digest = held.digest()?;
        let fresh = self.contents.iter().find(|(known, _)| known == digest);
        let stored = || fs::read(state.join(FOLDER).join(KEPT).join(digest)).ok();
        fresh.map(|(_, content)| content.clone()).or_else(stored)
    }
}

/// Returns until when a tool may write what it is about to.
pub(super) fn pending_until() -> u64 {
    now().saturating_add(PENDING_MS)
}

/// Puts a file in its place as a whole.
pub(super) fn store(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

impl Journal {
    /// Takes what it says into the ledger and removes it; its run is over. `act` tells what ran.
    pub fn end(self, state: &Path, act: impl FnOnce() -> String) -> io::Result<()> {
        let Some(told) = self.finished() else {
            return Ok(());
        };
        if matches!(told.entries.as_slice(), [Written::Began]) {
            return fs::remove_file(self.path());
        }
        Ledger::change(state, |ledger| {
            ledger.take(&told, Some(act()));
            Ok(())
        })?;
        fs::remove_file(self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn the_state_before_the_earliest_change_counts() {
        let (folder, mut ledger) = (Folder::new(), Ledger::default());
        let mut note = |text: &str, at: u64| {
            let file = folder.write("Makefile", text);
            let writer = Writer {
                decision: at.to_string(),
                act: None,
                project: folder.path().to_path_buf(),
                call: "open".to_owned(),
                program: "sh".to_owned(),
                at,
            };
            ledger.note(&file, Found::at(&file), writer, 0);
            let entry = ledger.files.first().unwrap();
            (entry.before.clone(), entry.since, entry.writers.len())
        };
        let (later, since, writers) = note("later", 20);
        assert_eq!((since, writers), (20, 1));
        let (before, since, writers) = note("earlier", 10);
        assert_eq!((since, writers), (10, 2));
        assert_ne!(before, later);
        assert_eq!(note("latest", 30), (before, 10, 3));
    }
}
