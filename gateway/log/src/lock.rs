//! The lock of the log's writers: who holds it appends, and nobody else.
//!
//! The lock is taken twice: on the folder of the log, which cannot be replaced while the log is in use, and on the
//! file `lock` in it, for file systems where a folder cannot be locked (flock(2) on NFS). A lock file that was
//! removed or replaced guards nothing any more, so its inode is compared with its name before each append.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::error::{Error, Scene};

/// How long another writer is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// How long a lock file is left alone that another one has the name of.
const PAUSE: Duration = Duration::from_millis(1);

/// The writers' lock of one log.
#[derive(Debug)]
pub(super) struct WriterLock {
    scene: Scene,
    path: PathBuf,
    folder: File,
    file: File,
}

impl WriterLock {
    /// Opens the folder and the lock file of the log, and makes the file when there is none. Takes no lock.
    pub(super) fn open(scene: &Scene) -> Result<WriterLock, Error> {
        let path = scene.directory.join("lock");
        let folder = File::open(&scene.directory).map_err(scene.write("open", &scene.directory))?;
        let file = lock_file(&path).map_err(scene.write("create", &path))?;
        Ok(WriterLock { scene: scene.clone(), path, folder, file })
    }

    /// Takes the lock, waiting at most [`PATIENCE`] for others. A lock file that was replaced meanwhile is
    /// opened anew.
    pub(super) fn take(&mut self) -> Result<(), Error> {
        let taken = self.take_both();
        if taken.is_err() {
            self.give();
        }
        taken
    }

    fn take_both(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let folder = self.acquire(&self.folder, deadline);
        // A file system may lock no folders.
        if !matches!(folder, Err(Error::Write { .. })) {
            folder?;
        }
        loop {
            self.acquire(&self.file, deadline)?;
            if self.is_named()? {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.lost());
            }
            std::thread::sleep(PAUSE);
            self.file = lock_file(&self.path).map_err(self.scene.write("create", &self.path))?;
        }
    }

    /// Checks that the lock that this process holds is still the one that others would have to take.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_named()? { Ok(()) } else { Err(self.lost()) }
    }

    /// Gives the lock back.
    pub(super) fn give(&self) {
        // Closing the descriptors would give it back as well; nothing that was recorded rests on it.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        let _ = rustix::fs::flock(&self.folder, FlockOperation::Unlock);
    }

    /// Says whether folder and file still have their names.
    fn is_named(&self) -> Result<bool, Error> {
        let same = |held: &File, path: &Path| -> io::Result<bool> {
            let held = held.metadata()?;
            match fs::symlink_metadata(path) {
                Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        };
        let folder = &self.scene.directory;
        same(&self.folder, folder)
            .and_then(|is_named| Ok(is_named && same(&self.file, &self.path)?))
            .map_err(self.scene.write("use", &self.path))
    }

    fn lost(&self) -> Error {
        Error::LockLost { directory: self.scene.directory.clone() }
    }

    fn acquire(&self, lock: &File, deadline: Instant) -> Result<(), Error> {
        let mut pause = Duration::from_micros(50);
        loop {
            match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::Busy { directory: self.scene.directory.clone() });
                }
                Err(error) => return Err(self.scene.write("lock", &self.path)(error.into())),
            }
        }
    }
}

/// Opens the lock file. One that is there is opened without the flag that would make it: on a frozen file
/// system that flag alone blocks (open(2), fsfreeze(8)).
fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create(true).truncate(false).mode(0o600).open(path)
        }
        other => other,
    }
}
