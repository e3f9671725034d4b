//! Requests that were refused because the log was down, noted where the next gateway finds them.
//!
//! The note has one size and its place on the disk from the beginning, so that it can be changed on a full
//! disk as well. It is for the reader of the log alone: nothing is decided by it, and a note that cannot be
//! written changes nothing else.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::clock;
use super::files::{self, Durability};
use super::record::Gap;

/// Bytes of the note.
const LENGTH: usize = 96;

/// The refusals since the last record.
#[derive(Debug)]
pub(super) struct Refused {
    path: PathBuf,
    noted: Noted,
    /// Whether it is known that there are none.
    is_clear: bool,
}

/// How many, and when the first and the last was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Noted {
    count: u64,
    from: String,
    to: String,
}

impl Noted {
    fn read(text: &[u8]) -> Option<Noted> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let count = words.next()?.parse().ok()?;
        let time = |text: &str| text.len() == 30 && text.ends_with('Z');
        let from = words.next().filter(|text| time(text))?.to_owned();
        let to = words.next().filter(|text| time(text))?.to_owned();
        Some(Noted { count, from, to })
    }

    fn text(&self) -> String {
        let text = format!("{} {} {}", self.count, self.from, self.to);
        format!("{text:<width$}\n", width = LENGTH - 1)
    }
}

impl Refused {
    /// Returns the refusals that are noted in the state folder.
    pub(super) fn new(state: &Path) -> Refused {
        Refused { path: state.join("refused"), noted: Noted::default(), is_clear: false }
    }

    /// Makes the note when there is none.
    pub(super) fn prepare(&self) {
        if !self.path.exists() {
            // A log without the note lacks the count of refusals, nothing else.
            let empty = Noted::default().text();
            let _ = files::replace(&self.path, empty.as_bytes(), Durability::Cached);
        }
    }

    /// Adds refusals of now.
    pub(super) fn count(&mut self, more: usize) {
        self.look();
        self.noted.to = clock::now();
        if self.noted.count == 0 {
            self.noted.from.clone_from(&self.noted.to);
        }
        self.noted.count = self.noted.count.saturating_add(more as u64);
        self.is_clear = false;
        let _ = self.keep(); // the count is still in memory, for as long as this process lives
    }

    /// Returns what is to be recorded about them; none when there were none.
    pub(super) fn gap(&mut self) -> Option<Gap> {
        if self.is_clear {
            return None;
        }
        self.look();
        if self.noted.count == 0 {
            self.is_clear = true;
            return None;
        }
        Some(Gap {
            reason: "refused",
            from: Some(self.noted.from.clone()),
            to: Some(self.noted.to.clone()),
            count: Some(self.noted.count),
            bytes: None,
            sha256: None,
            detail: "requests were refused because they could not be recorded".into(),
        })
    }

    /// Forgets them: they are recorded.
    pub(super) fn clear(&mut self) {
        self.noted = Noted::default();
        self.is_clear = self.keep().is_ok() || !self.path.exists();
    }

    /// Takes over what other gateways noted.
    fn look(&mut self) {
        if let Ok(text) = fs::read(&self.path)
            && let Some(noted) = Noted::read(&text)
            && noted.count > self.noted.count
        {
            self.noted = noted;
        }
    }

    fn keep(&self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.write_all_at(self.noted.text().as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::Scratch;

    #[test]
    fn refusals_of_one_gateway_are_found_by_the_next_and_only_once() {
        let scratch = Scratch::new("refused");
        let first = &mut Refused::new(&scratch.folder);
        first.prepare();
        assert!(first.gap().is_none());
        first.count(2);
        Refused::new(&scratch.folder).count(1);
        let found = &mut Refused::new(&scratch.folder);
        assert_eq!(found.gap().and_then(|gap| gap.count), Some(3));
        found.clear();
        assert!(Refused::new(&scratch.folder).gap().is_none());
        let content = fs::read(scratch.folder.join("refused")).unwrap();
        assert_eq!(content.len(), LENGTH);
    }
}
