//! A step of the launch that is taken as failed, for tests: it can only make a launch refuse.

use std::io;
use std::sync::OnceLock;

static STEP: OnceLock<String> = OnceLock::new();

/// Names the step; processes that are forked later know it too.
pub(crate) fn set(step: &str) {
    if !step.is_empty() {
        // A monitor reads one spec.
        let _ = STEP.set(step.to_owned());
    }
}

/// Says whether some step is taken as failed.
pub(crate) fn is_set() -> bool {
    STEP.get().is_some()
}

/// Says whether `step` is the one.
pub(crate) fn is_at(step: &str) -> bool {
    STEP.get().is_some_and(|named| named == step)
}

/// Returns what a hardened kernel says.
pub(crate) fn error() -> io::Error {
    io::Error::from_raw_os_error(libc::EPERM)
}
