//! The caller, as the kernel reports it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Text;

/// Most ancestors that are recorded.
const MAX_PARENTS: usize = 16;
/// Longest text of the kernel that is read.
const MAX_TOLD: u64 = 1 << 16;

/// The process on the other side, from the kernel, never from a message.
#[derive(Debug, Clone, Serialize)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    pub loginuid: Option<u32>,
    pub pid: u32,
    /// Start time in clock ticks since boot, so that a reused pid is told apart.
    pub start: u64,
    pub exe: Option<Text>,
    pub exe_sha256: Option<String>,
    pub tty: Option<Text>,
    pub cgroup: Option<Text>,
    /// The processes above, up to the session leader.
    pub parents: Vec<Parent>,
}

/// A process above the caller.
#[derive(Debug, Clone, Serialize)]
pub struct Parent {
    pub pid: u32,
    pub exe: Option<Text>,
}

impl Process {
    /// Says whether it runs: a process that only waits for its parent has ended.
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && !stat.has_ended)
    }
}

/// Fields of `/proc/PID/stat`.
struct Stat {
    /// True if the process is a zombie, or about to be gone (proc(5): Z, X).
    has_ended: bool,
    parent: u32,
    session: u32,
    terminal: u32,
    start: u64,
}

impl Caller {
    /// Returns what is known about process `pid` of `uid` and `gid` (from the peer's credentials).
    pub fn of(pid: u32, uid: u32, gid: u32) -> Caller {
        let stat = stat(pid);
        let cgroup = told(pid, "cgroup");
        Caller {
            uid,
            gid,
            loginuid: loginuid(pid),
            pid,
            start: stat.as_ref().map_or(0, |stat| stat.start),
            exe: executable(pid),
            exe_sha256: None,
            tty: stat.as_ref().and_then(|stat| terminal(stat.terminal)),
            cgroup: cgroup
                .and_then(|text| Some(Text::from(text.lines().next()?.rsplit(':').next()?))),
            parents: parents(pid, stat.as_ref()),
        }
    }

    /// Returns the process that started this one: the caller of a gateway that lives for one call.
    pub fn parent() -> Caller {
        let pid = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        Caller::of(u32::try_from(pid).unwrap_or(1), uid, gid)
    }
}

/// A process that the kernel names: its start tells it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub start: u64,
}

/// Returns process `pid` and those above it, without the first of its namespace.
pub fn processes_above(pid: u32) -> Vec<Process> {
    let (mut found, mut pid) = (Vec::new(), pid);
    while pid > 1 && found.len() < 4 * MAX_PARENTS {
        let Some(stat) = stat(pid) else { break };
        found.push(Process { pid, start: stat.start });
        pid = stat.parent;
    }
    found
}

fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Returns what the kernel says of a process under `name`. These files have no size, so room is made for most of
/// them at once.
fn told(pid: u32, name: &str) -> Option<String> {
    let file = File::open(folder(pid).join(name)).ok()?;
    let mut text = Vec::with_capacity(1 << 10);
    file.take(MAX_TOLD).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn executable(pid: u32) -> Option<Text> {
    std::fs::read_link(folder(pid).join("exe")).ok().map(|path| Text::from(path.as_path()))
}

fn loginuid(pid: u32) -> Option<u32> {
    told(pid, "loginuid")?.trim().parse().ok().filter(|uid| *uid != u32::MAX)
}

/// Reads `/proc/PID/stat`; the name in parentheses may hold anything, so counting begins behind it.
fn stat(pid: u32) -> Option<Stat> {
    let text = told(pid, "stat")?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        terminal: fields.get(4)?.parse().unwrap_or(0),
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the name of a terminal device number (`proc(5)`: minor in bits 31–20 and 7–0).
fn terminal(device: u32) -> Option<Text> {
    let major = device >> 8 & 0xfff;
    let minor = device & 0xff | device >> 12 & 0xfff00;
    match major {
        0 => None,
        136..=143 => Some(Text::from(format!("pts/{}", (major - 136) * 256 + minor))),
        4 => Some(Text::from(format!("tty{minor}"))),
        _ => Some(Text::from(format!("{major}:{minor}"))),
    }
}

fn parents(pid: u32, stat_of_pid: Option<&Stat>) -> Vec<Parent> {
    let mut found = Vec::new();
    let Some(first) = stat_of_pid else { return found };
    let (mut below, mut pid, session) = (pid, first.parent, first.session);
    while below != session && pid > 0 && found.len() < MAX_PARENTS {
        found.push(Parent { pid, exe: executable(pid) });
        below = pid;
        pid = stat(pid).map_or(0, |stat| stat.parent);
    }
    found
}

#[cfg(test)]
mod tests;
