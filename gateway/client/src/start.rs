//! Starts a personal gateway for whoever needs one that stays.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use stockade_base::directories::private_directory;
use stockade_base::places::Options;
use stockade_wire::errors::{Code, Failure};

use super::{Client, peer};

/// Name of the file, beside the socket, that is locked while one caller starts the gateway.
const LOCK: &str = "start.lock";
/// How long a gateway that was started so stays without a connection, a session or a task.
const IDLE: &str = "10m";

/// How long a caller waits for one that starts, if it has nothing better to do.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Makes sure that a gateway runs where `options` say, within `patience`. Several callers at once start one.
#[expect(clippy::disallowed_methods, reason = "this executable as a gateway")]
pub fn gateway(options: &Options, patience: Duration) -> Result<(), Failure> {
    if options.embedded || options.state_directory.is_some() || options.audit_directory.is_some() {
        return Err(Failure::new(
            Code::InvalidRequest,
            "a background task needs a running gateway and cannot be combined with `--no-daemon`, `--state-dir` or \
             `--audit-dir`",
            "remove these options",
        ));
    }
    if Client::reach(options)?.is_some() {
        return Ok(());
    }
    let socket = options.default_socket.as_deref().ok_or_else(|| {
        Failure::new(
            Code::InvalidRequest,
            "no directory for the socket of a gateway: neither XDG_RUNTIME_DIR nor HOME is set",
            "set HOME to an absolute path",
        )
    })?;
    if peer::is_restrained() {
        return Err(Failure::new(
            Code::GatewayUnreachable,
            "no gateway runs, and this process is sandboxed itself: it cannot start one that others trust",
            "start one with `stockade serve` in your own shell",
        ));
    }
    let socket = options.real(socket)?;
    let directory = socket.parent().unwrap_or(Path::new("/"));
    let broken = |error: std::io::Error| {
        let message = format!("cannot start a gateway at `{}`: {error}", socket.display());
        Failure::new(Code::GatewayUnreachable, message, "start one with `stockade serve`")
    };
    private_directory(directory).map_err(broken)?;
    let mut file = OpenOptions::new();
    let lock = file.write(true).create(true).truncate(false).mode(0o600);
    let lock = lock.open(directory.join(LOCK)).map_err(broken)?;
    let until = Instant::now() + patience;
    take(&lock, until).map_err(broken)?;
    // Another caller may have started it meanwhile.
    if Client::reach(options)?.is_some() {
        return Ok(());
    }
    let mut command = Command::new(options.executable()?);
    command.args(["serve", "--detach", "--idle", IDLE]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut starting = command.stderr(Stdio::piped()).spawn().map_err(broken)?;
    while starting.try_wait().map_err(broken)?.is_none() {
        if Instant::now() >= until {
            // The gateway goes on, and serves whoever comes later.
            return Err(broken(std::io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(PAUSE);
    }
    let ended = starting.wait_with_output().map_err(broken)?;
    match ended.status.success() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&ended.stderr);
            let told = told.lines().next().unwrap_or_default();
            let reason = told.strip_prefix("stockade: ").unwrap_or(told).to_owned();
            Err(broken(std::io::Error::other(reason)))
        }
    }
}

/// Takes the lock, or fails when another caller holds it for too long.
fn take(lock: &File, until: Instant) -> std::io::Result<()> {
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                return Err(std::io::Error::other(
                    "another caller has been starting one for too long",
                ));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
