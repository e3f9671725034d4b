//! One matcher for each kind of specifier.

pub mod command;
pub mod domain;
pub mod path;
pub mod tool;
