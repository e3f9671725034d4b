//! Lets crates that cannot launch start confined programs: the monitor and the table of roles hand them a [`Start`].

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::{Enforced, Error, Exit, Listeners, SandboxSpec, Stdio};

/// Starts the program of a spec confined, with the given executable as the launcher. Returns when the program has started
/// or the first step that failed is known; nothing runs on error.
pub type Start = fn(&Path, &SandboxSpec, Stdio) -> Result<(Box<dyn Confined>, Enforced), Error>;

/// A confined program that runs. Dropping it ends everything that the program started.
pub trait Confined: Debug + Send + Sync {
    /// Waits until the program and everything it started are gone.
    fn wait(self: Box<Self>) -> io::Result<Exit>;

    /// Returns a handle that can end the program while another thread waits.
    fn stopper(&self) -> io::Result<Box<dyn Stop>>;

    /// Gives up the listeners of a run with a proxy; none the second time.
    fn take_listeners(&mut self) -> Option<Listeners>;
}

/// Ends a confined program from another thread.
pub trait Stop: Debug + Send + Sync {
    /// Sends TERM to the program's processes, and KILL after `grace`.
    fn stop(&self, grace: Duration) -> io::Result<()>;

    /// Sends `signal` (such as SIGINT) to the program's processes.
    fn signal(&self, signal: i32) -> io::Result<()>;
}
