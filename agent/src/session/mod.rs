//! A session: everything that the ways in have in common.

mod around;
mod compact;
mod context;
mod conversation;
pub(crate) mod database;
mod display;
pub(crate) mod indexed;
mod opening;
mod projection;
mod record;
pub(crate) mod retention;
mod rewind;
mod room;
mod start;
mod transcript;

pub(crate) use conversation::Conversation;
pub(crate) use record::{Record, here, store};
pub(crate) use rewind::Wish;
pub(crate) use start::{Begun, Plan};
