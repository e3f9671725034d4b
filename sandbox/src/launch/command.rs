//! The process that becomes the command: the last steps, the report, consent, exec.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::init::{Prepared, Supervision};
use super::{Isolation, Link, StandardStreams, step};
use crate::codec::{self, Failure, Report, Wire};
use crate::fault;
use crate::linux::bpf::Table;
use crate::linux::seccomp::{self, Options};
use crate::linux::{landlock, syscalls};
use crate::spec::{Limits, Mechanism};
use crate::steps::Steps;
use crate::{Network, Protection, SandboxSpec};

/// Becomes the command; returns only why it could not.
pub(super) fn become_it(
    spec: &SandboxSpec,
    streams: StandardStreams,
    link: &mut Link,
    prepared: Prepared,
) -> Failure {
    match prepare(spec, streams, link, prepared) {
        Err(failure) => failure,
        Ok(image) => {
            let error = syscalls::execute(&image.path, &image.argv, &image.environment);
            Failure::Exec { errno: error.raw_os_error().unwrap_or(0) }
        }
    }
}

/// Replaces the host's `/dev/null` by the run's own: through the host's, root could change its mode.
fn own_stream(spec: &SandboxSpec, stream: OwnedFd) -> io::Result<OwnedFd> {
    let file = File::from(stream);
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::other("a directory was given as a stream"));
    }
    let null = libc::makedev(1, 3);
    if !spec.confine || !found.file_type().is_char_device() || found.rdev() != null {
        return Ok(file.into());
    }
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// What `execve` takes.
struct Image {
    path: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

fn prepare(
    spec: &SandboxSpec,
    streams: StandardStreams,
    link: &mut Link,
    mut prepared: Prepared,
) -> Result<Image, Failure> {
    let image = image(spec, prepared.isolation)?;
    step("session", syscalls::setsid())?;
    for (number, stream) in (0..).zip(streams) {
        let stream = step("streams", own_stream(spec, stream))?;
        step("streams", syscalls::duplicate_onto(stream.as_fd(), number))?;
    }
    if io::stdin().is_terminal() {
        // It may be another session's; then the command runs without a controlling terminal.
        let _ = syscalls::take_terminal(0);
    }
    enter(&spec.program.cwd)?;
    if spec.confine {
        let counts = prepared.built.as_ref().is_some_and(|built| built.counts_processes);
        confine(spec, counts, &mut prepared.steps)?;
    }
    step("signals", syscalls::reset_signals())?;
    step("descriptors", syscalls::close_on_exec_from(3))?;
    if spec.confine {
        prepared.steps.layer("three descriptors", &[Protection::Fds]);
        prepared.steps.layer("given by the spec", &[Protection::Env]);
        let table = table(spec, &prepared);
        filter(spec, &table, prepared.supervision, link, &mut prepared.steps)?;
    }
    step("report", codec::send(&link.report, &Report::Ready(prepared.steps.finish()).to_bytes()))?;
    let mut consent = [0];
    step("consent", link.consent.read_exact(&mut consent))?;
    Ok(image)
}

fn image(spec: &SandboxSpec, isolation: Isolation) -> Result<Image, Failure> {
    let text = |bytes: &OsStr| {
        CString::new(bytes.as_bytes())
            .map_err(|_| Failure::Spec { reason: "an argument or variable holds a NUL".to_owned() })
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
    let opened = match fault::is_at("working directory") {
        true => Err(fault::error()),
        false => syscalls::open_path(cwd, flags, syscalls::NO_LINKS),
    };
    let entered = opened.and_then(|directory| syscalls::change_directory(directory.as_fd()));
    entered.map_err(|error| Failure::Step {
        step: "working directory".to_owned(),
        reason: format!("`{}` cannot be entered: {error}", cwd.display()),
    })
}

fn confine(spec: &SandboxSpec, counts_processes: bool, steps: &mut Steps) -> Result<(), Failure> {
    limits(&spec.limits, counts_processes, steps)?;
    match syscalls::join_keyring() {
        Ok(()) => steps.layer("empty session keyring", &[Protection::Keyring]),
        // A kernel without keyrings has none to reach.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            steps.layer("no keyrings in the kernel", &[Protection::Keyring]);
        }
        Err(error) => steps.missing(Protection::Keyring, &error.to_string()),
    }
    step("capabilities", syscalls::set_capabilities(0))?;
    steps.layer("no capabilities", &[Protection::Privilege]);
    if landlock::abi(spec) >= 6 {
        // A layer of its own, so that it can neither signal nor trace pid 1.
        step("Landlock", landlock::scope())?;
    }
    Ok(())
}

/// Sets the limits that each process has, never above those that are in force.
fn limits(limits: &Limits, counts_processes: bool, steps: &mut Steps) -> Result<(), Failure> {
    let table = [
        (libc::RLIMIT_NPROC, limits.processes, limits.processes),
        (libc::RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes),
        (libc::RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (libc::RLIMIT_NOFILE, limits.descriptors, limits.descriptors_hard),
        (libc::RLIMIT_CORE, 0, 0),
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
    let mut open =
        "memory and what is written to disks are sampled, not counted by the kernel: no control group is \
         delegated"
            .to_owned();
    if !counts_processes {
        open.push_str("; the number of processes of a root caller is not limited");
    }
    steps.partial(Protection::Limits, &open);
    Ok(())
}

/// Tells pid 1 the number of the listener and waits until it has taken it.
fn hand_over(listener: &OwnedFd, link: &mut Link) -> Result<(), Failure> {
    let number = u32::try_from(listener.as_raw_fd()).unwrap_or(u32::MAX);
    step("supervisor", link.handover.write_all(&number.to_ne_bytes()))?;
    step("supervisor", link.handover.read_exact(&mut [0]))
}

/// Returns the filter of a run.
pub(super) fn table(spec: &SandboxSpec, prepared: &Prepared) -> Table {
    let namespaces = prepared.isolation == Isolation::Namespaces;
    let own_network = namespaces && !spec.hide.contains(&Mechanism::NetworkNamespace);
    seccomp::table(Options {
        internet: spec.network == Network::Host || own_network,
        supervised: prepared.supervision != Supervision::None,
        guarded: prepared.supervision == Supervision::Files,
        namespaces,
        // Landlock forbids it from ABI 3; the mounts always do.
        truncates: !namespaces && landlock::abi(spec) < 3,
    })
}

fn filter(
    spec: &SandboxSpec,
    table: &Table,
    supervision: Supervision,
    link: &mut Link,
    steps: &mut Steps,
) -> Result<(), Failure> {
    if spec.hide.contains(&Mechanism::Seccomp) {
        for protection in [Protection::Syscalls, Protection::Tty] {
            steps.missing(protection, "hidden by the spec");
        }
        return Ok(());
    }
    let program = table.compile();
    match supervision {
        Supervision::None => step("system-call filter", syscalls::seccomp_filter(&program))?,
        Supervision::Connections | Supervision::Files => {
            // The supervisor takes the listener out of this process.
            step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 1, 0))?;
            let listener = step("system-call filter", syscalls::seccomp_listener(&program))?;
            hand_over(&listener, link)?;
            steps.layer("supervisor", &[Protection::UnixSockets]);
            if supervision == Supervision::Files {
                steps.layer("name guard", &[Protection::Protected]);
            }
        }
    }
    use Protection::{Keyring, Network as Net, Privilege, Syscalls, Tty};
    steps.layer("system-call filter", &[Syscalls, Tty, Privilege, Keyring]);
    if spec.network != Network::Host {
        steps.layer("system-call filter", &[Net]);
    }
    Ok(())
}
