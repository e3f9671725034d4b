//! The way to a gateway for every front end: [`Client`] speaks to one over a socket, and starts one as a process.
//!
//! This crate is never the gateway itself. May connect to a socket of its own user, read `/proc` of the process that
//! listens there, and start `stockade serve`; reads no settings, no rules and no log.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod connection;
mod exchange;
mod message;
mod peer;
mod session_messages;
mod speaker;
pub mod start;

use std::time::Duration;

pub use connection::Client;
pub use message::left;
pub use peer::is_beside;
pub use stockade_base::places::Options;
pub use stockade_wire::conversation::{Conversation, PendingQuestion};

/// Within so long further orders to end are the same one: a terminal that is closed gives it, and so does its shell.
pub const SAME_ORDER: Duration = Duration::from_millis(250);
/// How long the outcome is waited for after the order to end. A gateway that lives takes less, even for a command that
/// hangs.
pub const LONGEST_END: Duration = Duration::from_secs(20);
