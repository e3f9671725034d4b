//! Frames of this side.

use serde_json::{Value, json};
use stockade_model::{Answer, Block, Event};
use stockade_turn::Done;

use crate::blocks::to_wire;
use crate::identity;
use crate::partial::usage;

/// The level of the protocol that this side speaks, as the packages compare it.
pub const LEVEL: &str = "2.1.330";

/// Makes the frames of one session.
#[derive(Debug, Clone)]
pub struct Frames {
    session: String,
}

impl Frames {
    /// Returns the maker of frames for a session.
    #[must_use]
    pub fn new(session: &str) -> Frames {
        Frames { session: session.to_owned() }
    }

    fn of(&self, mut frame: Value) -> Value {
        if let Some(fields) = frame.as_object_mut() {
            fields.insert("session_id".into(), json!(self.session));
            fields.insert("uuid".into(), json!(identity()));
        }
        frame
    }

    /// Returns a `system` frame.
    #[must_use]
    pub fn system(&self, subtype: &str, fields: Value) -> Value {
        let mut frame = json!({ "type": "system", "subtype": subtype });
        if let (Some(frame), Some(fields)) = (frame.as_object_mut(), fields.as_object()) {
            frame.extend(fields.clone());
        }
        self.of(frame)
    }

    /// Returns the state of the session, for hosts that wait for it.
    #[must_use]
    pub fn state(&self, state: &str) -> Value {
        self.system("session_state_changed", json!({ "state": state, "sdk_host_only": true }))
    }

    /// Returns the frames of an answer: one for each block.
    #[must_use]
    pub fn answer(&self, answer: &Answer) -> Vec<Value> {
        let frame = |block: &Block| {
            let message = json!({ "id": answer.id, "type": "message", "role": "assistant", "model": answer.model,
                "content": [to_wire(block)], "stop_reason": null, "stop_sequence": null, "usage": usage(answer.usage) });
            self.of(json!({ "type": "assistant", "message": message, "parent_tool_use_id": null }))
        };
        answer.message.blocks.iter().map(frame).collect()
    }

    /// Returns the frame of an answer that did not come. `class` names the failure, such as `rate_limit`.
    #[must_use]
    pub fn no_answer(&self, text: &str, class: &str) -> Value {
        let message = json!({ "id": identity(), "type": "message", "role": "assistant", "model": "<synthetic>",
            "content": [{ "type": "text", "text": text }], "stop_reason": "stop_sequence", "stop_sequence": "",
            "usage": usage(stockade_model::Usage::default()) });
        self.of(json!({ "type": "assistant", "message": message, "parent_tool_use_id": null, "error": class }))
    }

    /// Returns the frame of a call that is over.
    #[must_use]
    pub fn done(&self, done: &Done) -> Value {
        let content = [to_wire(&Block::Outcome(done.outcome.clone()))];
        self.of(json!({ "type": "user", "message": { "role": "user", "content": content },
            "parent_tool_use_id": null, "tool_use_result": done.result }))
    }

    /// Returns the frame of text that went into the conversation.
    #[must_use]
    pub fn added(&self, blocks: &[Block]) -> Value {
        let content: Vec<Value> = blocks.iter().map(to_wire).collect();
        self.of(json!({ "type": "user", "message": { "role": "user", "content": content }, "parent_tool_use_id": null }))
    }

    /// Returns the frame that repeats a message of the user under the identity that it has in the session.
    #[must_use]
    pub fn replayed(&self, uuid: &str, blocks: &[Block]) -> Value {
        let mut frame = self.added(blocks);
        if let Some(fields) = frame.as_object_mut() {
            fields.insert("uuid".into(), json!(uuid));
            fields.insert("isReplay".into(), json!(true));
        }
        frame
    }

    /// Returns the frame of a raw event.
    #[must_use]
    pub fn raw(&self, event: Value) -> Value {
        self.of(json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null }))
    }

    /// Returns the frame of a try that failed; none for other events.
    #[must_use]
    pub fn retry(&self, event: &Event) -> Option<Value> {
        let Event::Retry { attempt, of, delay, status, reason } = event else { return None };
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Some(self.system(
            "api_retry",
            json!({ "attempt": attempt - 1, "max_retries": of - 1, "retry_delay_ms": delay,
            "error_status": status, "error": reason }),
        ))
    }

    /// Returns a frame with these fields.
    #[must_use]
    pub fn plain(&self, frame: Value) -> Value {
        self.of(frame)
    }
}
