//! Unit tests share this: a folder that is removed at the end of a test.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Says by name that a test, or a part of it, cannot run here, and why: past what the harness keeps of a test that passes.
#[allow(
    clippy::explicit_write,
    reason = "the harness keeps what `eprintln` writes of a test that passes"
)]
pub fn skip(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {}", reason.trim_end()).unwrap();
}

/// Longest path of a directory for temporary files that leaves room for sockets.
const LONGEST: usize = 60;

/// A directory for one test, removed at its end.
#[derive(Debug)]
pub struct Folder {
    /// Removed at the end.
    _made: TempDir,
    real: PathBuf,
}

impl Folder {
    /// Makes a new empty directory.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Folder {
        // Other users look into it as well.
        let mode = Permissions::from_mode(0o755);
        // The path of a socket has at most 107 bytes (unix(7)): a long directory for temporary files leaves no room for it.
        let above = std::env::temp_dir();
        let above = if above.as_os_str().len() > LONGEST { "/tmp".into() } else { above };
        let mut made = tempfile::Builder::new();
        let made = made.prefix("stockade-unit-").permissions(mode).tempdir_in(above).unwrap();
        let real = made.path().canonicalize().unwrap();
        Folder { _made: made, real }
    }

    /// Returns its real path.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Writes a file in it, with the directories above.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.real.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}
