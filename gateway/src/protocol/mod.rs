//! What a front end and a gateway say to each other: types, frames and error codes.

pub mod errors;
pub mod types;
