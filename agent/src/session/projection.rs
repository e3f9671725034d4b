//! The file of a session that the readers of the SDK packages know. The event log is the truth, so a file that cannot be
//! written holds nothing up.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;

/// Where the lines of a session are written for the packages' readers.
#[derive(Debug)]
pub(super) struct Projection {
    /// None where no file is wanted, or where it could not be written.
    path: Option<PathBuf>,
}

impl Projection {
    pub(super) fn new(path: Option<PathBuf>) -> Projection {
        Projection { path }
    }

    /// Appends lines. The first failure is told and ends the file: readers follow the parents of messages, and would lose
    /// everything before a gap.
    pub(super) fn add(&mut self, lines: &[u8]) {
        let Some(path) = &self.path else { return };
        if let Err(error) = append(path, lines) {
            eprintln!(
                "stockade: `{}` ends here, because it cannot be written: {error:#}; the session is still stored",
                path.display()
            );
            self.path = None;
        }
    }
}

/// Appends to a regular file of the user, never through a link. What was written in part is taken off again.
fn append(path: &Path, lines: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // A pipe without a reader is refused, and not waited for (open(2)).
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(flags);
    let mut file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        bail!("it is not a regular file");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        bail!("it belongs to another user");
    }
    let written = file.write_all(lines);
    if written.is_err() {
        file.set_len(metadata.len()).context("it cannot be cut back to whole lines")?;
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_a_regular_file_and_never_through_a_link_or_into_a_pipe() {
        let folder =
            std::env::temp_dir().join(format!("stockade-projection-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (plain, target, link, pipe) = (
            folder.join("new/a.jsonl"),
            folder.join("target"),
            folder.join("link.jsonl"),
            folder.join("pipe.jsonl"),
        );
        append(&plain, b"one\n").unwrap();
        append(&plain, b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&plain).unwrap(), "one\ntwo\n");
        assert_eq!(plain.metadata().unwrap().mode() & 0o777, 0o600);

        std::fs::write(&target, "kept\n").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(append(&link, b"one\n").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept\n");

        let (mode, kind) = (rustix::fs::Mode::from_raw_mode(0o600), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        assert!(append(&pipe, b"one\n").is_err());
        // With a reader the pipe can be opened, and is refused for its kind.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let reader =
            std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe).unwrap();
        assert_eq!(append(&pipe, b"one\n").unwrap_err().to_string(), "it is not a regular file");
        drop(reader);

        let mut projection = Projection::new(Some(link.clone()));
        projection.add(b"one\n");
        std::fs::remove_file(&link).unwrap();
        projection.add(b"two\n");
        assert!(!link.exists(), "the file has a gap");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
