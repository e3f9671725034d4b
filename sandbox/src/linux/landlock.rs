//! Landlock: the second layer under the mounts, and the scopes for signals and abstract sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::syscalls::{self, RulesetAttributes};
use crate::SandboxSpec;
use crate::spec::Mechanism;

// Rights of `linux/landlock.h`, by bit.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const DEVICE_IOCTL: u64 = 1 << 15;

/// File rights of ABI 1; each later ABI that adds one adds the next bit.
const FIRST_ABI: u64 = (1 << 13) - 1;

const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;

/// What one grant allows beneath its directory, or on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Read, list and execute.
    Read,
    /// Everything but device commands.
    Write,
    /// Read, write and device commands, on a device.
    Device,
    /// Read and write of one file.
    File,
    /// Read of one file.
    ReadFile,
    /// Listing of directories.
    List,
}

/// A ruleset being built.
pub(crate) struct Ruleset {
    ruleset: OwnedFd,
    handled: u64,
    abi: u32,
}

/// Newest ABI known here.
const NEWEST_ABI: u32 = 7;

/// Returns the ABI that a run uses: that of the kernel, or less where the spec says so; 0 for none.
pub(crate) fn abi(spec: &SandboxSpec) -> u32 {
    if spec.hide.contains(&Mechanism::Landlock) { 0 } else { kernel_abi().min(spec.landlock_abi) }
}

/// Returns the newest ABI that both the kernel and this program know.
pub(crate) fn kernel_abi() -> u32 {
    syscalls::landlock_abi().unwrap_or(0).min(NEWEST_ABI)
}

fn handled(abi: u32) -> u64 {
    let mut rights = FIRST_ABI;
    if abi >= 2 {
        rights |= 1 << 13;
    }
    if abi >= 3 {
        rights |= TRUNCATE;
    }
    if abi >= 5 {
        rights |= DEVICE_IOCTL;
    }
    rights
}

impl Ruleset {
    /// Starts a ruleset that handles every file right and scope of `abi`.
    pub(crate) fn new(abi: u32) -> io::Result<Ruleset> {
        Ruleset::with_network(abi, 0)
    }

    fn with_network(abi: u32, network: u64) -> io::Result<Ruleset> {
        let handled = handled(abi);
        let attributes = RulesetAttributes {
            handled_access_fs: handled,
            handled_access_net: if abi >= 4 { network } else { 0 },
            scoped: if abi >= 6 { SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS } else { 0 },
        };
        let known = match abi {
            0..=3 => 8,
            4..=5 => 16,
            _ => 24,
        };
        Ok(Ruleset { ruleset: syscalls::landlock_create(&attributes, known)?, handled, abi })
    }

    /// Grants what `grant` says on `object`.
    pub(crate) fn allow(&self, object: BorrowedFd<'_>, grant: Grant) -> io::Result<()> {
        let rights = match grant {
            Grant::Read => EXECUTE | READ_FILE | READ_DIRECTORY,
            Grant::Write => self.handled & !DEVICE_IOCTL,
            Grant::Device => READ_FILE | WRITE_FILE | TRUNCATE | DEVICE_IOCTL,
            Grant::ReadFile => EXECUTE | READ_FILE,
            Grant::List => READ_DIRECTORY,
            Grant::File => EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE,
        };
        syscalls::landlock_allow(self.ruleset.as_fd(), object, rights & self.handled)
    }

    /// Restricts this process and returns what the layer covers, in words.
    pub(crate) fn restrict(self) -> io::Result<String> {
        syscalls::landlock_restrict(self.ruleset.as_fd())?;
        Ok(format!("Landlock ABI {}", self.abi))
    }
}

/// Adds a layer that only keeps signals and abstract sockets inside; from ABI 6.
pub(crate) fn scope() -> io::Result<()> {
    let attributes = RulesetAttributes {
        handled_access_fs: 0,
        handled_access_net: 0,
        scoped: SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS,
    };
    let ruleset = syscalls::landlock_create(&attributes, size_of::<RulesetAttributes>())?;
    syscalls::landlock_restrict(ruleset.as_fd())
}

/// Denies every file, every TCP port, and signals and abstract sockets of others.
pub(crate) fn deny_everything() -> io::Result<()> {
    let abi = syscalls::landlock_abi()?.min(NEWEST_ABI);
    Ruleset::with_network(abi, 3)?.restrict().map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::process::Command;

    use super::*;

    /// What a thread that called `restrict` may do to what is outside of its domain: signal a process, and connect to an
    /// abstract socket.
    fn reach(restrict: fn() -> io::Result<()>) -> [bool; 2] {
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        let address = SocketAddr::from_abstract_name(format!("stockade-scope-{pid}")).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        // A layer holds for one thread: this one ends with it.
        let reached = std::thread::spawn(move || {
            syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).unwrap();
            restrict().unwrap();
            [syscalls::kill(pid, 0).is_ok(), UnixStream::connect_addr(&address).is_ok()]
        });
        let reached = reached.join().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        reached
    }

    #[test]
    fn each_layer_keeps_signals_and_abstract_sockets_inside() {
        assert_eq!(reach(|| Ok(())), [true; 2]);
        if kernel_abi() < 6 {
            eprintln!(
                "SKIPPED each_layer_keeps_signals_and_abstract_sockets_inside: there are no scopes (ABI 6)"
            );
            return;
        }
        assert_eq!(reach(scope), [false; 2]);
        assert_eq!(reach(|| Ruleset::new(kernel_abi())?.restrict().map(drop)), [false; 2]);
        assert_eq!(reach(deny_everything), [false; 2]);
    }
}
