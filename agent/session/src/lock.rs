//! The lock of a session.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::holder::Holder;

/// How long a second opener waits for the holder to write its name.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

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
        let line = serde_json::to_string(&Holder::own()).unwrap_or_default();
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(line.as_bytes()));
        written.map_err(Error::file(path, "written"))?;
        Ok(Lock { _file: file })
    }

    /// Returns who has the lock at `path`; none where nobody has it. Nothing is taken for it (proc_locks(5)), so that it is in
    /// nobody's way.
    #[must_use]
    pub fn holder(path: &Path) -> Option<Holder> {
        let inode = path.metadata().ok()?.ino().to_string();
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let is_taken = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            words.next() == Some("FLOCK")
                && words.nth(3).and_then(|it| it.rsplit(':').next()) == Some(inode.as_str())
        };
        locks.lines().any(is_taken).then(|| holder(path))
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
            return Holder::default();
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
        assert!(
            holder.to_string().starts_with(&format!("process {} (started by ", std::process::id()))
        );
        assert_eq!(Lock::holder(&path), Some(holder));
        drop(first);
        assert_eq!(Lock::holder(&path), None);
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
            let own = Holder { pid: 7, since: "then".into(), ..Holder::default() };
            std::fs::write(later, serde_json::to_string(&own).unwrap()).unwrap();
        });
        told.0.send(()).unwrap();
        let Err(Error::InUse(holder)) = Lock::take(&path) else { panic!("it was taken twice") };
        assert_eq!(holder.pid, 7);
        writer.join().unwrap();
        drop(first);
    }
}
