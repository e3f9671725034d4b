//! The process that becomes the command: the last steps, the report, consent, exec.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::thread::CapabilitySet;

use super::filters::Filters;
use super::init::{Prepared, Supervision};
use super::{Isolation, StandardStreams, step, still_there};
use stockade_kernel::frames;
use stockade_kernel::group::Counted;
use stockade_kernel::seccomp::Options;
use stockade_kernel::{landlock, syscalls};
use stockade_spec::Limits;
use stockade_spec::codec::{Failure, Report, Wire as _};
use stockade_spec::steps::Steps;
use stockade_spec::{Enforced, Network, Protection, SandboxSpec, State};

/// The status of a process that did not become the command.
const FAILED: i32 = 122;

/// Becomes the command; returns only when it could not, with the status of this process.
///
/// `parent` is the socket to pid 1: it hears what holds for the command, and where the calls of that wait for it.
pub(super) fn become_it(
    spec: &SandboxSpec,
    image: &Image,
    filters: &Filters,
    prepared: &mut Prepared,
    control: &UnixStream,
    parent: &UnixStream,
) -> i32 {
    let ready = prepare(spec, filters, prepared, control);
    let failure = match ready.and_then(|ready| step("report", tell_and_wait(parent, ready))) {
        Err(failure) => failure,
        Ok(()) => {
            let error = syscalls::execute(&image.path, &image.argv, &image.environment);
            Failure::Exec { errno: error.raw_os_error().unwrap_or(0) }
        }
    };
    // Pid 1 may be gone; then there is nobody to tell.
    let _ = frames::send(parent, &Report::Failed(failure).to_bytes());
    FAILED
}

/// Protections that hold for the command, and where its calls wait for the supervisor.
pub(super) struct Told {
    pub(super) enforced: Enforced,
    pub(super) listener: Option<OwnedFd>,
}

/// Tells pid 1 that every step but the last one was taken, and waits until it has confined itself.
fn tell_and_wait(mut parent: &UnixStream, told: Told) -> io::Result<()> {
    let listener: Vec<_> = told.listener.iter().map(AsFd::as_fd).collect();
    frames::send_with(parent, &Report::Ready(told.enforced).to_bytes(), &listener)?;
    parent.read_exact(&mut [0])
}

/// Returns what the process that becomes the command told, for pid 1; none when it ended without a word.
pub(super) fn hear(child: &UnixStream) -> Result<Option<Told>, Failure> {
    let mut header = [0; 4];
    let received = syscalls::receive_with_descriptors(child.as_fd(), &mut header);
    let (count, listener) = step("report", received)?;
    if count == 0 {
        return Ok(None);
    }
    let listener = listener.into_iter().next();
    let payload = step("report", frames::receive_payload(child, header))?;
    match step("report", Report::from_bytes(&payload))? {
        Report::Ready(enforced) => Ok(Some(Told { enforced, listener })),
        Report::Failed(failure) => Err(failure),
        Report::Told
        | Report::Ended(..)
        | Report::Listening
        | Report::Terminal
        | Report::Noted(_)
        | Report::Confined(_) => step("report", Err(io::ErrorKind::InvalidData.into())),
    }
}

/// Lets that process become the command, and returns when it has: its end of the socket closes then.
pub(super) fn let_go(mut child: &UnixStream) -> Result<(), Failure> {
    step("start", child.write_all(&[1]))?;
    let Some(report) = step("start", frames::receive(child))? else { return Ok(()) };
    match step("start", Report::from_bytes(&report))? {
        Report::Failed(failure) => Err(failure),
        Report::Ready(_)
        | Report::Told
        | Report::Ended(..)
        | Report::Listening
        | Report::Terminal
        | Report::Noted(_)
        | Report::Confined(_) => step("start", Err(io::ErrorKind::InvalidData.into())),
    }
}

/// Makes the streams of the command descriptors 0, 1 and 2.
pub(super) fn give_streams(spec: &SandboxSpec, streams: &StandardStreams) -> Result<(), Failure> {
    for (number, stream) in (0..).zip(streams) {
        let own = step("streams", own_stream(spec, stream))?;
        let stream = own.as_ref().map_or(stream.as_fd(), AsFd::as_fd);
        step("streams", syscalls::duplicate_onto(stream, number))?;
    }
    Ok(())
}

/// Returns the run's own `/dev/null` for the host's: through that, root could change its mode.
fn own_stream(spec: &SandboxSpec, stream: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let found = File::from(stream.try_clone()?).metadata()?;
    if found.is_dir() {
        return Err(io::Error::other("a directory was given as a stream"));
    }
    let null = libc::makedev(1, 3);
    if !spec.confine || !found.file_type().is_char_device() || found.rdev() != null {
        return Ok(None);
    }
    Ok(Some(File::options().read(true).write(true).open("/dev/null")?.into()))
}

/// Arguments of `execve`.
pub(super) struct Image {
    path: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

fn prepare(
    spec: &SandboxSpec,
    filters: &Filters,
    prepared: &mut Prepared,
    control: &UnixStream,
) -> Result<Told, Failure> {
    step("session", syscalls::setsid())?;
    match spec.terminal {
        Some(_) => step("controlling terminal", syscalls::take_terminal(io::stdin().as_fd()))?,
        // The terminal may be another session's; then the command runs without a controlling terminal.
        None if io::stdin().is_terminal() => drop(syscalls::take_terminal(io::stdin().as_fd())),
        None => {}
    }
    enter(&spec.program.cwd)?;
    if spec.confine {
        let counts = prepared.built.as_ref().is_some_and(|built| built.counts_processes);
        limits(&spec.limits, counts, prepared.counted, &mut prepared.steps)?;
        confine(&mut prepared.steps)?;
    }
    step("signals", syscalls::reset_signals())?;
    step("descriptors", syscalls::close_on_exec_from(3))?;
    let mut listener = None;
    if spec.confine {
        prepared.steps.layer("three descriptors", &[Protection::Fds]);
        prepared.steps.layer("given by the spec", &[Protection::Env]);
        listener = filter(spec, filters, prepared.supervision, &mut prepared.steps)?;
    }
    let enforced = prepared.steps.finish();
    require(spec, &enforced)?;
    // The gateway may have gone since the consent was given.
    step("consent", still_there(control))?;
    Ok(Told { enforced, listener })
}

/// Refuses when a required protection is not enforced as it has to be.
fn require(spec: &SandboxSpec, enforced: &Enforced) -> Result<(), Failure> {
    if !spec.confine {
        return Ok(());
    }
    let lacking = spec.required.iter().find(|protection| !enforced.suffices(**protection));
    let Some(protection) = lacking else { return Ok(()) };
    let reason = match enforced.states.get(protection) {
        Some(State::Enforced(layers)) => layers.join(", "),
        Some(State::Partial(open)) => open.clone(),
        Some(State::Missing(reason) | State::Off(reason)) => reason.clone(),
        None => "no step enforces it".to_owned(),
    };
    let help = stockade_spec::help::protection(*protection);
    Err(Failure::Unenforceable { protection: *protection, reason, help })
}

/// Returns what `execve` is given.
pub(super) fn image(spec: &SandboxSpec, isolation: Isolation) -> Result<Image, Failure> {
    let text = |bytes: &OsStr| {
        CString::new(bytes.as_bytes()).map_err(|_| Failure::Spec {
            reason: "an argument or variable contains a NUL byte".to_owned(),
        })
    };
    let program = &spec.program;
    let mut environment = Vec::with_capacity(program.environment.len());
    // Without mounts `/tmp` is the host's: the private directory goes by its own name.
    let moved = |value: &OsString| match (&spec.files.private_tmp, isolation) {
        (Some(own), Isolation::Static) if value == "/tmp" => own.clone().into_os_string(),
        (Some(_) | None, _) => value.clone(),
    };
    for (name, value) in &program.environment {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(match name.to_str() {
            Some("TMPDIR" | "TMP" | "TEMP") => moved(value),
            Some(_) | None => value.clone(),
        });
        environment.push(text(&variable)?);
    }
    Ok(Image {
        path: text(program.path.as_os_str())?,
        argv: program.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
        environment,
    })
}

/// Enters the working directory, following no link: the gateway has resolved it.
fn enter(cwd: &Path) -> Result<(), Failure> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let opened = syscalls::open_path(cwd, flags, syscalls::NO_LINKS);
    let entered = opened.and_then(|directory| syscalls::change_directory(directory.as_fd()));
    entered.map_err(|error| Failure::Step {
        step: "working directory".to_owned(),
        reason: format!("`{}` cannot be entered: {error}", cwd.display()),
    })
}

fn confine(steps: &mut Steps) -> Result<(), Failure> {
    match syscalls::join_keyring() {
        Ok(()) => steps.layer("empty session keyring", &[Protection::Keyring]),
        // A kernel without keyrings has none to reach.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            steps.layer("no keyrings in the kernel", &[Protection::Keyring]);
        }
        Err(error) => steps.missing(Protection::Keyring, &error.to_string()),
    }
    step("capabilities", syscalls::set_capabilities(CapabilitySet::empty()))?;
    steps.layer("no capabilities", &[Protection::Privilege]);
    if landlock::abi() >= 6 {
        // A layer of its own, so that it can neither signal nor trace pid 1.
        step("Landlock", landlock::scope())?;
    }
    Ok(())
}

/// Sets the limits that each process has, never above those that are in force.
fn limits(
    limits: &Limits,
    counts_processes: bool,
    counted: Counted,
    steps: &mut Steps,
) -> Result<(), Failure> {
    // INVARIANT: no limit of memory. `RLIMIT_DATA` and `RLIMIT_AS` count what a process reserves, and sanitizers reserve more
    // than any machine has; and who is refused memory ends without a word of it, while what a tree holds is seen and told of.
    let table = [
        (libc::RLIMIT_NPROC, limits.processes, limits.processes),
        (libc::RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (libc::RLIMIT_NOFILE, limits.descriptors, limits.descriptors_hard),
        // Too small for any file, and what keeps the kernel from starting a program of the host for it (`core(5)`), as 0 does not.
        (libc::RLIMIT_CORE, 1, 1),
        (libc::RLIMIT_MEMLOCK, 8 << 20, 8 << 20),
        (libc::RLIMIT_MSGQUEUE, 819_200, 819_200),
        (libc::RLIMIT_SIGPENDING, 4_096, 4_096),
    ];
    for (resource, soft, hard) in table {
        let (_, highest) = step("limits", syscalls::limit(resource))?;
        let hard = hard.min(highest);
        step("limits", syscalls::set_limit(resource, soft.min(hard), hard))?;
    }
    // Lower priority is a courtesy, not a protection.
    let _ = syscalls::nice(5);
    if counted == (Counted { memory: true, processes: true }) {
        for layer in ["control group", "limits of each process", "sampled writes to disks"] {
            steps.layer(layer, &[Protection::Limits]);
        }
        return Ok(());
    }
    let mut open = match counted.memory {
        true => "disk writes are sampled, not counted by the kernel".to_owned(),
        false => {
            "memory and disk writes are sampled, not counted by the kernel: no control group is \
                  delegated"
                .to_owned()
        }
    };
    if syscalls::ids().user == 0 && !counts_processes && !counted.processes {
        open.push_str("; the number of processes is sampled as well, since the caller is root");
    }
    steps.partial(Protection::Limits, &open);
    Ok(())
}

/// Returns the filters of a run.
pub(super) fn filters(spec: &SandboxSpec, prepared: &Prepared) -> &'static Filters {
    let namespaces = prepared.isolation == Isolation::Namespaces;
    let options = Options {
        internet: spec.network == Network::Host || namespaces,
        supervised: prepared.supervision != Supervision::None,
        guarded: prepared.supervision == Supervision::Files,
        namespaces,
        // Landlock forbids it from ABI 3; the mounts always do.
        truncates: !namespaces && landlock::abi() < 3,
    };
    Filters::choose(options)
}

/// Installs the filter, and returns where its calls wait for the supervisor.
fn filter(
    spec: &SandboxSpec,
    filters: &Filters,
    supervision: Supervision,
    steps: &mut Steps,
) -> Result<Option<OwnedFd>, Failure> {
    let name = "system-call filter";
    let listener = match supervision {
        Supervision::None => {
            step(name, syscalls::seccomp_filter(&filters.program))?;
            None
        }
        Supervision::Connections | Supervision::Files => {
            let listener = match syscalls::seccomp_listener(&filters.program) {
                // An older kernel does not know the flag (seccomp(2)).
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    return Err(Failure::Unenforceable {
                        protection: Protection::Protected,
                        reason: format!("system-call filter with notifications: {error}"),
                        help: stockade_spec::help::notifications(),
                    });
                }
                installed => step(name, installed)?,
            };
            steps.layer("supervisor", &[Protection::UnixSockets]);
            if supervision == Supervision::Files {
                steps.layer("name guard", &[Protection::Protected]);
            }
            Some(listener)
        }
    };
    use Protection::{Keyring, Network as Net, Privilege, Syscalls, Tty};
    steps.layer(name, &[Syscalls, Tty, Privilege, Keyring]);
    if spec.network != Network::Host {
        steps.layer(name, &[Net]);
    }
    Ok(listener)
}
