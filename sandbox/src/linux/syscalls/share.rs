//! A process that shares memory and descriptors with this one until it executes another program.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Elsewhere, check};

/// How much stack such a process has, above a page that nothing may touch.
const STACK_BYTES: usize = 256 << 10;
const PAGE_BYTES: usize = 4 << 10;

const SHUT: u32 = 0;
const OPEN: u32 = 1;
const CLOSED: u32 = 2;

/// Where a process that shares memory waits for what its parent does meanwhile.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Waits until the parent is done, and says whether it succeeded.
    pub(crate) fn pass(&self) -> bool {
        loop {
            match self.0.load(Ordering::Acquire) {
                SHUT => wait_while(&self.0, SHUT),
                found => return found == OPEN,
            }
        }
    }

    fn set(&self, value: u32) {
        self.0.store(value, Ordering::Release);
        // SAFETY: the number lives through the call, which reads nothing else; nobody may be waiting.
        let _ = unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

/// Waits as long as `number` has this value, or less.
fn wait_while(number: &AtomicU32, value: u32) {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: the number lives through the call; no time means no limit. Whatever it returns, the caller looks again.
    let _ = unsafe {
        libc::syscall(libc::SYS_futex, number.as_ptr(), libc::FUTEX_WAIT, value, forever)
    };
}

/// What both processes know.
struct Shared<F> {
    body: Option<F>,
    gate: Gate,
    elsewhere: Option<Elsewhere>,
}

/// Has a new process do `body` in the memory of this one and with its table of descriptors, and returns when it has
/// executed another program or has ended, with its number and what came of `meanwhile`.
///
/// Nothing is copied, which a fork and the first write to each page after it would; what `body` stores is here
/// afterwards, also the descriptors that it opened. Both run at the same time: `meanwhile` must neither allocate nor
/// free, and is all that this process does. `body` ends with a status, and nothing that it owns is dropped when it
/// becomes another program.
///
/// This process must have one thread. `stack` is for the new process, and for one at a time.
pub(crate) fn share<F, G>(stack: &Stack, body: F, meanwhile: G) -> io::Result<(i32, io::Result<()>)>
where
    F: FnOnce(&Gate) -> i32,
    G: FnOnce() -> io::Result<()>,
{
    let gate = Gate(AtomicU32::new(SHUT));
    let mut shared = Shared { body: Some(body), gate, elsewhere: Elsewhere::of_this_thread() };
    // The kernel puts a zero there when the new process leaves this memory, and tells who waits (`set_tid_address(2)`).
    let present = AtomicU32::new(1);
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
    let (shared_at, nothing) = (&raw mut shared, std::ptr::null_mut::<libc::c_void>());
    // SAFETY: the new process runs `begin` on a stack of its own, with what `begin::<F>` expects. All that it is given
    // lives until `present` is zero, for which this function waits. It has the thread-local memory of this process,
    // which is used for error numbers alone; `F` and `G` borrow what they use, so neither changes what the other one has.
    let pid = unsafe {
        libc::clone(
            begin::<F>,
            stack.top(),
            flags,
            shared_at.cast(),
            nothing,
            nothing,
            present.as_ptr(),
        )
    };
    let pid = i32::try_from(check(pid.into())?).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: it is only ever used through shared references, by both processes.
    if let Some(elsewhere) = unsafe { &(*shared_at).elsewhere } {
        // Before the gate opens: the program inherits where it may run.
        elsewhere.send(pid);
    }
    let done = meanwhile();
    // SAFETY: `gate` is only ever used through shared references, by both processes.
    let gate = unsafe { &(*shared_at).gate };
    gate.set(if done.is_ok() { OPEN } else { CLOSED });
    while present.load(Ordering::Acquire) != 0 {
        wait_while(&present, 1);
    }
    Ok((pid, done))
}

/// Is where the new process begins.
extern "C" fn begin<F: FnOnce(&Gate) -> i32>(shared: *mut libc::c_void) -> i32 {
    let shared = shared.cast::<Shared<F>>();
    // SAFETY: `share` passes this pointer, and itself touches `body` no more.
    let body = unsafe { (*shared).body.take() };
    // SAFETY: as above; this is only ever used through shared references.
    if let Some(elsewhere) = unsafe { &(*shared).elsewhere } {
        elsewhere.go();
    }
    // SAFETY: as above; the gate is only ever used through shared references.
    let gate = unsafe { &(*shared).gate };
    // A panic ends this process here: it does not leave a function of this kind.
    body.map_or(1, |body| body(gate))
}

/// Memory for the stack of a process.
pub(crate) struct Stack(*mut libc::c_void);

impl Stack {
    /// Makes one.
    pub(crate) fn new() -> io::Result<Stack> {
        let (length, access) = (STACK_BYTES + PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: new memory at a place that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack(start);
        // SAFETY: the lowest page of what was just mapped, in which there is nothing yet.
        check(unsafe { libc::mprotect(start, PAGE_BYTES, libc::PROT_NONE) }.into())?;
        Ok(stack)
    }

    /// Returns its end, where a stack begins.
    fn top(&self) -> *mut libc::c_void {
        // SAFETY: one past the end of the mapping, which is this long.
        unsafe { self.0.byte_add(STACK_BYTES + PAGE_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`; who used it has left this memory.
        let _ = unsafe { libc::munmap(self.0, STACK_BYTES + PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{execute, wait};
    use super::*;

    fn status(pid: i32) -> Option<i32> {
        wait(pid, 0).unwrap().unwrap().code
    }

    #[test]
    fn what_it_stores_is_here_afterwards() {
        let mut stored = String::new();
        let body = |gate: &Gate| {
            stored.push_str("stored");
            if gate.pass() { 3 } else { 4 }
        };
        let (pid, done) = share(&Stack::new().unwrap(), body, || Ok(())).unwrap();
        assert_eq!((status(pid), done.is_ok(), stored.as_str()), (Some(3), true, "stored"));
    }

    #[test]
    fn it_learns_that_its_parent_failed() {
        let failed = || Err(io::Error::from_raw_os_error(libc::EPERM));
        let body = |gate: &Gate| if gate.pass() { 3 } else { 4 };
        let (pid, done) = share(&Stack::new().unwrap(), body, failed).unwrap();
        assert_eq!((status(pid), done.is_err()), (Some(4), true));
    }

    #[test]
    fn it_leaves_this_memory_when_it_executes_another_program() {
        let (program, word) = (c"/bin/sh".to_owned(), c"-c".to_owned());
        let words = [program.clone(), word, c"read line; exit $line".to_owned()];
        let (reader, mut writer) = io::pipe().unwrap();
        let mut failed = false;
        let body = |_: &Gate| {
            let _ = super::super::duplicate_onto(std::os::fd::AsFd::as_fd(&reader), 0);
            let _ = execute(&program, &words, &[]);
            failed = true;
            1
        };
        let (pid, _) = share(&Stack::new().unwrap(), body, || Ok(())).unwrap();
        // It waits for its input, and this process goes on.
        std::io::Write::write_all(&mut writer, b"5\n").unwrap();
        assert_eq!((status(pid), failed), (Some(5), false));
    }
}
