//! Last words: what a process says when it breaks off, to somebody who would take silence for a yes.

/// Output of a process at its end, and the status with which it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// On standard output.
    pub stdout: Vec<u8>,
    /// On standard error.
    pub stderr: Vec<u8>,
    /// The status when both were said.
    pub status: u8,
    /// The status when they could not be.
    pub unsaid: u8,
}
