//! Shell text as a tree of what it could start, write and read.
//!
//! [`parse`] is total: every byte string gives a [`Draft`]. [`Draft::confirm`] compares the draft with
//! what the witness saw and gives the [`CommandTree`] that policy takes. What either of the two did not
//! understand, or saw differently, is an [`Opaque`] span; nothing removes one.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod characters;
mod compact;
mod distinct;
mod event;
mod expression;
mod extract;
mod grammar;
mod lang;
mod limits;
mod marks;
mod nested;
mod options;
mod search;
mod state;
mod tree;
mod witness;
mod word;
mod zsh;

pub use compact::{Bytes, Shared, Thin};
pub use grammar::redirect::Operator;
pub use limits::Limits;
pub use state::StartState;
pub use stockade_programs::{EffectKind, Locality, Programs, Reason, TableError, versions_of};
pub use stockade_text::{Position as SourcePosition, Span};
pub use tree::{
    Assigned, Assignment, Canonical, CommandKind, CommandTree, Directory, Draft, Effect, Notice,
    Object, Opaque, Position, Redirect, RedirectTarget, SimpleCommand, Stdin, Target, Token,
    TokenKind, Unread, Via,
};
pub use witness::{Absence, Node, NodeKind, Witness};
pub use word::{Count, Glob, Word, WordClass, Words};
pub use zsh::Zsh;

/// Reads `source` as bash started in state `start` would, with what `programs` says about programs.
///
/// Never fails and never panics. What is not understood, or is beyond `limits`, is an [`Opaque`] span.
pub fn parse(source: &[u8], start: &StartState, programs: &Programs, limits: &Limits) -> Draft {
    extract::extract(source, start, programs, limits)
}
