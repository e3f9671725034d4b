//! The streams of an agent. Where a host drives it, each line of both goes through this process, which remembers what the
//! host said.

use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use stockade_spec::Stdio;
use tokio::sync::oneshot;

use super::settings::Settings;
use crate::serve::host_answers::Said;

/// Longest line in either direction, in bytes. One that is longer ends the direction.
const LONGEST: u64 = 64 << 20;
/// How long last lines may take after the agent has ended.
const LAST: Duration = Duration::from_secs(10);

/// The way of the lines of an agent.
pub(super) struct Carried(Option<oneshot::Receiver<()>>);

impl Carried {
    /// Waits until the host has the last line of an agent that has ended.
    pub(super) async fn finish(self) {
        if let Some(done) = self.0 {
            let _ = tokio::time::timeout(LAST, done).await; // a host that reads no more misses it
        }
    }
}

/// Returns the streams for an agent: those of this process, or ones whose lines `said` hears.
pub(super) fn streams(host: Option<(Said, Settings)>) -> io::Result<(Stdio, Carried)> {
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    let Some((said, settings)) = host else {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        return Ok((Stdio { stdin, stdout, stderr }, Carried(None)));
    };
    let (stdin, to_agent) = io::pipe()?;
    let (from_agent, stdout) = io::pipe()?;
    let (finished, done) = oneshot::channel();
    let of_host = said.clone();
    let host = std::thread::Builder::new().name("of the host".into());
    host.spawn(move || inward(&of_host, &settings, to_agent))?;
    let agent = std::thread::Builder::new().name("of the agent".into());
    agent.spawn(move || {
        outward(&said, from_agent);
        let _ = finished.send(()); // nobody waits where the agent could not start
    })?;
    Ok((Stdio { stdin: stdin.into(), stdout: stdout.into(), stderr }, Carried(Some(done))))
}

/// Reads a line with its end; none at the end of the stream, or where it is too long.
fn line(input: &mut impl io::BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = input.take(LONGEST).read_until(b'\n', &mut line).ok()?;
    (read > 0 && (line.ends_with(b"\n") || (read as u64) < LONGEST)).then_some(line)
}

/// Carries the host's lines, until either side closes its stream. Requests about settings do not come to the agent.
fn inward(said: &Said, settings: &Settings, mut agent: PipeWriter) {
    let mut input = BufReader::with_capacity(64 << 10, io::stdin());
    while let Some(line) = line(&mut input) {
        if let Some(answer) = settings.answer(&line) {
            let mut host = io::stdout();
            if host.write_all(answer.as_bytes()).and_then(|()| host.flush()).is_err() {
                return;
            }
            continue;
        }
        said.of_host(&line);
        if agent.write_all(&line).is_err() {
            return;
        }
    }
}

/// Carries the agent's lines, until either side closes its stream.
fn outward(said: &Said, agent: PipeReader) {
    let mut input = BufReader::with_capacity(64 << 10, agent);
    let mut host = io::stdout();
    while let Some(line) = line(&mut input) {
        let Some(mut line) = said.of_agent(&line) else { continue };
        line.push('\n');
        if host.write_all(line.as_bytes()).and_then(|()| host.flush()).is_err() {
            return;
        }
    }
}
