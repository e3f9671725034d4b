//! One matcher for each kind of specifier.

pub(crate) mod command;
pub(crate) mod domain;
pub(crate) mod path;
pub(crate) mod tool;
