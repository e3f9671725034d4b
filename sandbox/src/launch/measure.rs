//! What the tree of a run uses, and which limit it has reached: told by a control group, or sampled.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use crate::linux::group::{Counted, Counters};
use crate::linux::mounts::Built;
use crate::linux::syscalls::{self, Ended};
use crate::spec::Limits;
use crate::{SandboxSpec, Violation};

/// Every so many samples the slower half is looked at, too: disks and descriptors.
const SLOWER: u32 = 4;

/// What a shell returns for a child that a signal ended is this and the signal's number (`bash(1)`).
const SHELL_SIGNAL: i32 = 128;

/// The measure of one run.
pub(super) struct Measure<'a> {
    limits: &'a Limits,
    counted: Counted,
    /// What tells of limits that the kernel counts.
    counters: Option<Counters>,
    samples: u32,
    seen: Vec<Violation>,
}

/// Returns all processes that this process namespace has.
pub(super) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the report of a process that has no descriptor left.
pub(crate) fn too_many_descriptors(limits: &Limits) -> Violation {
    let mut reached = limit("descriptors", "as many as one process may open".to_owned(), limits);
    reached.errno = libc::EMFILE;
    reached
}

fn limit(name: &str, value: String, limits: &Limits) -> Violation {
    Violation {
        kind: "limit".to_owned(),
        call: name.to_owned(),
        object: value,
        rule: limits.origin(name),
        count: 1,
        source: "monitor".to_owned(),
        ..Violation::default()
    }
}

impl<'a> Measure<'a> {
    pub(super) fn new(
        spec: &'a SandboxSpec,
        counted: Counted,
        counters: Option<Counters>,
    ) -> Measure<'a> {
        Measure { limits: &spec.limits, counted, counters, samples: 0, seen: Vec::new() }
    }

    /// Notes the limits that the kernel kept; says whether one of them ends the run.
    fn kept(&mut self) -> bool {
        let kept = self.counters.as_mut().map(Counters::reached).unwrap_or_default();
        for name in &kept {
            self.note(reached(name, self.limits));
        }
        // The kernel has killed one process; what is left is half of something.
        kept.contains(&"memory")
    }

    /// Looks at `pids`, and says whether the run must end.
    pub(super) fn sample(&mut self, pids: &[i32], built: Option<&Built>) -> bool {
        let shm = built.and_then(|built| syscalls::used_bytes(built.shm.as_fd()).ok());
        let (mut memory, mut threads, mut disk) = (shm.unwrap_or(0), 0_u64, 0_u64);
        let slower = self.samples.is_multiple_of(SLOWER);
        self.samples = self.samples.wrapping_add(1);
        let mut full = None;
        if self.kept() {
            return true;
        }
        for pid in pids {
            if !self.counted.memory {
                memory = memory.saturating_add(private_bytes(*pid));
            }
            if !self.counted.processes {
                threads = threads.saturating_add(threads_of(*pid));
            }
            if slower {
                disk = disk.saturating_add(written_bytes(*pid));
                full = full.or_else(|| is_full(*pid, self.limits));
            }
        }
        if threads >= self.limits.processes {
            self.note(reached("processes", self.limits));
            // Neither the kernel nor, for root, `RLIMIT_NPROC` refuses the next one.
            let bound = built.is_some_and(|built| built.counts_processes);
            if !bound && threads > self.limits.processes {
                return true;
            }
        }
        if let Some(full) = full {
            self.note(full);
        }
        if !self.counted.memory && memory > self.limits.memory_bytes {
            self.note(reached("memory", self.limits));
            return true;
        }
        if disk > self.limits.disk_bytes {
            self.note(limit(
                "diskWritten",
                format!("{} bytes", self.limits.disk_bytes),
                self.limits,
            ));
            return true;
        }
        false
    }

    /// Adds what the end of the command tells: the signal for a file that is too large, from the kernel or
    /// from the shell that saw it.
    pub(super) fn at_the_end(mut self, ended: Ended) -> Vec<Violation> {
        self.kept();
        let too_large = SHELL_SIGNAL.saturating_add(libc::SIGXFSZ);
        if ended.signal == Some(libc::SIGXFSZ) || ended.code == Some(too_large) {
            let mut reached =
                limit("fileSize", format!("{} bytes", self.limits.file_bytes), self.limits);
            reached.errno = libc::EFBIG;
            self.note(reached);
        }
        self.seen
    }

    /// Returns what was seen.
    pub(super) fn seen(self) -> Vec<Violation> {
        self.seen
    }

    fn note(&mut self, violation: Violation) {
        note(&mut self.seen, violation);
    }
}

/// Adds `violation` unless the same limit is told of already.
pub(super) fn note(seen: &mut Vec<Violation>, violation: Violation) {
    let same = |known: &Violation| known.kind == violation.kind && known.call == violation.call;
    if !seen.iter().any(same) {
        seen.push(violation);
    }
}

/// Returns the report of a limit of the whole tree, named as in settings.
pub(super) fn reached(name: &str, limits: &Limits) -> Violation {
    let value = match name {
        "memory" => format!("{} bytes", limits.memory_bytes),
        _ => format!("{} processes", limits.processes),
    };
    limit(name, value, limits)
}

/// Resident memory that is not shared with files (`proc_pid_statm(5)`).
fn private_bytes(pid: i32) -> u64 {
    const PAGE: u64 = 4096;
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/statm")) else { return 0 };
    let mut fields = text.split_whitespace().skip(1).filter_map(|it| it.parse::<u64>().ok());
    let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared).saturating_mul(PAGE)
}

/// Its threads: the links of their directory but the two of every directory.
fn threads_of(pid: i32) -> u64 {
    fs::metadata(format!("/proc/{pid}/task")).map_or(0, |found| found.nlink().saturating_sub(2))
}

/// What it and its children that have ended wrote to disks (`proc_pid_io(5)`).
fn written_bytes(pid: i32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/io")) else { return 0 };
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Returns the report of a process that has opened as much as it may. Linux 6.2 tells the number of open
/// descriptors as the size of their directory; before, nothing is seen.
fn is_full(pid: i32, limits: &Limits) -> Option<Violation> {
    let open = fs::metadata(format!("/proc/{pid}/fd")).ok()?.size();
    if open < limits.descriptors {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let most: u64 = line.split_whitespace().next()?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    (open >= most).then(|| Violation {
        object: format!("{most} descriptors"),
        errno: libc::EMFILE,
        pid: pid.unsigned_abs(),
        program: name.trim_end().to_owned(),
        ..limit("descriptors", String::new(), limits)
    })
}
