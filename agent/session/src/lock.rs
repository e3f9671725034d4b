//! The lock of a session, and its holder.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::event::now;

/// How long a second opener waits for the holder to write its name.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

/// The process that has a session open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process number; 0 for one that has not said it.
    pub pid: u32,
    /// Since when, as RFC 3339 has it.
    pub since: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(formatter, "another process"),
            pid => write!(formatter, "process {pid} since {}", self.since),
        }
    }
}

/// A session that this process has open. The lock goes with the process, however that ends (flock(2)).
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at `path`.
    ///
    /// # Errors
    ///
    /// Another process has it, or the file cannot be used.
    pub fn take(path: &Path) -> Result<Lock, Error> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let mut file = options.open(path).map_err(Error::file(path, "written"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(holder(path))),
            Err(TryLockError::Error(error)) => return Err(Error::file(path, "locked")(error)),
        }
        let own = Holder { pid: std::process::id(), since: now() };
        let line = serde_json::to_string(&own).unwrap_or_default();
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(line.as_bytes()));
        written.map_err(Error::file(path, "written"))?;
        Ok(Lock { _file: file })
    }
}

/// Returns who has a lock that is taken. The name is written just behind the lock, so it may come a moment later.
fn holder(path: &Path) -> Holder {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Ok(holder) = serde_json::from_str(&text) {
            return holder;
        }
        if Instant::now() >= until {
            return Holder { pid: 0, since: String::new() };
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opener_is_told_who_has_the_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let Err(Error::InUse(holder)) = Lock::take(&path) else { panic!("it was taken twice") };
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.to_string().starts_with(&format!("process {}", std::process::id())));
        drop(first);
        Lock::take(&path).unwrap();
    }

    #[test]
    fn a_name_that_comes_a_moment_later_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let (told, later) = (std::sync::mpsc::channel::<()>(), path.clone());
        let writer = std::thread::spawn(move || {
            told.1.recv().unwrap();
            let own = Holder { pid: 7, since: "then".into() };
            std::fs::write(later, serde_json::to_string(&own).unwrap()).unwrap();
        });
        told.0.send(()).unwrap();
        let Err(Error::InUse(holder)) = Lock::take(&path) else { panic!("it was taken twice") };
        assert_eq!(holder.pid, 7);
        writer.join().unwrap();
        drop(first);
    }
}
