//! Finding and ending descendants where no process namespace does it.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use stockade_kernel::syscalls::{self, Ended};

/// First and longest time between two looks at what was killed.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(32)];

/// Waits for the end of a child that was killed; none if it did not come in time.
pub(crate) fn child(pid: i32, limit: Duration) -> Option<Ended> {
    let mut found = None;
    until(limit, || match syscalls::wait(pid, libc::WNOHANG) {
        Ok(None) => false,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Ok(ended) => {
            found = ended;
            true
        }
        Err(_) => true,
    });
    found
}

/// Kills every child of this process, and theirs as they are handed up; says whether none is left.
///
/// The caller is a child subreaper, so orphans of its descendants become its own children.
pub(crate) fn all_children(limit: Duration) -> bool {
    let mut is_over = true;
    until(limit, || {
        loop {
            match syscalls::wait(-1, libc::WNOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    signal_descendants(libc::SIGKILL);
                    is_over = false;
                    return false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    is_over = error.raw_os_error() == Some(libc::ECHILD);
                    return true;
                }
            }
        }
    });
    is_over
}

/// Asks again and again whether something has come, for at most `limit`.
fn until(limit: Duration, mut has_come: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    let [mut pause, longest] = PAUSES;
    while !has_come() && Instant::now() < end {
        // Nothing is waited for but the time.
        let _ = syscalls::poll(&[], Some(pause));
        pause = longest.min(pause * 2);
    }
}

/// Sends `signal` to all descendants of this process.
pub(crate) fn signal_descendants(signal: i32) {
    for pid in descendants() {
        // One that has ended meanwhile needs no signal.
        let _ = syscalls::kill(pid, signal);
    }
}

/// Returns all descendants, parents first.
pub(crate) fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let Ok(me) = i32::try_from(std::process::id()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut open = vec![me];
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        open.extend(below);
    }
    found
}

/// Reads the parent from `/proc/PID/stat`: the second field after the name in parentheses.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
