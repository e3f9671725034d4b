//! How a gateway is opened.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use stockade_base::places;

use crate::Prefork;

/// The gateway that a call uses, and the processes that are ready in case this process is the gateway.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the gateway is, and where it keeps its things.
    pub at: places::Options,
    /// Commands will be run, not only judged: a launcher is made ready meanwhile.
    pub runs: bool,
    /// Processes that were forked when this one began.
    pub prefork: Prefork,
    /// The connection to the recorder, for a gateway whose log another process keeps.
    pub recorder: Option<Arc<UnixStream>>,
}

impl std::ops::Deref for Options {
    type Target = places::Options;

    fn deref(&self) -> &Self::Target {
        &self.at
    }
}
