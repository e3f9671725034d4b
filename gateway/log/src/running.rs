//! One locked file for each running command, so that a later gateway finds those whose gateway is gone.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::clock::is_ulid;

/// The commands that this gateway runs.
///
/// The place in the log is in the name of the mark, which is empty: content would have to be flushed
/// before the log's own sync is over.
#[derive(Debug)]
pub(super) struct Running {
    folder: PathBuf,
    held: HashMap<String, (File, PathBuf)>,
}

/// A command whose gateway is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    /// Id of the decision.
    pub(super) id: String,
    /// Where the log ended before the decision, as (segment, offset); none when the mark does not tell.
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
        let path = self.folder.join(format!("{id}.{segment}.{offset}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        self.held.insert(id.to_owned(), (file, path));
        Ok(())
    }

    /// Takes the mark of a command away. One that stays is found again at the next open and compared
    /// with the log, so a failure is harmless.
    pub(super) fn close(&mut self, id: &str) {
        if let Some((_, path)) = self.held.remove(id) {
            let _ = fs::remove_file(path);
            return;
        }
        // Marked by another gateway, such as one that asked.
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.split('.').next() == Some(id) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Returns the commands that nobody holds any more.
    pub(super) fn orphans(&self) -> io::Result<Vec<Orphan>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut parts = name.split('.');
            let id = parts.next().unwrap_or_default().to_owned();
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
            let mut number = || parts.next()?.parse().ok();
            let from = number().zip(number());
            found.push(Orphan { id, from });
        }
        found.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(found)
    }
}
