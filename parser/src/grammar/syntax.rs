//! The flat syntax tree of one text, in pieces that can be given back while it is walked.

use crate::Span;
use crate::event::{Event, HereDocument};
use crate::grammar::Trouble;

/// Result of the grammar for one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Syntax {
    pub events: Vec<Event>,
    /// The pieces behind `events` of a divided tree.
    pub(super) later: Vec<Vec<Event>>,
    /// How many events there are in a divided tree.
    pub count: usize,
    /// Pieces that were given back.
    pub(super) forgotten: usize,
    pub here_documents: Vec<HereDocument>,
    pub troubles: Vec<Trouble>,
    pub notices: Vec<(Span, &'static str)>,
    /// The first construct that other shells read otherwise.
    pub bash_only: Option<Span>,
    /// Work steps spent.
    pub steps: u64,
    /// Spans of arithmetic, in order of their starts.
    pub arithmetic: Vec<Span>,
    /// Where the syntax error is, if there is one.
    pub error: Option<usize>,
}

impl Syntax {
    /// Puts events into pieces, so that each can be given back when it was walked.
    pub(crate) fn divide(&mut self) {
        self.count = self.events.len();
        while self.events.len() > PIECE {
            let cut = (self.events.len() - 1) / PIECE * PIECE;
            self.later.push(self.events.split_off(cut));
            self.events.shrink_to_fit();
        }
        self.later.reverse();
    }

    /// Bytes that the syntax takes, as far as it was not given back.
    pub(crate) fn memory_bytes(&self) -> usize {
        let given_back = self.forgotten.saturating_mul(PIECE);
        memory_of(
            self.count.max(self.events.len()).saturating_sub(given_back),
            &self.here_documents,
        )
    }

    /// Returns event `at` of a divided tree, unless it was given back.
    pub(crate) fn event(&self, at: usize) -> Option<&Event> {
        match (at / PIECE).checked_sub(1) {
            None => self.events.get(at),
            Some(piece) => self.later.get(piece)?.get(at % PIECE),
        }
    }

    /// Gives the memory of the pieces before `at` back.
    pub(crate) fn forget_before(&mut self, at: usize) {
        let whole = at / PIECE;
        for _ in self.forgotten..whole {
            let piece = match self.forgotten.checked_sub(1) {
                None => Some(&mut self.events),
                Some(piece) => self.later.get_mut(piece),
            };
            if let Some(piece) = piece {
                *piece = Vec::new();
            }
            self.forgotten += 1;
        }
    }
}

/// Returns the memory that events and here-documents take.
pub(super) fn memory_of(events: usize, here_documents: &[HereDocument]) -> usize {
    // The word that ends a here-document is an allocation of its own.
    let here_document = size_of::<HereDocument>() + 32;
    events * size_of::<Event>() + here_documents.len() * here_document
}

/// Events in a piece.
const PIECE: usize = 1 << 16;
