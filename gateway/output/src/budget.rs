//! How much output the commands of one session may keep on the disk together.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a session in files, and how many there may be.
#[derive(Debug, Default)]
pub struct Budget(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    most: u64,
    used: u64,
    /// Those that were there when it was looked last.
    files: Vec<PathBuf>,
}

impl State {
    /// Looks again at what is there: old output is removed now and then.
    fn look(&mut self) {
        let mut used = 0_u64;
        self.files.retain(|file| {
            let found = file.symlink_metadata();
            used = used.saturating_add(found.as_ref().map_or(0, std::fs::Metadata::len));
            found.is_ok()
        });
        self.used = used;
    }
}

impl Budget {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows so many bytes from now on.
    pub fn allow(&self, most: u64) {
        self.state().most = most;
    }

    /// Notes a file that a command writes.
    pub fn opened(&self, file: &Path) {
        self.state().files.push(file.to_owned());
    }

    /// Takes `bytes`; says whether there was room for them.
    pub fn take(&self, bytes: u64) -> bool {
        let mut state = self.state();
        if state.used.saturating_add(bytes) > state.most {
            state.look();
        }
        let used = state.used.saturating_add(bytes);
        let fits = used <= state.most;
        if fits {
            state.used = used;
        }
        fits
    }

    /// Says whether anything more can be kept.
    pub fn has_room(&self) -> bool {
        let mut state = self.state();
        if state.used >= state.most {
            state.look();
        }
        state.used < state.most
    }

    /// Says whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.state().files.is_empty()
    }

    /// Returns how many bytes there may be.
    pub fn most(&self) -> u64 {
        self.state().most
    }
}
