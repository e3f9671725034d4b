//! The journal of one run: made by the gateway, written by pid 1, taken into the ledger when the run is over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stockade_spec::{Entry, read_journal};

use super::Writer;
use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_base::random;

/// Where journals lie, in the state directory.
const FOLDER: &str = "review/runs";

/// Longest journal that is read.
const MOST_BYTES: u64 = 128 << 20;

/// The journal of a run that is to start.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    project: PathBuf,
    /// Held, and with it a lock that says that the run may go on.
    file: Option<File>,
}

/// Decision and project of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub decision: String,
    pub project: PathBuf,
}

/// Content that was read of a journal.
#[derive(Debug)]
pub struct Told {
    pub head: Option<Head>,
    pub entries: Vec<Entry>,
    pub path: PathBuf,
    /// Its run may go on.
    pub is_live: bool,
}

impl Journal {
    /// Names one that is not there yet.
    pub fn named(state: &Path, project: &Path) -> io::Result<Journal> {
        let mut random = [0; 16];
        random::fill(&mut random)?;
        let path = state.join(FOLDER).join(hex(&random));
        Ok(Journal { path, project: project.to_path_buf(), file: None })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, before the run of this decision starts.
    pub fn begin(&mut self, decision: &str) -> io::Result<()> {
        let head = Head { decision: decision.to_owned(), project: self.project.clone() };
        let folder = self.path.parent().unwrap_or(&self.path);
        let mut options = OpenOptions::new();
        let options = options.append(true).create_new(true).mode(0o600);
        let mut file = match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_directory(folder.parent().unwrap_or(folder))?;
                private_directory(folder)?;
                options.open(&self.path)?
            }
            file => file?,
        };
        file.lock_shared()?;
        let head = serde_json::to_vec(&head)?;
        let length = u32::try_from(head.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        file.write_all(&[&length.to_le_bytes()[..], &head].concat())?;
        self.file = Some(file);
        Ok(())
    }

    /// Returns what it says when its run is over; none where nothing began.
    pub(crate) fn finished(&self) -> Option<Told> {
        self.file.as_ref().and_then(|_| told(&self.path))
    }
}

impl Drop for Journal {
    /// One that nothing was written to says nothing, and needs no other end.
    fn drop(&mut self) {
        if self.file.is_some()
            && let Some(told) = told(&self.path)
            && told.entries.is_empty()
        {
            let _ = fs::remove_file(&self.path); // the next look at the journals removes it
        }
    }
}

/// Reads all journals, oldest first.
pub fn all(state: &Path) -> io::Result<Vec<Told>> {
    let listed = match fs::read_dir(state.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut journals = Vec::new();
    for entry in listed {
        let entry = entry?;
        let made = entry.metadata().and_then(|found| found.modified());
        journals.push((made.ok(), entry.path()));
    }
    journals.sort();
    Ok(journals.into_iter().filter_map(|(_, path)| told_now(&path)).collect())
}

/// Reads one, and says whether its run goes on; none if it is gone.
fn told_now(path: &Path) -> Option<Told> {
    // First whether the run goes on: what is written afterwards is written by one that does.
    let file = File::open(path).ok()?;
    let is_live = file.try_lock().is_err();
    Some(Told { is_live, ..told(path)? })
}

/// Reads one of a run that is over; none if it is gone.
fn told(path: &Path) -> Option<Told> {
    let is_live = false;
    if fs::metadata(path).ok()?.len() > MOST_BYTES {
        let entries = vec![Entry::More(0)];
        return Some(Told { head: None, entries, path: path.to_path_buf(), is_live });
    }
    let bytes = fs::read(path).ok()?;
    let (head, rest) = head(&bytes).unwrap_or((None, &[]));
    Some(Told { head, entries: read_journal(rest), path: path.to_path_buf(), is_live })
}

fn head(bytes: &[u8]) -> Option<(Option<Head>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (head, rest) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(head).ok(), rest))
}

impl Told {
    /// Returns who made the changes of this journal.
    pub fn writer(&self, act: Option<&String>, touched: &stockade_spec::Touched) -> Writer {
        let head = self.head.clone();
        let head = head.unwrap_or(Head { decision: String::new(), project: PathBuf::new() });
        Writer {
            decision: head.decision,
            act: act.cloned(),
            project: head.project,
            call: touched.call.clone(),
            program: touched.program.clone(),
            at: touched.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_journal_is_live_as_long_as_its_run_holds_it() {
        let folder = Folder::new();
        let mut journal = Journal::named(folder.path(), Path::new("/project")).unwrap();
        journal.begin("decision").unwrap();
        let head = Head { decision: "decision".to_owned(), project: "/project".into() };
        let told = || {
            let [told] = <[Told; 1]>::try_from(all(folder.path()).unwrap()).unwrap();
            (told.head, told.is_live)
        };
        assert_eq!(told(), (Some(head.clone()), true));
        let finished = journal.finished().unwrap();
        assert_eq!((finished.head, finished.is_live), (Some(head.clone()), false));
        journal.file = None;
        assert_eq!(told(), (Some(head), false));
    }
}
