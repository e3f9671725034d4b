//! The gate: everything that touches the world.
//!
//! Three things are public: [`Gateway`], the [`client`] and the [`protocol`]. A front end takes a
//! [`client::Client`], which is a gateway in this process or one behind a socket.
#![forbid(unsafe_code)]

mod answer;
mod approve;
mod bounds;
mod cases;
mod cli;
pub mod client;
mod decide;
mod engine;
mod environment;
mod facts;
mod footer;
mod hooks;
mod judge;
mod known;
mod net;
mod places;
mod plan;
mod records;
mod regions;
mod remedy;
mod request;
mod review;
mod run;
mod serve;
mod settings;
mod setup;
mod shell;
mod spare;
mod tasks;
mod temporary;
mod unseen;
mod view;
mod worker;

pub use cli::{BROKEN, main};
pub use engine::Gateway;
#[doc(hidden)]
pub use facts::git_index;
#[doc(hidden)]
pub use net::decode;
pub use spare::Spare;
use stockade_base::{json_text, random};
use stockade_log as audit;
#[cfg(test)]
use stockade_scratch as testing;
pub use stockade_wire as protocol;

#[allow(dead_code, unused_imports)]
mod parse;
mod scan;
