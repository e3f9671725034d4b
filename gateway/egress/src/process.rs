//! The proxy as a process, seen from the gateway.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

use stockade_spec::Listeners;

/// A proxy; dropping it ends it.
#[derive(Debug)]
pub struct Process(Child);

/// Starts `executable` as `stockade proxy` and gives it the listeners, of which nothing is kept here: when it
/// is gone, nothing answers the command.
#[expect(
    clippy::disallowed_methods,
    reason = "this executable as the proxy, which gives up all rights but its sockets"
)]
pub fn start(executable: &Path, listeners: Listeners) -> io::Result<(Process, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(executable)
        .arg("proxy")
        .env_clear()
        // A name is looked up as it was allowed, never with a domain of this network behind it (resolver(5)).
        .env("LOCALDOMAIN", ".")
        .env("RES_OPTIONS", "ndots:0 attempts:2 timeout:3")
        .current_dir("/")
        // The terminal's signals are for the gateway.
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(listeners.http)
        .stderr(listeners.socks)
        .spawn()?;
    Ok((Process(child), ours))
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
