//! A session: everything that the ways in have in common.

mod conversation;
mod start;
mod transcript;

pub(crate) use conversation::Conversation;
pub(crate) use start::{Begun, Plan};
pub(crate) use transcript::file;
