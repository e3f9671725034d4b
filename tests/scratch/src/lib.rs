//! Unit tests share this: a folder that is removed at the end of a test.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static LAST: AtomicU64 = AtomicU64::new(0);

/// Says by name that a test, or a part of it, cannot run here, and why: past what the harness keeps of a test that passes.
#[allow(
    clippy::explicit_write,
    reason = "the harness keeps what `eprintln` writes of a test that passes"
)]
pub fn skip(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {}", reason.trim_end()).unwrap();
}

/// A directory for one test, removed at its end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a new empty directory.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Folder {
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("stockade-unit-{}-{number}-{now:x}", std::process::id());
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// Returns its real path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, with the directories above.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
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
