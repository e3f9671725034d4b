//! Background tasks: commands that run on after the answer to their caller.
//!
//! A task is a folder, `STATE/tasks/ID`, that any process of the user can read: `task.json` says what it is and how it
//! ended, `output` holds both streams, and the lock on `holder` tells whether the gateway that runs it lives. Only
//! that gateway writes there. [`live`] is what it holds in memory besides.
//!
//! Writes below `STATE/tasks` and nowhere else. Starts nothing and decides nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod busy_port;
pub mod folder;
pub mod live;
pub mod output;
pub mod ports;
pub mod store;
pub mod wait;
