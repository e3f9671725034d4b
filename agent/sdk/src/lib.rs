//! The frames of the stream-json protocol that the official Agent SDKs speak. Touches nothing: values come in, values go
//! out.
//!
//! Source: the packages `claude-agent-sdk` 0.2 (Python) and `@anthropic-ai/claude-agent-sdk` 0.3 (npm).
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod blocks;
mod control;
mod frames;
mod hooks;
mod partial;
mod result;

pub use blocks::{from_wire, to_wire};
pub use control::{Incoming, incoming, request, response};
pub use frames::{Frames, LEVEL};
pub use hooks::{Callback, Hooks};
pub use partial::Partial;
pub use result::{Ended, Result};

/// Returns a new identity.
#[must_use]
pub fn identity() -> String {
    uuid::Uuid::new_v4().to_string()
}
