//! The events of an answer as the provider's raw events, for `--include-partial-messages`, whichever provider it is.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stockade_model::{Block, Event, Stop, Usage};

use crate::blocks::to_wire;

/// Writes the raw events of one answer after the other.
#[derive(Debug, Default)]
pub struct Partial {
    open: BTreeSet<usize>,
    usage: Usage,
    stop: Option<&'static str>,
}

/// Returns the word for why an answer ended.
#[must_use]
pub fn stop_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::Other(_) => "end_turn",
        Stop::Calls | Stop::Broken => "tool_use",
        Stop::OutputLimit => "max_tokens",
        Stop::ContextLimit => "model_context_window_exceeded",
        Stop::Declined => "refusal",
    }
}

/// Returns usage in the form of the protocol.
#[must_use]
pub fn usage(usage: Usage) -> Value {
    json!({ "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output, "service_tier": "standard" })
}

impl Partial {
    /// Returns the raw events that an event stands for.
    pub fn take(&mut self, event: &Event) -> Vec<Value> {
        match event {
            Event::Started { id, model } => {
                *self = Partial::default();
                vec![
                    json!({ "type": "message_start", "message": { "id": id, "type": "message", "role": "assistant",
                    "model": model, "content": [], "stop_reason": null, "stop_sequence": null,
                    "usage": usage(self.usage) } }),
                ]
            }
            Event::Text { index, text } => self.piece(
                *index,
                json!({ "type": "text", "text": "" }),
                json!({ "type": "text_delta", "text": text }),
            ),
            Event::Thinking { index, text } => self.piece(
                *index,
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                json!({ "type": "thinking_delta", "thinking": text }),
            ),
            Event::CallStarted { index, id, name } => {
                self.open.insert(*index);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                vec![
                    json!({ "type": "content_block_start", "index": index, "content_block": block }),
                ]
            }
            Event::Input { index, json: piece } => self.piece(
                *index,
                json!({ "type": "tool_use", "id": "", "name": "", "input": {} }),
                json!({ "type": "input_json_delta", "partial_json": piece }),
            ),
            Event::Finished { index, block } => self.finished(*index, block),
            Event::Used(used) => {
                self.usage = *used;
                Vec::new()
            }
            Event::Ended(stop) => {
                self.stop = Some(stop_reason(stop));
                Vec::new()
            }
            Event::Unknown { .. } | Event::Retry { .. } => Vec::new(),
        }
    }

    /// Returns the last raw events of an answer.
    pub fn end(&mut self) -> Vec<Value> {
        let delta = json!({ "stop_reason": self.stop, "stop_sequence": null });
        vec![
            json!({ "type": "message_delta", "delta": delta, "usage": usage(self.usage) }),
            json!({ "type": "message_stop" }),
        ]
    }

    fn piece(&mut self, index: usize, block: Value, delta: Value) -> Vec<Value> {
        let begins = self.open.insert(index);
        let start = begins.then(
            || json!({ "type": "content_block_start", "index": index, "content_block": block }),
        );
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        start.into_iter().chain([delta]).collect()
    }

    fn finished(&mut self, index: usize, block: &Block) -> Vec<Value> {
        let start = (!self.open.contains(&index))
            .then(|| json!({ "type": "content_block_start", "index": index, "content_block": to_wire(block) }));
        let stop = json!({ "type": "content_block_stop", "index": index });
        start.into_iter().chain([stop]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_stream_of_raw_events() {
        let mut partial = Partial::default();
        let block = Block::Text("hi".into());
        let events = [
            Event::Started { id: "m".into(), model: "x".into() },
            Event::Text { index: 0, text: "h".into() },
            Event::Text { index: 0, text: "i".into() },
            Event::Finished { index: 0, block },
            Event::Ended(Stop::EndTurn),
        ];
        let mut raw: Vec<Value> = events.iter().flat_map(|event| partial.take(event)).collect();
        raw.extend(partial.end());
        let types: Vec<&str> = raw.iter().filter_map(|it| it["type"].as_str()).collect();
        assert_eq!(
            types,
            [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
        );
        assert_eq!(raw[5]["delta"]["stop_reason"], "end_turn");
    }
}
