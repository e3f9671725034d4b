//! Asks a language model and tells its answer as one stream of events, whichever of three wire forms the endpoint has.
//!
//! [`Client::ask`] sends a [`Request`], retries where that is safe, reports each [`Event`] as it arrives, and returns
//! the whole [`Answer`]. This crate opens connections to the one endpoint of its settings, or has a
//! [`relay`] open them that alone holds the key. It reads no files, starts no programs, and knows nothing of sessions and tools.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod answer;
mod client;
mod cost;
mod endpoint;
mod error;
mod event;
mod http;
mod message;
pub mod relay;
mod retry;
mod wire;

pub use answer::Answer;
pub use client::Client;
pub use cost::{Ledger, Prices, Spent};
pub use endpoint::{Endpoint, Key, Provider};
pub use error::{Error, Refusal};
pub use event::{Event, Stop, Usage};
pub use message::{Block, Image, Message, Outcome, Request, Role, Tool};
pub use retry::Retries;
