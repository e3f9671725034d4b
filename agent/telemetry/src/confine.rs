//! Takes from the process that speaks with a collector all that it does not need: files but its position and those of the name
//! service, programs, sockets of this machine, and TCP ports but those of the collector.
//!
//! The gateway, which decides about commands, is behind a socket of this machine, so no such socket can be made here, and its records
//! come from the process that started this one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Files that the name service reads (nsswitch.conf(5), resolver(5)), and the modules that it loads.
const NAMES: [&str; 16] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
];
/// The port of the name service, for answers that are too long for a datagram.
const DNS: u16 = 53;
/// Calls that start programs, look into other processes, or go around this list.
const REFUSED: [i64; 11] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_unshare,
    libc::SYS_setns,
];
/// Families of sockets that can be made: those of the internet, and the one that tells which addresses this machine has.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Bit of the calls of the x32 ABI, which has the same architecture (asm/unistd.h).
const X32: i64 = 0x4000_0000;

/// Confines the calling thread and those that it starts: what is left are the files in `folder` and the TCP ports `ports`. Says
/// whether the kernel has Landlock; the filter holds in any case.
pub(crate) fn confine(folder: &Path, ports: &[u16]) -> anyhow::Result<bool> {
    let is_layered = layer(folder, ports).context("telemetry cannot be confined")?;
    rustix::thread::set_no_new_privs(true).context("telemetry cannot be confined")?;
    seccompiler::apply_filter(&filter()?).context("telemetry cannot be filtered")?;
    Ok(is_layered)
}

fn layer(folder: &Path, ports: &[u16]) -> Result<bool, RulesetError> {
    let own = make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile
    });
    let names: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let ports = ports.iter().chain([&DNS]);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V6))?
        .handle_access(AccessNet::from_all(ABI::V6))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules([folder], own))?
        .add_rules(path_beneath_rules(NAMES, names))?
        .add_rules(
            ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp))),
        )?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn filter() -> anyhow::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let other = FAMILIES.map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    let other = other.into_iter().collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
    if cfg!(target_arch = "x86_64") {
        let same: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.extend(same);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;

    use super::*;

    /// Acts of a thread, which ends with its confinement: which of them succeed.
    fn acts(folder: &Path, confined: Option<&[u16]>, [ours, others]: [u16; 2]) -> [bool; 9] {
        let own = folder.join("own");
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                if let Some(ports) = confined {
                    assert!(confine(&own, ports).expect("it is confined"), "there is Landlock");
                }
                [
                    std::fs::write(own.join("new"), "x").is_ok(),
                    std::fs::rename(own.join("new"), own.join("position")).is_ok(),
                    std::fs::read(own.join("position")).is_ok(),
                    TcpStream::connect(("127.0.0.1", ours)).is_ok(),
                    std::fs::read(folder.join("secret")).is_ok(),
                    std::fs::write(folder.join("made"), "x").is_ok(),
                    Command::new("/bin/true").status().is_ok_and(|it| it.success()),
                    TcpStream::connect(("127.0.0.1", others)).is_ok(),
                    UnixStream::connect(folder.join("socket")).is_ok(),
                ]
            });
            acting.join().expect("it ends")
        })
    }

    #[test]
    fn what_speaks_with_a_collector_reads_no_other_file_and_starts_nothing() {
        // The path of a socket is short (unix(7)), whatever directory is set for temporary files.
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let folder = folder.path();
        std::fs::create_dir(folder.join("own")).expect("a folder");
        std::fs::write(folder.join("secret"), "x").expect("a file");
        let _socket = UnixListener::bind(folder.join("socket")).expect("a socket");
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let ports = listeners.each_ref().map(|it| it.local_addr().expect("an address").port());
        assert_eq!(acts(folder, None, ports), [true; 9], "each is possible");
        let needed = [true, true, true, true, false, false, false, false, false];
        assert_eq!(acts(folder, Some(&ports[..1]), ports), needed);
    }
}
