//! Takes from the process that carries connections out what it has no need of: files but those of the name
//! service, new programs, other processes, servers of its own.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::bpf::{Case, Row, Table, Test, Verdict};
use super::file_calls::FILE_CALLS;
use super::landlock::{self, Rights, Ruleset};
use super::{seccomp, syscalls};

/// Files that the C library reads to find an address (`nsswitch.conf(5)`, `resolver(5)`, `gai.conf(5)`).
const FILES: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/services",
    "/etc/protocols",
];

/// Where other programs keep its settings.
const FOLDERS: &[&str] = &["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/// File that the loader reads to find the parts of the name service that are loaded on demand.
const LOADER: &[&str] = &["/etc/ld.so.cache"];

/// Where these parts lie.
///
/// A static executable has files and DNS built in (glibc 2.34 and newer) and no need of other parts. They would bring a
/// second C library into the process, which may be another one than it was built with; so there they cannot be opened,
/// and the name service goes on with the next source that `nsswitch.conf` names.
const LIBRARIES: &[&str] =
    &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store"];

/// Calls of which it needs none.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    // Landlock has no right for modes.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    seccomp::FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Applies it to the calling thread, which must be the only one.
pub fn confine() -> io::Result<()> {
    syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    syscalls::prctl(libc::PR_SET_DUMPABLE, 0, 0)?;
    let abi = landlock::abi();
    if abi > 0 {
        let mut ruleset = Ruleset::new(abi)?;
        for (paths, grant) in granted(syscalls::has_loader()) {
            for path in paths {
                // A path that does not exist needs no right.
                if let Ok(object) = syscalls::open_path(Path::new(path), libc::O_PATH, 0) {
                    ruleset.allow(object.as_fd(), grant)?;
                }
            }
        }
        ruleset.restrict()?;
    }
    syscalls::seccomp_filter(&table().compile())
}

fn granted(has_loader: bool) -> Vec<(&'static [&'static str], Rights)> {
    let mut granted = vec![(FILES, Rights::ReadFile), (FOLDERS, Rights::Read)];
    if has_loader {
        granted.extend([(LOADER, Rights::ReadFile), (LIBRARIES, Rights::Read)]);
    }
    granted
}

pub(super) fn table() -> Table {
    let mut table = seccomp::own_table();
    let denied = Verdict::Errno(libc::EPERM);
    let row = |cases: Vec<Case>, otherwise: Verdict| Row { cases, otherwise };
    let mut set = |number: libc::c_long, row: Row| {
        table.rows.extend(u32::try_from(number).map(|number| (number, row)));
    };
    for number in REFUSED.iter().chain(FILE_CALLS).chain(seccomp::SIGNALS) {
        set(*number, row(Vec::new(), denied));
    }
    set(libc::SYS_accept4, row(Vec::new(), Verdict::Allow));
    // Its flags are in memory; the C library then starts threads by `clone`.
    set(libc::SYS_clone3, row(Vec::new(), Verdict::Errno(libc::ENOSYS)));
    let is = |argument: u32, mask: u32, value: i32| Test::Is {
        argument,
        mask,
        value: value.unsigned_abs(),
    };
    const TYPE: u32 = 0xF;
    const ALL: u32 = u32::MAX;
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            sockets.push(vec![is(0, ALL, family), is(1, TYPE, kind)]);
        }
    }
    // Services of the host that answer for the name service, and the list of own addresses.
    sockets.push(vec![is(0, ALL, libc::AF_UNIX), is(1, TYPE, libc::SOCK_STREAM)]);
    sockets.push(vec![is(0, ALL, libc::AF_NETLINK), is(2, ALL, libc::NETLINK_ROUTE)]);
    let allowed = |tests: Vec<Test>| Case { tests, verdict: Verdict::Allow };
    let cases = sockets.into_iter().map(allowed).collect();
    set(libc::SYS_socket, row(cases, Verdict::Errno(libc::EAFNOSUPPORT)));
    // The C library binds its netlink socket to no address at all, which gives no server.
    set(libc::SYS_bind, row(vec![allowed(vec![is(2, ALL, 12)])], denied));
    table
}

#[cfg(test)]
mod tests;
