//! Sessions of the agent. Each is a folder with an event log, which is the truth, a `workspace.yaml` for people, and a lock.
//!
//! [`State::apply`] folds events into the state of a session. It is pure: resume, fork and every list use this one function.
//! [`Log`] appends events and reads them again after a crash. [`Store`] finds, names and removes sessions.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod archive;
mod change;
mod error;
mod event;
mod folded;
mod fork;
mod holder;
mod lock;
mod log;
mod relevance;
mod rewind;
mod secrets;
mod state;
mod store;
pub mod usage;
mod workspace;

pub use archive::Exported;
pub use change::Change;
pub use error::Error;
pub use event::{Event, Kind, now};
pub use holder::Holder;
pub use lock::Lock;
pub use log::{Log, Read, each, read};
pub use relevance::{Here, Nearness, nearness};
pub use rewind::{OF_COMMANDS, Step, new_changes, steps};
pub use state::{Mark, Said, State};
pub use store::{Found, Known, Named, Pruned, Removal, Store, checked};
pub use workspace::Workspace;
