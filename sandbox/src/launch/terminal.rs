//! A terminal of the command's own: made where the command is, from the terminals that it may see, and nobody else's.

use std::os::fd::{AsFd, OwnedFd};

use super::{StandardStreams, step};
use stockade_kernel::syscalls;
use stockade_spec::SandboxSpec;
use stockade_spec::codec::Failure;

/// Returns the streams of the command. With a terminal these are three descriptors of that, and its other end is for the
/// gateway; nothing of what was given is used.
///
/// In a run with namespaces `/dev/ptmx` is that of the run's own `devpts`: the terminal has a name there, and neither the
/// terminals of the host nor those of another run have one (`Documentation/filesystems/devpts.rst` of the kernel).
pub(super) fn in_place_of(
    given: StandardStreams,
    spec: &SandboxSpec,
) -> Result<(StandardStreams, Option<OwnedFd>), Failure> {
    let Some(window) = spec.terminal else { return Ok((given, None)) };
    let made = syscalls::open_terminal();
    let (other_end, terminal) =
        made.map_err(|error| Failure::Terminal { errno: error.raw_os_error().unwrap_or(0) })?;
    step("terminal", syscalls::set_window(terminal.as_fd(), window))?;
    let copy = || step("terminal", terminal.try_clone());
    Ok(([copy()?, copy()?, terminal], Some(other_end)))
}
