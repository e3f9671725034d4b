//! The Agent Client Protocol, version 1, on standard input and output: for editors.

mod elicit;
mod proxy;
mod serve;
mod updates;

pub(crate) use proxy::run as stand_between;
pub(crate) use serve::{Acp, run};
