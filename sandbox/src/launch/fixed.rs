//! Where no namespaces can be had: Landlock, the filter, limits, and nothing else.
//!
//! The report says of each protection what that leaves open. Rules that refuse are made of grants on
//! everything else, since Landlock only grants.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::init::{Prepared, Supervision, allow_terminal};
use super::{Isolation, StandardStreams, measure, step};
use crate::codec::Failure;
use crate::linux::group::Counted;
use crate::linux::landlock::{self, Grant, Ruleset};
use crate::linux::mounts;
use crate::linux::syscalls;
use crate::spec::{Access, Mechanism};
use crate::steps::Steps;
use crate::{Network, Protection, SandboxSpec};

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
    let grants = grants(spec)?;
    give_up_capabilities(&mut steps)?;
    restrict(spec, &grants, streams, &mut steps)?;
    report(spec, &mut steps);
    Ok(Prepared {
        isolation: Isolation::Static,
        steps,
        built: None,
        supervision: Supervision::None,
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
    step("capabilities", syscalls::set_capabilities(0))?;
    step("no new privileges", syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))?;
    steps.layer("no new privileges", &[Protection::Privilege]);
    Ok(())
}

/// Returns what the command may reach, with what it may do there.
fn grants(spec: &SandboxSpec) -> Result<Vec<(PathBuf, Grant)>, Failure> {
    let rules = &spec.files.rules;
    let of = |access: Access| rules.iter().filter(move |it| it.access == access);
    let hidden = of(Access::None).map(|it| it.path.as_path()).chain([Path::new(TERMINALS)]);
    let hidden: BTreeSet<&Path> = hidden.collect();
    let kept = of(Access::ReadOnly).map(|it| it.path.as_path());
    let unwritable: BTreeSet<&Path> = hidden.iter().copied().chain(kept).collect();
    let mut grants = Vec::new();
    around(Path::new("/"), &hidden, Grant::Read, &mut grants)?;
    for rule in of(Access::Read) {
        let inside = beneath(&rule.path, &hidden);
        around(&rule.path, &inside, Grant::Read, &mut grants)?;
    }
    for rule in of(Access::Write) {
        if rule.path == Path::new("/") {
            let reason = "`/` cannot be a writable region".to_owned();
            return Err(Failure::Spec { reason });
        }
        let covered = of(Access::ReadOnly).any(|it| rule.path.starts_with(&it.path));
        let is_own = ["/dev", "/proc", "/sys"].iter().any(|own| rule.path.starts_with(own));
        if !covered && !is_own {
            around(&rule.path, &beneath(&rule.path, &unwritable), Grant::Write, &mut grants)?;
        }
    }
    grants.extend(spec.files.private_tmp.iter().map(|path| (path.clone(), Grant::Write)));
    grants.extend(DEVICES.iter().map(|name| (Path::new("/dev").join(name), Grant::Device)));
    Ok(grants)
}

fn beneath<'a>(path: &Path, refused: &BTreeSet<&'a Path>) -> BTreeSet<&'a Path> {
    refused.iter().copied().filter(|it| it.starts_with(path)).collect()
}

/// Grants `grant` on all beneath `path` but `refused`.
fn around(
    path: &Path,
    refused: &BTreeSet<&Path>,
    grant: Grant,
    grants: &mut Vec<(PathBuf, Grant)>,
) -> Result<(), Failure> {
    let mut open = vec![path.to_path_buf()];
    while let Some(path) = open.pop() {
        if grants.len() > MOST_GRANTS {
            let reason = format!("more than {MOST_GRANTS} entries lie beside what is refused");
            return Err(Failure::Spec { reason });
        }
        if refused.contains(path.as_path()) {
            continue;
        }
        if refused.iter().any(|it| it.starts_with(&path)) {
            // What cannot be listed cannot be reached by the command either: it has the same ids.
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
    spec: &SandboxSpec,
    grants: &[(PathBuf, Grant)],
    streams: &StandardStreams,
    steps: &mut Steps,
) -> Result<(), Failure> {
    use Protection::{KernelSettings, NoRead, WriteOutside};
    let abi = landlock::abi(spec);
    if abi == 0 {
        return Err(Failure::Unenforceable {
            protection: WriteOutside,
            reason: "there are neither namespaces nor Landlock".to_owned(),
            help: crate::help::namespaces(),
        });
    }
    let ruleset = step("Landlock", Ruleset::new(abi))?;
    for (path, grant) in grants {
        let object: OwnedFd = match mounts::open(path) {
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
        let grant = match (grant, is_directory) {
            (Grant::Write, false) => Grant::File,
            (Grant::Read, false) => Grant::ReadFile,
            (other, _) => *other,
        };
        step("Landlock", ruleset.allow(object.as_fd(), grant))?;
    }
    for stream in streams {
        allow_terminal(&ruleset, stream)?;
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
fn report(spec: &SandboxSpec, steps: &mut Steps) {
    use Protection::{
        HiddenNames, Ipc, Loopback, MetadataOutside, Processes, Protected, Survivors, UnixSockets,
    };
    steps.missing(
        MetadataOutside,
        "mode, owner, times and attributes of this user's files can be changed everywhere",
    );
    steps.missing(Protected, "protected files inside the writable directories can be written");
    steps.missing(HiddenNames, "names, sizes and times of denied files can be seen");
    let others = if landlock::abi(spec) >= 6 {
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
            steps.missing(Loopback, "there are no internet sockets, not even to itself");
        }
        Network::Host => steps.partial(Loopback, "the spec grants the host's network"),
    }
    if spec.hide.contains(&Mechanism::Seccomp) {
        for protection in [Ipc, UnixSockets] {
            steps.missing(protection, "there is no system-call filter");
        }
    } else {
        steps.layer("system-call filter", &[Ipc, UnixSockets]);
    }
}
