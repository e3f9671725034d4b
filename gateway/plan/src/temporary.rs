//! Private temporary directories: one for each session, gone when it is over.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};
use stockade_spec::Cache;

use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_review::Journal;

mod ending;
mod removal;
mod stores;

pub use ending::Ending;
use stores::Stores;

/// A session that did nothing for so long is over.
const SESSION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Longest removal in the way of an answer. What is left after it is removed in the ends of later runs.
const REMOVAL: Duration = Duration::from_millis(500);

/// Begins the names of directories whose runs are over while their gateway may go on.
const OVER: &str = "over-";

/// A temporary directory of one run. One without a session is removed when this goes out of scope.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    lasting: bool,
    /// Of a run that is to tell where its shell stood at last.
    ending: Option<Ending>,
    /// Of a run that changes caches for itself.
    stores: Option<Stores>,
    /// Of a confined run: what it changes of the files that are to be looked at.
    journal: Option<Journal>,
}

impl Temporary {
    /// Makes the directory of a session, or a fresh one.
    pub fn make(state: &Path, session: Option<&str>) -> io::Result<Temporary> {
        let all = state.join("tmp");
        private_directory(&all)?;
        let lasting = session.is_some();
        let path = match session {
            Some(session) => {
                let path = Temporary::of_session(state, session);
                give_rights_back(&path)?;
                private_directory(&path)?;
                fs::File::open(&path)?.set_modified(SystemTime::now())?;
                path
            }
            None => {
                let mut random = [0; 16];
                let filled = stockade_base::random::fill(&mut random);
                filled.map_err(|_| io::Error::other("no random bytes"))?;
                let path = all.join(format!("run-{}-{}", std::process::id(), hex(&random)));
                DirBuilder::new().mode(0o700).create(&path)?;
                path
            }
        };
        Ok(Temporary { path, lasting, ending: None, stores: None, journal: None })
    }

    /// Returns the directory of a session, which need not be there.
    pub fn of_session(state: &Path, session: &str) -> PathBuf {
        let name = hex(&Sha256::digest(session.as_bytes()));
        state.join("tmp").join(format!("session-{}", name.get(..32).unwrap_or(&name)))
    }

    /// Takes care of the journal of the run until it starts.
    pub fn carry(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Returns the journal of the run.
    pub fn take_journal(&mut self) -> Option<Journal> {
        self.journal.take()
    }

    /// Ends a run: its directory goes, and what others left behind.
    pub fn end(self, state: &Path) {
        let until = Instant::now() + REMOVAL;
        drop(self);
        sweep(state, until);
    }

    /// Says whether nothing of it goes with its run, and nothing is told.
    pub fn stays(&self) -> bool {
        self.lasting && self.ending.is_none()
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has bash tell at its end where it stands: makes a start file for it, and a file for what it tells.
    ///
    /// Both lie in a directory of this run alone. That of its session may be open to a command that runs confined
    /// while this one does not.
    pub fn ask_for_cwd(&mut self, state: &Path) -> io::Result<&Ending> {
        Ok(self.ending.insert(Ending::make(state)?))
    }

    /// Makes the places for what the run changes in `caches`: those of its session, or its own where another
    /// run has these, or they cannot be had.
    pub fn store(
        &mut self,
        caches: &[PathBuf],
        state: &Path,
        session: Option<&str>,
    ) -> io::Result<Vec<Cache>> {
        let of_session = session.and_then(|session| Stores::of_session(state, session).ok());
        let made = of_session.and_then(|stores| Some((stores.of_all(caches).ok()?, stores)));
        let (stored, stores) = match made {
            Some(made) => made,
            None => {
                let stores = Stores::of_run(state)?;
                (stores.of_all(caches)?, stores)
            }
        };
        self.stores = Some(stores);
        Ok(stored)
    }

    /// Returns where bash said it stood, if that is a directory. What a command wrote is not believed further.
    pub fn cwd_after(&self) -> Option<String> {
        self.ending.as_ref()?.cwd()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.lasting && !removal::remove(&self.path, Instant::now() + REMOVAL) {
            // Its owner goes on, and the next sweep is to know that it is over.
            let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let _ = fs::rename(&self.path, self.path.with_file_name(format!("{OVER}{name}")));
        }
    }
}

/// Gives the owner all rights on the directory of a session: a command that has it as its own may have taken them away.
fn give_rights_back(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        // Nobody but stockade makes names where it lies, so this is the directory itself.
        Ok(found) if found.is_dir() => fs::set_permissions(path, Permissions::from_mode(0o700)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Removes what gateways and sessions that are gone left behind, until `until`; the rest is for later sweeps.
fn sweep(state: &Path, until: Instant) {
    for entry in fs::read_dir(state.join("tmp")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if Instant::now() >= until {
            return;
        }
        let owner = name.strip_prefix("run-").and_then(|rest| rest.split_once('-'));
        let over = match owner {
            _ if name.starts_with(OVER) => true,
            Some((pid, _)) => !Path::new("/proc").join(pid).exists(),
            None => entry
                .metadata()
                .and_then(|found| found.modified())
                .is_ok_and(|used| used.elapsed().is_ok_and(|idle| idle > SESSION)),
        };
        if over {
            removal::remove(&entry.path(), until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_run_leaves_nothing_and_a_session_keeps_its_own() {
        let folder = Folder::new();
        let run = Temporary::make(folder.path(), None).unwrap();
        let path = run.path().to_path_buf();
        fs::create_dir_all(path.join("a/b")).unwrap();
        drop(run);
        assert!(!path.exists());
        let first = Temporary::make(folder.path(), Some("s")).unwrap().path().to_path_buf();
        let second = Temporary::make(folder.path(), Some("s")).unwrap().path().to_path_buf();
        assert_eq!((first.exists(), &first), (true, &second));
    }

    #[test]
    fn a_session_gets_rights_back_that_a_command_took_away() {
        let folder = Folder::new();
        let path = Temporary::make(folder.path(), Some("s")).unwrap().path().to_path_buf();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        Temporary::make(folder.path(), Some("s")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_sweep_takes_what_nobody_owns() {
        let folder = Folder::new();
        let mine = Temporary::make(folder.path(), None).unwrap();
        let left = folder.path().join("tmp/run-4194999-abc");
        fs::create_dir_all(left.join("x")).unwrap();
        let over = folder.path().join("tmp/over-run-1-abc");
        fs::create_dir_all(over.join("x")).unwrap();
        sweep(folder.path(), Instant::now() + REMOVAL);
        let exist = [mine.path(), &left, &over].map(Path::exists);
        assert_eq!(exist, [true, false, false]);
    }
}
