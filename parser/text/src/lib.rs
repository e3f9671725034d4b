//! The base of all readers of text: places in a text, the one reader of JSON, and text made visible for a terminal.
//!
//! Functions alone: they read no files and change nothing.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod json;
mod source;
mod visible;

pub use source::{Position, Span};
pub use visible::{is_hidden, visible};
