//! Handlers for the signals that would end this process without a word.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use super::{check, signal_set};
use crate::last_words::LastWords;

/// Last words: first for a fault, then for a time limit that is over.
static WORDS: OnceLock<[LastWords; 2]> = OnceLock::new();

/// Signals by which a fault of a process ends it (signal(7)).
const FAULTS: [i32; 8] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGXCPU,
];

/// Other signals that end a process which does nothing about them (signal(7)). Of the rest, SIGKILL and SIGSTOP cannot be
/// caught, and the standard library ignores SIGPIPE.
const ENDS: [i32; 13] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGALRM,
];

/// Returns [`ENDS`] and the real-time signals.
fn ends() -> impl Iterator<Item = i32> {
    ENDS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Returns those of `ends` that are not ignored.
pub fn ending_signals() -> Vec<i32> {
    ends().filter(|signal| !is_ignored(*signal)).collect()
}

/// Has this process say the first of `words` at a fault or when it is ended, and the second when `limit` is over.
pub fn set_last_words(words: [LastWords; 2], limit: Duration) -> io::Result<()> {
    if WORDS.set(words).is_err() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // The parent of this process may have it ignore signals, as nohup(1) does; but neither faults nor the time limit.
    let ends = ends().filter(|signal| *signal == libc::SIGALRM || !is_ignored(*signal));
    let signals: Vec<i32> = FAULTS.into_iter().chain(ends).collect();
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid action: the default one, with an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = speak as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // Where the stack is used up there is another one, which the standard library made.
    action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
    for signal in &signals {
        // SAFETY: `action` lives through the call, and `speak` does only what a handler may do.
        let status = unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        check(status.into())?;
    }
    mask(libc::SIG_UNBLOCK, &signals)?;
    set_timer(limit.max(Duration::from_micros(1)))
}

/// Ends the time, and holds back the signals that would end this process.
pub fn hold_last_words() -> io::Result<()> {
    set_timer(Duration::ZERO)?;
    block_signals(&ends().collect::<Vec<i32>>())
}

/// Holds back `signals`, besides those that are held back already.
pub fn block_signals(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signals)
}

/// Holds `signals` back no longer.
pub fn unblock_signals(signals: &[i32]) -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, signals)
}

/// Gives `signals` their default disposition and holds them back no longer.
pub fn release_signals(signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        // SAFETY: SIG_DFL is not code of ours.
        let before = unsafe { libc::signal(*signal, libc::SIG_DFL) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    unblock_signals(signals)
}

/// Gives the signals of [`set_last_words`] back to the kernel.
pub fn forget_last_words() -> io::Result<()> {
    set_timer(Duration::ZERO)?;
    let ends = ends().filter(|signal| !is_ignored(*signal));
    for signal in FAULTS.into_iter().chain(ends) {
        // SAFETY: integers only.
        let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` lives through the call, which only writes it.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed above; zeros are a valid action.
    status == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn mask(how: i32, signals: &[i32]) -> io::Result<()> {
    let set = signal_set(signals)?;
    // SAFETY: `set` is an initialised set that lives through the call.
    let status = unsafe { libc::sigprocmask(how, &raw const set, std::ptr::null_mut()) };
    check(status.into()).map(drop)
}

/// Has SIGALRM come when `after` is over, never if it is zero.
pub fn set_timer(after: Duration) -> io::Result<()> {
    let it_value = libc::timeval {
        tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: libc::suseconds_t::from(after.subsec_micros()),
    };
    let it_interval = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval, it_value };
    // SAFETY: `timer` lives through the call.
    let status = unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    check(status.into()).map(drop)
}

/// Says the last words and ends the process. Does nothing but write(2) and _exit(2) (signal-safety(7)).
extern "C" fn speak(signal: libc::c_int) {
    let words = WORDS.get().map(|[fault, late]| if signal == libc::SIGALRM { late } else { fault });
    let status = match words {
        Some(words) if say(1, &words.stdout) && say(2, &words.stderr) => words.status,
        Some(words) => words.unsaid,
        None => u8::MAX,
    };
    // SAFETY: integers only; nothing of this process runs after it.
    unsafe { libc::_exit(status.into()) }
}

fn say(descriptor: libc::c_int, mut text: &[u8]) -> bool {
    while !text.is_empty() {
        // SAFETY: pointer and length are those of `text`.
        let count = unsafe { libc::write(descriptor, text.as_ptr().cast(), text.len()) };
        match usize::try_from(count).ok().and_then(|count| text.get(count..)) {
            Some(rest) if rest.len() < text.len() => text = rest,
            Some(_) | None => return false,
        }
    }
    true
}
