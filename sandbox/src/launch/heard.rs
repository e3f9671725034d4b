//! Reports of pid 1 to the monitor, and the monitor's own report where pid 1 could not send any more.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::supervise::{self, InspectedDirectory};
use stockade_kernel::frames;
use stockade_kernel::syscalls::{self, Ended};
use stockade_spec::codec::{Report, Wire};
use stockade_spec::{Ending, Exit, SandboxSpec};

/// Reports that were received from pid 1.
#[derive(Debug, Default)]
pub(super) struct Heard {
    places: Vec<InspectedDirectory>,
    /// A directory was named, but there was no descriptor left to hold it.
    is_incomplete: bool,
    ended: Option<Ending>,
    /// Pid 1 told the gateway of the end.
    is_told: bool,
    is_over: bool,
}

impl Heard {
    /// Says whether there may be more to hear.
    pub(super) fn is_open(&self) -> bool {
        !self.is_over
    }

    /// Says whether pid 1 told of the end; then it does nothing more, and waits for its own.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some() || self.is_told
    }

    /// Says whether it told the gateway, which it does when nothing else is left.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Takes one word of pid 1, which has begun to say it.
    pub(super) fn listen(&mut self, orders: &UnixStream) -> io::Result<()> {
        let heard = self.take(orders);
        // Bytes after half a report are not a report.
        self.is_over |= heard.is_err();
        heard
    }

    fn take(&mut self, orders: &UnixStream) -> io::Result<()> {
        let mut header = [0; 4];
        let (count, descriptors) = syscalls::receive_with_descriptors(orders.as_fd(), &mut header)?;
        if count == 0 {
            self.is_over = true;
            return Ok(());
        }
        if count != header.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match Report::from_bytes(&frames::receive_payload(orders, header)?)? {
            Report::Noted(note) => match descriptors.into_iter().next() {
                Some(directory) => self.places.push(InspectedDirectory { note, directory }),
                None => self.is_incomplete = true,
            },
            Report::Ended(ending) => self.ended = Some(ending),
            Report::Told => self.is_told = true,
            Report::Ready(_)
            | Report::Failed(_)
            | Report::Listening
            | Report::Terminal
            | Report::Confined(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Takes all that pid 1 said before it ended.
    fn drain(&mut self, orders: &UnixStream) -> io::Result<()> {
        while self.is_open() {
            let waited = syscalls::poll(&[(orders.as_fd(), libc::POLLIN)], Some(Duration::ZERO))?;
            if waited.iter().all(|events| *events == 0) {
                return Ok(());
            }
            self.listen(orders)?;
        }
        Ok(())
    }

    /// Returns what is still to be told of the run. Where pid 1 did not say it, what the run left is inspected here.
    pub(super) fn finish(
        mut self,
        spec: &SandboxSpec,
        orders: &UnixStream,
        ended: Option<Ended>,
    ) -> Option<Ending> {
        // A word that is cut off is one that was not said.
        let _ = self.drain(orders);
        if self.is_told {
            return None;
        }
        let mut ending = match self.ended {
            Some(said) => said,
            None => {
                let exit = Exit { signal: Some(libc::SIGKILL), ..Exit::default() };
                let rule = "it ended before its report, so its observations are lost";
                let mut violations =
                    vec![supervise::cut_short("supervisor", "pid 1 of the run".to_owned(), rule)];
                violations.extend(supervise::from_outside(spec, &self.places));
                if self.is_incomplete {
                    let rule = "git directories that this run made could not be inspected";
                    violations.push(supervise::cut_short(
                        "inspection",
                        "the project".to_owned(),
                        rule,
                    ));
                }
                Ending { exit, violations, left: Vec::new() }
            }
        };
        if let Some(ended) = ended {
            ending.exit.user = ended.user;
            ending.exit.system = ended.system;
            ending.exit.max_rss_kib = ended.max_rss_kib;
        }
        Some(ending)
    }
}
