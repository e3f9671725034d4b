//! The state of a session that is read, in bounded memory: a conversation that is too long is let go until a summary takes its
//! place.

use std::path::Path;

use crate::error::Error;
use crate::event::{Event, Kind};
use crate::state::State;

/// Most bytes of events since the last summary that make up a conversation, in MiB.
const MOST: u64 = 128;

/// A state with the weight of its conversation.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    state: State,
    bytes: u64,
}

impl Folded {
    /// Goes on from a state that was folded before.
    pub(crate) fn behind(state: State) -> Folded {
        Folded { state, bytes: 0 }
    }

    fn is_too_long(&self) -> bool {
        self.bytes > MOST << 20
    }

    /// Takes one more event of so many bytes.
    pub(crate) fn take(&mut self, event: &Event, bytes: u64) {
        self.bytes = if event.kind == Kind::Compaction { bytes } else { self.bytes + bytes };
        self.state.apply(event);
        if self.is_too_long() {
            self.state.messages = Vec::new();
        }
    }

    /// Returns the state of the log at `path`.
    pub(crate) fn done(self, path: &Path) -> Result<State, Error> {
        match self.is_too_long() {
            true => Err(Error::TooLong { path: path.to_owned(), most: MOST }),
            false => Ok(self.state),
        }
    }
}
