//! The recorder's memory of the users: whose decision an id is, what of them runs, and how much they wrote.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Following;
use super::board::Board;

/// Most commands of one user at once.
pub const MOST_RUNNING: usize = 64;
/// Bytes that a user may have written at once, and in each second afterwards.
pub const BURST: u64 = 64 << 20;
/// Bytes of log that a user gains with each second.
pub const PER_SECOND: u64 = 1 << 20;
/// Most ids whose user is remembered.
const MOST_KNOWN: usize = 1 << 16;

/// One for all connections of a recorder.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<State>, pub(super) Board);

#[derive(Debug, Default)]
struct State {
    owners: HashMap<String, u32>,
    order: VecDeque<String>,
    running: HashMap<String, u32>,
    /// Commands whose decision is being written.
    beginning: HashMap<u32, usize>,
    spent: HashMap<u32, (u64, Option<Instant>)>,
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        // Plain tables: whoever panicked left them whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` off what `uid` may write.
    pub(super) fn spend(&self, uid: u32, bytes: usize) -> Result<(), String> {
        let now = Instant::now();
        let mut state = self.state();
        let (spent, since) = state.spent.entry(uid).or_default();
        let gained = since.map_or(0, |since| now.duration_since(since).as_secs());
        *spent = spent.saturating_sub(gained.saturating_mul(PER_SECOND));
        if since.is_none() || gained > 0 {
            *since = Some(now);
        }
        let after = spent.saturating_add(bytes as u64);
        if after > BURST {
            return Err(format!("uid {uid} writes more than its share of the log"));
        }
        *spent = after;
        Ok(())
    }

    /// Makes room for one more command of `uid`.
    pub(super) fn begin(&self, uid: u32) -> Result<(), String> {
        let mut state = self.state();
        let running = state.running.values().filter(|owner| **owner == uid).count();
        let beginning = state.beginning.entry(uid).or_default();
        if running + *beginning >= MOST_RUNNING {
            return Err(format!("uid {uid} has {MOST_RUNNING} commands already"));
        }
        *beginning += 1;
        Ok(())
    }

    /// Notes that the decision of a command that [`Ledger::begin`] made room for is written, or will not be.
    pub(super) fn begun(&self, uid: u32) {
        if let Some(beginning) = self.state().beginning.get_mut(&uid) {
            *beginning = beginning.saturating_sub(1);
        }
    }

    /// Notes whose decision `id` is, and that its command may run if a record opens one.
    pub(super) fn note(&self, uid: u32, id: &str, follow: Following) {
        let mut state = self.state();
        if follow == Following::Opens {
            state.running.insert(id.to_owned(), uid);
        }
        if state.owners.insert(id.to_owned(), uid).is_none() {
            state.order.push_back(id.to_owned());
        }
        if state.order.len() > MOST_KNOWN
            && let Some(oldest) = state.order.pop_front()
        {
            state.owners.remove(&oldest);
        }
    }

    /// Says whether the command of `id` may run, and is one of `uid`.
    pub(super) fn runs(&self, uid: u32, id: &str) -> bool {
        self.state().running.get(id) == Some(&uid)
    }

    /// Returns the user of decision `id`, if it is remembered.
    pub(super) fn owner(&self, id: &str) -> Option<u32> {
        self.state().owners.get(id).copied()
    }

    /// Says whether `id` is known to be the decision of another user.
    pub(super) fn is_anothers(&self, uid: u32, id: &str) -> bool {
        self.state().owners.get(id).is_some_and(|owner| *owner != uid)
    }

    /// Notes that the command of `id` is over.
    pub(super) fn end(&self, id: &str) {
        self.state().running.remove(id);
    }
}
