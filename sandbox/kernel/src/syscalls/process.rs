//! Processes, their rights and limits.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::FdFlags;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{check, owned};

/// Side of a fork.
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the child's number as it sees it.
    Parent(i32),
}

/// Says whether a loader mapped this program, as it does all but static ones (`AT_BASE`, `getauxval(3)`).
pub fn has_loader() -> bool {
    // SAFETY: it takes a number, and reads what the kernel gave this process when it started.
    let base = unsafe { libc::getauxval(libc::AT_BASE) };
    base != 0
}

/// Forks; `flags` are `CLONE_NEW*` bits for the child.
pub fn fork(flags: i32) -> io::Result<Fork> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM the child has its own copy of this memory, and a null stack means the
    // copied one. The launcher has one thread, so no lock of the C library is held by another.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    match i32::try_from(check(pid)?).map_err(|_| io::ErrorKind::InvalidData)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Forks like [`fork`], the child in the control group that is given (`clone(2)`, Linux 5.7).
pub fn fork_into(flags: i32, group: BorrowedFd<'_>) -> io::Result<Fork> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    /// `struct clone_args` up to `cgroup`.
    #[repr(C)]
    #[derive(Default)]
    struct Arguments {
        flags: u64,
        /// Places for numbers that are not asked for.
        unused: [u64; 3],
        exit_signal: u64,
        /// Stack, its size, thread storage, chosen numbers and how many.
        copied: [u64; 5],
        cgroup: u64,
    }
    let arguments = Arguments {
        flags: CLONE_INTO_CGROUP | u64::from(flags.unsigned_abs()),
        // A sibling has that of this process (`clone(2)`).
        exit_signal: match flags & libc::CLONE_PARENT {
            0 => u64::from(libc::SIGCHLD.unsigned_abs()),
            _ => 0,
        },
        cgroup: u64::from(group.as_raw_fd().unsigned_abs()),
        ..Arguments::default()
    };
    let size = std::mem::size_of::<Arguments>();
    // SAFETY: the structure lives through the call. Otherwise as in [`fork`]: the child has its own copy of this memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) };
    match i32::try_from(check(pid)?).map_err(|_| io::ErrorKind::InvalidData)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Says whether `object` has the extended attribute `name` with this value.
pub fn has_attribute(object: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> bool {
    let mut found = [0_u8; 16];
    let count = rustix::fs::fgetxattr(object, name, &mut found[..]);
    count.is_ok_and(|count| found.get(..count) == Some(value))
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub pid: i32,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub user: Duration,
    pub system: Duration,
    pub max_rss_kib: u64,
}

impl Ended {
    /// Returns the end that is reported for a process that is about to be killed.
    pub fn killed(pid: i32) -> Ended {
        let none = Duration::ZERO;
        let signal = Some(libc::SIGKILL);
        Ended { pid, code: None, signal, user: none, system: none, max_rss_kib: 0 }
    }
}

/// Waits for `pid`, or any child for -1; `None` if none has ended and `flags` has `WNOHANG`.
pub fn wait(pid: i32, flags: i32) -> io::Result<Option<Ended>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to locals that live through the call.
    let ended = unsafe { libc::wait4(pid, &raw mut status, flags, usage.as_mut_ptr()) };
    if check(ended.into())? == 0 {
        return Ok(None);
    }
    // SAFETY: all bytes were zeroed above, and zero is a valid value of every field.
    let usage = unsafe { usage.assume_init() };
    let exited = libc::WIFEXITED(status);
    Ok(Some(Ended {
        pid: ended,
        code: exited.then(|| libc::WEXITSTATUS(status)),
        signal: (!exited).then(|| libc::WTERMSIG(status)),
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }))
}

/// Returns the user and system time of this process and its children that were waited for, and the largest resident
/// size among them in KiB.
pub fn usage() -> (Duration, Duration, u64) {
    let of = |who| {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local that lives through the call; on failure the zeros stay.
        let _ = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
        // SAFETY: all bytes were zeroed above, and zero is a valid value of every field.
        unsafe { usage.assume_init() }
    };
    let (own, children) = (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN));
    let largest = own.ru_maxrss.max(children.ru_maxrss);
    (
        duration(own.ru_utime) + duration(children.ru_utime),
        duration(own.ru_stime) + duration(children.ru_stime),
        u64::try_from(largest).unwrap_or(0),
    )
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Sends `signal` to a process, a group, or all that may be signalled (-1).
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: integers only.
    let status = unsafe { libc::kill(pid, signal) };
    check(status.into()).map(drop)
}

/// Sends `signal` to the process that `process` is a descriptor of, and to no later one of the same number.
pub fn signal_process(process: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: integers and a null pointer, which asks for the information that `kill` gives.
    let status = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0_u32,
        )
    };
    check(status).map(drop)
}

/// Ends this process at once, running nothing that was registered for its end.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: integers only; does not return.
    unsafe { libc::_exit(status) }
}

/// Calls `prctl` with an option whose arguments are plain numbers.
pub fn prctl(option: i32, second: libc::c_ulong, third: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the callers use only options that take integers (`prctl(2)`).
    let status = unsafe { libc::prctl(option, second, third, 0_usize, 0_usize) };
    check(status.into())?;
    Ok(status)
}

/// Gives this thread a name, of which 15 bytes count.
pub fn set_name(name: &str) -> io::Result<()> {
    Ok(rustix::thread::set_name(&CString::new(name)?)?)
}

/// Sets the permitted and effective sets to `keep` and clears the inheritable one.
pub fn set_capabilities(keep: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Sets a resource limit. By the C library: where a filter around this process refuses the call, `rustix` gives a limit all
/// the same.
pub fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` lives through the call; the old value is not asked for.
    let status = unsafe {
        libc::prlimit64(
            0,
            resource as libc::__rlimit_resource_t,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    check(status.into()).map(drop)
}

/// Returns the soft and hard value of a resource limit.
pub fn limit(resource: u32) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call; no new value is set.
    let status = unsafe {
        libc::prlimit64(0, resource as libc::__rlimit_resource_t, std::ptr::null(), &raw mut limit)
    };
    check(status.into())?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Joins a new, empty session keyring.
pub fn join_keyring() -> io::Result<()> {
    // SAFETY: a null name asks for an anonymous keyring; nothing is read.
    let status = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    check(status).map(drop)
}

/// Closes every descriptor from `first` upward.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: integers only. The callers own no descriptor at or above `first` that they use again:
    // the launcher calls this before it opens anything, the command right before it becomes another.
    let status = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) };
    check(status).map(drop)
}

/// Closes every descriptor from 3 upward but `kept`.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().map(|it| it.as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept {
        if number > first {
            // SAFETY: integers only. A new launcher calls this before it has anything but these.
            let status = unsafe { libc::syscall(libc::SYS_close_range, first, number - 1, 0_u32) };
            check(status)?;
        }
        first = first.max(number.saturating_add(1));
    }
    close_from(first)
}

/// Marks every descriptor from `first` upward to be closed by `execve`.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: integers only; no descriptor is closed now.
    let status =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check(status).map(drop)
}

/// Makes the standard descriptor `target` another name of `source`, inherited by what is executed.
pub fn duplicate_onto(source: BorrowedFd<'_>, target: i32) -> io::Result<()> {
    match target {
        libc::STDIN_FILENO => rustix::stdio::dup2_stdin(source)?,
        libc::STDOUT_FILENO => rustix::stdio::dup2_stdout(source)?,
        libc::STDERR_FILENO => rustix::stdio::dup2_stderr(source)?,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    Ok(())
}

/// Lets what is started from here on inherit `descriptor`.
pub fn inherit(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?)
}

/// Gives every signal its default disposition and unblocks all.
pub fn reset_signals() -> io::Result<()> {
    // Those that are received have their default again in the program (execve(2)).
    for signal in ignored_signals() {
        // SAFETY: SIG_DFL is not code of ours.
        let before = unsafe { libc::signal(*signal, libc::SIG_DFL) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    set_signal_mask(&signal_set(&[])?)
}

/// Returns the signals that this process ignores, as it was when this was first asked for: what branches off ignores the
/// same, and nothing here ignores more.
pub fn ignored_signals() -> &'static [i32] {
    static IGNORED: OnceLock<Vec<i32>> = OnceLock::new();
    IGNORED.get_or_init(|| (1..=64).filter(|signal| is_ignored(*signal)).collect())
}

fn is_ignored(signal: i32) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `found` is a local of the right size; no new action is given.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) };
    // SAFETY: zeroed above, and all zeros is a value of the type.
    let found = unsafe { found.assume_init() };
    // Of those that are the C library's own nothing is told, and nobody can ignore them (signal(7)).
    status == 0 && found.sa_sigaction == libc::SIG_IGN
}

/// Returns the set of these signals.
pub fn signal_set(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is a local of the right size.
    let status = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    check(status.into())?;
    // SAFETY: zeroed above and emptied by the call before.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: `set` is initialised.
        let status = unsafe { libc::sigaddset(&raw mut set, *signal) };
        check(status.into())?;
    }
    Ok(set)
}

/// Blocks exactly the signals in `set`.
pub fn set_signal_mask(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is an initialised set that lives through the call.
    let status = unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
    check(status.into()).map(drop)
}

/// Returns a descriptor that becomes readable when one of the (blocked) signals arrives.
pub fn signal_descriptor(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: `set` is an initialised set that lives through the call.
    let fd = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    owned(fd.into())
}

/// Sets the file mode creation mask and returns the old one.
pub fn umask(mask: u32) -> u32 {
    rustix::process::umask(Mode::from_bits_retain(mask)).bits()
}

/// Sets the scheduling priority of this process.
pub fn nice(priority: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, priority)?)
}

/// Becomes `program`; returns only the error.
pub fn execute(program: &CString, argv: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: both arrays end with a null pointer and point at strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// User and group, of a process or of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    pub user: u32,
    pub group: u32,
}

/// Returns the effective user and group of this process.
pub fn ids() -> Ids {
    Ids { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
}

/// Returns the first two numbers of the kernel's version; zeros if it has none.
pub fn kernel_version() -> (u32, u32) {
    version_in(&rustix::system::uname().release().to_string_lossy())
}

/// Reads `6.18.44-cloud` and its like.
fn version_in(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    (next(), next())
}

/// Where the kernel put the arguments and the environment of this process when it was started.
pub struct StartStrings([std::ops::Range<usize>; 2]);

impl StartStrings {
    /// Finds them; fails in a process with a second thread.
    pub fn of_this_process() -> io::Result<StartStrings> {
        // One read gives the whole line (52 numbers and a short name), which ends with a line break.
        let mut text = [0; 2048];
        let length = File::open("/proc/self/stat")?.read(&mut text)?;
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok());
        let whole = text.filter(|text| text.ends_with('\n'));
        whole.and_then(StartStrings::read).ok_or_else(|| {
            io::Error::other("there is a second thread, or no word of where the arguments are")
        })
    }

    /// Reads the text of `/proc/self/stat`: the fields are counted from 1 (`proc_pid_stat(5)`), and the second, a
    /// name in parentheses, may hold anything.
    fn read(text: &str) -> Option<StartStrings> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<usize>().ok();
        let range = |first: usize| {
            let (start, end) = (field(first)?, field(first + 1)?);
            (start != 0 && start <= end).then_some(start..end)
        };
        (field(20)? == 1).then_some(())?;
        Some(StartStrings([range(48)?, range(50)?]))
    }

    /// Overwrites them with zeros, in this process alone.
    pub fn wipe(&self) {
        for range in &self.0 {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(range.start);
            // SAFETY: the kernel named this range of the stack as the strings that it wrote when this process was
            // started. There is one thread, and no reference into them: the standard library and the C library hold
            // pointers, behind which they find empty strings from now on.
            unsafe { std::ptr::write_bytes(start, 0, range.len()) };
        }
    }
}

/// Puts a character into the input queue of the terminal at descriptor 0 (`TIOCSTI`).
pub fn inject_input() -> io::Result<()> {
    let character = b' ';
    // SAFETY: `character` lives through the call and is what the command reads.
    let status = unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const character) };
    check(status.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let read = ["6.18.44-fc-v669", "6.1.0-56-cloud-amd64", "5.15", "7.0-rc1", "", "x.y"];
        assert_eq!(read.map(version_in), [(6, 18), (6, 1), (5, 15), (7, 0), (0, 0), (0, 0)]);
    }

    fn read(name: &str, threads: usize) -> Option<[std::ops::Range<usize>; 2]> {
        let mut fields: Vec<String> = (3..=52).map(|number| (number * 100).to_string()).collect();
        fields[20 - 3] = threads.to_string();
        StartStrings::read(&format!("7 ({name}) {}\n", fields.join(" "))).map(|found| found.0)
    }

    #[test]
    fn arguments_and_environment_are_found_whatever_the_name_is() {
        let expected = Some([4800..4900, 5000..5100]);
        assert_eq!(read("stockade", 1), expected);
        assert_eq!(read("a) 1 2 3", 1), expected);
    }

    #[test]
    fn a_process_with_two_threads_is_not_copied() {
        assert_eq!(read("stockade", 2), None);
    }
}
