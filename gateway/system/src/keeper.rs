//! The keeper: hears from the listener of connections, reads nothing from them, and hands each to the gateway of its user, which
//! it starts.
//!
//! The keeper is root with the capabilities to become another user, and no others. The words of a client are read by a process with
//! the rights of that client. Of the listener it believes nothing: who made a connection, the kernel says.

use std::collections::{HashMap, HashSet, VecDeque};
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
use stockade_log::apart::board::Known;

use crate::accounts::Account;
use crate::elsewhere::{self, Elsewhere};
use crate::identity::Identity;
use crate::listening::{self, Kind};
use crate::message::{self, Received, Refused};
use crate::{GATEWAY, KEEPER_SOCKET, LISTENER_USER, LOG_USER, RECORDER_SOCKET, handing};

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

/// Most listeners at once: one, and one before it whose end was not seen yet.
const MOST_LISTENERS: usize = 2;
/// How long no listener is heard after one that said what ours does not say.
const PENALTY: Duration = Duration::from_secs(1);
/// So many may wait to be heard, and are turned away with one that was refused.
const MOST_WAITING: usize = 1024;
/// So many connections are remembered, so that none is handed over twice.
const MOST_REMEMBERED: usize = 1 << 16;

/// The capabilities that stay.
const KEPT: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// The gateway of one user.
#[derive(Debug)]
struct Gateway {
    control: UnixStream,
    child: Child,
}

/// The connections that were handed over a while ago, by the kernel's number of each.
#[derive(Debug, Default)]
struct Remembered {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Remembered {
    /// Says whether `cookie` is new, and remembers it.
    fn is_new(&mut self, cookie: u64) -> bool {
        if !self.known.insert(cookie) {
            return false;
        }
        self.order.push_back(cookie);
        if self.order.len() > MOST_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// The gateways, the times of their starts, and who brings connections.
#[derive(Debug)]
struct Keeper {
    executable: PathBuf,
    /// User of the listener.
    listener: u32,
    listeners: Vec<OwnedFd>,
    /// When the last one said what ours does not say.
    refused: Option<Instant>,
    remembered: Remembered,
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
    let account = Account::find(Path::new("/"), LISTENER_USER);
    let account = account.ok_or_else(|| format!("no user `{LISTENER_USER}`"))?;
    let owner = Some([account.uid, account.gid]);
    let listener = listening::socket(Path::new(KEEPER_SOCKET), Kind::Messages, 0o600, owner)?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    keep_little().map_err(|error| format!("cannot drop capabilities: {error}"))?;
    stockade_kernel::confine_keeper()
        .map_err(|error| format!("cannot confine the keeper: {error}"))?;
    let mut keeper = Keeper {
        executable,
        listener: account.uid,
        listeners: Vec::new(),
        refused: None,
        remembered: Remembered::default(),
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
        let is_heard = self.refused.is_none_or(|since| since.elapsed() >= PENALTY);
        let comes = if is_heard { PollFlags::IN } else { PollFlags::empty() };
        let mut events = vec![PollFd::new(listener, comes)];
        events.extend(self.listeners.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        let gateways: Vec<(&Identity, &Gateway)> = self.gateways.iter().collect();
        events.extend(gateways.iter().map(|(_, it)| PollFd::new(&it.control, PollFlags::IN)));
        let limit = (!self.leaving.is_empty() || !is_heard).then_some(&LOOK);
        match poll(&mut events, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut happened = events.iter().map(|it| !it.revents().is_empty());
        let comes = happened.next().unwrap_or(false);
        let said: Vec<bool> = happened.by_ref().take(self.listeners.len()).collect();
        // A gateway says nothing here: what can be read is its end.
        let gone = gateways.iter().zip(happened).filter(|(_, ended)| *ended);
        let gone: Vec<Identity> = gone.map(|((identity, _), _)| (*identity).clone()).collect();
        drop(events);
        for identity in gone {
            self.leave(&identity);
        }
        self.leaving.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let listeners = std::mem::take(&mut self.listeners);
        let refused = self.refused;
        for (channel, said) in listeners.into_iter().zip(said) {
            if !said || self.hear(&channel) {
                self.listeners.push(channel);
            }
        }
        if self.refused != refused {
            // Whoever waits as well is of the same user: with them ours, which begins again.
            self.listeners.clear();
            (0..MOST_WAITING).take_while(|_| listener.accept().is_ok()).for_each(drop);
        } else if comes {
            self.welcome(listener);
        }
        Ok(())
    }

    /// Takes a listener that connected: a process of its user, and no other.
    fn welcome(&mut self, listener: &UnixListener) {
        match listener.accept() {
            Ok((stream, _)) => {
                let peer = rustix::net::sockopt::socket_peercred(&stream);
                let is_ours = peer.is_ok_and(|peer| peer.uid.as_raw() == self.listener);
                match is_ours && self.listeners.len() < MOST_LISTENERS {
                    true => self.listeners.push(stream.into()),
                    false => say("a process that is not the listener wanted to be heard"),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Without a free descriptor the next would fail at once.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }

    /// Takes one message of a listener; says whether that one is heard on.
    fn hear(&mut self, channel: &OwnedFd) -> bool {
        let refused = match message::receive(channel) {
            Ok(None) => return false,
            Ok(Some(received)) => match received.identity(Path::new(SYSTEM_SOCKET)) {
                Ok(identity) => {
                    if let Err(reason) = self.serve(&received, &identity) {
                        say(&reason);
                    }
                    return true;
                }
                Err(Refused::Connection(reason)) => {
                    say(reason);
                    return true;
                }
                Err(Refused::Listener(reason)) => reason,
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Err(_) => return false,
        };
        say(&format!("the listener is no longer heard: {refused}"));
        self.refused = Some(Instant::now());
        false
    }

    fn leave(&mut self, identity: &Identity) {
        if let Some(Gateway { child, .. }) = self.gateways.remove(identity) {
            self.leaving.push(child);
        }
    }

    /// Hands a connection to the gateway of who made it. Closing it is the answer to who has none.
    fn serve(&mut self, received: &Received, identity: &Identity) -> Result<(), String> {
        let Received { connection, ticket, .. } = received;
        if identity.uid == 0 {
            return Err("root cannot have a gateway here".into());
        }
        let cookie = rustix::net::sockopt::socket_cookie(connection);
        if !cookie.is_ok_and(|cookie| self.remembered.is_new(cookie)) {
            return Err(format!("a connection of uid {} came twice", identity.uid));
        }
        for _ in 0..2 {
            if !self.gateways.contains_key(identity) {
                let gateway = self.start(identity)?;
                self.gateways.insert(identity.clone(), gateway);
            }
            let Some(gateway) = self.gateways.get(identity) else { break };
            match handing::give(&gateway.control, connection.as_fd(), ticket.as_fd()) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(format!(
                        "the gateway of uid {} accepts no connections",
                        identity.uid
                    ));
                }
                // The gateway ended a moment ago.
                Err(_) => self.leave(identity),
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
        let mut known = None;
        let account = Account::of(Path::new("/"), uid).or_else(|| {
            let account = self.elsewhere.of(uid)?;
            // A file may use the name for another user: this one approves nothing then.
            if Account::find(Path::new("/"), &account.name).is_none() {
                let groups = elsewhere::groups(Path::new("/"), identity);
                known = Some(Known { name: account.name.clone(), groups });
            }
            Some(account)
        });
        let account = account.ok_or_else(|| {
            format!("uid {uid} is not in /etc/passwd and getent does not find it, so it cannot have a gateway")
        })?;
        if [LOG_USER, LISTENER_USER].contains(&account.name.as_str()) || uid == self.listener {
            return Err(format!("`{}` cannot have a gateway", account.name));
        }
        let failed =
            |error: io::Error| format!("the gateway of uid {uid} cannot be started: {error}");
        let recorder = recorder(identity, known.as_ref())
            .map_err(|error| format!("the recorder does not answer: {error}"))?;
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

/// Connects to the recorder for a user, and says whether that user may read the records of all (members of its group may), and who
/// it is where no file names it.
fn recorder(identity: &Identity, known: Option<&Known>) -> io::Result<UnixStream> {
    let group = Account::find(Path::new("/"), LOG_USER).map(|account| account.gid);
    let reads_all = group.is_some_and(|group| identity.groups.contains(&group));
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(RECORDER_SOCKET)?)?;
    let mut stream = UnixStream::from(socket);
    let [a, b, c, d] = identity.uid.to_be_bytes();
    let word = known.map(Known::word).unwrap_or_default();
    let [long, short] = u16::try_from(word.len()).map_err(io::Error::other)?.to_be_bytes();
    let head = [a, b, c, d, u8::from(reads_all), long, short];
    stream.write_all(&[&head, word.as_bytes()].concat())?;
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
