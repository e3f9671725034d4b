//! What a front end and a gateway say to each other: types, frames, codes, exit statuses and words.

pub mod errors;
pub mod frames;
pub mod status;
pub mod types;
pub mod words;
