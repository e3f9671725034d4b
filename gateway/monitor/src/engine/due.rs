//! Work that is done now and then.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says when something is to be done again.
#[derive(Debug)]
pub(super) struct Due {
    pause: Duration,
    last: Mutex<Option<Instant>>,
}

impl Due {
    /// At once, and then after each `pause`.
    pub(super) fn every(pause: Duration) -> Due {
        Due { pause, last: Mutex::default() }
    }

    /// Says whether it is to be done now; then the pause begins.
    pub(super) fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= self.pause);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}
