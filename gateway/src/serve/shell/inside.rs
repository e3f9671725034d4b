//! Whether this process runs in a confinement that our launcher made.
//!
//! The kernel says so, not the environment: system calls are filtered, new privileges are off for good, and
//! process 1 of this process's namespace is filtered too and bears the name that our launcher gives it. A command
//! text can bring that about only by running outside of the gate already.

use std::fs;

/// File system type of procfs (`statfs(2)`).
const PROCFS: u64 = 0x9fa0;

/// Says whether this process is confined by a launcher of this executable. What cannot be read is a no.
pub(crate) fn own_confinement() -> bool {
    let genuine =
        rustix::fs::statfs("/proc").is_ok_and(|found| u64::try_from(found.f_type) == Ok(PROCFS));
    // The name first: it costs the kernel least, and is nearly always another.
    genuine
        && std::process::id() != 1
        && fs::read_to_string("/proc/1/comm").is_ok_and(|name| is_launcher(&name))
        && is_filtered("/proc/self/status")
        && has_line("/proc/self/status", "NoNewPrivs:\t1")
        && is_filtered("/proc/1/status")
}

/// Says whether a process has a system-call filter.
fn is_filtered(status: &str) -> bool {
    has_line(status, "Seccomp:\t2")
}

fn has_line(status: &str, line: &str) -> bool {
    fs::read_to_string(status).unwrap_or_default().lines().any(|found| found == line)
}

/// Says whether a process of this name, as the kernel gives it, is our launcher's.
fn is_launcher(name: &str) -> bool {
    name.strip_suffix('\n') == Some(stockade_spec::INIT_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_not_confined_by_us() {
        assert!(!own_confinement());
        assert!(is_launcher("stockade-init\n") && !is_launcher("stockade\n") && !is_launcher(""));
    }
}
