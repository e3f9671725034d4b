//! A process of the host that a confined one must neither see nor signal.

use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// A run numbers its own processes from 1 on, as a container does: a number above this is none of the few that the
/// probes have.
const ABOVE: i32 = 100;

/// Bytes of its stack.
const STACK: usize = 64 << 10;

/// A thread of this process with a number that no process of the run has. `kill(2)` and `/proc` know threads by their numbers, too.
pub(super) struct Stranger {
    pub(super) number: i32,
    /// Sender that keeps the thread alive: the thread ends when this is dropped.
    _stays: SyncSender<()>,
}

impl Stranger {
    /// Starts threads until one has such a number: each takes the next one.
    pub(super) fn enter() -> io::Result<Stranger> {
        let mut stranger = Stranger::one()?;
        for _ in 0..2 * ABOVE {
            if stranger.number > ABOVE {
                break;
            }
            stranger = Stranger::one()?;
        }
        Ok(stranger)
    }

    fn one() -> io::Result<Stranger> {
        let (tell, told) = sync_channel(1);
        let (stays, leave): (SyncSender<()>, Receiver<()>) = sync_channel(0);
        thread::Builder::new().stack_size(STACK).spawn(move || {
            let own = fs::read_link("/proc/thread-self");
            if tell.send(own).is_ok() {
                let _ = leave.recv(); // nothing is ever sent: it waits until the other end is gone
            }
        })?;
        let own = told.recv().map_err(io::Error::other)??;
        let number = own.file_name().and_then(|name| name.to_str()?.parse().ok());
        let number =
            number.ok_or_else(|| io::Error::other("`/proc/thread-self` names no thread"))?;
        Ok(Stranger { number, _stays: stays })
    }
}
