//! Resource usage of the process tree of a run, and the limits that it has reached: reported by a control group, or
//! sampled.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use stockade_kernel::group::{Counted, Counters};
use stockade_kernel::mounts::Built;
use stockade_kernel::syscalls::{self, Ended};
use stockade_spec::Limits;
use stockade_spec::violation::limit;
use stockade_spec::{SandboxSpec, Violation};

/// How often the tree is sampled. Memory that no control group counts is looked at more often when it nears its limit.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// Every so many samples the slower half is looked at, too: disks and descriptors.
const SLOWER: u32 = 4;

/// Bytes of new memory that a tree is assumed to fill in a second, with all processors at once.
const FILLED_IN_A_SECOND: u64 = 32 << 30;

/// The shortest pause before memory is looked at again, and what it is at least in units of what looking took.
const SHORTEST: (Duration, u32) = (Duration::from_millis(1), 10);

/// Exit status of a shell for a child that a signal ended, less the signal's number (`bash(1)`).
const SHELL_SIGNAL: i32 = 128;

/// How much sooner than others a run is ended by a kernel without memory: as if it held half of all (`proc_pid_oom_score_adj(5)`).
const SOONER: i32 = 500;

/// Objects that System V keeps, by the names of `proc_sysvipc(5)`: columns, and how many bytes of memory one of each
/// is. A message has a header, which its number of bytes leaves out.
const KEPT: &[(&str, &[(usize, u64)])] =
    &[("shm", &[(14, 1)]), ("msg", &[(3, 1), (4, 64)]), ("sem", &[(3, 64)])];

/// The measure of one run.
pub(super) struct Measure<'a> {
    limits: &'a Limits,
    counted: Counted,
    /// Counters of the limits that the kernel counts.
    counters: Option<Counters>,
    samples: u32,
    /// When the next sample is due.
    due: Instant,
    /// When memory is looked at next, the sample included.
    next: Instant,
    seen: Vec<Violation>,
}

/// Returns all processes that this process namespace has.
pub(super) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Has a kernel that runs out of memory end this process, and those that it starts, before others. They cannot take it
/// back, since they write nothing in `/proc`.
pub(super) fn end_sooner() {
    let path = "/proc/self/oom_score_adj";
    let now = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if now.is_some_and(|now| now < SOONER) {
        // A help for the rest of the machine, and no part of the limit.
        let _ = fs::write(path, SOONER.to_string());
    }
}

impl<'a> Measure<'a> {
    pub(super) fn new(
        spec: &'a SandboxSpec,
        counted: Counted,
        counters: Option<Counters>,
    ) -> Measure<'a> {
        let now = Instant::now();
        let mut measure = Measure {
            limits: &spec.limits,
            counted,
            counters,
            samples: 0,
            due: now + SAMPLE_EVERY,
            next: now,
            seen: Vec::new(),
        };
        measure.plan(now, 0);
        measure
    }

    /// Returns when it is to look again.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Sets when to look again, after a look that began at `began` and found `memory` bytes.
    fn plan(&mut self, began: Instant, memory: u64) {
        self.next = self.due;
        if self.counted.memory {
            return;
        }
        let rest = self.limits.memory_bytes.saturating_sub(memory);
        let now = Instant::now();
        let pause = pause(rest, now.saturating_duration_since(began));
        self.next = self.due.min(now + pause);
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

    /// Looks at `pids`, which were listed from `began` on, and says whether the run must end.
    pub(super) fn look(&mut self, began: Instant, pids: &[i32], built: Option<&Built>) -> bool {
        let memory = match self.counted.memory {
            true => 0,
            false => used_bytes(pids, built),
        };
        if memory > self.limits.memory_bytes {
            self.note(reached("memory", self.limits));
            return true;
        }
        if began >= self.due {
            self.due = began + SAMPLE_EVERY;
            if self.sample(pids, built) {
                return true;
            }
        }
        self.plan(began, memory);
        false
    }

    /// Looks at what is looked at less often.
    fn sample(&mut self, pids: &[i32], built: Option<&Built>) -> bool {
        let slower = self.samples.is_multiple_of(SLOWER);
        self.samples = self.samples.wrapping_add(1);
        let (mut threads, mut disk, mut full) = (0_u64, 0_u64, None);
        if self.kept() {
            return true;
        }
        for pid in pids {
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

/// Returns how long memory need not be looked at when `rest` bytes of the limit are left and looking took `took`: the
/// rest cannot be filled before, but looking takes a small part of the time.
fn pause(rest: u64, took: Duration) -> Duration {
    let filled = Duration::from_micros(rest / (FILLED_IN_A_SECOND / 1_000_000));
    let (shortest, share) = SHORTEST;
    filled.max(took.saturating_mul(share)).clamp(shortest, SAMPLE_EVERY)
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

/// Returns the memory that the tree holds: private pages, files in `/dev/shm`, and objects that System V keeps for it.
fn used_bytes(pids: &[i32], built: Option<&Built>) -> u64 {
    // Without namespaces both are everybody's.
    let shared = built.map_or(0, |built| {
        let shm = syscalls::used_bytes(built.shm.as_fd()).unwrap_or(0);
        shm.saturating_add(kept_bytes())
    });
    pids.iter().fold(shared, |sum, pid| sum.saturating_add(private_bytes(*pid)))
}

/// Returns the memory that this ipc namespace keeps, whether or not a process has it open.
fn kept_bytes() -> u64 {
    // Before Linux 5.15 reading takes the square of the lines: seconds for the 32000 queues that there may be.
    let files = match syscalls::kernel_version() >= (5, 15) {
        true => KEPT.len(),
        false => 1,
    };
    KEPT.iter().take(files).fold(0, |sum, (name, columns)| {
        let text = fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap_or_default();
        let lines = text.lines().skip(1).map(|line| kept_in(line, columns));
        lines.fold(sum, u64::saturating_add)
    })
}

fn kept_in(line: &str, columns: &[(usize, u64)]) -> u64 {
    columns.iter().fold(0, |sum, (column, bytes)| {
        let value = line.split_whitespace().nth(*column).and_then(|it| it.parse::<u64>().ok());
        sum.saturating_add(value.unwrap_or(0).saturating_mul(*bytes))
    })
}

/// Returns the resident memory of a process that is not shared with files.
fn private_bytes(pid: i32) -> u64 {
    const PAGE: u64 = 4096;
    let pages = private_pages(&format!("/proc/{pid}/statm")).or_else(|| pages_of_threads(pid));
    pages.unwrap_or(0).saturating_mul(PAGE)
}

/// Returns what a thread that lives tells of its process: the first one has no memory any more once it has ended, while
/// others go on.
fn pages_of_threads(pid: i32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let first = pid.to_string();
    let mut others = threads.map(|it| it.file_name()).filter(|it| *it != *first);
    others.find_map(|it| private_pages(&format!("/proc/{pid}/task/{}/statm", it.to_str()?)))
}

/// Returns the resident pages that are not shared with files (`proc_pid_statm(5)`), of what has memory at all.
fn private_pages(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.split_whitespace().map(|it| it.parse::<u64>().unwrap_or(0));
    let (size, resident, shared) = (fields.next()?, fields.next()?, fields.next()?);
    (size > 0).then(|| resident.saturating_sub(shared))
}

/// Its threads: the links of their directory but the two of every directory.
fn threads_of(pid: i32) -> u64 {
    fs::metadata(format!("/proc/{pid}/task")).map_or(0, |found| found.nlink().saturating_sub(2))
}

/// Returns the bytes that a process and its children that have ended wrote to disks (`proc_pid_io(5)`).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_limit_the_sooner_memory_is_looked_at() {
        let milliseconds = |rest, took| pause(rest, Duration::from_micros(took)).as_millis();
        assert_eq!(milliseconds(64 << 30, 100), 50);
        assert_eq!(milliseconds(1 << 30, 100), 31);
        assert_eq!(milliseconds(100 << 20, 100), 3);
        assert_eq!(milliseconds(0, 100), 1);
        // Of a large tree: looking takes no more than a tenth of the time.
        assert_eq!(milliseconds(0, 2_000), 20);
        assert_eq!(milliseconds(0, 900_000), 50);
    }
}
