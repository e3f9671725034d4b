//! The types and the codec of the gateway's socket: requests, answers, events, frames, codes, exit statuses and words.
//!
//! Touches nothing: bytes come in, values go out, and the other way round.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

pub mod approvals;
pub mod conversation;
pub mod errors;
pub mod frames;
pub mod parts;
pub mod progress;
pub mod sessions;
pub mod status;
pub mod subscriptions;
pub mod tasks;
pub mod times;
mod trace;
pub mod types;
pub mod words;
