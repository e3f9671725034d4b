//! Every platform but Linux: refuses, with the reason.

use std::io;
use std::path::Path;
use std::time::Duration;

use stockade_spec::Listeners;
use stockade_spec::{Ending, Enforced, Error, Exit, Protection, SandboxSpec, Stdio, Violation};

/// A running command; there is none here.
#[derive(Debug)]
pub enum Child {}

/// Ends a running command; there is none here.
#[derive(Debug)]
pub enum Stopper {}

/// A launcher that waits for its spec; it refuses every one.
#[derive(Debug)]
pub struct Launcher(());

/// Zygote that makes launchers; there is none here.
#[derive(Debug)]
pub enum LauncherZygote {}

impl LauncherZygote {
    /// Refuses.
    pub fn fork() -> io::Result<LauncherZygote> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes a launcher.
    pub fn launcher(&mut self, _: Option<&Loopback>) -> io::Result<Launcher> {
        match *self {}
    }

    /// Makes a loopback interface that runs can share.
    pub fn loopback(&mut self) -> io::Result<Loopback> {
        match *self {}
    }

    /// Makes sockets in a loopback interface.
    pub fn sockets(&mut self, _: &Loopback) -> io::Result<[std::os::fd::OwnedFd; 2]> {
        match *self {}
    }
}

/// A loopback interface that runs can share; never made.
#[derive(Debug)]
pub enum Loopback {}

impl Loopback {
    /// Refuses.
    pub fn of_process(_: u32) -> io::Result<Loopback> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Launcher {
    /// Forks nothing.
    pub fn fork() -> io::Result<Launcher> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns no process number.
    pub fn monitor(&self) -> u32 {
        0
    }

    /// Starts nothing.
    pub fn start(_: &Path) -> Result<Launcher, Error> {
        Ok(Launcher(()))
    }

    /// Refuses.
    pub fn begin(self, spec: &SandboxSpec, stdio: Stdio) -> Result<Starting, Error> {
        spawn(Path::new("/"), spec, stdio).map(|(child, _)| match child {})
    }

    /// Refuses.
    pub fn run(self, spec: &SandboxSpec, stdio: Stdio) -> Result<(Child, Enforced), Error> {
        spawn(Path::new("/"), spec, stdio)
    }
}

/// A command that is being started; there is none here.
#[derive(Debug)]
pub enum Starting {}

/// How far a start is.
#[derive(Debug)]
pub enum Progress {
    /// Something is still to come.
    Waiting(Starting),
    /// The command runs.
    Started(Child, Enforced),
}

impl Starting {
    /// Longest time between two reports of a launcher.
    pub const LIMIT: Duration = Duration::ZERO;

    /// Returns another descriptor of the socket.
    pub fn socket(&self) -> io::Result<std::os::fd::OwnedFd> {
        match *self {}
    }

    /// Takes one report.
    pub fn proceed(self) -> Result<Progress, Error> {
        match self {}
    }
}

/// Refuses: nothing runs plain where it cannot be confined.
pub fn spawn(_: &Path, spec: &SandboxSpec, _: Stdio) -> Result<(Child, Enforced), Error> {
    let first = spec.required.first().copied();
    Err(Error::Unenforceable {
        protection: first.unwrap_or(Protection::WriteOutside),
        reason: "only Linux is supported".to_owned(),
        help: "run stockade on Linux, or in a Linux virtual machine".to_owned(),
    })
}

impl Child {
    /// Waits for the end.
    pub fn wait(self) -> io::Result<Exit> {
        match self {}
    }

    /// Waits for the end and returns also what was refused.
    pub fn wait_with_violations(self) -> io::Result<(Exit, Vec<Violation>)> {
        match self {}
    }

    /// Returns another descriptor of the socket.
    pub fn socket(&self) -> io::Result<std::os::fd::OwnedFd> {
        match *self {}
    }

    /// Waits for the end.
    pub fn ended(&self) -> io::Result<Ending> {
        match *self {}
    }

    /// Tells the monitor that nobody waits for more than its end.
    pub fn dismiss(&self) {
        match *self {}
    }

    /// Returns a descriptor of the monitor.
    pub fn process(&self) -> io::Result<std::os::fd::OwnedFd> {
        match *self {}
    }

    /// Gives up the listeners of a run.
    pub fn take_listeners(&mut self) -> Option<Listeners> {
        match *self {}
    }

    /// Gives up the other end of the command's terminal.
    pub fn take_terminal(&mut self) -> Option<std::os::fd::OwnedFd> {
        match *self {}
    }

    /// Returns a handle that can end the command.
    pub fn stopper(&self) -> io::Result<Stopper> {
        match *self {}
    }

    /// Returns the process number of the monitor.
    pub fn monitor(&self) -> u32 {
        match *self {}
    }
}

impl Stopper {
    /// Ends the command.
    pub fn stop(&self, _: Duration) -> io::Result<()> {
        match *self {}
    }

    /// Longest time to the end of a command.
    pub const LONGEST: Duration = Duration::ZERO;

    /// Kills whoever watches the command.
    pub fn kill(&self) {
        match *self {}
    }

    /// Sends a signal to the command.
    pub fn signal(&self, _: i32) -> io::Result<()> {
        match *self {}
    }
}

/// Refuses; returns the exit status for that.
pub fn launch() -> i32 {
    122
}
