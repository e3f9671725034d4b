//! Takes every right from a process that only computes: reads 0, writes 1 and 2.

use std::io;

use super::bpf::{Case, Row, Table, Test, Verdict};
use super::{landlock, syscalls};

/// Calls that work on memory, time and the process itself.
const FREE: &[libc::c_long] = &[
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

/// Applies it to the calling thread, which must be the only one.
pub fn confine() -> io::Result<()> {
    apply(&table())
}

/// Denies every file and all calls but those of `table`, which open nothing.
pub(super) fn apply(table: &Table) -> io::Result<()> {
    syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    match landlock::deny_everything() {
        // Without Landlock the table still refuses every call that could open anything.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {}
        result => result?,
    }
    syscalls::seccomp_filter(&table.compile())
}

pub(super) fn table() -> Table {
    let descriptor = |value: u32| Case {
        tests: vec![Test::Is { argument: 0, mask: u32::MAX, value }],
        verdict: Verdict::Allow,
    };
    let anonymous = u32::try_from(libc::MAP_ANONYMOUS).unwrap_or(0);
    let executable = Case {
        tests: vec![Test::Any { argument: 2, bits: libc::PROT_EXEC.unsigned_abs() }],
        verdict: Verdict::Kill,
    };
    let from_memory =
        Case { tests: vec![Test::Any { argument: 3, bits: anonymous }], verdict: Verdict::Allow };
    let kill = |cases: Vec<Case>| Row { cases, otherwise: Verdict::Kill };
    let mut rows: Vec<(libc::c_long, Row)> = FREE
        .iter()
        .map(|number| (*number, Row { cases: Vec::new(), otherwise: Verdict::Allow }))
        .collect();
    rows.extend([
        (libc::SYS_read, kill(vec![descriptor(0)])),
        (libc::SYS_readv, kill(vec![descriptor(0)])),
        (libc::SYS_write, kill(vec![descriptor(1), descriptor(2)])),
        (libc::SYS_writev, kill(vec![descriptor(1), descriptor(2)])),
        (libc::SYS_mmap, kill(vec![executable.clone(), from_memory])),
        (libc::SYS_mprotect, Row { cases: vec![executable], otherwise: Verdict::Allow }),
    ]);
    Table {
        rows: rows
            .into_iter()
            .filter_map(|(number, row)| Some((u32::try_from(number).ok()?, row)))
            .collect(),
        otherwise: Verdict::Kill,
        newest: u32::MAX,
        unknown: Verdict::Kill,
        told: false,
    }
}

#[cfg(test)]
mod tests;
