//! Background tasks: commands that run on after the answer to their caller.
//!
//! A task is a folder, `STATE/tasks/ID`, that any process of the user can read: `task.json` says what it is and how it
//! ended, `output` holds both streams, and the lock on `holder` tells whether the gateway that runs it lives. Only
//! that gateway writes there. [`live`] is what it holds in memory besides.

pub(crate) mod folder;
pub(crate) mod live;
pub(crate) mod output;
pub(crate) mod ports;
pub(crate) mod store;
pub(crate) mod wait;
