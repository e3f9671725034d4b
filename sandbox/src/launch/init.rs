//! Pid 1 of the run: builds the view, gives up its rights, starts the command and reaps.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Link, StandardStreams, command, is_closed, step, sweep};
use crate::codec::{self, Failure, Order, Report, Wire};
use crate::linux::landlock::{self, Grant, Ruleset};
use crate::linux::mounts::{self, Built};
use crate::linux::syscalls::{self, Ended, Fork};
use crate::spec::Mechanism;
use crate::steps::Steps;
use crate::{Exit, Network, Protection, SandboxSpec, Violation};

/// How often the memory of the tree is looked at where no control group counts it.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// `CAP_SYS_PTRACE`: the supervisor reads the memory of callers that are not its children.
const KEPT_CAPABILITIES: u32 = 1 << 19;

/// All secure bits locked, none of them giving root its meaning (`capabilities(7)`).
const SECURE_BITS: libc::c_ulong = 0xEF;

/// What pid 1 knows when the command is started.
pub(super) struct Prepared {
    pub(super) steps: Steps,
    pub(super) built: Option<Built>,
}

/// Runs as pid 1; returns its exit status.
pub(super) fn run(
    spec: &SandboxSpec,
    ids: (u32, u32),
    streams: StandardStreams,
    mut link: Link,
) -> i32 {
    match begin(spec, ids, streams, &mut link) {
        Ok((pid, built)) => {
            let Link { control, orders, report, consent } = link;
            drop((report, consent));
            let watched = watch(spec, pid, &control, &orders, built.as_ref());
            let Ok((ended, violations)) = watched else { return super::FAILED };
            tell(&orders, ended, violations);
            if !spec.confine {
                sweep::all_children();
            }
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
    spec: &SandboxSpec,
    ids: (u32, u32),
    streams: StandardStreams,
    link: &mut Link,
) -> Result<(i32, Option<Built>), Failure> {
    let prepared = if spec.confine { confine(spec, ids, &streams)? } else { unconfined()? };
    match step("fork", syscalls::fork(0))? {
        Fork::Parent(pid) => Ok((pid, prepared.built)),
        Fork::Child => {
            let failure = command::become_it(spec, streams, link, prepared);
            let _ = codec::send(&link.report, &Report::Failed(failure).to_bytes());
            syscalls::exit_now(super::FAILED)
        }
    }
}

/// A run that was let out: nothing is taken from it, but it does not outlive us.
fn unconfined() -> Result<Prepared, Failure> {
    step("subreaper", syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0))?;
    let mut steps = Steps::default();
    steps.all_off();
    Ok(Prepared { steps, built: None })
}

/// The list of steps, in order.
fn confine(
    spec: &SandboxSpec,
    ids: (u32, u32),
    streams: &StandardStreams,
) -> Result<Prepared, Failure> {
    let mut steps = Steps::default();
    let kill = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
    step("parent death signal", syscalls::prctl(libc::PR_SET_PDEATHSIG, kill, 0))?;
    map_ids(spec, ids)?;
    step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0))?;
    network(spec, &mut steps)?;
    let built = mounts::build(spec)?;
    report_mounts(spec, &built, &mut steps);
    give_up_capabilities(&mut steps)?;
    restrict(spec, &built, streams, &mut steps)?;
    Ok(Prepared { steps, built: Some(built) })
}

/// Maps the caller's ids onto themselves; no other id exists inside.
fn map_ids(spec: &SandboxSpec, (uid, gid): (u32, u32)) -> Result<(), Failure> {
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| {
            super::no_namespaces(spec, &format!("`{path}` cannot be written: {error}"))
        })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))
}

fn network(spec: &SandboxSpec, steps: &mut Steps) -> Result<(), Failure> {
    match spec.network {
        Network::Host => {
            steps.partial(Protection::Network, "the spec grants the host's network");
            steps.partial(Protection::Loopback, "the spec grants the host's network");
        }
        Network::Off if spec.hide.contains(&Mechanism::NetworkNamespace) => {
            steps.missing(Protection::Loopback, "there is no network namespace");
        }
        Network::Off => {
            step("loopback", syscalls::loopback_up())?;
            let both = [Protection::Network, Protection::Loopback];
            steps.layer("network namespace", &both);
        }
    }
    Ok(())
}

fn report_mounts(spec: &SandboxSpec, built: &Built, steps: &mut Steps) {
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
    let absent: Vec<&Path> = built
        .absent
        .iter()
        .filter(|rule| mounts::refuses_writing(rule.access))
        .map(|rule| rule.path.as_path())
        .filter(|path| is_beneath_write_rule(spec, path))
        .collect();
    if let Some(first) = absent.first() {
        let open = format!(
            "{} protected names that do not exist yet can be made, such as `{}`",
            absent.len(),
            codec::lossy(first)
        );
        steps.partial(Protected, &open);
    } else if !spec.files.guarded_names.is_empty() {
        steps.partial(Protected, "guarded names that do not exist yet can be made");
    }
    let open = "sockets by path outside `/run` and `/tmp` can be connected to";
    steps.partial(UnixSockets, open);
}

fn is_beneath_write_rule(spec: &SandboxSpec, path: &Path) -> bool {
    let writes = |rule: &crate::FileRule| rule.access == crate::Access::Write;
    spec.files.rules.iter().any(|rule| writes(rule) && path.starts_with(&rule.path))
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
    if spec.hide.contains(&Mechanism::Landlock) || landlock::abi() == 0 {
        return Ok(());
    }
    let name = "Landlock";
    let ruleset = step(name, Ruleset::new())?;
    for (object, grant) in &built.grants {
        step(name, ruleset.allow(object.as_fd(), *grant))?;
    }
    for stream in streams {
        allow_terminal(&ruleset, stream)?;
    }
    let layer = step(name, ruleset.restrict())?;
    use Protection::{KernelSettings, Processes, WriteOutside};
    steps.layer(&layer, &[WriteOutside, KernelSettings]);
    if landlock::abi() >= 6 && built.has_proc {
        steps.layer(&layer, &[Processes]);
    }
    Ok(())
}

/// Lets `/dev/stdout` and its like be opened again where they are a terminal made by the gateway.
fn allow_terminal(ruleset: &Ruleset, stream: &OwnedFd) -> Result<(), Failure> {
    use std::io::IsTerminal;
    if !stream.is_terminal() {
        return Ok(());
    }
    step("Landlock", ruleset.allow(stream.as_fd(), Grant::Device))
}

/// Reaps, follows orders and looks at the memory until the command has ended.
fn watch(
    spec: &SandboxSpec,
    pid: i32,
    control: &std::os::unix::net::UnixStream,
    orders: &std::os::unix::net::UnixStream,
    built: Option<&Built>,
) -> io::Result<(Ended, Vec<Violation>)> {
    let set = syscalls::signal_set(&[libc::SIGCHLD])?;
    syscalls::set_signal_mask(&set)?;
    let children = syscalls::signal_descriptor(&set)?;
    let mut next_sample = Instant::now() + SAMPLE_EVERY;
    loop {
        // A child that ended before the signal was blocked is found here.
        while let Some(ended) = reap()? {
            if ended.pid == pid {
                return Ok((ended, Vec::new()));
            }
        }
        let waited = [
            (children.as_fd(), libc::POLLIN),
            (control.as_fd(), 0),
            (orders.as_fd(), libc::POLLIN),
        ];
        let rest = built.map(|_| next_sample.saturating_duration_since(Instant::now()));
        let events = syscalls::poll(&waited, rest)?;
        let event = |index: usize| events.get(index).copied().unwrap_or(0);
        if is_closed(event(1)) || is_closed(event(2)) {
            sweep_if_unconfined(spec);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if event(0) != 0 {
            drain(&children)?;
        }
        if event(2) & libc::POLLIN != 0 {
            follow(spec, orders)?;
        }
        if Instant::now() < next_sample {
            continue;
        }
        next_sample = Instant::now() + SAMPLE_EVERY;
        if let Some(violation) = built.and_then(|built| over_memory(spec, built)) {
            return Ok((Ended::killed(pid), vec![violation]));
        }
    }
}

fn sweep_if_unconfined(spec: &SandboxSpec) {
    if !spec.confine {
        sweep::all_children();
    }
}

fn reap() -> io::Result<Option<Ended>> {
    match syscalls::wait(-1, libc::WNOHANG) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        result => result,
    }
}

fn drain(children: &OwnedFd) -> io::Result<()> {
    use std::io::Read;
    let mut file = fs::File::from(children.try_clone()?);
    let mut entries = [0; 1024];
    match file.read(&mut entries) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result.map(drop),
    }
}

fn follow(spec: &SandboxSpec, orders: &std::os::unix::net::UnixStream) -> io::Result<()> {
    let Some(order) = codec::receive(orders)? else { return Ok(()) };
    match Order::from_bytes(&order)? {
        // In the run's process namespace -1 is every process but this one.
        Order::Signal(signal) if spec.confine => match syscalls::kill(-1, signal) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            result => result,
        },
        Order::Signal(signal) => {
            sweep::signal_descendants(signal);
            Ok(())
        }
        Order::Stop { .. } => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Adds up the private memory of all processes and the shared memory of the run.
fn over_memory(spec: &SandboxSpec, built: &Built) -> Option<Violation> {
    const PAGE: u64 = 4096;
    let mut total = syscalls::used_bytes(built.shm.as_fd()).unwrap_or(0);
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        if name.to_str().is_none_or(|name| name.parse::<u32>().is_err()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(entry.path().join("statm")) else { continue };
        let mut fields = text.split_whitespace().skip(1).filter_map(|it| it.parse::<u64>().ok());
        let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
        total = total.saturating_add(resident.saturating_sub(shared).saturating_mul(PAGE));
    }
    (total > spec.limits.memory_bytes).then(|| Violation {
        kind: "limit".to_owned(),
        call: "memory".to_owned(),
        object: format!("{} bytes", spec.limits.memory_bytes),
        rule: "builtin: sandbox.limits.memory".to_owned(),
        count: 1,
    })
}

/// Tells the monitor how the command ended.
fn tell(orders: &std::os::unix::net::UnixStream, ended: Ended, violations: Vec<Violation>) {
    let exit = Exit { code: ended.code, signal: ended.signal, ..Exit::default() };
    let mut orders = orders;
    let report = Report::Ended(exit, violations);
    // The monitor may be gone; then nobody asks.
    let _ = codec::send(&mut orders, &report.to_bytes());
    let _ = orders.flush();
}
