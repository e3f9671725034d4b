//! The monitor: judges a call, records the decision, grants, runs, records the end. Nothing runs in any other way.
//!
//! Touches what the crates below it touch, in this order: the scene is read, hooks are run, the log is written, a launcher is
//! started. Knows nothing of command lines, agents and sockets: those are the doors, which import this crate.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

mod approve;
mod blocking;
mod control;
pub mod decide;
pub mod denied_reads;
pub mod dry_run;
pub mod engine;
mod failures;
pub mod judge;
pub mod options;
pub mod prefork;
pub mod records;
pub mod response;
pub mod run;
pub mod run_notice;
pub mod view;
pub mod worker;

pub use engine::Gateway;
pub use prefork::Prefork;
use stockade_base::{places, random};
use stockade_hooks as hooks;
use stockade_log as audit;
use stockade_plan as plan;
use stockade_plan::temporary;
use stockade_remedies as remedies;
use stockade_review as review;
use stockade_scene::{known, request};
#[cfg(test)]
use stockade_scratch as testing;
use stockade_settings as settings;
use stockade_tasks as tasks;
use stockade_wire as protocol;
use stockade_worker as parse;
