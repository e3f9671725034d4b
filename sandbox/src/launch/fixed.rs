//! Where no namespaces can be had: Landlock, the filter, limits, and a supervisor where the kernel gives one.
//!
//! The report says of each protection what that leaves open. Rules that refuse are made of grants on
//! everything else, since Landlock only grants.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::thread::CapabilitySet;

use super::init::{Prepared, Supervision, allow_terminal};
use super::{Isolation, StandardStreams, measure, step};
use crate::supervise;
use stockade_kernel::group::Counted;
use stockade_kernel::landlock::{self, Rights, Ruleset};
use stockade_kernel::objects;
use stockade_kernel::seccomp;
use stockade_kernel::syscalls::{self, Fork};
use stockade_spec::codec::Failure;
use stockade_spec::steps::Steps;
use stockade_spec::{Access, Mediation};
use stockade_spec::{Network, Protection, SandboxSpec};

/// Most grants: a directory with more entries beside a refused one is refused as a whole.
const MOST_GRANTS: usize = 4_096;

/// Devices that may be read and written.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Where all terminals of this user are, the caller's among them: the keys that are typed there are another's.
const TERMINALS: &str = "/dev/pts";

/// Confines this process, for itself and the command.
pub(super) fn confine(spec: &SandboxSpec, streams: &StandardStreams) -> Result<Prepared, Failure> {
    let mut steps = Steps::default();
    step("subreaper", syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0))?;
    measure::end_sooner();
    step("dumpable", syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0))?;
    give_up_capabilities(&mut steps)?;
    let supervision = supervision(spec);
    let grants = grants(spec, supervision)?;
    if let Some(private) = &spec.files.private_tmp {
        make_shared_memory(private)?;
    }
    restrict(&grants, streams, &mut steps)?;
    report(spec, supervision, &mut steps);
    Ok(Prepared {
        isolation: Isolation::Static,
        steps,
        built: None,
        supervision,
        shares: false,
        counted: Counted::default(),
    })
}

/// Empties all sets of a privileged caller; an ordinary one has none, and may not change the bounding set.
fn give_up_capabilities(steps: &mut Steps) -> Result<(), Failure> {
    for capability in 0..64 {
        if syscalls::prctl(libc::PR_CAPBSET_DROP, capability, 0).is_err() {
            break;
        }
    }
    step("capabilities", syscalls::set_capabilities(CapabilitySet::empty()))?;
    step("no new privileges", syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))?;
    steps.layer("no new privileges", &[Protection::Privilege]);
    Ok(())
}

/// Returns which calls can be watched: without a user namespace this takes what the kernel gives to every process.
fn supervision(spec: &SandboxSpec) -> Supervision {
    let is_possible = landlock::abi() > 0;
    match spec.mediation {
        Mediation::Writes if is_possible && can_watch().unwrap_or(false) => Supervision::Files,
        Mediation::Writes | Mediation::None => Supervision::None,
    }
}

/// Tries whether a child's calls can wait for this process and its memory can be read: another supervisor around this one, or
/// a setting of Yama, may be against it.
fn can_watch() -> io::Result<bool> {
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let mark = [0x5A_u8; 8];
    let address = mark.as_ptr() as u64;
    match syscalls::fork(0)? {
        Fork::Child => {
            drop(ours);
            let everything = seccomp::all_allowed().compile();
            // A child of a process that is closed to others is so itself; a command is not.
            let listens = syscalls::prctl(libc::PR_SET_DUMPABLE, 1, 0)
                .and_then(|_| syscalls::seccomp_listener(&everything));
            let told = theirs.write_all(&[u8::from(listens.is_ok())]);
            // Until the other side has looked.
            let looked = theirs.read(&mut [0]);
            syscalls::exit_now(i32::from(told.is_err() || looked.is_err()));
        }
        Fork::Parent(pid) => {
            drop(theirs);
            let (mut told, mut read) = ([0], [0; 8]);
            let listens = ours.read_exact(&mut told).is_ok() && told == [1];
            let thread = u32::try_from(pid).unwrap_or(0);
            let count = syscalls::read_memory(thread, address, &mut read);
            drop(ours);
            syscalls::wait(pid, 0)?;
            Ok(listens && count.is_ok_and(|count| count == mark.len()) && read == mark)
        }
    }
}

/// Makes the directory that stands for `/dev/shm`: the host's is open to every process of this user.
fn make_shared_memory(private: &Path) -> Result<(), Failure> {
    match fs::DirBuilder::new().mode(0o700).create(supervise::shared_memory(private)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => step("shared memory", result),
    }
}

/// Returns what the command may reach, with what it may do there. Where a supervisor answers for writes, it alone keeps what
/// may not be written in a writable directory: a directory with one such file stays writable.
fn grants(spec: &SandboxSpec, supervision: Supervision) -> Result<Vec<(PathBuf, Rights)>, Failure> {
    let rules = &spec.files.rules;
    let of = |access: Access| rules.iter().filter(move |it| it.access == access);
    let hidden = of(Access::None).map(|it| it.path.as_path()).chain([Path::new(TERMINALS)]);
    let hidden: BTreeSet<&Path> = hidden.collect();
    let is_watched = supervision == Supervision::Files;
    let kept = of(Access::ReadOnly).filter(|_| !is_watched).map(|it| it.path.as_path());
    let unwritable: BTreeSet<&Path> = hidden.iter().copied().chain(kept).collect();
    let mut grants = Vec::new();
    around(Path::new("/"), &hidden, Rights::Read, &mut grants)?;
    grants.extend(listed(&hidden).into_iter().map(|path| (path, Rights::List)));
    for rule in of(Access::Read) {
        let inside = beneath(&rule.path, &hidden);
        around(&rule.path, &inside, Rights::Read, &mut grants)?;
    }
    for rule in of(Access::Write) {
        if rule.path == Path::new("/") {
            let reason = "`/` cannot be a writable region".to_owned();
            return Err(Failure::Spec { reason });
        }
        let covered = of(Access::ReadOnly).any(|it| rule.path.starts_with(&it.path));
        let is_own = ["/dev", "/proc", "/sys"].iter().any(|own| rule.path.starts_with(own));
        if !covered && !is_own {
            around(&rule.path, &beneath(&rule.path, &unwritable), Rights::Write, &mut grants)?;
        }
    }
    grants.extend(spec.files.private_tmp.iter().map(|path| (path.clone(), Rights::Write)));
    grants.extend(DEVICES.iter().map(|name| (Path::new("/dev").join(name), Rights::Device)));
    Ok(grants)
}

/// Returns the directories above hidden files that may be listed all the same: those with no hidden directory in them, since
/// who may list one may list all beneath.
fn listed(hidden: &BTreeSet<&Path>) -> BTreeSet<PathBuf> {
    let closed: Vec<&Path> = hidden.iter().copied().filter(|path| path.is_dir()).collect();
    let above = hidden.iter().flat_map(|path| path.ancestors().skip(1));
    let is_open =
        |path: &&Path| !closed.iter().any(|it| it.starts_with(path) || path.starts_with(it));
    above.filter(is_open).map(Path::to_path_buf).collect()
}

fn beneath<'a>(path: &Path, refused: &BTreeSet<&'a Path>) -> BTreeSet<&'a Path> {
    refused.iter().copied().filter(|it| it.starts_with(path)).collect()
}

/// Grants `grant` on all beneath `path` but `refused`.
fn around(
    path: &Path,
    refused: &BTreeSet<&Path>,
    grant: Rights,
    grants: &mut Vec<(PathBuf, Rights)>,
) -> Result<(), Failure> {
    let mut open = vec![path.to_path_buf()];
    while let Some(path) = open.pop() {
        if grants.len() > MOST_GRANTS {
            let reason = format!("more than {MOST_GRANTS} entries are beside the refused ones");
            return Err(Failure::Spec { reason });
        }
        if refused.contains(path.as_path()) {
            continue;
        }
        if refused.iter().any(|it| it.starts_with(&path)) {
            // A directory that cannot be listed cannot be reached by the command either: it has the same ids.
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let real = entries.filter(|it| it.file_type().is_ok_and(|kind| !kind.is_symlink()));
            open.extend(real.map(|it| it.path()));
        } else {
            grants.push((path, grant));
        }
    }
    Ok(())
}

fn restrict(
    grants: &[(PathBuf, Rights)],
    streams: &StandardStreams,
    steps: &mut Steps,
) -> Result<(), Failure> {
    use Protection::{KernelSettings, NoRead, WriteOutside};
    let abi = landlock::abi();
    if abi == 0 {
        return Err(Failure::Unenforceable {
            protection: WriteOutside,
            reason: "there are neither namespaces nor Landlock".to_owned(),
            help: stockade_spec::help::namespaces(),
        });
    }
    let mut ruleset = step("Landlock", Ruleset::new(abi))?;
    for (path, grant) in grants {
        let object: OwnedFd = match objects::open(path) {
            Ok(object) => object,
            // Gone or closed: there is nothing to grant.
            Err(_) => continue,
        };
        let is_directory = step(
            "Landlock",
            std::fs::File::from(object.try_clone().map_err(|error| Failure::Step {
                step: "Landlock".to_owned(),
                reason: error.to_string(),
            })?)
            .metadata(),
        )?
        .is_dir();
        let grant = match grant {
            Rights::Write if !is_directory => Rights::File,
            Rights::Read if !is_directory => Rights::ReadFile,
            Rights::Read | Rights::Write | Rights::List => *grant,
            Rights::Device | Rights::File | Rights::ReadFile => *grant,
        };
        step("Landlock", ruleset.allow(object.as_fd(), grant))?;
    }
    for stream in streams {
        allow_terminal(&mut ruleset, stream)?;
    }
    let layer = step("Landlock", ruleset.restrict())?;
    steps.layer(&layer, &[WriteOutside, NoRead, KernelSettings]);
    if abi < 2 {
        steps.notes.push(
            "this kernel's Landlock cannot let files move between directories: such renames fail"
                .to_owned(),
        );
    }
    Ok(())
}

/// Says of every protection that namespaces would give what is open without them.
fn report(spec: &SandboxSpec, supervision: Supervision, steps: &mut Steps) {
    use Protection::{
        HiddenNames, Ipc, Loopback, MetadataOutside, Processes, Protected, Survivors, UnixSockets,
    };
    match supervision {
        Supervision::Files => {
            let open = "mode, owner and times of this user's devices and sockets can be changed";
            steps.partial(MetadataOutside, open);
            let open = "no mount covers protected files: the supervisor alone keeps them";
            steps.partial(Protected, open);
        }
        Supervision::None | Supervision::Connections => {
            let open =
                "mode, owner, times and attributes of this user's files can be changed everywhere";
            steps.missing(MetadataOutside, open);
            let open = "protected files inside the writable directories can be written";
            steps.missing(Protected, open);
        }
    }
    steps.missing(HiddenNames, "names, sizes and times of denied files can be seen");
    let others = if landlock::abi() >= 6 {
        "other processes can be seen, though neither signalled nor traced"
    } else {
        "other processes of this user can be seen and signalled"
    };
    steps.partial(Processes, others);
    steps.partial(
        Survivors,
        "what it started survives if both processes of stockade that watch it \
                              are killed in the same instant",
    );
    match spec.network {
        // The listeners of a proxy have no place without a network namespace.
        Network::Off | Network::Proxy { .. } => {
            steps.missing(Loopback, "there are no internet sockets, not even on loopback");
        }
        Network::Host => steps.partial(Loopback, "the spec grants the host's network"),
    }
    steps.layer("system-call filter", &[Ipc, UnixSockets]);
}
