//! What a program that is not really there does: prints two lines and exits as the cage says.

use std::io::Write;

/// Where the cage says how stubs exit.
pub const STATUS_FILE: &str = "/stubs/.status";

/// Is the stub: returns the exit status.
pub fn main() -> u8 {
    // A closed pipe is the reader's choice.
    let _ = std::io::stdout().write_all(b"f1\nf2\n");
    std::fs::read(STATUS_FILE).ok().and_then(|status| status.first().copied()).unwrap_or(0)
}
