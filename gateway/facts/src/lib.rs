//! Looks up what a verdict depends on besides rules and text: the repository that a command would use, the files that it would
//! bring from git objects or an archive, and the files that a pattern names.
//!
//! May read files, with bounds of time and size; starts nothing, writes nothing, and widens no verdict.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod brought;
pub mod expand;
pub mod git_index;
pub mod repository;
