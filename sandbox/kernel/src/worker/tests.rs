use std::collections::BTreeSet;

use super::*;
use crate::bpf::{answered, calls};

/// Numbers beyond those of any kernel.
const BEYOND: u32 = 600;

/// Calls that need nothing but memory, time and the process itself.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_ppoll,
    libc::SYS_close,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

const READS: &[libc::c_long] = &[libc::SYS_read, libc::SYS_readv];
const WRITES: &[libc::c_long] = &[libc::SYS_write, libc::SYS_writev];

/// Asserts which calls are allowed for these arguments, and that every other one kills.
fn check(table: &Table, arguments: [i32; 4], allowed: &[&[libc::c_long]]) {
    let [first, second, third, fourth] = arguments.map(|it| u64::from(it.unsigned_abs()));
    let whole = [first, second, third, fourth, 0, 0];
    let found = answered(table, BEYOND, (Verdict::Allow, whole));
    assert_eq!(found, calls(allowed), "{arguments:?}");
    let killed = answered(table, BEYOND, (Verdict::Kill, whole));
    let all: BTreeSet<u32> = (0..=BEYOND).collect();
    assert_eq!(killed, all.difference(&found).copied().collect(), "{arguments:?}");
}

#[test]
fn the_worker_reads_0_writes_1_and_2_and_makes_no_memory_executable() {
    let table = table();
    let protects: &[libc::c_long] = &[libc::SYS_mprotect];
    let maps: &[libc::c_long] = &[libc::SYS_mmap, libc::SYS_mprotect];
    let (data, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_ANONYMOUS);
    check(&table, [0, 0, 0, 0], &[ALWAYS, READS, protects]);
    check(&table, [1, 0, 0, 0], &[ALWAYS, WRITES, protects]);
    check(&table, [2, 0, 0, 0], &[ALWAYS, WRITES, protects]);
    check(&table, [3, 0, 0, 0], &[ALWAYS, protects]);
    check(&table, [3, 0, data, anonymous | libc::MAP_PRIVATE], &[ALWAYS, maps]);
    check(&table, [3, 0, data, libc::MAP_PRIVATE], &[ALWAYS, protects]);
    check(&table, [3, 0, data | libc::PROT_EXEC, anonymous], &[ALWAYS]);
    check(&table, [3, 0, libc::PROT_EXEC, anonymous], &[ALWAYS]);
}

#[test]
fn the_listener_takes_connections_and_passes_them_on() {
    let table = crate::service::listener_table();
    let protects: &[libc::c_long] = &[libc::SYS_mprotect];
    let connections: &[libc::c_long] = &[
        libc::SYS_accept4,
        libc::SYS_getsockopt,
        libc::SYS_sendmsg,
        libc::SYS_pipe2,
        libc::SYS_sendto,
    ];
    let looks: &[libc::c_long] = &[libc::SYS_fcntl];
    check(&table, [0, libc::F_DUPFD, 0, 0], &[ALWAYS, protects, connections]);
    check(&table, [0, libc::F_GETFD, 0, 0], &[ALWAYS, protects, connections, looks]);
    check(&table, [1, libc::F_SETFD, 0, 0], &[ALWAYS, WRITES, protects, connections]);
    check(&table, [2, libc::F_SETFL, 0, 0], &[ALWAYS, WRITES, protects, connections]);
    check(&table, [0, 0, libc::PROT_EXEC, libc::MAP_ANONYMOUS], &[ALWAYS, connections]);
}

/// A domain may have 16 layers above it (`landlock(7)`), so the next one fails.
#[test]
fn a_layer_that_cannot_be_had_is_an_error_where_the_kernel_has_layers() {
    if landlock::abi() == 0 {
        eprintln!(
            "SKIPPED a_layer_that_cannot_be_had_is_an_error_where_the_kernel_has_layers: there is no Landlock"
        );
        return;
    }
    for confine in [confine, crate::service::confine_listener] {
        let found = std::thread::spawn(move || {
            while landlock::deny_everything().is_ok() {}
            confine().map_err(|error| error.raw_os_error())
        });
        assert_eq!(found.join().unwrap(), Err(Some(libc::E2BIG)));
    }
}
