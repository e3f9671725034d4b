//! Where a new process begins: on a processor that has nothing to do, if there is one.
//!
//! The kernel often leaves a process that was forked on the processor of its parent (seen with Linux 6.18, two processors that
//! share a cache), where one of the two waits until the other waits, while the other processor idles.

use super::check;

/// The processors beside that of a thread.
pub(crate) struct Elsewhere {
    here: usize,
    others: libc::cpu_set_t,
    all: libc::cpu_set_t,
}

impl Elsewhere {
    /// Looks where this thread runs; none where it can run nowhere else, or where that cannot be said.
    pub(crate) fn of_this_thread() -> Option<Elsewhere> {
        // SAFETY: all zeros is a value of the type, the empty set.
        let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `all` lives through the call and is as long as it says.
        let status = unsafe { libc::sched_getaffinity(0, size, &raw mut all) };
        check(status.into()).ok()?;
        // SAFETY: no arguments.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let mut others = all;
        // SAFETY: both are sets; a processor beyond their end changes nothing.
        unsafe { libc::CPU_CLR(here, &mut others) };
        // SAFETY: as above.
        let is_alone = unsafe { libc::CPU_COUNT(&others) } == 0;
        (!is_alone).then_some(Elsewhere { here, others, all })
    }

    /// Moves process `pid`, which was forked by this thread just now, away from here, unless it is. Afterwards it may be
    /// anywhere again. What does not succeed costs time and nothing else.
    pub(crate) fn send(&self, pid: i32) {
        allow(pid, &self.others);
        allow(pid, &self.all);
    }

    /// Moves this process, which was forked by that thread, away from there, unless it is.
    pub(crate) fn go(&self) {
        // SAFETY: no arguments.
        let here = unsafe { libc::sched_getcpu() };
        if usize::try_from(here) == Ok(self.here) {
            self.send(0);
        }
    }
}

/// Has process `pid` run on these processors alone, if that can be.
fn allow(pid: i32, processors: &libc::cpu_set_t) {
    // SAFETY: the set lives through the call and is as long as it says.
    let _ = unsafe { libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), processors) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_moved_may_be_anywhere_again() {
        let all = |found: &Elsewhere| {
            let bytes: [u8; size_of::<libc::cpu_set_t>()] =
                // SAFETY: a set is nothing but its bits.
                unsafe { std::mem::transmute(found.all) };
            bytes
        };
        let Some(before) = Elsewhere::of_this_thread() else {
            eprintln!("SKIPPED who_was_moved_may_be_anywhere_again: there is one processor");
            return;
        };
        allow(0, &before.others);
        // SAFETY: no arguments.
        assert_ne!(unsafe { libc::sched_getcpu() }, i32::try_from(before.here).unwrap());
        before.send(0);
        assert_eq!(all(&before), all(&Elsewhere::of_this_thread().unwrap()));
    }
}
