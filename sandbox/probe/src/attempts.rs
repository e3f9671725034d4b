//! Acts that a confined process must fail at, as one call each: for the probes of a machine, which try them outside and confined.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use stockade_kernel::syscalls::{self, Fork};

pub(crate) use stockade_kernel::group::{Counted, Group};
pub(crate) use stockade_kernel::landlock::abi as landlock_abi;

/// Says whether a process may be signalled (`kill(2)` with signal 0).
pub(crate) fn may_signal(process: i32) -> bool {
    syscalls::kill(process, 0).is_ok()
}

/// Makes a queue for messages of System V and removes it again (`msgget(2)`).
pub(crate) fn make_message_queue() -> bool {
    syscalls::try_message_queue().is_ok()
}

/// Joins a new, empty session keyring (`keyctl(2)`).
pub(crate) fn join_keyring() -> bool {
    syscalls::join_keyring().is_ok()
}

/// Starts a process in a user namespace of its own, which ends at once (`user_namespaces(7)`).
pub(crate) fn make_user_namespace() -> bool {
    match syscalls::fork(libc::CLONE_NEWUSER) {
        Ok(Fork::Child) => syscalls::exit_now(0),
        Ok(Fork::Parent(pid)) => syscalls::wait(pid, 0).is_ok(),
        Err(_) => false,
    }
}

/// Puts a character into the input queue of the terminal at descriptor 0 (`ioctl_tty(2)`, TIOCSTI); an error of EPERM means that a
/// filter refused the call.
pub(crate) fn inject_input() -> io::Result<()> {
    syscalls::inject_input()
}

/// Says whether the size of a new file has no limit (`RLIMIT_FSIZE` of `getrlimit(2)`).
pub(crate) fn has_unlimited_files() -> bool {
    syscalls::limit(libc::RLIMIT_FSIZE).is_ok_and(|(soft, _)| soft == libc::RLIM_INFINITY)
}

/// Starts a process that leaves the session of this one and holds its open files for `time`.
pub(crate) fn leave_process_behind(time: Duration) {
    if let Ok(Fork::Child) = syscalls::fork(0) {
        let _ = syscalls::setsid(); // one that may not leave is left behind all the same
        std::thread::sleep(time);
        syscalls::exit_now(0);
    }
}

/// Lets what is started from here on inherit a descriptor.
pub(crate) fn inherit(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    syscalls::inherit(descriptor)
}
