//! Records that no signature covered when they were appended: nobody can say that a gateway wrote them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::error::{Error, Scene};
use super::super::files;
use super::Record;

/// The records without a signature, as far as the records that were seen tell.
#[derive(Debug)]
pub(super) struct Unsigned {
    directory: PathBuf,
    /// First and last number of those that a later gateway found without a signature, and kept.
    kept: Vec<(u64, u64)>,
}

impl Unsigned {
    /// Begins with none, for the log in `directory`.
    pub(super) fn new(directory: &Path) -> Unsigned {
        Unsigned { directory: directory.to_owned(), kept: Vec::new() }
    }

    /// Returns the number of records that the newest checkpoint covers. Whether its signature holds is for `verify`.
    fn signed(&self) -> Result<u64, Error> {
        let path = self.directory.join("checkpoint");
        let scene = Scene { directory: self.directory.clone() };
        let note = files::read(&path).map_err(scene.read(&path))?.unwrap_or_default();
        let note = String::from_utf8_lossy(&note);
        Ok(note.lines().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0))
    }

    /// Takes in what `record` tells of others.
    pub(super) fn see(&mut self, record: &Record) {
        if record.kind != "gap" || record.text(&["reason"]) != Some("above_checkpoint") {
            return;
        }
        let number = |key: &str| record.text(&[key])?.parse().ok();
        if let (Some(from), Some(to)) = (number("from"), number("to")) {
            self.kept.push((from, to));
        }
    }

    /// Returns the numbers of those of `records` that have no signature of their own. The checkpoint is read
    /// now: it follows the records that it covers.
    pub(super) fn among<'a>(
        &self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<BTreeSet<u64>, Error> {
        let signed = self.signed()?;
        let is_unsigned = |number: &u64| {
            *number >= signed || self.kept.iter().any(|(from, to)| (from..=to).contains(&number))
        };
        Ok(records.into_iter().map(|record| record.sequence).filter(is_unsigned).collect())
    }
}
