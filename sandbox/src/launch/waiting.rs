//! What a side that was started before its spec is known does with the rest of the time.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Heir;
use crate::linux::syscalls;

/// What a start takes of the heap, in bytes; less than what the C library gives back at once (mallopt(3), `M_MMAP_THRESHOLD`).
const START_BYTES: usize = 112 << 10;

/// How long a spec is expected at any moment: the gateway of one call has judged it by then.
const SOON: Duration = Duration::from_micros(500);

/// Uses the time until a spec comes, and returns where it may be waited for: at once if it is here.
pub(super) fn wait(control: &UnixStream, heir: Heir) {
    match heir {
        Heir::Gateway => expect_soon(control),
        Heir::Nobody => have_memory(),
    }
}

/// Waits a moment for a spec that is due. A processor that went to sleep takes 40 µs to be back, and who wakes it 10 µs of
/// its own; whatever else has something to do goes first.
fn expect_soon(control: &UnixStream) {
    let is_here = || {
        let seen = syscalls::poll(&[(control.as_fd(), libc::POLLIN)], Some(Duration::ZERO));
        seen.is_ok_and(|events| events.iter().any(|events| *events != 0))
    };
    if is_here() {
        return;
    }
    have_memory();
    let begun = Instant::now();
    while !is_here() && begun.elapsed() < SOON {
        std::thread::yield_now();
    }
}

/// Has the kernel give this process the memory that starting a command takes: each page of it that is new, or still shared with
/// the process that this one branched off from, would hold the start up.
fn have_memory() {
    std::hint::black_box(vec![1_u8; START_BYTES]);
}
