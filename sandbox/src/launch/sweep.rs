//! Finding and ending descendants where no process namespace does it.

use std::collections::BTreeMap;

use crate::linux::syscalls;

/// Kills every child of this process, and theirs as they are handed up, until none is left.
///
/// The caller is a child subreaper, so orphans of its descendants become its own children.
pub(crate) fn all_children() {
    loop {
        match syscalls::wait(-1, libc::WNOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                signal_descendants(libc::SIGKILL);
                // At least one child is there and has been killed; its end wakes this.
                let _ = syscalls::wait(-1, 0);
            }
            Err(_) => return,
        }
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
