//! Where commands put what they change in caches of the host: no path that a command has leads there.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};
use stockade_spec::Cache;

use super::{REMOVAL, Temporary, removal};
use stockade_base::directories::private_directory;
use stockade_base::hex;

/// The stores of a session, which one run has as long as this is there, or of a run.
#[derive(Debug)]
pub(super) struct Stores {
    directory: PathBuf,
    /// Locked for this run.
    _lock: Option<File>,
    /// The directory of a run, gone with this.
    _own: Option<Box<Temporary>>,
}

impl Stores {
    /// Takes the stores of a session; fails if another run has them: two overlays must not have one store.
    pub(super) fn of_session(state: &Path, session: &str) -> io::Result<Stores> {
        let directory = state.join("tmp").join(name(session)?);
        private_directory(&directory)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(directory.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        File::open(&directory)?.set_modified(SystemTime::now())?;
        Ok(Stores { directory, _lock: Some(lock), _own: None })
    }

    /// Makes stores that end with one run.
    pub(super) fn of_run(state: &Path) -> io::Result<Stores> {
        let own = Temporary::make(state, None)?;
        let directory = own.path().to_path_buf();
        Ok(Stores { directory, _lock: None, _own: Some(Box::new(own)) })
    }

    /// Makes those of `caches` fit for a run.
    pub(super) fn of_all(&self, caches: &[PathBuf]) -> io::Result<Vec<Cache>> {
        caches.iter().map(|cache| self.of(cache)).collect()
    }

    fn of(&self, cache: &Path) -> io::Result<Cache> {
        let name = hex(&Sha256::digest(cache.as_os_str().as_encoded_bytes()));
        let store = self.directory.join(name.get(..32).unwrap_or(&name));
        let (upper, work) = (store.join("upper"), store.join("work"));
        // Entries left there by the last run say that its changes may not be on the disk. The changes are not lost: the
        // name of the directory is of this boot.
        removal::remove(&work, Instant::now() + REMOVAL);
        DirBuilder::new().recursive(true).mode(0o755).create(&upper)?;
        fs::create_dir(&work)?;
        Ok(Cache { path: cache.to_path_buf(), store: store.canonicalize()? })
    }
}

/// Returns the name of the stores of `session`, another one after each start of the machine.
fn name(session: &str) -> io::Result<String> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
    let digest = Sha256::new().chain_update(session).chain_update([0]).chain_update(boot);
    let name = hex(&digest.finalize());
    Ok(format!("caches-{}", name.get(..32).unwrap_or(&name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use stockade_scratch::Folder;

    fn store(stores: &Stores) -> PathBuf {
        stores.of(Path::new("/home/me/.npm")).unwrap().store
    }

    #[test]
    fn a_session_finds_its_stores_again_and_one_run_has_them_at_a_time() {
        let folder = Folder::new();
        let first = Stores::of_session(folder.path(), "s").unwrap();
        let path = store(&first);
        fs::write(path.join("upper/made"), "").unwrap();
        let beside = Stores::of_session(folder.path(), "s").unwrap_err();
        assert_eq!(beside.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let again = Stores::of_session(folder.path(), "s").unwrap();
        assert_eq!(store(&again), path);
        assert!(path.join("upper/made").exists());
        assert_ne!(store(&Stores::of_session(folder.path(), "t").unwrap()), path);
    }

    #[test]
    fn a_run_gets_its_own_where_those_of_the_session_cannot_be_had_and_leaves_nothing() {
        let folder = Folder::new();
        let caches = [PathBuf::from("/home/me/.npm")];
        let held = Stores::of_session(folder.path(), "s").unwrap();
        let mut runs = [Some("s"), None].map(|session| {
            let mut run = Temporary::make(folder.path(), session).unwrap();
            let stored = run.store(&caches, folder.path(), session).unwrap();
            (run, stored)
        });
        let stores: Vec<PathBuf> = runs.iter().map(|(_, stored)| stored[0].store.clone()).collect();
        assert!(stores.iter().all(|it| it.join("upper").exists() && *it != store(&held)));
        assert_ne!(stores[0], stores[1]);
        for (run, _) in &mut runs {
            run.stores = None;
        }
        assert!(stores.iter().all(|it| !it.exists()));
        // A file takes the place of one of them.
        drop(held);
        let session = Stores::of_session(folder.path(), "s").unwrap();
        let path = store(&session);
        drop(session);
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "").unwrap();
        let mut run = Temporary::make(folder.path(), Some("s")).unwrap();
        let stored = run.store(&caches, folder.path(), Some("s")).unwrap();
        assert_ne!(stored[0].store, path);
    }

    #[test]
    fn what_an_overlay_left_of_its_work_goes_before_the_next_run() {
        let folder = Folder::new();
        let stores = Stores::of_session(folder.path(), "s").unwrap();
        let work = store(&stores).join("work");
        let left = work.join("work/incompat/volatile");
        fs::create_dir_all(&left).unwrap();
        for path in [left.as_path(), &work.join("work/incompat"), &work.join("work")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        assert_eq!(store(&stores).join("work"), work);
        assert_eq!(fs::read_dir(work).unwrap().count(), 0);
    }
}
