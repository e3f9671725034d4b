//! The monitor: judges a call, records the decision, grants, runs, records the end. Nothing runs in any other way.
//!
//! A call goes through [`engine::Gateway`]'s `handle` in this order:
//!
//! 1. `request::accept` checks what came through the door; the scene is gathered: directories, settings, shell, environment.
//! 2. [`judge::judge`] has the text read and confirmed, hears PreToolUse hooks, and has the rules decide; meanwhile what the command
//!    may see is found.
//! 3. `plan` makes of verdict and scene the spec of what the command gets.
//! 4. The log records the decision with the digest of that spec, and returns a `Recorded` when it is on disk.
//! 5. [`decide::decide`] makes of it a `Grant`, a question or a refusal. A question goes to a person; a yes is judged, planned and
//!    recorded anew.
//! 6. [`run::start`] takes the grant, which it uses up, and gives the spec to a launcher; [`run::follow`] carries its streams to the end.
//! 7. The result is recorded, and [`response`] says to the front end how it ended.
//!
//! A failure before step 4 is recorded as one, and nothing runs.
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
use stockade_review as review;
pub use stockade_sandbox::start as start_confined;
use stockade_scene::{known, request};
#[cfg(test)]
use stockade_scratch as testing;
use stockade_settings as settings;
use stockade_tasks as tasks;
use stockade_violation_help as violation_help;
use stockade_wire as protocol;
use stockade_worker as parse;
