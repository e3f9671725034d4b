//! The index of sessions: a SQLite database that answers where something was said, and in which session.
//!
//! The event logs are the truth. [`Rows`] derives the rows of one session from its log, purely; [`Index`] keeps them and finds
//! words in them. A database that is missing, damaged or of another form is begun anew, and no right and no verdict comes
//! out of one. [`ask`] does one statement of a model, within limits.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod database;
mod error;
mod refs;
mod rows;
mod schema;
mod search;
mod sql;

pub use database::{Index, Rebuilt};
pub use error::Error;
pub use rows::{Checkpoint, Rows, Text, Turn};
pub use search::Hit;
pub use sql::{Database, Table, ask};
