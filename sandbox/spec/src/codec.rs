//! Messages between gateway and launcher, as plain bytes.
//!
//! Both ends are the same executable, so there is no version; a frame that is not whole is an error.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::note::{Kind, Note};
use crate::{
    Access, Cache, Fallback, FileRule, Files, GitKeys, Limits, Mediation, Network, Program, Shown,
    Watched, Window,
};
use crate::{Ending, Enforced, Exit, Protection, SandboxSpec, State, Violation};

/// Longest frame.
pub const FRAME_LIMIT_BYTES: usize = 32 << 20;

/// From the launcher to the gateway, and from the confined side to the monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// All steps are done (to the monitor), or the command runs (to the gateway).
    Ready(Enforced),
    /// Nothing runs.
    Failed(Failure),
    /// The listeners of the run come with this frame, before anything else is reported.
    Listening,
    /// The other end of the command's terminal comes with this frame, before it is reported that the command runs.
    Terminal,
    /// The directory that comes with this frame is to be inspected at the end; only to the monitor.
    Noted(Note),
    /// The command ended.
    Ended(Ending),
    /// The gateway was told what else would be said here: of the start or of the end; only to the monitor.
    Told,
    /// The number of pid 1 as the gateway sees it, before anything else is reported: the gateway may have to wait for it.
    Confined(i32),
}

/// Why nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A step of the launcher failed.
    Step {
        /// Name of the step.
        step: String,
        /// Reason, as the system gives it.
        reason: String,
    },
    /// A required protection does not hold on this machine.
    Unenforceable {
        /// The protection.
        protection: Protection,
        /// Reason, as the system gives it.
        reason: String,
        /// One fix for this machine.
        help: String,
    },
    /// The program could not be executed.
    Exec {
        /// Error of `execve(2)`.
        errno: i32,
    },
    /// The specification is invalid.
    Spec {
        /// First fault of it.
        reason: String,
    },
    /// The command got no terminal.
    Terminal {
        /// Error of the call that failed.
        errno: i32,
    },
}

/// From the gateway to the monitor, and from that to pid 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The command may start; only from the monitor.
    Start,
    /// The command gets this signal.
    Signal(i32),
    /// The run ends.
    Stop {
        /// Time between SIGTERM and SIGKILL.
        grace: Duration,
    },
}

/// Writes one frame.
pub fn send(mut to: impl Write, payload: &[u8]) -> io::Result<()> {
    let mut frame = frame_header(payload)?.to_vec();
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// Returns the four bytes before a payload.
pub fn frame_header(payload: &[u8]) -> io::Result<[u8; 4]> {
    if payload.len() > FRAME_LIMIT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is longer than 32 MiB"));
    }
    let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(length.to_le_bytes())
}

/// Reads one frame; `None` at a clean end.
pub fn receive(mut from: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; 4];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    receive_payload(from, header).map(Some)
}

/// Reads the rest of a frame whose header was read.
pub fn receive_payload(from: impl Read, header: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(header) as usize;
    if length > FRAME_LIMIT_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = Vec::with_capacity(length);
    from.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() == length { Ok(payload) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A value that can be put into a frame.
pub trait Wire: Sized {
    /// Appends the bytes of this value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the front of `from`; `None` for bytes that are none.
    fn take(from: &mut &[u8]) -> Option<Self>;

    /// Returns the bytes of this value alone.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Reads a value that fills `bytes` exactly.
    fn from_bytes(mut bytes: &[u8]) -> io::Result<Self> {
        match Self::take(&mut bytes) {
            Some(value) if bytes.is_empty() => Ok(value),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                let (head, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(*head))
            }
        }
    )* };
}
numbers! { u8 u16 u32 u64 i32 }

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for OsString {
    fn put(&self, out: &mut Vec<u8>) {
        let bytes = self.as_os_str().as_bytes();
        // A length that does not fit makes the frame too long, and that is refused by `frame_header`.
        u32::try_from(bytes.len()).unwrap_or(u32::MAX).put(out);
        out.extend_from_slice(bytes);
    }
    fn take(from: &mut &[u8]) -> Option<OsString> {
        let length = u32::take(from)? as usize;
        let (head, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(OsString::from_vec(head.to_vec()))
    }
}

impl Wire for PathBuf {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_os_str().to_os_string().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<PathBuf> {
        OsString::take(from).map(PathBuf::from)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        OsString::from(self).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<String> {
        OsString::take(from)?.into_string().ok()
    }
}

impl Wire for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_micros()).unwrap_or(u64::MAX).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Duration> {
        u64::take(from).map(Duration::from_micros)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Option<T>> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        for item in self {
            item.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        (0..u32::take(from)?).map(|_| T::take(from)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<(A, B)> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// Implements [`Wire`] for a structure, field by field.
macro_rules! structures {
    ($($type:ident { $($field:ident),* $(,)? })*) => { $(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let $type { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                Some($type { $($field: Wire::take(from)?),* })
            }
        }
    )* };
}

structures! {
    Program { path, argv, environment, cwd }
    Files {
        rules, patterns, guarded_names, guarded_at_top, opened, removable, numerous_names, git_keys, git_configurations, kept_objects, link_roots, private_tmp, caches,
        sockets, watched, turns, copies,
    }
    Watched { names, everywhere, except, paths, journal }
    Shown { path, text }
    Cache { path, store }
    GitKeys { refused, free, changeable, addable }
    FileRule { path, access, origin }
    Limits { processes, memory_bytes, file_bytes, descriptors, descriptors_hard, shm_bytes, disk_bytes, origins }
    Window { rows, columns }
    Ending { exit, violations, left }
    Exit { code, signal, user, system, max_rss_kib }
    Violation { kind, call, object, rule, count, errno, pid, program, source }
    Note { kind, path, known }
}

/// Implements [`Wire`] for an enum without fields, by position.
macro_rules! choices {
    ($($type:ident { $($name:ident = $number:literal),* $(,)? })*) => { $(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let number: u8 = match self { $($type::$name => $number),* };
                number.put(out);
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                match u8::take(from)? {
                    $($number => Some($type::$name),)*
                    _ => None,
                }
            }
        }
    )* };
}

choices! {
    Access { Write = 0, ReadOnly = 1, Read = 2, None = 3, Protected = 4, Kept = 5 }
    Fallback { Refuse = 0, Static = 1 }
    Mediation { None = 0, Writes = 1 }
    Kind { Repository = 0, Work = 1, Pointer = 2, File = 3 }
}

impl Wire for Network {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Network::Off => 0_u8.put(out),
            Network::Host => 1_u8.put(out),
            Network::Proxy { http, socks } => {
                2_u8.put(out);
                http.put(out);
                socks.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Network> {
        match u8::take(from)? {
            0 => Some(Network::Off),
            1 => Some(Network::Host),
            2 => Some(Network::Proxy { http: Wire::take(from)?, socks: Wire::take(from)? }),
            _ => None,
        }
    }
}

impl Wire for Protection {
    fn put(&self, out: &mut Vec<u8>) {
        self.name().to_owned().put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Protection> {
        Protection::from_name(&String::take(from)?)
    }
}

impl Wire for State {
    fn put(&self, out: &mut Vec<u8>) {
        let (number, words): (u8, Vec<String>) = match self {
            State::Enforced(layers) => (0, layers.clone()),
            State::Partial(text) => (1, vec![text.clone()]),
            State::Missing(text) => (2, vec![text.clone()]),
            State::Off(text) => (3, vec![text.clone()]),
        };
        number.put(out);
        words.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<State> {
        let number = u8::take(from)?;
        let mut words = Vec::<String>::take(from)?;
        match (number, words.pop()) {
            (0, last) => Some(State::Enforced(words.into_iter().chain(last).collect())),
            (1, Some(text)) => Some(State::Partial(text)),
            (2, Some(text)) => Some(State::Missing(text)),
            (3, Some(text)) => Some(State::Off(text)),
            _ => None,
        }
    }
}

impl Wire for Enforced {
    fn put(&self, out: &mut Vec<u8>) {
        let states: Vec<(Protection, State)> =
            self.states.iter().map(|(protection, state)| (*protection, state.clone())).collect();
        states.put(out);
        self.notes.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Enforced> {
        let states: BTreeMap<_, _> = Vec::<(Protection, State)>::take(from)?.into_iter().collect();
        Some(Enforced { states, notes: Vec::take(from)? })
    }
}

impl Wire for SandboxSpec {
    fn put(&self, out: &mut Vec<u8>) {
        let SandboxSpec {
            program,
            files,
            network,
            limits,
            terminal,
            required,
            mediation,
            confine,
            fallback,
        } = self;
        program.put(out);
        files.put(out);
        network.put(out);
        limits.put(out);
        terminal.put(out);
        required.iter().copied().collect::<Vec<_>>().put(out);
        mediation.put(out);
        confine.put(out);
        fallback.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<SandboxSpec> {
        Some(SandboxSpec {
            program: Wire::take(from)?,
            files: Wire::take(from)?,
            network: Wire::take(from)?,
            limits: Wire::take(from)?,
            terminal: Wire::take(from)?,
            required: Vec::take(from)?.into_iter().collect(),
            mediation: Wire::take(from)?,
            confine: Wire::take(from)?,
            fallback: Wire::take(from)?,
        })
    }
}

impl Wire for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Failure::Step { step, reason } => {
                0_u8.put(out);
                step.put(out);
                reason.put(out);
            }
            Failure::Unenforceable { protection, reason, help } => {
                1_u8.put(out);
                protection.put(out);
                reason.put(out);
                help.put(out);
            }
            Failure::Exec { errno } => {
                2_u8.put(out);
                errno.put(out);
            }
            Failure::Spec { reason } => {
                3_u8.put(out);
                reason.put(out);
            }
            Failure::Terminal { errno } => {
                4_u8.put(out);
                errno.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Failure> {
        match u8::take(from)? {
            0 => Some(Failure::Step { step: Wire::take(from)?, reason: Wire::take(from)? }),
            1 => Some(Failure::Unenforceable {
                protection: Wire::take(from)?,
                reason: Wire::take(from)?,
                help: Wire::take(from)?,
            }),
            2 => Some(Failure::Exec { errno: Wire::take(from)? }),
            3 => Some(Failure::Spec { reason: Wire::take(from)? }),
            4 => Some(Failure::Terminal { errno: Wire::take(from)? }),
            _ => None,
        }
    }
}

impl Wire for Report {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Report::Ready(enforced) => {
                0_u8.put(out);
                enforced.put(out);
            }
            Report::Failed(failure) => {
                1_u8.put(out);
                failure.put(out);
            }
            Report::Listening => 3_u8.put(out),
            Report::Told => 5_u8.put(out),
            Report::Confined(pid) => {
                7_u8.put(out);
                pid.put(out);
            }
            Report::Terminal => 6_u8.put(out),
            Report::Noted(note) => {
                4_u8.put(out);
                note.put(out);
            }
            Report::Ended(ending) => {
                2_u8.put(out);
                ending.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Report> {
        match u8::take(from)? {
            0 => Wire::take(from).map(Report::Ready),
            1 => Wire::take(from).map(Report::Failed),
            2 => Wire::take(from).map(Report::Ended),
            3 => Some(Report::Listening),
            4 => Wire::take(from).map(Report::Noted),
            5 => Some(Report::Told),
            7 => Wire::take(from).map(Report::Confined),
            6 => Some(Report::Terminal),
            _ => None,
        }
    }
}

impl Wire for Order {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Order::Signal(signal) => {
                0_u8.put(out);
                signal.put(out);
            }
            Order::Stop { grace } => {
                1_u8.put(out);
                grace.put(out);
            }
            Order::Start => 2_u8.put(out),
        }
    }
    fn take(from: &mut &[u8]) -> Option<Order> {
        match u8::take(from)? {
            0 => Wire::take(from).map(Order::Signal),
            1 => Some(Order::Stop { grace: Wire::take(from)? }),
            2 => Some(Order::Start),
            _ => None,
        }
    }
}
