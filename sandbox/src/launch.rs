//! Child side: the monitor, which starts the confined side, watches it and ends it.
//!
//! One thread, no runtime, no settings, no environment. Three processes of ours take part: the
//! monitor, pid 1 of the run's process namespace ([`init`]), and what becomes the command
//! ([`command`]). Each ends when the gateway's end of the control socket closes.

mod command;
mod filters;
mod fixed;
mod heard;
mod host;
mod init;
mod loopback;
mod measure;
mod ready;
mod sweep;
mod terminal;
mod watch;

pub(crate) use host::{Host, Known};
pub use loopback::Loopback;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::supervise;
use heard::Heard;
use init::Ground;
use ready::Ready;
use stockade_kernel::aliases::Places;
use stockade_kernel::frames;
use stockade_kernel::group::Group;
use stockade_kernel::sources::Foreign;
use stockade_kernel::syscalls::{self, Ended, Fork};
use stockade_spec::Fallback;
use stockade_spec::codec::{Failure, Order, Report, Wire};
use stockade_spec::{Enforced, Network, Protection, SandboxSpec};

/// Longest time for all steps before the command starts; a dead network mount must not hang it.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Longest time that pid 1 gets to end the run by itself before it is killed, and the run with it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Longest time that killed processes are waited for: one that hangs in the kernel may never end.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Longest time from an order to stop at once to the last report.
pub(crate) const LONGEST_END: Duration =
    Duration::from_secs(LAST_WORDS.as_secs() + 2 * END_LIMIT.as_secs() + 2);

/// The status of a monitor that could not do its work.
const FAILED: i32 = 122;

/// The status of a monitor that left pid 1, which is on its way out, to the gateway: that is the reaper of orphans.
pub(crate) const LEFT: i32 = 3;

/// The descriptors of the command.
type StandardStreams = [OwnedFd; 3];

/// Connections of the confined side to the monitor, and to the gateway.
struct Link {
    control: UnixStream,
    orders: UnixStream,
}

/// State that the monitor holds of the confined side.
struct Confined {
    pid: i32,
    orders: UnixStream,
    /// Descriptors of the host that the confined side left, until there is time to close them.
    left: Vec<OwnedFd>,
    /// Its control group, if it has one; removed at the end.
    group: Option<Group>,
}

/// Is `stockade launch`.
pub(crate) fn run() -> i32 {
    take_control().map_or(FAILED, |control| serve(&control, Host::new(), Heir::Nobody, None))
}

/// Is a launcher for a gateway that reaps orphans and ends with its call: it need not wait for the one to end before the
/// other.
pub(crate) fn run_for_heir() -> i32 {
    take_control().map_or(FAILED, |control| serve(&control, Host::new(), Heir::Gateway, None))
}

/// Process that waits for pid 1 when it has reported the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heir {
    Gateway,
    /// The monitor does it itself.
    Nobody,
}

/// Work that is still to be done at the end of a run.
enum Rest {
    Told,
    Report(Report),
    /// Pid 1 is to be waited for.
    Left,
}

/// Is a launcher that was forked for the other end of `control`, by a zygote that is in no directory but `/` and
/// whose standard error leads nowhere. Its run has `loopback`, if there is one and the spec does not forbid it.
pub(crate) fn run_forked(control: &UnixStream, host: Host, loopback: Option<Loopback>) -> i32 {
    let nothing = io::stderr();
    let mut kept = vec![control.as_fd(), host.mounts.as_fd()];
    kept.extend(loopback.iter().flat_map(Loopback::descriptors));
    let settled = syscalls::close_all_but(&kept)
        .and_then(|()| syscalls::duplicate_onto(nothing.as_fd(), 0))
        .and_then(|()| syscalls::duplicate_onto(nothing.as_fd(), 1))
        .and_then(|()| syscalls::setsid());
    match settled {
        Ok(()) => serve(control, Ok(host), Heir::Nobody, loopback),
        Err(_) => FAILED,
    }
}

fn serve(
    control: &UnixStream,
    host: io::Result<Host>,
    heir: Heir,
    loopback: Option<Loopback>,
) -> i32 {
    match monitor(control, host, heir, loopback) {
        Ok(Rest::Report(report)) => send(control, &report).map_or(FAILED, |()| 0),
        Ok(Rest::Told) => 0,
        Ok(Rest::Left) => LEFT,
        Err(failure) => {
            // The gateway may be gone; then there is nobody to tell.
            let _ = send(control, &Report::Failed(failure));
            FAILED
        }
    }
}

/// Takes descriptor 0 as the control socket and closes all that was inherited.
fn take_control() -> io::Result<UnixStream> {
    syscalls::close_from(3)?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let nothing = File::open("/dev/null")?;
    syscalls::duplicate_onto(nothing.as_fd(), 0)?;
    syscalls::duplicate_onto(nothing.as_fd(), 1)?;
    // The terminal's signals go to the gateway's group, not to the monitor.
    syscalls::setsid()?;
    Ok(control)
}

fn step<T>(name: &str, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::Step { step: name.to_owned(), reason: error.to_string() })
}

/// How a run is kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// By namespaces, and all that builds on them.
    Namespaces,
    /// By Landlock, the filter and limits alone.
    Static,
    /// Not at all: it was let out.
    Free,
}

fn send(to: &UnixStream, report: &Report) -> io::Result<()> {
    frames::send(to, &report.to_bytes())
}

fn monitor(
    control: &UnixStream,
    host: io::Result<Host>,
    heir: Heir,
    loopback: Option<Loopback>,
) -> Result<Rest, Failure> {
    step("subreaper", syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0))?;
    // Whatever it cannot do in advance is done, and its failure told, when the spec is here.
    let mut ready = host.and_then(|host| Ready::prepare(control, host, loopback)).ok();
    let inherited = ready.as_ref().and_then(Ready::pid).filter(|_| heir == Heir::Gateway);
    if let Some(pid) = inherited {
        step("report", send(control, &Report::Confined(pid)))?;
    }
    let received = match &mut ready {
        Some(ready) => ready.receive(control),
        None => receive_spec(control),
    };
    let (frame, streams) = step("receive", received)?;
    let spec = step("receive", SandboxSpec::from_bytes(&frame))?;
    let isolation = if spec.confine { Isolation::Namespaces } else { Isolation::Free };
    let again = match (isolation, spec.fallback) {
        (Isolation::Namespaces, Fallback::Static) => Some(step("streams", copies(&streams))?),
        (Isolation::Namespaces | Isolation::Static | Isolation::Free, _) => None,
    };
    let first = attempt(&spec, isolation, ready, streams, control, inherited);
    match first {
        Err(failure @ (Failure::Step { .. } | Failure::Unenforceable { .. })) => match again {
            // Nothing has run. What this one leaves open is in its report.
            Some(streams) => attempt(&spec, Isolation::Static, None, streams, control, None),
            None => Err(failure),
        },
        Ok(_) | Err(Failure::Exec { .. } | Failure::Spec { .. } | Failure::Terminal { .. }) => {
            first
        }
    }
}

fn copies(streams: &StandardStreams) -> io::Result<StandardStreams> {
    let [stdin, stdout, stderr] = streams;
    Ok([stdin.try_clone()?, stdout.try_clone()?, stderr.try_clone()?])
}

/// Starts the run and follows it to its end; on an error nothing has run, or nothing of it is left. Pid 1 with the number
/// `inherited` may be left to the gateway at the end.
fn attempt(
    spec: &SandboxSpec,
    isolation: Isolation,
    ready: Option<Ready>,
    streams: StandardStreams,
    control: &UnixStream,
    inherited: Option<i32>,
) -> Result<Rest, Failure> {
    let Confined { pid, orders, left, group } = start(spec, isolation, ready, streams, control)?;
    let started = step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0))
        .and_then(|_| agree(control, &orders))
        .and_then(|started| match started {
            Some(enforced) => step("report", send(control, &Report::Ready(enforced))),
            None => Ok(()),
        });
    if let Err(failure) = started {
        end(pid, group.as_ref());
        return Err(failure);
    }
    // Closing this waits for the kernel's readers, and has every processor take part in that. Where the gateway waits for the
    // end of this process it is done while the command runs, else when the command is over.
    let _left = inherited.is_none().then_some(left);
    let mut heard = Heard::default();
    let watched = watch(control, &orders, pid, &mut heard);
    if heard.is_told() {
        // Nothing is left but pid 1, and the gateway knows. The kernel takes its time over the namespaces, and nobody
        // need wait for that before the result is written down. Nor does this process take part until then: where there
        // are few processors its own end would hold the gateway up.
        let _ = syscalls::poll(&[(control.as_fd(), 0)], Some(END_LIMIT));
        if inherited == Some(pid) && group.is_none() {
            return Ok(Rest::Left);
        }
        end(pid, group.as_ref());
        return Ok(Rest::Told);
    }
    let End { ended, is_whole } = end(pid, group.as_ref());
    let Some(mut ending) = heard.finish(spec, &orders, ended) else {
        return Ok(Rest::Told);
    };
    // Pid 1 itself may have been taken for the one that needs too much.
    for reached in group.iter().flat_map(Group::reached) {
        measure::note(&mut ending.violations, measure::reached(reached, &spec.limits));
    }
    if let Err(error) = watched {
        let rule = format!("it could not follow the run: {error}");
        ending.violations.push(supervise::cut_short("monitor", "the run".to_owned(), &rule));
    }
    if !is_whole {
        let rule = "processes of the run could not be ended";
        ending.violations.push(supervise::cut_short("kill", "the run".to_owned(), rule));
    }
    Ok(Rest::Report(Report::Ended(ending)))
}

/// Receives a spec, not yet read, and the streams that come with it.
fn receive_spec(control: &UnixStream) -> io::Result<(Vec<u8>, StandardStreams)> {
    match receive_frame(control)? {
        (frame, streams, others) if others.is_empty() => Ok((frame, streams)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Receives a frame, the streams that come with it, and what else does.
fn receive_frame(from: &UnixStream) -> io::Result<(Vec<u8>, StandardStreams, Vec<OwnedFd>)> {
    let mut header = [0; 4];
    let (count, descriptors) = syscalls::receive_with_descriptors(from.as_fd(), &mut header)?;
    if count != header.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = descriptors.into_iter();
    let streams: Vec<OwnedFd> = descriptors.by_ref().take(3).collect();
    let streams: StandardStreams =
        streams.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((frames::receive_payload(from, header)?, streams, descriptors.collect()))
}

/// The namespaces of a run that gets all of them.
const ALL_NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWNET;

/// Returns the namespaces of a run.
fn namespaces(spec: &SandboxSpec, isolation: Isolation) -> i32 {
    match isolation {
        Isolation::Namespaces => {}
        Isolation::Static | Isolation::Free => return 0,
    }
    if spec.network != Network::Host {
        ALL_NAMESPACES
    } else {
        ALL_NAMESPACES & !libc::CLONE_NEWNET
    }
}

/// Starts the confined side, or goes on with the one that was made ready where that fits.
fn start(
    spec: &SandboxSpec,
    isolation: Isolation,
    mut ready: Option<Ready>,
    streams: StandardStreams,
    control: &UnixStream,
) -> Result<Confined, Failure> {
    let loopback = ready.as_mut().and_then(Ready::take_loopback);
    let by_namespaces = isolation == Isolation::Namespaces;
    let ids = syscalls::ids();
    let fits = by_namespaces && ready::fits(spec) && !Foreign::is_needed(spec, ids);
    // The side that was made ready has the spec from the gateway.
    let ready = ready.filter(|ready| fits && ready.is_current());
    if let Some(confined) = ready.and_then(Ready::into_confined) {
        return Ok(confined);
    }
    let others = File::open("/proc/self/mountinfo").and_then(|file| Places::read(&file));
    let others = step("other mounts", others.map(|places| places.of_rules(&spec.files.rules)))?;
    let mut spec = spec.clone();
    spec.files.rules.extend(others);
    let foreign = if by_namespaces { Foreign::prepare(&spec, ids) } else { Foreign::default() };
    let (link, orders) = step("control", Link::new(control))?;
    let group = match isolation {
        Isolation::Namespaces | Isolation::Static => Group::make(),
        Isolation::Free => None,
    };
    let (forked, group) = loopback::fork(namespaces(&spec, isolation), group, loopback.as_ref());
    match forked {
        Err(error) if by_namespaces => {
            Err(no_namespaces(spec.required.first(), &error.to_string()))
        }
        Err(error) => step("fork", Err(error)),
        Ok((Fork::Parent(pid), _)) => Ok(Confined { pid, orders, left: Vec::new(), group }),
        Ok((Fork::Child, interface)) => {
            drop((orders, loopback));
            let ground = Ground::lay(isolation, ids, interface);
            let counters = group.map(Group::into_counters);
            let status = init::run(ground, counters, &spec, foreign, streams, link);
            syscalls::exit_now(status)
        }
    }
}

impl Link {
    /// Makes what connects the two sides; returns also the monitor's end.
    fn new(control: &UnixStream) -> io::Result<(Link, UnixStream)> {
        let (orders, theirs) = UnixStream::pair()?;
        Ok((Link { control: control.try_clone()?, orders: theirs }, orders))
    }
}

/// Returns the refusal of a machine without user namespaces.
fn no_namespaces(required: Option<&Protection>, reason: &str) -> Failure {
    Failure::Unenforceable {
        protection: required.copied().unwrap_or(Protection::WriteOutside),
        reason: format!("namespaces cannot be made: {reason}"),
        help: stockade_spec::help::namespaces(),
    }
}

/// Gives consent, and waits until the command runs or why it does not is known. Returns what is still to be told of it.
///
/// The required protections are compared with the enforced ones by the process that becomes the command, right before
/// it does.
fn agree(control: &UnixStream, orders: &UnixStream) -> Result<Option<Enforced>, Failure> {
    step("consent", still_there(control))?;
    step("consent", forward(orders, Order::Start))?;
    let ready = syscalls::poll(&[(orders.as_fd(), libc::POLLIN)], Some(START_LIMIT));
    if step("report", ready)?.iter().all(|events| *events == 0) {
        let seconds = START_LIMIT.as_secs();
        return step("start", Err(io::Error::other(format!("not done after {seconds} s"))));
    }
    let Some(bytes) = step("report", frames::receive(orders))? else { return Err(silent()) };
    match step("report", Report::from_bytes(&bytes))? {
        Report::Ready(enforced) => Ok(Some(enforced)),
        Report::Told => Ok(None),
        Report::Failed(failure) => Err(failure),
        Report::Ended(..)
        | Report::Listening
        | Report::Terminal
        | Report::Noted(_)
        | Report::Confined(_) => Err(silent()),
    }
}

/// Fails when the gateway is gone.
fn still_there(control: &UnixStream) -> io::Result<()> {
    let seen = syscalls::poll(&[(control.as_fd(), 0)], Some(Duration::ZERO))?;
    match seen.iter().any(|events| *events != 0) {
        true => Err(io::Error::other("the gateway is gone")),
        false => Ok(()),
    }
}

fn silent() -> Failure {
    Failure::Step {
        step: "start".to_owned(),
        reason: "the confined side ended without a word".to_owned(),
    }
}

/// Follows orders until the confined side has ended or must be ended.
fn watch(control: &UnixStream, orders: &UnixStream, pid: i32, heard: &mut Heard) -> io::Result<()> {
    let process = syscalls::process_descriptor(pid)?;
    let mut deadline: Option<Instant> = None;
    loop {
        let rest = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return last_words(orders, &process, heard);
        }
        let mut waited = vec![(control.as_fd(), libc::POLLIN), (process.as_fd(), libc::POLLIN)];
        waited.extend(heard.is_open().then_some((orders.as_fd(), libc::POLLIN)));
        let events = syscalls::poll(&waited, rest)?;
        let event = |index: usize| events.get(index).copied().unwrap_or(0);
        if event(2) != 0 {
            heard.listen(orders)?;
            if heard.has_ended() {
                return Ok(());
            }
            continue;
        }
        if event(1) != 0 {
            return Ok(());
        }
        if event(0) == 0 {
            continue;
        }
        let Some(order) = frames::receive(control)? else {
            return last_words(orders, &process, heard);
        };
        match Order::from_bytes(&order)? {
            Order::Start => return Err(io::ErrorKind::InvalidData.into()),
            Order::Signal(signal) => forward(orders, Order::Signal(signal))?,
            Order::Stop { grace } => {
                forward(orders, Order::Signal(libc::SIGTERM))?;
                let at = Instant::now().checked_add(grace);
                deadline = deadline.into_iter().chain(at).min();
            }
        }
    }
}

/// Has pid 1 end the run and look at what it leaves, for a moment.
fn last_words(orders: &UnixStream, process: &OwnedFd, heard: &mut Heard) -> io::Result<()> {
    forward(orders, Order::Stop { grace: Duration::ZERO })?;
    let until = Instant::now() + LAST_WORDS;
    // After the last word pid 1 only ends.
    while !heard.has_ended() {
        let rest = until.saturating_duration_since(Instant::now());
        let mut waited = vec![(process.as_fd(), libc::POLLIN)];
        waited.extend(heard.is_open().then_some((orders.as_fd(), libc::POLLIN)));
        let events = syscalls::poll(&waited, Some(rest))?;
        match (events.first(), events.get(1)) {
            (_, Some(word)) if *word != 0 => heard.listen(orders)?,
            (Some(0), _) if !rest.is_zero() => {}
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn forward(orders: &UnixStream, order: Order) -> io::Result<()> {
    match frames::send(orders, &order.to_bytes()) {
        // Pid 1 has just ended; the loop will see that.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Result of ending the confined side.
struct End {
    /// How pid 1 ended.
    ended: Option<Ended>,
    /// Nothing is left.
    is_whole: bool,
}

/// Kills the confined side and waits, for a time, until it and all that it started are gone.
fn end(pid: i32, group: Option<&Group>) -> End {
    if let Some(group) = group {
        group.kill();
    }
    // Pid 1 may have ended already; then there is nothing to kill.
    let _ = syscalls::kill(pid, libc::SIGKILL);
    if let Ok(process) = syscalls::process_descriptor(pid) {
        // Failures here are found by the check that follows.
        let _ = syscalls::poll(&[(process.as_fd(), libc::POLLIN)], Some(END_LIMIT));
    }
    let ended = sweep::child(pid, END_LIMIT);
    End { ended, is_whole: sweep::all_children(END_LIMIT) }
}

/// Says whether the other end of `socket` is closed, given what `poll` reported.
fn is_closed(events: i16) -> bool {
    events & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_not_waited_upon() {
        let (orders, pid_1) = UnixStream::pair().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let process = syscalls::process_descriptor(own).unwrap();
        let mut heard = Heard::default();
        frames::send(&pid_1, &Report::Told.to_bytes()).unwrap();
        let begun = Instant::now();
        last_words(&orders, &process, &mut heard).unwrap();
        // Both the process and its end of the socket are still there.
        assert!(heard.is_told());
        assert!(begun.elapsed() < LAST_WORDS, "{:?}", begun.elapsed());
    }
}
