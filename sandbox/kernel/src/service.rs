//! Takes rights from the processes of the machine's service: the listener, which only takes connections of one socket and passes
//! them on, and the gateway of a user, which starts what it does not do itself.

use std::io;

use super::bpf::{Case, Row, Table, Test, Verdict};
use super::{seccomp, syscalls, worker};

/// Calls that it needs besides those on memory, time and the process itself.
const NEEDED: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_sendmsg,
    libc::SYS_pipe2,
    // In place of an accepted connection that is refused: a line of ours, which is sent and not written.
    libc::SYS_sendto,
];

/// Applies it to the calling thread, which must be the only one.
pub fn confine_listener() -> io::Result<()> {
    worker::apply(&listener_table())
}

/// Applies the filter of `role` to the calling thread, which must be the only one, and to all that it starts from then on.
pub fn confine(role: Role) -> io::Result<()> {
    syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    syscalls::seccomp_filter(&table(role).compile())
}

/// A process of the service that starts others or keeps files, and so is refused what it has no need of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Starts the gateways of all users, and with them their launchers.
    Keeper,
    /// The gateway of a user, and the hooks, workers and proxies that it starts. Its launchers were forked before.
    ///
    /// No domain of Landlock confines it, and so none the keeper above it: a process in one, be it of scopes alone, may not look at the
    /// namespaces and the executable of a client (`hook_ptrace_access_check` in security/landlock/task.c). And a hook has the rights
    /// of its user.
    Gateway,
    /// Appends to the log. It starts nothing and connects to nothing.
    Recorder,
}

/// Calls that are refused to commands, and that their launchers need: mounts, roots, namespaces, descriptors of others.
const OF_LAUNCHERS: &[libc::c_long] = &[
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

/// Calls of which a gateway needs none besides those that are refused to commands.
const NOT_OF_A_GATEWAY: &[libc::c_long] = &[
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

/// Calls of which the recorder needs none besides those.
const NOT_OF_A_RECORDER: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
];

/// Returns the table of `role`.
pub(super) fn table(role: Role) -> Table {
    let number = |call: libc::c_long| u32::try_from(call).ok();
    // The flags of this call are in memory; what starts threads and processes tries `clone` then.
    let absent = Row { cases: Vec::new(), otherwise: Verdict::Errno(libc::ENOSYS) };
    let absent = number(libc::SYS_clone3).map(|call| (call, absent));
    let refused = seccomp::refused();
    let mut table = match role {
        Role::Keeper => seccomp::refusing(refused.filter(|call| !OF_LAUNCHERS.contains(call))),
        Role::Gateway => seccomp::refusing(refused.chain(NOT_OF_A_GATEWAY)),
        Role::Recorder => {
            let more = NOT_OF_A_RECORDER.iter().chain(seccomp::SIGNALS);
            seccomp::refusing(refused.chain(NOT_OF_A_GATEWAY).chain(more))
        }
    };
    match (role, number(libc::SYS_clone)) {
        (Role::Keeper, clone) => table.rows.retain(|call, _| Some(*call) != clone),
        (Role::Gateway | Role::Recorder, _) => table.rows.extend(absent),
    }
    table
}

/// The rows of the scan worker, without its input, and with the calls on sockets. Nothing is made, read, opened or connected.
pub(super) fn listener_table() -> Table {
    let mut table = worker::table();
    let number = |call: libc::c_long| u32::try_from(call).ok();
    for call in [libc::SYS_read, libc::SYS_readv].into_iter().filter_map(number) {
        table.rows.remove(&call);
    }
    for call in NEEDED.iter().copied().filter_map(number) {
        table.rows.insert(call, Row { cases: Vec::new(), otherwise: Verdict::Allow });
    }
    // Whoever closes a descriptor first checks that it is open.
    let looks = Test::Is { argument: 1, mask: u32::MAX, value: libc::F_GETFD.unsigned_abs() };
    let looks = Case { tests: vec![looks], verdict: Verdict::Allow };
    if let Some(call) = number(libc::SYS_fcntl) {
        table.rows.insert(call, Row { cases: vec![looks], otherwise: Verdict::Kill });
    }
    table
}

#[cfg(test)]
mod tests;
