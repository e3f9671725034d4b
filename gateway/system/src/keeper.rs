//! The keeper: takes connections, reads nothing from them, and hands each to the gateway of its user, which it starts.
//!
//! The keeper is root with the capabilities to become another user, and no others. The words of a client are read by a process with
//! the rights of that client.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::{CapabilitySet, CapabilitySets};
use stockade_base::places::SYSTEM_SOCKET;

use crate::accounts::Account;
use crate::elsewhere::Elsewhere;
use crate::identity::Identity;
use crate::{GATEWAY, LOG_USER, RECORDER_SOCKET, handing, listening};

/// Most gateways at once.
const MOST: usize = 512;
/// Most gateways of one user, who can have many groups of his own (`subgid(5)`) and a gateway for each set of them.
const MOST_OF_ONE: usize = 4;
/// Most gateways that one user may have started in [`WINDOW`]: who ends his own over and over waits.
const MOST_STARTS: usize = 20;
const WINDOW: Duration = Duration::from_secs(10);
/// How long the recorder may take to accept.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait before ends are looked for again.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The capabilities that stay.
const KEPT: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// The gateway of one user.
#[derive(Debug)]
struct Gateway {
    control: UnixStream,
    child: Child,
}

/// The gateways, and the times of their starts.
#[derive(Debug)]
struct Keeper {
    executable: PathBuf,
    gateways: HashMap<Identity, Gateway>,
    leaving: Vec<Child>,
    started: HashMap<u32, VecDeque<Instant>>,
    elsewhere: Elsewhere,
}

/// Serves until it is ended; the gateways end with it.
///
/// # Errors
///
/// Says what keeps it from beginning or going on.
pub fn main() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the keeper of the system's gateway runs as root; `sudo stockade install --system` starts it".into());
    }
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    crate::is_roots_alone(&executable)?;
    let listener = listening::socket(Path::new(SYSTEM_SOCKET), 0o666)?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    keep_little().map_err(|error| format!("cannot drop capabilities: {error}"))?;
    let mut keeper = Keeper {
        executable,
        gateways: HashMap::new(),
        leaving: Vec::new(),
        started: HashMap::new(),
        elsewhere: Elsewhere::default(),
    };
    loop {
        keeper.turn(&listener).map_err(|error| format!("cannot wait: {error}"))?;
    }
}

/// Gives up all of root that the work does not need, here and in what is started.
fn keep_little() -> io::Result<()> {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // One that a service manager took away, or that this kernel does not have, needs nothing.
        if rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false) {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

fn say(words: &str) {
    let _ = writeln!(io::stderr(), "stockade: {words}"); // nobody reads it: nothing else is to be done
}

impl Keeper {
    /// Waits for something, and does it.
    fn turn(&mut self, listener: &UnixListener) -> io::Result<()> {
        let mut events = vec![PollFd::new(listener, PollFlags::IN)];
        let gateways: Vec<(&Identity, &Gateway)> = self.gateways.iter().collect();
        events.extend(gateways.iter().map(|(_, it)| PollFd::new(&it.control, PollFlags::IN)));
        let limit = (!self.leaving.is_empty()).then_some(&LOOK);
        match poll(&mut events, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let comes = events.first().is_some_and(|it| !it.revents().is_empty());
        // A gateway says nothing here: what can be read is its end.
        let gone = gateways.iter().zip(events.iter().skip(1));
        let gone = gone.filter(|(_, event)| !event.revents().is_empty());
        let gone: Vec<Identity> = gone.map(|((identity, _), _)| (*identity).clone()).collect();
        drop(events);
        for identity in gone {
            self.leave(&identity);
        }
        self.leaving.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if comes {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Err(reason) = self.serve(&stream) {
                        say(&reason);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a free descriptor the next would fail at once.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        Ok(())
    }

    fn leave(&mut self, identity: &Identity) {
        if let Some(Gateway { child, .. }) = self.gateways.remove(identity) {
            self.leaving.push(child);
        }
    }

    /// Hands a connection to the gateway of who made it. Closing it is the answer to who has none.
    fn serve(&mut self, stream: &UnixStream) -> Result<(), String> {
        let identity =
            Identity::of_peer(stream).map_err(|error| format!("unknown peer: {error}"))?;
        if identity.uid == 0 {
            return Err("root cannot have a gateway here".into());
        }
        for _ in 0..2 {
            if !self.gateways.contains_key(&identity) {
                let gateway = self.start(&identity)?;
                self.gateways.insert(identity.clone(), gateway);
            }
            let Some(gateway) = self.gateways.get(&identity) else { break };
            match handing::give(&gateway.control, stream.as_fd()) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(format!(
                        "the gateway of uid {} accepts no connections",
                        identity.uid
                    ));
                }
                // The gateway ended a moment ago.
                Err(_) => self.leave(&identity),
            }
        }
        Err(format!("the gateway of uid {} exits at once", identity.uid))
    }

    /// Starts the gateway of `identity`: root with two capabilities, which it gives up before it reads anything.
    #[expect(
        clippy::disallowed_methods,
        reason = "this executable once more, as the gateway of a user"
    )]
    fn start(&mut self, identity: &Identity) -> Result<Gateway, String> {
        let uid = identity.uid;
        if self.gateways.len() >= MOST {
            return Err(format!("too many gateways ({MOST}) for another one of uid {uid}"));
        }
        if self.gateways.keys().filter(|it| it.uid == uid).count() >= MOST_OF_ONE {
            return Err(format!("uid {uid} has {MOST_OF_ONE} gateways already"));
        }
        self.starts(uid)?;
        let account = Account::of(Path::new("/"), uid).or_else(|| self.elsewhere.of(uid));
        let account = account.ok_or_else(|| {
            format!("uid {uid} is not in /etc/passwd and getent does not find it, so it cannot have a gateway")
        })?;
        if account.name == LOG_USER {
            return Err(format!("`{LOG_USER}` cannot have a gateway"));
        }
        let failed =
            |error: io::Error| format!("the gateway of uid {uid} cannot be started: {error}");
        let recorder =
            recorder(identity).map_err(|error| format!("the recorder does not answer: {error}"))?;
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&self.executable);
        command.arg(GATEWAY).arg(identity.word()).env_clear().envs(environment(&account));
        command.current_dir("/").stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(recorder));
        let child = command.spawn().map_err(failed)?;
        Ok(Gateway { control, child })
    }

    /// Counts a start of `uid`, and refuses one too many.
    fn starts(&mut self, uid: u32) -> Result<(), String> {
        let now = Instant::now();
        self.started.retain(|_, times| {
            times.retain(|time| now.duration_since(*time) < WINDOW);
            !times.is_empty()
        });
        let times = self.started.entry(uid).or_default();
        if times.len() >= MOST_STARTS {
            return Err(format!("the gateway of uid {uid} ended too often; try again later"));
        }
        times.push_back(now);
        Ok(())
    }
}

/// Connects to the recorder for a user, and says whether that user may read the records of all: members of its group may.
fn recorder(identity: &Identity) -> io::Result<UnixStream> {
    let group = Account::find(Path::new("/"), LOG_USER).map(|account| account.gid);
    let reads_all = group.is_some_and(|group| identity.groups.contains(&group));
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(RECORDER_SOCKET)?)?;
    let mut stream = UnixStream::from(socket);
    let [a, b, c, d] = identity.uid.to_be_bytes();
    stream.write_all(&[a, b, c, d, u8::from(reads_all)])?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Returns the variables of a user's gateway: nothing of them comes from a client.
fn environment(account: &Account) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("HOME", account.home.clone().into_os_string()),
        ("USER", account.name.clone().into()),
        ("LOGNAME", account.name.clone().into()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
        ("LANG", "C.UTF-8".into()),
    ];
    let runtime = Path::new("/run/user").join(account.uid.to_string());
    if runtime.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == account.uid) {
        variables.push(("XDG_RUNTIME_DIR", runtime.into()));
    }
    variables
}
