//! What unit tests share: a folder that goes away again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Says by name that a test, or a part of it, cannot run here, and why: past what the harness keeps of a test that passes.
pub(crate) fn skip(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {}", reason.trim_end()).unwrap();
}

/// A directory for one test, removed at its end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes a new empty directory.
    pub(crate) fn new() -> Folder {
        let mut random = [0; 8];
        crate::random::fill(&mut random).unwrap();
        let name = format!("stockade-unit-{}", crate::places::hex(&random));
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// Returns its real path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, with the directories above.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // a left-over folder in the temporary directory harms nobody
    }
}
