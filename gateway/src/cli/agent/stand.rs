//! State of `stockade agent` on this machine: its executable, its version, and whether it starts in its sandbox.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use stockade_monitor::start_confined;
use stockade_scene::protections::is_available;

use super::{AgentFolder, BESIDE, beside};
use crate::places::Places;
use crate::plan;
use crate::protocol::errors::Failure;

/// How long it may take to say its version.
const LIMIT: Duration = Duration::from_secs(10);
/// Fix for a sandbox that does not start.
const UNCONFINED: &str = "fix what this page says of the sandbox, or set `\"agent\": {\"confine\": false}` in the user settings, which starts it without a sandbox";

/// Why an agent would not start: one cause, and one fix.
pub(crate) struct Lacking {
    pub(crate) cause: String,
    pub(crate) fix: String,
}

fn lacking(cause: impl Into<String>, fix: &str) -> Lacking {
    Lacking { cause: cause.into(), fix: fix.to_owned() }
}

fn of_failure(failure: Failure) -> Lacking {
    Lacking { cause: failure.message, fix: failure.help }
}

/// Starts the agent's executable as a session would, for its version alone. Returns its path; `unconfined` is the setting that
/// starts it without a sandbox.
pub(crate) fn stand(places: &Places, unconfined: Option<&str>) -> Result<String, Lacking> {
    let path = beside().map_err(of_failure)?;
    let name = path.display().to_string();
    let again = "install `stockade` and `stockade-agent` from one version";
    let own = format!("{BESIDE} {}", env!("CARGO_PKG_VERSION"));
    match plain(&path) {
        Ok(version) if version == own => {}
        Ok(version) => {
            let version: String = version.chars().take(80).collect();
            let cause = format!("`{name}` says that it is `{version}`, and not `{own}`");
            return Err(lacking(cause, again));
        }
        Err(error) => return Err(lacking(format!("`{name}` does not start: {error}"), again)),
    }
    if let Some(place) = unconfined {
        return Ok(format!("{name}, without a sandbox by {place}"));
    }
    if !is_available() {
        return Err(lacking("this machine lacks what its sandbox needs", UNCONFINED));
    }
    let directory = AgentFolder::make(&places.state).map_err(of_failure)?;
    match confined(&path, &directory.0) {
        Ok(version) if version == own => Ok(name),
        Ok(_) => Err(lacking("it says nothing in its sandbox", UNCONFINED)),
        Err(error) => Err(lacking(format!("its sandbox does not start: {error}"), UNCONFINED)),
    }
}

/// Reads the first line of a stream, as long as it comes in time.
fn first_line(mut stream: impl io::Read + Send + 'static) -> io::Result<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stream.by_ref().take(4 << 10).read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text)); // nobody waits any more
    });
    let text =
        receiver.recv_timeout(LIMIT).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the executable of the agent, which has no rights of the gateway"
)]
fn plain(path: &Path) -> io::Result<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().map_or_else(|| Ok(String::new()), first_line);
    let _ = child.kill(); // it has said what it says
    child.wait()?;
    said
}

fn confined(path: &Path, place: &Path) -> io::Result<String> {
    let argv = [BESIDE, "--version"].map(OsString::from).to_vec();
    let spec = plan::agent::plan(path, argv, plan::agent::variables(), place)?;
    let (output, stdout) = io::pipe()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let stdio = stockade_spec::Stdio {
        stdin: null.try_clone()?.into(),
        stdout: stdout.into(),
        stderr: null.into(),
    };
    let (child, _) =
        start_confined(&std::env::current_exe()?, &spec, stdio).map_err(io::Error::other)?;
    let stopper = child.stopper()?;
    let said = first_line(output);
    let _ = stopper.signal(rustix::process::Signal::KILL.as_raw()); // it may have ended
    child.wait()?;
    said
}
