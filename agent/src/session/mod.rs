//! A session: everything that the ways in have in common.

mod around;
mod before;
mod compact;
mod context;
mod conversation;
pub(crate) mod database;
mod display;
pub(crate) mod indexed;
mod opening;
mod progress;
mod projection;
mod record;
mod reread;
pub(crate) mod retention;
mod rewind;
mod room;
mod start;
mod transcript;

pub(crate) use before::{here, is_stored_elsewhere, store};
pub(crate) use context::filled;
pub(crate) use conversation::Conversation;
pub(crate) use record::Record;
pub(crate) use rewind::Wish;
pub(crate) use start::{Begun, Plan};
