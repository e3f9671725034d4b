//! What a front end and a gateway say to each other: types, frames, error codes and words.

pub mod errors;
pub mod frames;
pub mod types;
pub mod words;
