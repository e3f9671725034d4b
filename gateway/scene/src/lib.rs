//! Checks a request at the door and gathers all that its decision depends on besides the text: directories, settings, shell,
//! environment, and where commands may write.
//!
//! May read the file system and the environment that a request names. Of its own it writes the marks of `regions` alone; it starts
//! nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod file_call;
pub mod known;
pub mod protections;
pub mod regions;
pub mod request;
pub mod scene;
