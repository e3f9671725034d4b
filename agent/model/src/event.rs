//! Events while a model answers.

use std::time::Duration;

use serde_json::Value;

use crate::message::Block;

/// One step of an answer. `index` numbers the blocks of the answer from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The answer begins.
    Started {
        /// Identifier that the provider gave to the answer.
        id: String,
        /// The model that answers.
        model: String,
    },
    /// A piece of text.
    Text {
        /// Number of the block.
        index: usize,
        /// The piece.
        text: String,
    },
    /// A piece of the model's thinking, for display.
    Thinking {
        /// Number of the block.
        index: usize,
        /// The piece.
        text: String,
    },
    /// A call of a tool begins; its input follows in pieces.
    CallStarted {
        /// Number of the block.
        index: usize,
        /// Identifier of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// A piece of the JSON text of a call's input.
    Input {
        /// Number of the block.
        index: usize,
        /// The piece.
        json: String,
    },
    /// A block is complete.
    Finished {
        /// Number of the block.
        index: usize,
        /// The whole block.
        block: Block,
    },
    /// Tokens used so far, a total and not an addition.
    Used(Usage),
    /// The provider ended the answer.
    Ended(Stop),
    /// Something that this version does not know. It is kept and has no effect.
    Unknown {
        /// Name of the event, if it has one.
        name: String,
        /// Its content.
        data: Value,
    },
    /// The try failed and another one follows after `delay`. All blocks reported so far are void.
    Retry {
        /// Number of the try that follows, from 2.
        attempt: u32,
        /// Most tries.
        of: u32,
        /// Wait before the try.
        delay: Duration,
        /// HTTP status, if there was a response.
        status: Option<u16>,
        /// Why the try failed.
        reason: String,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model finished its turn.
    EndTurn,
    /// The model waits for results of tools.
    Calls,
    /// The limit of output tokens was reached.
    OutputLimit,
    /// The context window is full.
    ContextLimit,
    /// The model or the provider declined to answer.
    Declined,
    /// The stream broke after a complete call: the calls received so far are the answer.
    Broken,
    /// A reason that this version does not know.
    Other(String),
}

/// Tokens of one answer. Input tokens are counted once: in one of the first three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that no cache held.
    pub input: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Output tokens, thinking included.
    pub output: u64,
}

impl Usage {
    /// Adds `other` to this.
    pub(crate) fn add(&mut self, other: Usage) {
        self.input = self.input.saturating_add(other.input);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.output = self.output.saturating_add(other.output);
    }
}
