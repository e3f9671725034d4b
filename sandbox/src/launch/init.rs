//! Pid 1 of the run: builds the view, gives up its rights, starts the command and reaps.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::thread::CapabilitySet;

use super::command::{self, Told};
use super::filters::Filters;
use super::host::Host;
use super::loopback::{self, Interface};
use super::watch::Watch;
use super::{Isolation, Link, StandardStreams, fixed, measure, ready, step, terminal};
use crate::supervise::{self, Found, Guard, Neighbours, Review, Supervisor, neighbours};
use stockade_kernel::aliases::Places;
use stockade_kernel::frames;
use stockade_kernel::group::{Counted, Counters};
use stockade_kernel::landlock::{self, Rights, Ruleset};
use stockade_kernel::mounts::{Built, Stage};
use stockade_kernel::sources::{self, Foreign, OwnFiles};
use stockade_kernel::syscalls::{self, Ended, Fork, Ids};
use stockade_spec::Mediation;
use stockade_spec::codec::{Failure, Order, Report, Wire};
use stockade_spec::steps::Steps;
use stockade_spec::{Ending, Exit, Network, Protection, SandboxSpec, Violation};

/// `CAP_SYS_PTRACE`: the supervisor reads the memory of callers that are not its children.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// All secure bits locked, none of them giving root its meaning (`capabilities(7)`).
const SECURE_BITS: libc::c_ulong = 0xEF;

/// State of pid 1 when the command is started.
pub(super) struct Prepared {
    pub(super) isolation: Isolation,
    pub(super) steps: Steps,
    pub(super) built: Option<Built>,
    pub(super) supervision: Supervision,
    /// True if the run shares its loopback interface with other runs.
    pub(super) shares: bool,
    /// Resources that the kernel counts for this run.
    pub(super) counted: Counted,
}

/// Calls that go to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supervision {
    None,
    Connections,
    Files,
}

/// Runs as pid 1 that does in advance what is the same for every spec, then waits for one.
pub(super) fn run_ahead(
    ids: Ids,
    interface: Interface,
    Host { mounts, places }: Host,
    link: Link,
    counters: Option<Counters>,
) -> i32 {
    let mut ground = Ground::lay(Isolation::Namespaces, ids, interface);
    if let Ok(Ground::Namespaces(_, interface @ Interface::Down)) = &mut ground
        && syscalls::loopback_up().is_ok()
    {
        *interface = Interface::Up;
    }
    let places = places.map_or_else(|| step("other mounts", Places::read(&mounts)), Ok);
    drop(mounts);
    Filters::of_most();
    // Without a spec there is nothing to do, and nobody to tell.
    let Ok((frame, streams)) = super::receive_spec(&link.control) else { return super::FAILED };
    // The monitor learns of it at once, and gives its consent while this goes on. It keeps the host for a while, since
    // who closes that last has to wait.
    let passed = {
        let mut all: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
        if let Ok(Ground::Namespaces(stage, _)) = &ground {
            let left = stage.left().into_iter();
            all.extend(left.flat_map(|left| [left.host.as_fd(), left.staging.as_fd()]));
        }
        frames::send_with(&link.orders, &frame, &all)
    };
    let Ok(mut spec) = passed.and_then(|()| SandboxSpec::from_bytes(&frame)) else {
        return super::FAILED;
    };
    if !ready::fits(&spec) {
        // The monitor starts another one.
        return super::FAILED;
    }
    let ground = places.and_then(|places| {
        spec.files.rules.extend(places.of_rules(&spec.files.rules));
        ground
    });
    run(ground, counters, &spec, Foreign::default(), streams, link)
}

/// Has the kernel name pid 1, so that who looks from inside sees whose confinement it is (`proc_pid_comm(5)`).
fn bear_name() {
    // Without it, stockade in a confined command refuses instead of going on.
    let _ = syscalls::set_name(stockade_spec::INIT_NAME);
}

/// A command that runs, and what it is watched with.
struct Begun {
    pid: i32,
    /// The gateway was told by this process, and may be told of the end in the same way.
    is_told: bool,
    built: Option<Built>,
    supervisor: Option<Supervisor>,
    /// The command's terminal, held to the end: what all have closed would be over for those who open it again by name.
    terminal: Option<OwnedFd>,
}

/// Runs as pid 1 of a run whose spec is known; returns its exit status.
pub(super) fn run(
    ground: Result<Ground, Failure>,
    mut counters: Option<Counters>,
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: StandardStreams,
    link: Link,
) -> i32 {
    let isolation = match &ground {
        Ok(Ground::Namespaces(..)) | Err(_) => Isolation::Namespaces,
        Ok(Ground::Static) => Isolation::Static,
        Ok(Ground::Free) => Isolation::Free,
    };
    let counted = counters.as_mut().map(|it| it.limit(&spec.limits)).unwrap_or_default();
    let begun = ground.and_then(|ground| begin(ground, counted, spec, foreign, streams, &link));
    match begun {
        Ok(Begun { pid, is_told, built, supervisor, terminal: _held }) => {
            let Link { control, orders } = link;
            let is_heard = true;
            let counted = (counted, counters);
            let mut watch = Watch {
                spec,
                isolation,
                pid,
                control,
                orders,
                built,
                supervisor,
                is_heard,
                counted,
                left: Vec::new(),
            };
            let (ended, mut violations) = watch.until_the_end().unwrap_or_else(|error| {
                let rule = format!("it failed: {error}");
                let early =
                    supervise::cut_short("supervisor", "pid 1 of the run".to_owned(), &rule);
                (Ended::killed(pid), vec![early])
            });
            // Whatever the run leaves is looked at when nothing of it can change it any more.
            if !watch.end_all() {
                let rule = "processes of the run could not be ended";
                violations.push(supervise::cut_short("kill", "the run".to_owned(), rule));
            }
            let supervisor = watch.supervisor.take();
            violations.extend(supervisor.into_iter().flat_map(Supervisor::into_violations));
            let gateway = is_told.then_some(&watch.control);
            tell(gateway, &watch.orders, ended, violations, watch.left);
            // The monitor hears of it, and the namespaces go meanwhile.
            syscalls::exit_now(0)
        }
        Err(failure) => {
            // The monitor may be gone; then there is nobody to tell.
            let _ = frames::send(&link.orders, &Report::Failed(failure).to_bytes());
            super::FAILED
        }
    }
}

fn begin(
    ground: Ground,
    counted: Counted,
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: StandardStreams,
    link: &Link,
) -> Result<Begun, Failure> {
    let give = |given| terminal::in_place_of(given, spec);
    let own = ground.own_files(spec)?;
    // After the run has terminals of its own; where it has the host's, before those are closed to it.
    let (mut prepared, (streams, other_end)) = match ground {
        Ground::Namespaces(stage, interface) => {
            (confine(stage, interface, spec, foreign, &streams)?, give(streams)?)
        }
        Ground::Static => {
            let given = give(streams)?;
            (fixed::confine(spec, &given.0)?, given)
        }
        Ground::Free => (unconfined()?, give(streams)?),
    };
    prepared.counted = counted;
    let own = if prepared.supervision == Supervision::Files { own } else { OwnFiles::default() };
    let review = step("journal", Review::begin(spec, own.journal))?;
    let image = command::image(spec, prepared.isolation)?;
    let filters = command::filters(spec, &prepared);
    let terminal = terminal_of(&streams);
    let held = spec.terminal.and_then(|_| terminal_of(&streams));
    let nothing = step("streams", io::stdin().as_fd().try_clone_to_owned())?;
    command::give_streams(spec, &streams)?;
    let monitor = step("supervisor", link.orders.try_clone())?;
    step("consent", wait_for_consent(&link.orders))?;
    let listeners = match prepared.isolation {
        Isolation::Namespaces => listeners(spec, prepared.shares)?,
        Isolation::Static | Isolation::Free => None,
    };
    let address = neighbours::address(listeners.as_ref());
    let found = step("turns", Found::look(spec, own.turns))?;
    let (pid, Told { enforced, listener }) =
        start_command(spec, &image, filters, &mut prepared, &link.control)?;
    // Nothing waits for them but this: the command is on its way meanwhile.
    if let Some(both) = listeners {
        step("listeners", pass(&link.control, &both))?;
    }
    if let Some(end) = other_end {
        let frame = Report::Terminal.to_bytes();
        step("terminal", frames::send_with(&link.control, &frame, &[end.as_fd()]))?;
    }
    // A pipe held here would not end when the command closes it.
    for number in 0..3 {
        step("streams", syscalls::duplicate_onto(nothing.as_fd(), number))?;
    }
    let caches = prepared.built.as_mut().map_or_else(Vec::new, |it| std::mem::take(&mut it.caches));
    let files = streams.into_iter().filter(is_file).collect();
    // Of other runs the monitor tells: it has more to do before it may.
    let may_tell = prepared.isolation == Isolation::Namespaces;
    let report = Report::Ready(enforced);
    let is_told =
        step("report", pass_on(may_tell.then_some(&link.control), &link.orders, &report))?;
    let neighbours = prepared.shares.then(|| Neighbours::new(address));
    let supervisor = listener.map(|it| {
        let all =
            Supervisor::new(it, spec, &filters.table, terminal, files, monitor, (review, found))
                .with_neighbours(neighbours);
        match prepared.isolation {
            Isolation::Namespaces => all.with_caches(caches),
            Isolation::Static | Isolation::Free => {
                all.without_mounts(spec.files.private_tmp.clone())
            }
        }
    });
    Ok(Begun { pid, is_told, built: prepared.built, supervisor, terminal: held })
}

/// Starts the process that becomes the command, and confines this one meanwhile. Returns when the command runs: its number,
/// what holds for it, and where its calls wait for the supervisor.
fn start_command(
    spec: &SandboxSpec,
    image: &command::Image,
    filters: &Filters,
    prepared: &mut Prepared,
    control: &UnixStream,
) -> Result<(i32, Told), Failure> {
    let (child, parent) = step("fork", UnixStream::pair())?;
    let pid = match step("fork", syscalls::fork(0))? {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            drop(child);
            let status = command::become_it(spec, image, filters, prepared, control, &parent);
            syscalls::exit_now(status)
        }
    };
    drop(parent);
    if spec.confine {
        step("own filter", syscalls::seccomp_filter(&filters.own))?;
    }
    let Some(told) = command::hear(&child)? else {
        // The command was killed on the way, and its last step may be half done.
        syscalls::exit_now(super::FAILED)
    };
    command::let_go(&child)?;
    Ok((pid, told))
}

/// Waits until the monitor has found nothing against this run.
fn wait_for_consent(orders: &UnixStream) -> io::Result<()> {
    let order = frames::receive(orders)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    match Order::from_bytes(&order)? {
        Order::Start => Ok(()),
        Order::Signal(_) | Order::Stop { .. } => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is_file(stream: &OwnedFd) -> bool {
    let copy = stream.try_clone().map(fs::File::from);
    copy.and_then(|file| file.metadata()).is_ok_and(|found| found.is_file())
}

/// Returns the run's terminal, if it has one.
fn terminal_of(streams: &StandardStreams) -> Option<OwnedFd> {
    use std::io::IsTerminal;
    let found = streams.iter().find(|stream| stream.is_terminal())?;
    found.try_clone().ok()
}

/// A run that was let out: nothing is taken from it, but it does not outlive us.
fn unconfined() -> Result<Prepared, Failure> {
    step("subreaper", syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0))?;
    let mut steps = Steps::default();
    steps.all_off();
    Ok(Prepared {
        isolation: Isolation::Free,
        steps,
        built: None,
        supervision: Supervision::None,
        shares: false,
        counted: Counted::default(),
    })
}

/// Isolation of a run before its spec is needed.
pub(super) enum Ground {
    /// In namespaces of its own, with the beginnings of its view.
    Namespaces(Stage, Interface),
    Static,
    Free,
}

impl Ground {
    /// Takes the first steps, which are the same for every spec.
    pub(super) fn lay(
        isolation: Isolation,
        ids: Ids,
        interface: Interface,
    ) -> Result<Ground, Failure> {
        match isolation {
            Isolation::Namespaces => Ok(Ground::Namespaces(first_stage(ids)?, interface)),
            Isolation::Static => Ok(Ground::Static),
            Isolation::Free => Ok(Ground::Free),
        }
    }

    /// Opens the files of the gateway for this run.
    fn own_files(&self, spec: &SandboxSpec) -> Result<OwnFiles, Failure> {
        let left = match self {
            Ground::Namespaces(stage, _) => stage.left(),
            Ground::Static => None,
            Ground::Free => return Ok(OwnFiles::default()),
        };
        step("journal", sources::own_files(left, spec))
    }
}

/// Begins the view of a run in namespaces of its own, in which `ids` are mapped.
fn first_stage(ids: Ids) -> Result<Stage, Failure> {
    bear_name();
    let kill = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
    step("parent death signal", syscalls::prctl(libc::PR_SET_PDEATHSIG, kill, 0))?;
    map_ids(ids)?;
    measure::end_sooner();
    step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0))?;
    let stage = Stage::new()?;
    empty_sets()?;
    Ok(stage)
}

/// The list of steps from there, in order.
fn confine(
    stage: Stage,
    interface: Interface,
    spec: &SandboxSpec,
    foreign: Foreign,
    streams: &StandardStreams,
) -> Result<Prepared, Failure> {
    let mut steps = Steps::default();
    steps.notes.clone_from(&foreign.notes);
    let mut built = stage.build(spec, foreign)?;
    steps.notes.append(&mut built.notes);
    let supervision = supervision(spec, &built);
    let shares = interface == Interface::Shared && loopback::may_share(&spec.network, supervision);
    network(spec, interface, shares, &mut steps)?;
    report_mounts(spec, &built, supervision, &mut steps);
    give_up_capabilities(&mut steps)?;
    restrict(&built, streams, &mut steps)?;
    Ok(Prepared {
        isolation: Isolation::Namespaces,
        steps,
        built: Some(built),
        supervision,
        shares,
        counted: Counted::default(),
    })
}

/// Maps the caller's ids onto themselves; no other id exists inside.
pub(super) fn map_ids(Ids { user, group }: Ids) -> Result<(), Failure> {
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| {
            let mut failure =
                super::no_namespaces(None, &format!("`{path}` cannot be written: {error}"));
            if let Failure::Unenforceable { help, .. } = &mut failure {
                *help = stockade_spec::help::mapping(user);
            }
            failure
        })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{group} {group} 1\n"))?;
    write("/proc/self/uid_map", format!("{user} {user} 1\n"))
}

fn network(
    spec: &SandboxSpec,
    interface: Interface,
    shares: bool,
    steps: &mut Steps,
) -> Result<(), Failure> {
    match spec.network {
        Network::Host => {
            steps.partial(Protection::Network, "the spec grants the host's network");
            steps.partial(Protection::Loopback, "the spec grants the host's network");
        }
        Network::Off | Network::Proxy { .. } => {
            let both = [Protection::Network, Protection::Loopback];
            if shares {
                steps.layer("network namespace of the session", &both);
                return Ok(());
            }
            if interface == Interface::Shared {
                step("own network", syscalls::leave_namespaces(libc::CLONE_NEWNET))?;
            }
            let up = if interface == Interface::Up { Ok(()) } else { syscalls::loopback_up() };
            step("loopback", up)?;
            steps.layer("network namespace", &both);
        }
    }
    Ok(())
}

/// Opens the two ways out that the spec may ask for. Nothing of the command is there yet that could take the ports; in a network
/// namespace with other runs no command can.
fn listeners(spec: &SandboxSpec, shares: bool) -> Result<Option<[TcpListener; 2]>, Failure> {
    match spec.network {
        Network::Proxy { http, socks } => {
            let listen = |address| {
                let open = |port| TcpListener::bind((address, port));
                Ok([open(http)?, open(socks)?])
            };
            let both = match shares {
                true => neighbours::listen(listen),
                false => listen(Ipv4Addr::LOCALHOST),
            };
            step("listeners", both).map(Some)
        }
        Network::Off | Network::Host => Ok(None),
    }
}

/// Gives the two ways out to the gateway, ahead of the report.
fn pass(control: &UnixStream, [http, socks]: &[TcpListener; 2]) -> io::Result<()> {
    frames::send_with(control, &Report::Listening.to_bytes(), &[http.as_fd(), socks.as_fd()])
}

fn supervision(spec: &SandboxSpec, built: &Built) -> Supervision {
    if !built.has_proc {
        return Supervision::None;
    }
    match spec.mediation {
        Mediation::None => Supervision::None,
        Mediation::Writes if Guard::is_needed(spec, &built.absent) => Supervision::Files,
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
        if Guard::is_needed(spec, &built.absent) {
            let open = "protected and guarded names that do not exist yet can be made";
            steps.partial(Protected, &format!("{open}{because}"));
        }
    }
}

/// Empties the sets that executed programs could gain from. What this process can do stays.
fn empty_sets() -> Result<(), Failure> {
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
    Ok(())
}

/// Keeps what supervising needs.
fn give_up_capabilities(steps: &mut Steps) -> Result<(), Failure> {
    step("capabilities", syscalls::set_capabilities(KEPT_CAPABILITIES))?;
    step("no new privileges", syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))?;
    steps.layer("no new privileges", &[Protection::Privilege]);
    Ok(())
}

/// Puts the Landlock layer under the mounts, for this process and the command.
fn restrict(built: &Built, streams: &StandardStreams, steps: &mut Steps) -> Result<(), Failure> {
    let abi = landlock::abi();
    if abi == 0 {
        return Ok(());
    }
    let name = "Landlock";
    let mut ruleset = step(name, Ruleset::new(abi))?;
    for (object, grant) in &built.grants {
        step(name, ruleset.allow(object.as_fd(), *grant))?;
    }
    for stream in streams {
        allow_terminal(&mut ruleset, stream)?;
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
pub(super) fn allow_terminal(ruleset: &mut Ruleset, stream: &OwnedFd) -> Result<(), Failure> {
    use std::io::IsTerminal;
    if !stream.is_terminal() {
        return Ok(());
    }
    step("Landlock", ruleset.allow(stream.as_fd(), Rights::Device))
}

/// Tells how the command ended, with the times of the whole tree, all of which is reaped.
fn tell(
    gateway: Option<&UnixStream>,
    orders: &UnixStream,
    ended: Ended,
    violations: Vec<Violation>,
    left: Vec<String>,
) {
    let (user, system, max_rss_kib) = syscalls::usage();
    let exit = Exit { code: ended.code, signal: ended.signal, user, system, max_rss_kib };
    // Failures of the supervision are reported when this process is gone as well.
    let whole = violations.iter().all(|it| it.kind != "process");
    // They may be gone; then nobody asks.
    let report = Report::Ended(Ending { exit, violations, left });
    let _ = pass_on(gateway.filter(|_| whole), orders, &report);
}

/// Tells `gateway` itself, where there is one and it takes that at once, and the monitor that it did; else has the
/// monitor tell. Says whether it did it itself.
fn pass_on(gateway: Option<&UnixStream>, orders: &UnixStream, report: &Report) -> io::Result<bool> {
    let bytes = report.to_bytes();
    // The monitor tries to write a report that this process cannot write, and handles a failure.
    let write = |gateway| frames::send_whole(gateway, &bytes).unwrap_or(false);
    let is_told = gateway.is_some_and(write);
    // In this order: the monitor ends this process when it hears of the end.
    match is_told {
        true => frames::send(orders, &Report::Told.to_bytes())?,
        false => frames::send(orders, &bytes)?,
    }
    Ok(is_told)
}
