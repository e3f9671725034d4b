//! The stream-json protocol on standard input and output, which the official SDK packages speak.

mod host;
mod serve;

pub(crate) use serve::serve;
