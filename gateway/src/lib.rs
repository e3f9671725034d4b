//! The gate: everything that touches the world.
//!
//! Three things are public: [`Gateway`], the [`route`] to one and the [`protocol`]. A front end that is not to be a gateway
//! links `stockade-client`.
#![forbid(unsafe_code)]

mod answer;
mod approve;
mod cases;
mod cli;
mod decide;
mod engine;
mod footer;
mod hooks;
mod judge;
mod known;
mod plan;
mod records;
mod remedy;
mod request;
mod review;
pub mod route;
mod run;
mod serve;
mod setup;
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
pub use spare::Spare;
use stockade_base::{json_text, places, random};
use stockade_egress as net;
#[doc(hidden)]
pub use stockade_egress::decode;
use stockade_log as audit;
use stockade_scene::{bounds, environment, facts, regions, settings, shell};
#[cfg(test)]
use stockade_scratch as testing;
pub use stockade_wire as protocol;
use stockade_worker as parse;
