//! A whole answer.

use std::collections::BTreeMap;

use crate::event::{Event, Stop, Usage};
use crate::message::{Block, Message, Role};

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Identifier that the provider gave to the answer.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The message, to be sent back with the next request.
    pub message: Message,
    /// Why it ended.
    pub stop: Stop,
    /// Tokens.
    pub usage: Usage,
}

/// Collects the events of one try.
#[derive(Default)]
pub(crate) struct Collected {
    id: String,
    model: String,
    blocks: BTreeMap<usize, Block>,
    usage: Usage,
    stop: Option<Stop>,
}

impl Collected {
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Started { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
            }
            Event::Finished { index, block } => {
                self.blocks.insert(*index, block.clone());
            }
            Event::Used(usage) => self.usage = *usage,
            Event::Ended(stop) => self.stop = Some(stop.clone()),
            Event::Text { .. }
            | Event::Thinking { .. }
            | Event::CallStarted { .. }
            | Event::Input { .. }
            | Event::Unknown { .. }
            | Event::Retry { .. } => {}
        }
    }

    /// Says whether a call of a tool is complete.
    pub(crate) fn has_call(&self) -> bool {
        self.blocks.values().any(|block| matches!(block, Block::Call { .. }))
    }

    /// Returns the answer. `broken` is the reason where the stream did not give one.
    pub(crate) fn answer(self, broken: Stop) -> Answer {
        let blocks = self.blocks.into_values().collect();
        let message = Message { role: Role::Assistant, blocks };
        let stop = self.stop.unwrap_or(broken);
        Answer { id: self.id, model: self.model, message, stop, usage: self.usage }
    }
}
