//! The recorder: the only process that appends to the log of the machine and has its keys.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    path_beneath_rules,
};
use stockade_base::places::{LogPlaces, SYSTEM_LOG, SYSTEM_LOG_STATE};
use stockade_log::apart::{self, board::Known, ledger::Ledger};
use stockade_log::query::along::Whose;
use stockade_log::{GatewayMode, Log};

use crate::accounts::Account;
use crate::identity::Identity;
use crate::listening::{self, Kind};
use crate::{LOG_USER, RECORDER_SOCKET};

/// Most gateways at once; one more is turned away.
const MOST: usize = 1024;
/// How long the keeper may take to say for whom a connection is.
const GREETING: Duration = Duration::from_secs(5);

/// Serves until it is ended. Started as root, it listens first and then becomes its own user.
///
/// # Errors
///
/// Says what keeps it from beginning.
pub fn main() -> Result<(), String> {
    let listener = match rustix::process::geteuid().is_root() {
        true => {
            let listener =
                listening::socket(Path::new(RECORDER_SOCKET), Kind::Stream, 0o600, None)?;
            let account = Account::find(Path::new("/"), LOG_USER)
                .ok_or_else(|| format!("no user `{LOG_USER}`"))?;
            let own = Identity { uid: account.uid, gid: account.gid, groups: Vec::new() };
            own.assume().map_err(|error| format!("cannot become `{LOG_USER}`: {error}"))?;
            listener
        }
        false => listening::socket(Path::new(RECORDER_SOCKET), Kind::Stream, 0o600, None)?,
    };
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let behavior = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(behavior).map_err(|error| error.to_string())?;
    rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())?;
    stockade_kernel::confine_recorder()
        .map_err(|error| format!("cannot confine the recorder: {error}"))?;
    let places = LogPlaces { directory: SYSTEM_LOG.into(), state: SYSTEM_LOG_STATE.into() };
    let (log, writer) =
        Log::begin(&places, GatewayMode::System).map_err(|error| error.to_string())?;
    // From here on there are the two folders of the log, and no other file.
    confine(&places)?;
    let writing = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run());
    writing.map_err(|error| format!("cannot start a thread: {error}"))?;
    let (ledger, served) = (Arc::new(Ledger::default()), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(50)); // no descriptor is free
            continue;
        };
        if served.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        served.fetch_add(1, Ordering::Relaxed);
        let (log, ledger, served) = (log.clone(), Arc::clone(&ledger), Arc::clone(&served));
        let serving = move || {
            // A gateway that is gone is not a failure of the recorder.
            let _ = serve(&log, &ledger, &stream);
            served.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("gateway".into()).spawn(serving) {
            return Err(format!("cannot start a thread: {error}"));
        }
    }
    Ok(())
}

/// Serves one connection, which root alone may make.
fn serve(log: &Log, ledger: &Ledger, mut stream: &UnixStream) -> std::io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    if !peer.uid.is_root() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(GREETING))?;
    let mut told = [0; 7];
    stream.read_exact(&mut told)?;
    let [a, b, c, d, reads_all, long, short] = told;
    let mut word = vec![0; usize::from(u16::from_be_bytes([long, short]))];
    stream.read_exact(&mut word)?;
    stream.set_read_timeout(None)?;
    let known = std::str::from_utf8(&word).ok().and_then(Known::read);
    let uid = u32::from_be_bytes([a, b, c, d]);
    let whose = if reads_all == 1 { Whose::All } else { Whose::Of(uid) };
    apart::serve(log, ledger, stream, &apart::User { uid, whose, known })
}

/// Leaves this process the folders of the log.
fn confine(places: &LogPlaces) -> Result<(), String> {
    let all = AccessFs::from_all(ABI::V5);
    let folders = [&places.directory, &places.state];
    let failed = |error: landlock::RulesetError| format!("cannot confine the recorder: {error}");
    Ruleset::default()
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|it| it.add_rules(path_beneath_rules(folders, all & !AccessFs::Execute)))
        .and_then(|it| it.restrict_self())
        .map(drop)
        .map_err(failed)
}
