//! The Agent Client Protocol, version 1, on standard input and output: for editors.

mod serve;
mod updates;

pub(crate) use serve::{Acp, run};
