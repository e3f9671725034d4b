//! The index of sessions, as the keeper and `stockade agent sessions` keep it up to date. Nothing depends on it: an index
//! that cannot be written is told of, and the session goes on.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stockade_index::{Error, Index, Rebuilt, Rows};
use stockade_session::Store;

/// How long the end of a session waits for its last rows.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes rows of sessions beside whoever keeps their logs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indexer {
    /// Identities to bring up to date; taken away at the end.
    ids: Arc<Mutex<Option<Sender<String>>>>,
    /// Disconnected when all is written.
    written: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Indexer {
    /// Brings the rows of a session up to date, soon.
    pub(crate) fn put(&self, store: &Store, id: &str) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.is_none() {
            let (sender, wanted) = mpsc::channel::<String>();
            let (done, written) = mpsc::channel();
            let store = store.clone();
            let thread = std::thread::Builder::new().name("index".into()).spawn(move || {
                let _done = done;
                while let Ok(id) = wanted.recv() {
                    // Whatever came meanwhile is in the log as well.
                    let mut all: Vec<String> =
                        std::iter::once(id).chain(wanted.try_iter()).collect();
                    all.sort();
                    all.dedup();
                    if let Err(error) = refresh(&store, &all) {
                        eprintln!("stockade: {error}");
                    }
                }
            });
            if thread.is_err() {
                return; // the next rebuild has it
            }
            *ids = Some(sender);
            *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
        }
        if let Some(ids) = ids.as_ref() {
            let _ = ids.send(id.to_owned()); // a thread that ended has told why
        }
    }

    /// Waits until all is written.
    pub(crate) fn finish(&self) {
        drop(self.ids.lock().unwrap_or_else(PoisonError::into_inner).take());
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(RecvTimeoutError::Timeout) =
            written.and_then(|it| it.recv_timeout(PATIENCE).err())
        {
            eprintln!(
                "stockade: the index of sessions is late; `stockade agent sessions reindex` makes it anew"
            );
        }
    }
}

/// Does something with the index of a store. A damaged one is begun anew, once.
fn with<T>(store: &Store, mut act: impl FnMut(&mut Index) -> Result<T, Error>) -> Result<T, Error> {
    let path = Index::path(store);
    let mut index = Index::open(&path)?;
    match act(&mut index) {
        Err(error) if error.is_damage() => {
            drop(index);
            act(&mut Index::anew(&path)?)
        }
        done => done,
    }
}

/// Brings the rows of sessions up to date; those of one that is not there go.
pub(crate) fn refresh(store: &Store, ids: &[String]) -> Result<(), Error> {
    with(store, |index| {
        for id in ids {
            match store.find(id).ok().filter(|found| found.id == *id) {
                Some(found) => index.put(&Rows::of(&found)?)?,
                None => index.remove(id)?,
            }
        }
        Ok(())
    })
}

/// Makes the index of all sessions anew.
pub(crate) fn rebuild(store: &Store) -> Result<Rebuilt, Error> {
    with(store, |index| index.rebuild(store))
}

/// Reads from an index that has every session: one that was begun since is completed first.
pub(crate) fn read<T>(
    store: &Store,
    mut act: impl FnMut(&Index) -> Result<T, Error>,
) -> Result<T, Error> {
    with(store, |index| {
        if !index.is_whole() {
            index.rebuild(store)?;
        }
        act(index)
    })
}
