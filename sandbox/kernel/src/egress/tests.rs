use std::collections::BTreeSet;
use std::fs::File;

use super::*;
use crate::bpf::{answered, calls};
use crate::syscalls::Fork;

const NEWEST: u32 = 462;

/// Calls that the proxy is refused and a command is not.
const OF_COMMANDS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socketpair,
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_unshare,
    libc::SYS_io_uring_setup,
    libc::SYS_seccomp,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    452, // `fchmodat2`
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

#[test]
fn the_proxy_is_refused_these_calls_and_no_others() {
    let table = table();
    let of_commands: Vec<libc::c_long> =
        seccomp::refused().copied().filter(|it| *it != libc::SYS_pidfd_getfd).collect();
    let refused = calls(&[&of_commands, OF_COMMANDS, FILE_CALLS]);
    let (absent, families) = (calls(&[&[libc::SYS_clone3]]), calls(&[&[libc::SYS_socket]]));
    let netlink = [libc::AF_NETLINK, 0, 12].map(|it| u64::from(it.unsigned_abs()));
    for ([first, second, third], is_netlink) in [([0; 3], false), (netlink, true)] {
        let found = |verdict| answered(&table, NEWEST, (verdict, [first, second, third, 0, 0, 0]));
        // No address at all: the netlink socket of the C library.
        let free = if is_netlink { calls(&[&[libc::SYS_bind]]) } else { BTreeSet::new() };
        let denied = &refused - &free;
        let taken = &(&denied | &absent) | &families;
        assert_eq!(found(Verdict::Errno(libc::EPERM)), denied);
        assert_eq!(found(Verdict::Errno(libc::ENOSYS)), absent);
        assert_eq!(found(Verdict::Errno(libc::EAFNOSUPPORT)), families);
        assert_eq!(found(Verdict::Allow), (0..=NEWEST).filter(|it| !taken.contains(it)).collect());
    }
    let namespaces = [u64::from(libc::CLONE_NEWNET.unsigned_abs()), 0, 0, 0, 0, 0];
    let denied = &refused | &calls(&[&[libc::SYS_clone]]);
    assert_eq!(answered(&table, NEWEST, (Verdict::Errno(libc::EPERM), namespaces)), denied);
}

/// Every family, type and first protocols, against the sockets that carry connections and find addresses.
#[test]
fn the_proxy_makes_these_sockets_and_no_others() {
    let table = table();
    let number = u32::try_from(libc::SYS_socket).unwrap();
    for family in 0..64 {
        for kind in 0..16 {
            for protocol in 0..32 {
                let expected = match (family, kind) {
                    (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_DGRAM)
                    | (libc::AF_UNIX, libc::SOCK_STREAM) => true,
                    (libc::AF_NETLINK, _) => protocol == libc::NETLINK_ROUTE,
                    _ => false,
                };
                for flags in [0, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
                    let words =
                        [family, kind | flags, protocol].map(|it| u64::from(it.unsigned_abs()));
                    let [first, second, third] = words;
                    let found = table.decide(number, [first, second, third, 0, 0, 0]);
                    assert_eq!(found == Verdict::Allow, expected, "{family} {kind} {protocol}");
                }
            }
        }
    }
}

#[test]
fn a_static_proxy_has_no_libraries_to_load() {
    let own = [(FILES, Rights::ReadFile), (FOLDERS, Rights::Read)];
    let more = [(LOADER, Rights::ReadFile), (LIBRARIES, Rights::Read)];
    assert_eq!(granted(false), own);
    assert_eq!(granted(true), [own, more].concat());
}

#[test]
fn the_proxy_is_confined_for_good_and_nobody_looks_into_it() {
    // A bit for each that does not hold.
    let look = || {
        let is_open = |path: &str| File::open(path).is_ok();
        if confine().is_err() {
            return 64;
        }
        let ask = |option: i32, value: i32| syscalls::prctl(option, 0, 0).ok() != Some(value);
        // Nothing is written or made, for a confinement that does not hold would let it.
        let confined = [
            ask(libc::PR_GET_NO_NEW_PRIVS, 1),
            ask(libc::PR_GET_DUMPABLE, 0),
            ask(libc::PR_GET_SECCOMP, 2),
            landlock::abi() > 0 && (is_open("/etc/passwd") || is_open("/proc/self/status")),
            landlock::abi() > 0 && File::options().write(true).open("/etc/hosts").is_ok(),
            std::path::Path::new("/etc/hosts").exists() && !is_open("/etc/hosts"),
        ];
        confined.iter().enumerate().map(|(bit, fails)| i32::from(*fails) << bit).sum()
    };
    let pid = match syscalls::fork(0).unwrap() {
        Fork::Parent(pid) => pid,
        Fork::Child => syscalls::exit_now(look()),
    };
    // The child has ended: no flag lets the wait return before.
    assert_eq!(syscalls::wait(pid, 0).unwrap().unwrap().code, Some(0));
}
