//! Streams of a command: input and output through pipes or a terminal, output counted, digested, kept in a file when it is
//! long, and shortened for people.
//!
//! Writes the file of a long output, in the folder that it is given, and nothing else. Starts nothing and decides nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

pub mod budget;
pub mod output;
pub mod readable;
pub mod streams;
pub mod terminal;
mod watched;
