//! A gateway that runs while the bench does.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running gateway; it ends when this is dropped.
pub(crate) struct Gateway(Child);

impl Gateway {
    /// Starts it and waits until it listens.
    pub(crate) fn start(stockade: &Path, scratch: &Path, state: &Path) -> Option<Gateway> {
        let mut child = Command::new(stockade)
            .args(["serve", "--socket"])
            .arg(scratch.join("gateway.sock"))
            .arg("--state-dir")
            .arg(state.join("gateway"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let ready =
            std::io::BufReader::new(child.stdout.take()?).read_line(&mut line).is_ok_and(|n| n > 0);
        if !ready {
            println!("left out: the gateway did not start");
        }
        ready.then_some(Gateway(child))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        if let Err(error) = ended {
            eprintln!("bench: cannot end the gateway: {error}");
        }
    }
}
