//! What this machine can enforce, found by trying.

use crate::Enforced;

/// What this machine can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Each probe with its result, in order.
    pub probes: Vec<Probe>,
    /// What a run with the default spec would enforce.
    pub enforced: Enforced,
    /// Kernel release.
    pub kernel: String,
    /// Landlock ABI, 0 without.
    pub landlock_abi: u32,
}

/// One thing tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What was tried.
    pub name: String,
    /// It worked.
    pub works: bool,
    /// What was seen.
    pub detail: String,
    /// What would make it work; empty if it does.
    pub help: String,
}

impl Host {
    /// Tries everything once; takes a few milliseconds.
    pub fn probe() -> Host {
        Host {
            probes: Vec::new(),
            enforced: Enforced::default(),
            kernel: String::new(),
            landlock_abi: 0,
        }
    }
}
