//! Answers for the kernel where mounts and Landlock have no word.

/// Calls that always go to the supervisor.
pub(crate) const CALLS: &[libc::c_long] = &[];
