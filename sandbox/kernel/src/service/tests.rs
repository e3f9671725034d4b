use std::collections::BTreeSet;

use super::*;
use crate::bpf::{answered, calls};

/// The newest call that these tables let through.
const NEWEST: u32 = 462;

/// Calls that a launcher makes and a command does not.
const LAUNCHING: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_pidfd_getfd,
];

const OTHERS_MEMORY_AND_USERS: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_unshare,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
];

const PROGRAMS_CONNECTIONS_AND_SIGNALS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];

/// Asserts which calls a role is refused, with and without a flag for a new namespace, and that it has all others.
fn check(
    role: Role,
    refused: &BTreeSet<u32>,
    absent: &[libc::c_long],
    namespaces: &[libc::c_long],
) {
    let table = table(role);
    let spaces = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    for (first, more) in [(0, &[][..]), (spaces, namespaces)] {
        let found = |verdict| answered(&table, NEWEST, (verdict, [first, 0, 0, 0, 0, 0]));
        let denied: BTreeSet<u32> = refused.union(&calls(&[more])).copied().collect();
        let absent = calls(&[absent]);
        let others = (0..=NEWEST).filter(|it| !denied.contains(it) && !absent.contains(it));
        assert_eq!(found(Verdict::Allow), others.collect(), "{role:?}");
        assert_eq!(found(Verdict::Errno(libc::EPERM)), denied, "{role:?}");
        assert_eq!(found(Verdict::Errno(libc::ENOSYS)), absent, "{role:?}");
    }
    let newer = answered(&table, NEWEST + 9, (Verdict::Errno(libc::ENOSYS), [0; 6]));
    assert!((NEWEST + 1..=NEWEST + 9).all(|it| newer.contains(&it)), "{role:?}");
}

#[test]
fn each_role_is_refused_these_calls_and_no_others() {
    let of_commands: Vec<libc::c_long> = seccomp::refused().copied().collect();
    let keeper = &calls(&[&of_commands]) - &calls(&[LAUNCHING]);
    assert_eq!(keeper.len() + LAUNCHING.len(), of_commands.len());
    check(Role::Keeper, &keeper, &[], &[]);
    let (absent, namespaces) = (&[libc::SYS_clone3], &[libc::SYS_clone]);
    let gateway = calls(&[&of_commands, OTHERS_MEMORY_AND_USERS]);
    check(Role::Gateway, &gateway, absent, namespaces);
    let recorder = &gateway | &calls(&[PROGRAMS_CONNECTIONS_AND_SIGNALS]);
    check(Role::Recorder, &recorder, absent, namespaces);
}

/// A filter holds for one thread: each of these ends with it.
#[test]
fn a_role_is_confined_for_good() {
    for role in [Role::Keeper, Role::Gateway, Role::Recorder] {
        let status = std::thread::spawn(move || {
            let read = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let before = read();
            confine(role).unwrap();
            [before, read()]
        });
        let of = |text: &str| {
            let named = |line: &&str| {
                ["NoNewPrivs", "Seccomp_filters"].iter().any(|it| line.starts_with(it))
            };
            text.lines()
                .filter(named)
                .map(|it| it.split_whitespace().nth(1).unwrap().parse().unwrap())
                .collect()
        };
        let [before, after]: [Vec<u32>; 2] = status.join().unwrap().map(|text| of(&text));
        assert_eq!(after, [1, before[1] + 1], "{role:?}");
    }
}
