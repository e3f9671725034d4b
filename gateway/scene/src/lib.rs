//! Reads all that a decision depends on besides the text: directories, settings, shell, environment, and where commands
//! may write.
//!
//! May read the file system and the environment that a request names. Of its own it writes the marks of the state alone
//! (`roots`, `regions`, `trust`); it starts nothing.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod bounds;
pub mod environment;
pub mod facts;
pub mod regions;
pub mod settings;
pub mod shell;
