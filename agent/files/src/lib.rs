//! Does the calls of file tools: Read, Write, Edit, MultiEdit, Glob, Grep, LS and NotebookEdit.
//!
//! The gateway starts this as a process of its own for each call, confined like a command of the session. It takes one
//! line of JSON, does what the call says with the rights that the process has, and answers with one line of JSON. It
//! decides nothing: rules were asked before, and the kernel holds what the view of the process does not show.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod answer;
mod call;
mod change;
mod edit;
mod error;
mod found;
mod glob;
mod grep;
mod keep;
mod list;
mod media;
mod notebook;
mod patch;
mod read;
mod regular;
mod restore;
mod snapshot;
mod text;
mod walk;
mod write;

pub use answer::{Answer, Content, Facts};
pub use call::{answer, serve};
pub use change::STALE;
pub use error::Error;
pub use snapshot::{Changed, Snapshots};
pub use text::visible;
