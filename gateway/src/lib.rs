//! The doors of the gate: the command line, the hooks of agents, the shell, the socket, and set-up.
//!
//! Three things are public: [`Gateway`], the [`route`] to one and the [`protocol`]. A front end that is not to be a gateway
//! links `stockade-client`. Nothing here decides or runs a command: that is `stockade-monitor`.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod cli;
pub mod route;
mod serve;
mod setup;

pub use cli::{BROKEN, main};
use stockade_base::{json_text, places, random};
#[doc(hidden)]
pub use stockade_egress::decode;
#[doc(hidden)]
pub use stockade_facts::git_index;
use stockade_hooks as hooks;
use stockade_log as audit;
pub use stockade_monitor::{Gateway, Prefork};
use stockade_monitor::{engine, judge, prefork, response};
use stockade_plan as plan;
use stockade_review as review;
use stockade_scene::request;
#[cfg(test)]
use stockade_scratch as testing;
use stockade_settings::{self as settings, bounds};
use stockade_tasks as tasks;
pub use stockade_wire as protocol;
use stockade_worker as parse;
