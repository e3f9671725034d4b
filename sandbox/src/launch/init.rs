//! Pid 1 of the run: builds the view, gives up its rights, starts the command and reaps.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::watch::Watch;
use super::{Isolation, Link, StandardStreams, command, fixed, step};
use crate::codec::{self, Failure, Report, Wire};
use crate::fault;
use crate::linux::foreign::Foreign;
use crate::linux::landlock::{self, Grant, Ruleset};
use crate::linux::mounts::{Built, Stage};
use crate::linux::seccomp;
use crate::linux::syscalls::{self, Ended, Fork};
use crate::spec::{Mechanism, Mediation};
use crate::steps::Steps;
use crate::supervise::{self, Guard, Supervisor};
use crate::{Exit, Network, Protection, SandboxSpec, Violation};

/// `CAP_SYS_PTRACE`: the supervisor reads the memory of callers that are not its children.
const KEPT_CAPABILITIES: u32 = 1 << 19;

/// All secure bits locked, none of them giving root its meaning (`capabilities(7)`).
const SECURE_BITS: libc::c_ulong = 0xEF;

/// What pid 1 knows when the command is started.
pub(super) struct Prepared {
    pub(super) isolation: Isolation,
    pub(super) steps: Steps,
    pub(super) built: Option<Built>,
    pub(super) supervision: Supervision,
}

/// Which calls go to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supervision {
    None,
    Connections,
    Files,
}

/// Runs as pid 1 of a run whose spec is known; returns its exit status.
pub(super) fn run(
    spec: &SandboxSpec,
    isolation: Isolation,
    (ids, foreign): ((u32, u32), Foreign),
    streams: StandardStreams,
    link: Link,
) -> i32 {
    let ground = match isolation {
        Isolation::Namespaces => lay_ground(ids, &spec.hide),
        Isolation::Static => Ok(Ground::Static),
        Isolation::Free => Ok(Ground::Free),
    };
    go_on(ground, spec, foreign, streams, link)
}

/// Runs as pid 1 that does in advance what is the same for every spec, then waits for one.
pub(super) fn run_ahead(ids: (u32, u32), link: Link) -> i32 {
    let mut ground = lay_ground(ids, &BTreeSet::new());
    if let Ok(Ground::Namespaces(_, loopback)) = &mut ground {
        *loopback = syscalls::loopback_up().is_ok();
    }
    // Without a spec there is nothing to do, and nobody to tell.
    let Ok((spec, streams)) = super::receive_spec(&link.orders) else { return super::FAILED };
    go_on(ground, &spec, Foreign::default(), streams, link)
}

/// Has the kernel name pid 1, so that who looks from inside sees whose confinement it is (`proc_pid_comm(5)`).
fn bear_name() {
    // Without it, stockade in a confined command refuses instead of going on.
    let _ = fs::write("/proc/self/comm", crate::INIT_NAME);
}

fn go_on(
    ground: Result<Ground, Failure>,
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: StandardStreams,
    mut link: Link,
) -> i32 {
    let isolation = match &ground {
        Ok(Ground::Namespaces(..)) | Err(_) => Isolation::Namespaces,
        Ok(Ground::Static) => Isolation::Static,
        Ok(Ground::Free) => Isolation::Free,
    };
    match ground.and_then(|ground| begin(ground, spec, foreign, streams, &mut link)) {
        Ok((pid, built, supervisor)) => {
            let Link { control, orders, report, consent, .. } = link;
            drop((report, consent));
            let mut watch = Watch { spec, isolation, pid, control, orders, built, supervisor };
            let (ended, mut violations) = watch.until_the_end().unwrap_or_else(|error| {
                let rule = format!("it could not go on: {error}");
                let early =
                    supervise::cut_short("supervisor", "pid 1 of the run".to_owned(), &rule);
                (Ended::killed(pid), vec![early])
            });
            // Whatever the run leaves is looked at when nothing of it can change it any more.
            if !watch.end_all() {
                let rule = "processes of the run could not be ended";
                violations.push(supervise::cut_short("kill", "the run".to_owned(), rule));
            }
            violations.extend(watch.supervisor.into_iter().flat_map(Supervisor::into_violations));
            tell(&watch.orders, ended, violations);
            0
        }
        Err(failure) => {
            // The monitor may be gone; then there is nobody to tell.
            let _ = codec::send(&link.report, &Report::Failed(failure).to_bytes());
            super::FAILED
        }
    }
}

fn begin(
    ground: Ground,
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: StandardStreams,
    link: &mut Link,
) -> Result<(i32, Option<Built>, Option<Supervisor>), Failure> {
    let prepared = match ground {
        Ground::Namespaces(stage, loopback) => {
            confine((stage, loopback), spec, foreign, &streams, link)?
        }
        Ground::Static => fixed::confine(spec, &streams)?,
        Ground::Free => unconfined()?,
    };
    let terminal = terminal(&streams);
    match step("fork", syscalls::fork(0))? {
        Fork::Parent(pid) => {
            // A pipe held here would not end when the command closes it.
            let files = streams.into_iter().filter(is_file).collect();
            let table = command::table(spec, &prepared);
            let Prepared { built, supervision, .. } = prepared;
            let monitor = step("supervisor", link.orders.try_clone())?;
            let supervisor = match supervision {
                Supervision::None => None,
                Supervision::Connections | Supervision::Files => take_listener(pid, link)?
                    .map(|it| Supervisor::new(it, spec, table, terminal, (files, monitor))),
            };
            if spec.confine && !spec.hide.contains(&Mechanism::Seccomp) {
                let program = seccomp::own_table().compile();
                step("own filter", syscalls::seccomp_filter(&program))?;
            }
            Ok((pid, built, supervisor))
        }
        Fork::Child => {
            drop(terminal);
            let failure = command::become_it(spec, streams, link, prepared);
            let _ = codec::send(&link.report, &Report::Failed(failure).to_bytes());
            syscalls::exit_now(super::FAILED)
        }
    }
}

fn is_file(stream: &OwnedFd) -> bool {
    let copy = stream.try_clone().map(fs::File::from);
    copy.and_then(|file| file.metadata()).is_ok_and(|found| found.is_file())
}

/// Returns the run's terminal, if it has one.
fn terminal(streams: &StandardStreams) -> Option<OwnedFd> {
    use std::io::IsTerminal;
    let found = streams.iter().find(|stream| stream.is_terminal())?;
    found.try_clone().ok()
}

/// Takes the listener out of the command; `None` if the command failed before it had one.
fn take_listener(pid: i32, link: &mut Link) -> Result<Option<OwnedFd>, Failure> {
    let (gone, _) = step("supervisor", UnixStream::pair())?;
    // Our copy of the command's end must not keep it open when the command fails.
    drop(std::mem::replace(&mut link.handover, gone));
    let mut number = [0; 4];
    match link.handover_taker.read_exact(&mut number) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => step("supervisor", result)?,
    }
    let number = i32::from_ne_bytes(number);
    let process = step("supervisor", syscalls::process_descriptor(pid))?;
    let listener = step("supervisor", syscalls::descriptor_of(process.as_fd(), number))?;
    step("supervisor", link.handover_taker.write_all(&[1]))?;
    Ok(Some(listener))
}

/// A run that was let out: nothing is taken from it, but it does not outlive us.
fn unconfined() -> Result<Prepared, Failure> {
    step("subreaper", syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0))?;
    let mut steps = Steps::default();
    steps.all_off();
    Ok(Prepared { isolation: Isolation::Free, steps, built: None, supervision: Supervision::None })
}

/// What a run stands on, before its spec is needed.
enum Ground {
    /// In namespaces of its own, with the beginnings of its view; says whether its loopback is up.
    Namespaces(Stage, bool),
    Static,
    Free,
}

/// The first steps, which are the same for every spec.
fn lay_ground(ids: (u32, u32), hide: &BTreeSet<Mechanism>) -> Result<Ground, Failure> {
    bear_name();
    let kill = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
    step("parent death signal", syscalls::prctl(libc::PR_SET_PDEATHSIG, kill, 0))?;
    map_ids(ids)?;
    step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0))?;
    Ok(Ground::Namespaces(Stage::new(hide)?, false))
}

/// The list of steps from there, in order.
fn confine(
    (stage, loopback): (Stage, bool),
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: &StandardStreams,
    link: &Link,
) -> Result<Prepared, Failure> {
    let mut steps = Steps::default();
    network(spec, loopback, &link.control, &mut steps)?;
    steps.notes.clone_from(&foreign.notes);
    let built = stage.build(spec, foreign)?;
    let supervision = supervision(spec, &built);
    report_mounts(spec, &built, supervision, &mut steps);
    give_up_capabilities(&mut steps)?;
    restrict(spec, &built, streams, &mut steps)?;
    Ok(Prepared { isolation: Isolation::Namespaces, steps, built: Some(built), supervision })
}

/// Maps the caller's ids onto themselves; no other id exists inside.
fn map_ids((uid, gid): (u32, u32)) -> Result<(), Failure> {
    let write = |path: &str, text: String| {
        let written = match fault::is_at(path) {
            true => Err(fault::error()),
            false => fs::write(path, text),
        };
        written.map_err(|error| {
            super::no_namespaces(None, &format!("`{path}` cannot be written: {error}"))
        })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))
}

fn network(
    spec: &SandboxSpec,
    loopback: bool,
    control: &UnixStream,
    steps: &mut Steps,
) -> Result<(), Failure> {
    match spec.network {
        Network::Host => {
            steps.partial(Protection::Network, "the spec grants the host's network");
            steps.partial(Protection::Loopback, "the spec grants the host's network");
        }
        Network::Off | Network::Proxy { .. }
            if spec.hide.contains(&Mechanism::NetworkNamespace) =>
        {
            steps.missing(Protection::Loopback, "there is no network namespace");
        }
        Network::Off | Network::Proxy { .. } => {
            step("loopback", if loopback { Ok(()) } else { syscalls::loopback_up() })?;
            if let Network::Proxy { http, socks } = spec.network {
                step("listeners", listen(control, http, socks))?;
            }
            let both = [Protection::Network, Protection::Loopback];
            steps.layer("network namespace", &both);
        }
    }
    Ok(())
}

/// Opens the two ways to the gateway in this network namespace and gives them to it. Nothing of the command
/// is there yet that could take the ports.
fn listen(control: &UnixStream, http: u16, socks: u16) -> io::Result<()> {
    let [http, socks] = [http, socks].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    let (http, socks) = (http?, socks?);
    codec::send_with(control, &Report::Listening.to_bytes(), &[http.as_fd(), socks.as_fd()])
}

fn supervision(spec: &SandboxSpec, built: &Built) -> Supervision {
    let hidden = [Mechanism::Seccomp, Mechanism::Notification];
    if hidden.iter().any(|mechanism| spec.hide.contains(mechanism)) || !built.has_proc {
        return Supervision::None;
    }
    match spec.mediation {
        Mediation::None => Supervision::None,
        Mediation::Writes if Guard::new(spec).is_needed(&built.absent) => Supervision::Files,
        Mediation::Writes => Supervision::Connections,
    }
}

fn report_mounts(spec: &SandboxSpec, built: &Built, supervision: Supervision, steps: &mut Steps) {
    use Protection::{
        HiddenNames, Ipc, KernelSettings, MetadataOutside, NoRead, Privilege, Processes, Protected,
        Survivors, UnixSockets, WriteOutside,
    };
    let made = [WriteOutside, MetadataOutside, NoRead, HiddenNames, KernelSettings, Protected];
    steps.layer("mounts", &made);
    steps.layer("process namespace", &[Survivors]);
    steps.layer("ipc namespace", &[Ipc]);
    if built.has_proc {
        steps.layer("process namespace", &[Processes]);
    } else {
        steps.missing(Processes, &built.proc_reason);
    }
    if built.refuses_nesting {
        steps.layer("no nested user namespaces", &[Privilege]);
    }
    if supervision == Supervision::None {
        let because = match built.has_proc {
            true => String::new(),
            false => format!(
                ", since nothing can watch over it without a `/proc`: {}",
                built.proc_reason
            ),
        };
        let open = "sockets by path outside `/run` and `/tmp` can be connected to";
        steps.partial(UnixSockets, &format!("{open}{because}"));
        if Guard::new(spec).is_needed(&built.absent) {
            let open = "protected and guarded names that do not exist yet can be made";
            steps.partial(Protected, &format!("{open}{because}"));
        }
    }
}

/// Empties the sets that executed programs could gain from; keeps what supervising needs.
fn give_up_capabilities(steps: &mut Steps) -> Result<(), Failure> {
    let clear = libc::c_ulong::from(libc::PR_CAP_AMBIENT_CLEAR_ALL.unsigned_abs());
    step("secure bits", syscalls::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0))?;
    step("ambient set", syscalls::prctl(libc::PR_CAP_AMBIENT, clear, 0))?;
    for capability in 0..64 {
        match syscalls::prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            // The first number that the kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && capability > 0 => break,
            result => step("bounding set", result)?,
        };
    }
    step("capabilities", syscalls::set_capabilities(KEPT_CAPABILITIES))?;
    step("no new privileges", syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))?;
    steps.layer("no new privileges", &[Protection::Privilege]);
    Ok(())
}

/// Puts the Landlock layer under the mounts, for this process and the command.
fn restrict(
    spec: &SandboxSpec,
    built: &Built,
    streams: &StandardStreams,
    steps: &mut Steps,
) -> Result<(), Failure> {
    let abi = landlock::abi(spec);
    if abi == 0 {
        return Ok(());
    }
    let name = "Landlock";
    let ruleset = step(name, Ruleset::new(abi))?;
    for (object, grant) in &built.grants {
        step(name, ruleset.allow(object.as_fd(), *grant))?;
    }
    for stream in streams {
        allow_terminal(&ruleset, stream)?;
    }
    let layer = step(name, ruleset.restrict())?;
    use Protection::{KernelSettings, Processes, WriteOutside};
    steps.layer(&layer, &[WriteOutside, KernelSettings]);
    if abi >= 6 && built.has_proc {
        steps.layer(&layer, &[Processes]);
    }
    Ok(())
}

/// Lets `/dev/stdout` and its like be opened again where they are a terminal made by the gateway.
pub(super) fn allow_terminal(ruleset: &Ruleset, stream: &OwnedFd) -> Result<(), Failure> {
    use std::io::IsTerminal;
    if !stream.is_terminal() {
        return Ok(());
    }
    step("Landlock", ruleset.allow(stream.as_fd(), Grant::Device))
}

/// Tells the monitor how the command ended, with the times of the whole tree, all of which is reaped.
fn tell(orders: &UnixStream, ended: Ended, violations: Vec<Violation>) {
    let (user, system, max_rss_kib) = syscalls::usage();
    let exit = Exit { code: ended.code, signal: ended.signal, user, system, max_rss_kib };
    let mut orders = orders;
    let report = Report::Ended(exit, violations);
    // The monitor may be gone; then nobody asks.
    let _ = codec::send(&mut orders, &report.to_bytes());
    let _ = orders.flush();
}
