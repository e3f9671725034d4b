//! The command's system-call filter: allowed by default, refused by this list.

use std::collections::BTreeMap;

use super::bpf::{Case, Row, Table, Test, Verdict};
use super::file_calls::FILE_CALLS;

/// Differences between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Internet sockets may be made.
    pub internet: bool,
    /// There are namespaces: sockets by path, messages of System V and tracing stay inside the run.
    pub namespaces: bool,
    /// The kernel cannot be told to forbid truncating by path.
    pub truncates: bool,
    /// A supervisor answers connections.
    pub supervised: bool,
    /// True if the supervisor also answers calls that make, link, rename and open for writing.
    pub guarded: bool,
}

/// Newest call that this list allows, `mseal` of Linux 6.10; what is above does not exist. Those of later
/// kernels make names or change what files are (`setxattrat` 463, `open_tree_attr` 467, `file_setattr` 469),
/// or are not known.
const NEWEST: u32 = 462;

/// Numbers below it that had no meaning when this list was written: first and last.
#[cfg(target_arch = "x86_64")]
const UNASSIGNED: (u32, u32) = (335, 423);
#[cfg(target_arch = "aarch64")]
const UNASSIGNED: (u32, u32) = (295, 423);

const ALL: u32 = u32::MAX;

/// Pairs of number and name.
macro_rules! calls {
    ($($(#[$condition:meta])* $name:ident),* $(,)?) => {
        [$($(#[$condition])* (libc::$name, stringify!($name))),*]
    };
}

/// Every `CLONE_NEW*` flag of `clone`.
const CLONE_NAMESPACES: u32 = 0x7E02_0000;
/// `CLONE_NEWTIME`, which only `unshare` takes.
const CLONE_NEWTIME: u32 = 0x80;

const SET_ID_BITS: u32 = 0o6000;

/// Calls refused whatever their arguments are.
const REFUSED: &[(libc::c_long, &str)] = &calls![
    // Mounts and roots.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_setns,
    // Kernel interfaces with a history.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_memfd_secret,
    SYS_fanotify_init,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_lookup_dcookie,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    // The machine.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_acct,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_nfsservctl,
    SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    SYS_ustat,
];

/// Calls that are refused for some of their arguments, for reports.
const JUDGED: &[(libc::c_long, &str)] = &calls![
    SYS_clone,
    SYS_unshare,
    SYS_seccomp,
    SYS_personality,
    SYS_ioctl,
    SYS_prctl,
    SYS_socket,
    SYS_socketpair,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_fcntl,
    SYS_prlimit64,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_sched_setaffinity,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_sched_setattr,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_mkdirat,
    SYS_openat,
    SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    SYS_open,
    #[cfg(target_arch = "x86_64")]
    SYS_creat,
    #[cfg(target_arch = "x86_64")]
    SYS_mknod,
];

/// Returns the name of a call that the table refuses.
pub fn name(number: i32) -> String {
    let number = libc::c_long::from(number);
    let mut known = REFUSED.iter().chain(JUDGED).chain(WITHOUT_NAMESPACES);
    known.find(|known| known.0 == number).map_or_else(
        || format!("call {number}"),
        |known| known.1.trim_start_matches("SYS_").to_owned(),
    )
}

/// Calls that would reach out of the run where no namespace holds it: memory and messages of System V, POSIX queues,
/// other processes' memory, and names of sockets.
const WITHOUT_NAMESPACES: &[(libc::c_long, &str)] = &calls![
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_process_mrelease,
];

/// Calls that programs can do without and try something else.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Their flags and modes are in memory, out of the filter's sight.
    libc::SYS_clone3,
    libc::SYS_openat2,
];

/// `fcntl` commands for leases on files and directories: whoever holds one makes every other program wait that
/// opens the file, the supervisor included (`F_SETLEASE`, and `F_SETDELEG` of Linux 6.19).
const LEASES: &[u32] = &[1024, 1040];

/// `ioctl` commands: terminal input, terminal and console state, file flags, verity, freezing, tunnels.
const COMMANDS: &[u32] = &[
    libc::TIOCSTI as u32,
    libc::TIOCLINUX as u32,
    libc::TIOCCONS as u32,
    0x5423, // TIOCSETD
    0x4B3A,
    0x4B45,
    0x4B47,
    0x4B4E,
    0x5602,
    0x5606, // KDSETMODE KDSKBMODE KDSKBENT KDSIGACCEPT VT_*
    0x4008_6602,
    0x4004_6602,
    0x401C_5820,
    0x4080_6685, // FS_IOC_SETFLAGS (64, 32) FSSETXATTR VERITY
    0xC004_5877,
    0xC004_5878,
    0x800C_6613,
    0xC050_6617, // FIFREEZE FITHAW encryption policy and key
    0x4004_54CA,
    0x4C00,
    0x4C80,
    0x1272, // TUNSETIFF LOOP_SET_FD LOOP_CTL_ADD BLKGETSIZE64's family
    0x5000_9401,
    0x5000_940E,
    0x5000_940F,
    0x5000_9417,
    0x5000_9418,
    0x5000_943F, // Btrfs: makes, copies and removes subvolumes by name (`linux/btrfs.h`)
];

/// Kinds of `ioctl` commands that are let through, but for those above: of files, terminals, sockets and the devices that a
/// run has. Others mean something to file systems and drivers of their own, which may make names or change files in
/// ways that nobody here judges, as `OCFS2_IOC_REFLINK` does (`Documentation/userspace-api/ioctl/ioctl-number.rst`).
const KINDS: &[u32] = &[
    0x54, // terminals, pipes, `FIONREAD`
    0x89, // sockets
    0x94, // Btrfs; `FICLONE` and its like
    0x66, // `FS_IOC_*`
    0x00, // `FIBMAP`, `FIGETBSZ`
    0x4B, 0x56, // consoles
    0x52, // `/dev/random`
    0x58, // `FS_IOC_FSGETXATTR`, `FITRIM`
    0x8A, // epoll
    0xB7, // namespaces
    0xFF, // descriptors of processes
];

/// Bits and value of Lustre's commands among those of the kind `f`: two of them make and remove names
/// (`lustre_user.h`, `LL_IOC_LMV_SETSTRIPE` 240 and `LL_IOC_REMOVE_ENTRY`); the kernel's own have other numbers.
const LUSTRE: (u32, u32) = (0xFF40, 0x6640);

/// `personality` values that change nothing of safety: query, default, 32 bit, no address randomisation.
const PERSONALITIES: &[u32] = &[0xFFFF_FFFF, 0, 0x8, 0x0004_0000, 0x0002_0000];

fn is(argument: u32, mask: u32, value: u32) -> Test {
    Test::Is { argument, mask, value }
}

fn any(argument: u32, bits: u32) -> Test {
    Test::Any { argument, bits }
}

fn case(tests: Vec<Test>, verdict: Verdict) -> Case {
    Case { tests, verdict }
}

/// `fchmodat2`.
pub const FCHMODAT2: libc::c_long = 452;

/// `lsm_set_self_attr`: leaves the profile of a security module.
const LSM_SET_SELF_ATTR: libc::c_long = 460;

/// Returns the table for a run.
pub fn table(options: Options) -> Table {
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    let mut set = |number: libc::c_long, cases: Vec<Case>, otherwise: Verdict| {
        if let Ok(number) = u32::try_from(number) {
            rows.insert(number, Row { cases, otherwise });
        }
    };
    let denied = Verdict::Refuse(libc::EPERM);
    let absent = Verdict::Errno(libc::ENOSYS);
    for number in UNASSIGNED.0..=UNASSIGNED.1 {
        set(number.into(), Vec::new(), absent);
    }
    for (number, _) in REFUSED {
        set(*number, Vec::new(), denied);
    }
    set(LSM_SET_SELF_ATTR, Vec::new(), absent);
    for number in ABSENT {
        set(*number, Vec::new(), absent);
    }
    let judged = arguments(options).into_iter().chain(sockets(options));
    let judged = judged.chain(modes(options)).chain(others(options));
    for (number, cases, otherwise) in judged {
        set(number, cases, otherwise);
    }
    if options.supervised {
        set(libc::SYS_connect, Vec::new(), Verdict::Notify);
        // The supervisor learns the run's own sockets when they are bound.
        set(libc::SYS_bind, Vec::new(), Verdict::Notify);
    }
    if options.guarded {
        for number in FILE_CALLS {
            set(*number, Vec::new(), Verdict::Notify);
        }
    }
    if !options.namespaces {
        for (number, _) in WITHOUT_NAMESPACES {
            set(*number, Vec::new(), denied);
        }
    }
    if options.truncates {
        set(libc::SYS_truncate, Vec::new(), denied);
    }
    Table {
        rows,
        otherwise: Verdict::Allow,
        newest: NEWEST,
        unknown: absent,
        told: options.supervised,
    }
}

/// Calls that pid 1 needs for none of its work, besides those that are refused to commands.
const NOT_FOR_US: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_unshare,
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_seccomp,
];

/// Calls that signal other processes (`signal(7)`), for processes that have none to signal.
pub(super) const SIGNALS: &[libc::c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];

/// Returns the table for pid 1, which reads what a hostile command wrote.
pub fn own_table() -> Table {
    // Pid 1 takes sockets and the listener out of other processes.
    let kept = [libc::SYS_pidfd_getfd];
    refusing(refused().filter(|number| !kept.contains(number)).chain(NOT_FOR_US))
}

/// Returns the calls that are refused to commands whatever their arguments are.
pub(super) fn refused() -> impl Iterator<Item = &'static libc::c_long> {
    REFUSED.iter().map(|(number, _)| number)
}

/// Returns a table that refuses these calls and new namespaces.
pub(super) fn refusing<'a>(refused: impl Iterator<Item = &'a libc::c_long>) -> Table {
    let denied = Verdict::Errno(libc::EPERM);
    let row = || Row { cases: Vec::new(), otherwise: denied };
    let mut rows: BTreeMap<u32, Row> =
        refused.filter_map(|it| Some((u32::try_from(*it).ok()?, row()))).collect();
    let namespaces = vec![case(vec![any(0, CLONE_NAMESPACES)], denied)];
    rows.extend(
        u32::try_from(libc::SYS_clone)
            .map(|number| (number, Row { cases: namespaces, otherwise: Verdict::Allow })),
    );
    Table {
        rows,
        otherwise: Verdict::Allow,
        newest: NEWEST,
        unknown: Verdict::Errno(libc::ENOSYS),
        told: false,
    }
}

/// Returns a table that refuses nothing, for trying whether a filter can be installed.
pub fn all_allowed() -> Table {
    let (rows, otherwise, unknown) = (BTreeMap::new(), Verdict::Allow, Verdict::Allow);
    Table { rows, otherwise, newest: NEWEST, unknown, told: false }
}

type Entry = (libc::c_long, Vec<Case>, Verdict);

/// Calls that are refused for the command, the flags or the kind of namespace that they are given.
fn arguments(options: Options) -> Vec<Entry> {
    let denied = Verdict::Refuse(libc::EPERM);
    let namespaces = vec![any(0, CLONE_NAMESPACES | CLONE_NEWTIME)];
    let listener = u32::try_from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).unwrap_or(ALL);
    let listening = vec![is(0, ALL, libc::SECCOMP_SET_MODE_FILTER), any(1, listener)];
    let known = PERSONALITIES.iter().map(|value| case(vec![is(0, ALL, *value)], Verdict::Allow));
    let commands = COMMANDS.iter().map(|value| case(vec![is(1, ALL, *value)], denied));
    let nothing = Verdict::Errno(libc::ENOTTY);
    let lustre = case(vec![is(1, LUSTRE.0, LUSTRE.1)], nothing);
    let kinds = KINDS.iter().map(|kind| case(vec![is(1, 0xFF00, kind << 8)], Verdict::Allow));
    let leases = LEASES.iter().map(|value| case(vec![is(1, ALL, *value)], denied));
    vec![
        (libc::SYS_clone, vec![case(vec![any(0, CLONE_NAMESPACES)], denied)], Verdict::Allow),
        (libc::SYS_unshare, vec![case(namespaces, denied)], Verdict::Allow),
        (libc::SYS_seccomp, vec![case(listening, denied)], Verdict::Allow),
        (libc::SYS_personality, known.collect(), denied),
        (libc::SYS_ioctl, commands.chain([lustre]).chain(kinds).collect(), nothing),
        (libc::SYS_prctl, process_control(options), Verdict::Allow),
        (libc::SYS_fcntl, leases.collect(), Verdict::Allow),
    ]
}

fn process_control(options: Options) -> Vec<Case> {
    const PR_SET_MM: u32 = 35;
    const PR_SET_DUMPABLE: u32 = 4;
    let denied = Verdict::Refuse(libc::EPERM);
    let mut cases = vec![case(vec![is(0, ALL, PR_SET_MM)], denied)];
    if options.supervised {
        // The supervisor must go on reading the caller's memory: success is told, nothing is done.
        cases.push(case(vec![is(0, ALL, PR_SET_DUMPABLE)], Verdict::Errno(0)));
    }
    cases
}

/// Limits, priorities and processors of other processes. In a process namespace ours is number 1, as a thread of
/// its own; elsewhere nothing tells ours from the run's, so each process may change only itself.
fn others(options: Options) -> Vec<Entry> {
    const OURS: u32 = 1;
    let denied = Verdict::Refuse(libc::EPERM);
    let own = |argument: u32| case(vec![is(argument, ALL, 0)], Verdict::Allow);
    // Without new limits it is only a question (`prlimit(2)`).
    let asks = case(vec![is(2, ALL, 0), Test::HighIsZero { argument: 2 }], Verdict::Allow);
    let mut all = vec![(libc::SYS_prlimit64, vec![own(0), asks], denied)];
    for number in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
    ] {
        all.push(match options.namespaces {
            true => (number, vec![case(vec![is(0, ALL, OURS)], denied)], Verdict::Allow),
            false => (number, vec![own(0)], denied),
        });
    }
    // The first argument says what the second is the number of: a process, a group, or a user, who is also ours.
    for (number, [process, group, user]) in
        [(libc::SYS_setpriority, [0, 1, 2]), (libc::SYS_ioprio_set, [1, 2, 3])]
    {
        let which = |value: u32| is(0, ALL, value);
        all.push(match options.namespaces {
            true => {
                let ours = case(vec![which(process), is(1, ALL, OURS)], denied);
                (number, vec![case(vec![which(user)], denied), ours], Verdict::Allow)
            }
            false => {
                let itself = |value| case(vec![which(value), is(1, ALL, 0)], Verdict::Allow);
                (number, vec![itself(process), itself(group)], denied)
            }
        });
    }
    all
}

/// Families, types and protocols that may be made (`socket(2)`).
fn sockets(options: Options) -> Vec<Entry> {
    const TYPE: u32 = 0xF;
    let family = |value: i32| is(0, ALL, value.unsigned_abs());
    let kind = |value: i32| is(1, TYPE, value.unsigned_abs());
    let protocol = |value: i32| is(2, ALL, value.unsigned_abs());
    let denied = Verdict::Refuse(libc::EPERM);
    let local = vec![
        // An unconnected or connected-again one reaches any path by its send calls.
        case(vec![family(libc::AF_UNIX), kind(libc::SOCK_DGRAM)], denied),
        case(vec![family(libc::AF_UNIX), kind(libc::SOCK_RAW)], denied),
        case(vec![family(libc::AF_UNIX)], Verdict::Allow),
    ];
    // Without namespaces every socket of the host could be reached by its path.
    let mut all = if options.namespaces { local.clone() } else { Vec::new() };
    all.push(case(vec![family(libc::AF_NETLINK), protocol(libc::NETLINK_ROUTE)], Verdict::Allow));
    if options.internet {
        // Version 4 is 2 and version 6 is 10: they differ in one bit.
        let version = is(0, !8, libc::AF_INET.unsigned_abs());
        for (form, number) in [
            (libc::SOCK_STREAM, 0),
            (libc::SOCK_STREAM, libc::IPPROTO_TCP),
            (libc::SOCK_DGRAM, 0),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        ] {
            all.push(case(vec![version, kind(form), protocol(number)], Verdict::Allow));
        }
    }
    let refused = Verdict::Refuse(libc::EAFNOSUPPORT);
    let fast_open = libc::MSG_FASTOPEN.unsigned_abs();
    let fast = |argument: u32| vec![case(vec![any(argument, fast_open)], denied)];
    vec![
        (libc::SYS_socket, all, refused),
        (libc::SYS_socketpair, local, refused),
        (libc::SYS_sendto, fast(3), Verdict::Allow),
        (libc::SYS_sendmsg, fast(2), Verdict::Allow),
        (libc::SYS_sendmmsg, fast(3), Verdict::Allow),
    ]
}

/// Calls with a mode argument: no set-id bits, no device nodes; opens for writing may be supervised.
fn modes(options: Options) -> Vec<Entry> {
    let denied = Verdict::Refuse(libc::EPERM);
    let after = if options.guarded { Verdict::Notify } else { Verdict::Allow };
    let set_id = |argument: u32| case(vec![any(argument, SET_ID_BITS)], denied);
    let making = |flags: u32, mode: u32| {
        // A mode counts only when something is made.
        let makes = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs();
        let writes = makes | (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC).unsigned_abs();
        let mut cases = vec![case(vec![any(flags, makes), any(mode, SET_ID_BITS)], denied)];
        if options.guarded {
            cases.push(case(vec![any(flags, writes)], Verdict::Notify));
        }
        cases
    };
    let node = |mode: u32| {
        let kinds = [0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK];
        let mut cases = vec![set_id(mode)];
        cases.extend(kinds.iter().map(|kind| case(vec![is(mode, libc::S_IFMT, *kind)], after)));
        cases
    };
    vec![
        (libc::SYS_fchmod, vec![set_id(1)], after),
        (libc::SYS_fchmodat, vec![set_id(2)], after),
        (FCHMODAT2, vec![set_id(2)], after),
        (libc::SYS_mkdirat, vec![set_id(2)], after),
        (libc::SYS_openat, making(2, 3), Verdict::Allow),
        (libc::SYS_mknodat, node(2), denied),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, vec![set_id(1)], after),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mkdir, vec![set_id(1)], after),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, making(1, 2), Verdict::Allow),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, vec![set_id(1)], after),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, node(1), denied),
    ]
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub use tests::all_tables;
