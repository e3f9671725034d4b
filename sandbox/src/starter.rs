//! Starts confined programs for crates that cannot launch themselves.

use std::io;
use std::path::Path;
use std::time::Duration;

use stockade_spec::{Confined, Enforced, Error, Exit, Listeners, SandboxSpec, Stdio, Stop};

use crate::{Child, Stopper, spawn};

/// Starts a command like [`spawn`]. This is the [`stockade_spec::Start`] that other crates are handed.
pub fn start(
    launcher: &Path,
    spec: &SandboxSpec,
    stdio: Stdio,
) -> Result<(Box<dyn Confined>, Enforced), Error> {
    spawn(launcher, spec, stdio).map(|(child, enforced)| (Box::new(child) as _, enforced))
}

impl Confined for Child {
    fn wait(self: Box<Child>) -> io::Result<Exit> {
        Child::wait(*self)
    }

    fn stopper(&self) -> io::Result<Box<dyn Stop>> {
        Child::stopper(self).map(|it| Box::new(it) as _)
    }

    fn take_listeners(&mut self) -> Option<Listeners> {
        Child::take_listeners(self)
    }
}

impl Stop for Stopper {
    fn stop(&self, grace: Duration) -> io::Result<()> {
        Stopper::stop(self, grace)
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        Stopper::signal(self, signal)
    }
}
