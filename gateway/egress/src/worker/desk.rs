//! Where connections ask the gateway and wait for its answers.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::messages::{self, Said, Told};

/// The socket to the gateway, shared by all connections.
pub(super) struct Desk {
    control: UnixStream,
    /// Held while a line is written, so that lines stay whole.
    writing: Mutex<()>,
    waiting: Mutex<HashMap<u64, SyncSender<Told>>>,
    last: AtomicU64,
    open: Arc<Open>,
    most: usize,
}

/// How many connections there are.
#[derive(Default)]
struct Open {
    count: AtomicUsize,
    gate: Mutex<()>,
    ended: Condvar,
}

/// The place of one connection; dropping it makes room.
pub(super) struct Slot(Arc<Open>);

impl Drop for Slot {
    fn drop(&mut self) {
        let _held = locked(&self.0.gate);
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_all();
    }
}

/// A thread that broke off while it held a lock leaves what it guards usable: no lock here spans two steps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(super) fn new(control: UnixStream, most: usize) -> Desk {
        Desk {
            control,
            writing: Mutex::new(()),
            waiting: Mutex::new(HashMap::new()),
            last: AtomicU64::new(0),
            open: Arc::default(),
            most,
        }
    }

    /// Returns a place for a connection; none when there are too many.
    pub(super) fn place(&self) -> Option<Slot> {
        let _held = locked(&self.open.gate);
        if self.open.count.load(Ordering::SeqCst) >= self.most {
            return None;
        }
        self.open.count.fetch_add(1, Ordering::SeqCst);
        Some(Slot(Arc::clone(&self.open)))
    }

    /// Returns a number for a connection.
    pub(super) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Tells the gateway something.
    pub(super) fn say(&self, message: &Said) -> io::Result<()> {
        let _held = locked(&self.writing);
        (&self.control).write_all(&messages::line(message))
    }

    /// Asks the gateway, and waits as long as it takes: a person may have to be asked. None when the gateway
    /// is gone.
    pub(super) fn ask(&self, id: u64, message: &Said) -> Option<Told> {
        let (answer, answered): (_, Receiver<Told>) = sync_channel(1);
        locked(&self.waiting).insert(id, answer);
        self.say(message).ok()?;
        answered.recv().ok()
    }

    /// Hands an answer to the connection that waits for it.
    pub(super) fn told(&self, answer: Told) {
        let waiting = locked(&self.waiting).remove(&answer.id());
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer); // a connection that is over needs none
        }
    }

    /// Returns the socket, to see when the gateway closes it.
    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Lets nobody wait any more, and waits until the connections have told how they ended.
    pub(super) fn farewell(&self, limit: Duration) {
        locked(&self.waiting).clear();
        let held = locked(&self.open.gate);
        let open = |(): &mut ()| self.open.count.load(Ordering::SeqCst) > 0;
        // A connection that has not ended by then ends with the process.
        let _ = self.open.ended.wait_timeout_while(held, limit, open);
    }
}
