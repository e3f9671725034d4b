use std::fmt::Write;

use super::*;
use crate::bpf::oracle::telling_arguments;

/// Returns the program as text, one instruction a line.
fn disassembly(program: &[libc::sock_filter]) -> String {
    let mut text = String::new();
    for (number, step) in program.iter().enumerate() {
        let words = match step.code {
            0x20 => format!("load {}", step.k),
            0x54 => format!("and {:#x}", step.k),
            0x05 => format!("jump {}", number + 1 + step.k as usize),
            0x06 => match step.k & 0xFFFF_0000 {
                libc::SECCOMP_RET_ALLOW => "allow".to_owned(),
                libc::SECCOMP_RET_ERRNO => format!("errno {}", step.k & 0xFFFF),
                libc::SECCOMP_RET_USER_NOTIF => "notify".to_owned(),
                libc::SECCOMP_RET_KILL_PROCESS => "kill".to_owned(),
                other => panic!("{other:#x}"),
            },
            code => {
                let compare = match code {
                    0x15 => "==",
                    0x25 => ">",
                    0x35 => ">=",
                    0x45 => "&",
                    other => panic!("{other:#x}"),
                };
                let to = |offset: u8| number + 1 + usize::from(offset);
                format!("if {compare} {:#x} go {} else {}", step.k, to(step.jt), to(step.jf))
            }
        };
        writeln!(text, "{number}: {words}").unwrap();
    }
    text
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_filter_is_the_one_that_was_read() {
    let options = Options {
        internet: true,
        namespaces: true,
        truncates: false,
        supervised: true,
        guarded: true,
    };
    let text = disassembly(&table(options).compile());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/seccomp/x86_64.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap_or_default();
    for (number, (now, then)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, then, "line {}; UPDATE_EXPECT=1 writes the new text", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

/// Every combination of what differs between runs.
fn all_options() -> impl Iterator<Item = Options> {
    (0..32_u32).map(|bits| {
        let is_set = |bit: u32| bits & 1 << bit != 0;
        Options {
            internet: is_set(0),
            namespaces: is_set(1),
            truncates: is_set(2),
            supervised: is_set(3),
            guarded: is_set(4),
        }
    })
}

/// A call takes the depth of the search and no more; the kernel's own limit is 4096 instructions.
#[test]
fn the_filter_is_short_and_its_search_is_shallow() {
    let exists = |it: &Options| {
        it.guarded <= it.supervised
            && it.supervised <= it.namespaces
            && it.truncates <= !it.namespaces
    };
    for options in all_options().filter(exists) {
        let program = table(options).compile();
        assert!(program.len() <= 376, "{options:?}: {} instructions", program.len());
        // A call whose arguments do not matter.
        for number in [0_u32, 1, 39, 186, 202, 231, 262, 332] {
            let steps = crate::bpf::steps(&program, number, [0; 6]);
            assert!(steps <= 17, "{options:?}: call {number} takes {steps} instructions");
        }
    }
}

/// The program against the rows that it was made of, for every number and for every value that a row tests.
#[test]
fn the_filter_says_what_its_rows_say() {
    for options in all_options() {
        let table = table(options);
        let program = table.compile();
        for number in 0..=NEWEST + 2 {
            for arguments in telling_arguments(&table, number) {
                for high in [0, 1, 0xABCD, 0x8000_0000] {
                    let whole = arguments.map(|value| u64::from(value) | high << 32);
                    let read = table.decide(number, whole);
                    let ran = crate::bpf::run_whole(&program, number, whole);
                    assert_eq!(ran, read.value(table.told), "{options:?}: call {number} {whole:?}");
                }
            }
        }
    }
}

/// Returns every table of a run, with what it is for.
pub fn all_tables() -> impl Iterator<Item = (String, Table)> {
    all_options().map(|options| (format!("{options:?}"), table(options)))
}

#[test]
fn our_own_process_is_out_of_reach_and_the_runs_are_not() {
    let options = |namespaces| Options {
        internet: true,
        namespaces,
        truncates: false,
        supervised: namespaces,
        guarded: namespaces,
    };
    let refused = Verdict::Refuse(libc::EPERM);
    let check = |number: libc::c_long, first: u32, second: u32, expected: [Verdict; 2]| {
        let arguments = [first.into(), second.into(), 0, 0, 0, 0];
        let number = u32::try_from(number).unwrap();
        let found = [true, false].map(|it| table(options(it)).decide(number, arguments));
        assert_eq!(found, expected, "call {number} {first} {second}");
    };
    let allow = Verdict::Allow;
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
    ] {
        check(call, 0, 0, [allow, allow]);
        check(call, 1, 0, [refused, refused]);
        check(call, 77, 0, [allow, refused]);
    }
    for (other, new, expected) in [
        (0, 0x7FFF_0000_1000, allow),
        (0, 0, allow),
        (1, 0, allow),
        (77, 0, allow),
        (1, 0x7FFF_0000_1000, refused),
        (77, 0x1000, refused),
        // A pointer whose low half is zero is no null pointer.
        (77, 1 << 32, refused),
        (u64::MAX, 1 << 63, refused),
    ] {
        let arguments = [other, libc::RLIMIT_NOFILE.into(), new, 0, 0, 0];
        let number = u32::try_from(libc::SYS_prlimit64).unwrap();
        let found = [true, false].map(|it| table(options(it)).decide(number, arguments));
        assert_eq!(found, [expected, expected], "limits of {other} at {new:x}");
    }
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        check(call, process, 0, [allow, allow]);
        check(call, process, 1, [refused, refused]);
        check(call, process, 77, [allow, refused]);
        check(call, process + 1, 0, [allow, allow]);
        check(call, process + 1, 77, [allow, refused]);
        check(call, process + 2, 0, [refused, refused]);
    }
    for command in LEASES {
        check(libc::SYS_fcntl, 3, *command, [refused, refused]);
    }
    check(libc::SYS_fcntl, 3, libc::F_SETFL.unsigned_abs(), [allow, allow]);
}

#[test]
fn every_call_of_the_lists_is_refused_and_has_a_name() {
    let options = Options {
        internet: false,
        namespaces: false,
        truncates: true,
        supervised: false,
        guarded: false,
    };
    let table = table(options);
    for (number, name) in REFUSED.iter().chain(WITHOUT_NAMESPACES) {
        let verdict = table.decide(u32::try_from(*number).unwrap(), [0; 6]);
        assert_eq!(verdict, Verdict::Refuse(libc::EPERM), "{name}");
        let shown = super::name(i32::try_from(*number).unwrap());
        assert_eq!(shown, name.trim_start_matches("SYS_"));
    }
}

#[test]
fn commands_that_make_names_or_are_not_known_are_not_let_through() {
    for options in all_options() {
        let decide = |command: u64| {
            let number = u32::try_from(libc::SYS_ioctl).unwrap();
            table(options).decide(number, [3, command, 0, 0, 0, 0])
        };
        for command in [0x5000_9401, 0x5000_940E, 0x5000_9417, 0x5000_9418, 0x5412, 0x4C80] {
            assert_eq!(decide(command), Verdict::Refuse(libc::EPERM), "{command:#x}");
        }
        // OCFS2_IOC_REFLINK, BCH_IOCTL_SUBVOLUME_CREATE, LL_IOC_LMV_SETSTRIPE, VFAT_IOCTL_READDIR_BOTH
        for command in [0x4018_6F04, 0x4020_BC10, 0xC060_66F0, 0x8218_7201] {
            assert_eq!(decide(command), Verdict::Errno(libc::ENOTTY), "{command:#x}");
        }
        // FICLONE, FIEMAP, FS_IOC_GETFLAGS, TCGETS, FIONREAD, SIOCGIFCONF, RNDGETENTCNT, FS_IOC_MEASURE_VERITY
        for command in [
            0x4004_9409,
            0xC020_660B,
            0x8008_6601,
            0x5401,
            0x541B,
            0x8912,
            0x8004_5200,
            0xC004_6686,
        ] {
            assert_eq!(decide(command), Verdict::Allow, "{command:#x}");
        }
    }
}

/// Pid 1 reads what a hostile command wrote: it can start no program, trace nobody, open no way out, and enter or make no
/// namespace.
#[test]
fn the_filter_of_process_1_refuses_what_its_work_does_not_need() {
    let program = own_table().compile();
    let run = |number: libc::c_long, first: u64| {
        let number = u32::try_from(number).unwrap();
        crate::bpf::run_whole(&program, number, [first, 0, 0, 0, 0, 0])
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    for number in [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_writev,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_clone3,
        libc::SYS_seccomp,
        libc::SYS_io_uring_setup,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_init_module,
        libc::SYS_reboot,
    ] {
        assert_eq!(run(number, 0), refused, "call {number}");
    }
    for namespace in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ] {
        assert_eq!(run(libc::SYS_clone, u64::from(namespace.unsigned_abs())), refused);
    }
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    assert_eq!(run(libc::c_long::from(NEWEST) + 1, 0), absent);
    // Calls that supervision is made of.
    for number in [
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_getfd,
        libc::SYS_openat2,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_kill,
        libc::SYS_clone,
    ] {
        assert_eq!(run(number, 0), libc::SECCOMP_RET_ALLOW, "call {number}");
    }
}

/// Calls with flags or a mode that the supervisor of names hears of.
const MODES: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_openat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// Every call of each kind of run, with arguments that ask for nothing but an open for writing.
#[test]
fn what_is_refused_notified_or_absent_follows_from_the_kind_of_run() {
    use crate::bpf::{answered, calls};
    let refused_always: Vec<libc::c_long> = refused().copied().collect();
    let refused_alone: Vec<libc::c_long> = WITHOUT_NAMESPACES.iter().map(|it| it.0).collect();
    for options in all_options() {
        // Its answer to what is refused is that of a notification otherwise.
        let table = Table { told: false, ..table(options) };
        let found = |verdict| answered(&table, NEWEST, (verdict, [7; 6]));
        let mut notified = std::collections::BTreeSet::new();
        if options.guarded {
            notified.extend(calls(&[FILE_CALLS, MODES]));
        }
        if options.supervised {
            notified.extend(calls(&[&[libc::SYS_connect, libc::SYS_bind]]));
        }
        let mut denied = calls(&[&refused_always]);
        denied.extend(calls(&[&[libc::SYS_personality, libc::SYS_prlimit64]]));
        if !options.namespaces {
            denied.extend(calls(&[
                &refused_alone,
                &[
                    libc::SYS_sched_setaffinity,
                    libc::SYS_sched_setparam,
                    libc::SYS_sched_setscheduler,
                    libc::SYS_sched_setattr,
                    libc::SYS_setpriority,
                    libc::SYS_ioprio_set,
                ],
            ]));
        }
        if options.truncates {
            denied.extend(calls(&[&[libc::SYS_truncate]]));
            notified.remove(&u32::try_from(libc::SYS_truncate).unwrap());
        }
        assert_eq!(found(Verdict::Refuse(libc::EPERM)), denied, "{options:?}");
        assert_eq!(found(Verdict::Notify), notified, "{options:?}");
        let mut absent: std::collections::BTreeSet<u32> = (UNASSIGNED.0..=UNASSIGNED.1).collect();
        absent.extend(calls(&[ABSENT, &[LSM_SET_SELF_ATTR]]));
        assert_eq!(found(Verdict::Errno(libc::ENOSYS)), absent, "{options:?}");
        let families = calls(&[&[libc::SYS_socket, libc::SYS_socketpair]]);
        assert_eq!(found(Verdict::Refuse(libc::EAFNOSUPPORT)), families, "{options:?}");
    }
}

/// A node is a file, a pipe or a socket without the bits that give rights; every other kind is a device.
#[test]
fn no_device_is_made_and_no_file_gets_rights_of_its_owner() {
    for options in all_options() {
        let table = table(options);
        let after = if options.guarded { Verdict::Notify } else { Verdict::Allow };
        let refused = Verdict::Refuse(libc::EPERM);
        let mut nodes = vec![(libc::SYS_mknodat, 2)];
        #[cfg(target_arch = "x86_64")]
        nodes.push((libc::SYS_mknod, 1));
        for (call, argument) in nodes {
            for kind in 0..16_u32 {
                for bits in [0o644, 0o1777, 0o2755, 0o4755, 0o6000] {
                    let mut arguments = [0; 6];
                    arguments[argument] = u64::from(kind << 12 | bits);
                    let is_free = [0, 0o10, 0o1, 0o14].contains(&kind) && bits & SET_ID_BITS == 0;
                    let found = table.decide(u32::try_from(call).unwrap(), arguments);
                    assert_eq!(found, if is_free { after } else { refused }, "{kind:o} {bits:o}");
                }
            }
        }
    }
}
