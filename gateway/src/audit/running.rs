//! One locked file for each running command, so that a later gateway finds those whose gateway is gone.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::clock::is_ulid;

/// The commands that this gateway runs.
#[derive(Debug)]
pub(super) struct Running {
    folder: PathBuf,
    held: HashMap<String, File>,
}

/// A command whose gateway is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    /// Id of the decision.
    pub(super) id: String,
    /// Where the log ended before the decision, as (segment, offset); none when the mark is empty.
    pub(super) from: Option<(u64, u64)>,
}

impl Running {
    pub(super) fn new(folder: &Path) -> Running {
        Running { folder: folder.to_owned(), held: HashMap::new() }
    }

    pub(super) fn count(&self) -> u64 {
        self.held.len() as u64
    }

    /// Marks a command that may run after the record that is about to be written at `offset`.
    pub(super) fn open(&mut self, id: &str, segment: u64, offset: u64) -> io::Result<()> {
        let path = self.folder.join(id);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(format!("{segment} {offset}\n").as_bytes())?;
        self.held.insert(id.to_owned(), file);
        Ok(())
    }

    /// Takes the mark of a command away. One that stays is found again at the next open and compared
    /// with the log, so a failure is harmless.
    pub(super) fn close(&mut self, id: &str) {
        if self.held.remove(id).is_some() || is_ulid(id) {
            let _ = fs::remove_file(self.folder.join(id));
        }
    }

    /// Returns the commands that nobody holds any more.
    pub(super) fn orphans(&self) -> io::Result<Vec<Orphan>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let id = entry.file_name().to_string_lossy().into_owned();
            if !is_ulid(&id) || self.held.contains_key(&id) {
                continue;
            }
            let file = match File::open(entry.path()) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let from = text.trim_end().split_once(' ');
            let from = from
                .and_then(|(segment, offset)| Some((segment.parse().ok()?, offset.parse().ok()?)));
            found.push(Orphan { id, from });
        }
        found.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(found)
    }
}
