//! Questions to persons: those that wait for an answer, who has to approve them, and what a person allowed for good.
//!
//! Writes the questions of agents in the state directory and the local settings of a project; lets nothing run.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod asked;
pub mod elsewhere;
pub mod remember;
pub mod strict;
