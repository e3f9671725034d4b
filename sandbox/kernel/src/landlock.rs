//! Landlock: the second layer under the mounts, and the scopes for signals and abstract sockets.
//!
//! Every right that the kernel's ABI has is a hard requirement: where one cannot be had, nothing starts.

use std::io;
use std::os::fd::BorrowedFd;

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _,
    CreateRulesetError, PathBeneath, RestrictSelfError, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, Scope, make_bitflags,
};

use super::syscalls;

/// Rights that one grant allows beneath its directory, or on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
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

impl Rights {
    /// Returns the rights of this grant; those that the kernel's ABI does not have are taken off later.
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Rights::Read => make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir}),
            Rights::Write => !BitFlags::from(AccessFs::IoctlDev),
            Rights::Device => {
                make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})
            }
            Rights::File => make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate}),
            Rights::ReadFile => make_bitflags!(AccessFs::{Execute | ReadFile}),
            Rights::List => AccessFs::ReadDir.into(),
        }
    }
}

/// A ruleset being built.
pub struct Ruleset {
    ruleset: RulesetCreated,
    handled: BitFlags<AccessFs>,
    abi: u32,
}

/// Newest ABI known here, of Linux 6.15.
const NEWEST_ABI: u32 = 7;

/// Returns the newest ABI that both the kernel and this program know; 0 for none.
pub fn abi() -> u32 {
    syscalls::landlock_abi().unwrap_or(0).min(NEWEST_ABI)
}

/// Returns an ABI by its number.
fn of_number(abi: u32) -> ABI {
    ABI::from(i32::try_from(abi).unwrap_or(0))
}

/// Begins a ruleset of which the kernel must have every right that is asked for.
fn strict() -> ::landlock::Ruleset {
    ::landlock::Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

impl Ruleset {
    /// Starts a ruleset that handles every file right and scope of `abi`.
    pub fn new(abi: u32) -> io::Result<Ruleset> {
        Ruleset::with_network(abi, BitFlags::EMPTY)
    }

    fn with_network(number: u32, network: BitFlags<AccessNet>) -> io::Result<Ruleset> {
        let abi = of_number(number);
        let handled = AccessFs::from_all(abi);
        let mut ruleset = strict().handle_access(handled).map_err(plain)?;
        let network = network & AccessNet::from_all(abi);
        if !network.is_empty() {
            ruleset = ruleset.handle_access(network).map_err(plain)?;
        }
        let scopes = Scope::from_all(abi);
        if !scopes.is_empty() {
            ruleset = ruleset.scope(scopes).map_err(plain)?;
        }
        Ok(Ruleset { ruleset: ruleset.create().map_err(plain)?, handled, abi: number })
    }

    /// Grants what `grant` says on `object`.
    pub fn allow(&mut self, object: BorrowedFd<'_>, grant: Rights) -> io::Result<()> {
        let rule = PathBeneath::new(object, grant.rights() & self.handled);
        (&mut self.ruleset).add_rule(rule).map(drop).map_err(plain)
    }

    /// Restricts this process and returns what the layer covers, in words.
    pub fn restrict(self) -> io::Result<String> {
        self.ruleset.restrict_self().map_err(plain)?;
        Ok(format!("Landlock ABI {}", self.abi))
    }
}

/// Adds a layer that only keeps signals and abstract sockets inside; from ABI 6.
pub fn scope() -> io::Result<()> {
    let ruleset = strict().scope(Scope::from_all(ABI::V6)).and_then(::landlock::Ruleset::create);
    ruleset.and_then(RulesetCreated::restrict_self).map(drop).map_err(plain)
}

/// Denies every file, every TCP port, and signals and abstract sockets of others.
pub fn deny_everything() -> io::Result<()> {
    let abi = syscalls::landlock_abi()?.min(NEWEST_ABI);
    Ruleset::with_network(abi, BitFlags::ALL)?.restrict().map(drop)
}

/// Returns what the kernel said, where it was asked at all.
fn plain(error: RulesetError) -> io::Error {
    match error {
        RulesetError::CreateRuleset(CreateRulesetError::CreateRulesetCall { source, .. })
        | RulesetError::RestrictSelf(RestrictSelfError::RestrictSelfCall { source, .. }) => source,
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::process::Command;

    use super::*;

    /// Returns whether a thread that called `restrict` may signal a process outside of its domain, and connect to an
    /// abstract socket there.
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

    /// The rights by ABI 7 as bits of `linux/landlock.h`.
    #[test]
    fn each_grant_has_these_rights_and_no_others() {
        const EXECUTE: u64 = 1;
        const WRITE_FILE: u64 = 1 << 1;
        const READ_FILE: u64 = 1 << 2;
        const READ_DIR: u64 = 1 << 3;
        const TRUNCATE: u64 = 1 << 14;
        const IOCTL_DEV: u64 = 1 << 15;
        const ALL: u64 = (1 << 16) - 1;
        let expected = [
            (Rights::Read, EXECUTE | READ_FILE | READ_DIR),
            (Rights::Write, ALL & !IOCTL_DEV),
            (Rights::Device, READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV),
            (Rights::File, EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE),
            (Rights::ReadFile, EXECUTE | READ_FILE),
            (Rights::List, READ_DIR),
        ];
        // The library knows rights of later kernels.
        let handled = AccessFs::from_all(of_number(NEWEST_ABI));
        assert_eq!(handled.bits(), ALL);
        assert_eq!(expected.map(|it| (it.0, (it.0.rights() & handled).bits())), expected);
    }

    /// Returns which acts work under a ruleset with one grant: read a file, write it, list its directory, make a file there,
    /// and read a file elsewhere.
    fn acts(grant: Option<Rights>) -> [bool; 5] {
        let name = format!("stockade-landlock-{}-{grant:?}", std::process::id());
        let [granted, other] = ["a", "b"].map(|it| std::env::temp_dir().join(&name).join(it));
        for folder in [&granted, &other] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("f"), "x").unwrap();
        }
        let acts = std::thread::spawn(move || {
            if let Some(grant) = grant {
                let object = syscalls::open_path(&granted, libc::O_PATH, 0).unwrap();
                let mut ruleset = Ruleset::new(abi()).unwrap();
                ruleset.allow(object.as_fd(), grant).unwrap();
                assert_eq!(ruleset.restrict().unwrap(), format!("Landlock ABI {}", abi()));
            }
            [
                std::fs::read(granted.join("f")).is_ok(),
                std::fs::write(granted.join("f"), "y").is_ok(),
                std::fs::read_dir(&granted).is_ok(),
                std::fs::write(granted.join("g"), "z").is_ok(),
                std::fs::read(other.join("f")).is_ok(),
            ]
        });
        let acts = acts.join().unwrap();
        std::fs::remove_dir_all(std::env::temp_dir().join(name)).unwrap();
        acts
    }

    #[test]
    fn a_grant_holds_beneath_its_directory_alone() {
        assert_eq!(abi(), syscalls::landlock_abi().unwrap_or(0).min(7));
        assert_eq!(acts(None), [true; 5], "unconfined");
        if abi() < 3 {
            eprintln!("SKIPPED a_grant_holds_beneath_its_directory_alone: there is no ABI 3");
            return;
        }
        for (grant, expected) in [
            (Rights::Read, [true, false, true, false, false]),
            (Rights::Write, [true, true, true, true, false]),
            (Rights::List, [false, false, true, false, false]),
        ] {
            assert_eq!(acts(Some(grant)), expected, "{grant:?}");
        }
    }

    #[test]
    fn a_layer_of_scopes_alone_hides_the_namespaces_of_processes_outside() {
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = other.id();
        // A layer holds for one thread: this one ends with it.
        let looks = |restrict: fn() -> io::Result<()>| {
            let looking = std::thread::spawn(move || {
                syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).unwrap();
                restrict().unwrap();
                let namespace = std::fs::read_link(format!("/proc/{pid}/ns/user"));
                let executable = std::fs::read_link(format!("/proc/{pid}/exe"));
                [namespace, executable].map(|it| it.err().and_then(|it| it.raw_os_error()))
            });
            looking.join().unwrap()
        };
        let freely = looks(|| Ok(()));
        let layered = (abi() >= 6).then(|| looks(scope));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(freely, [None; 2]);
        match layered {
            // The service's keeper and gateways have no layer for this reason: they look at their clients.
            Some(layered) => assert_eq!(layered, [Some(libc::EACCES); 2]),
            None => eprintln!(
                "SKIPPED a_layer_of_scopes_alone_hides_the_namespaces_of_processes_outside: there are no scopes (ABI 6)"
            ),
        }
    }

    #[test]
    fn each_layer_keeps_signals_and_abstract_sockets_inside() {
        assert_eq!(reach(|| Ok(())), [true; 2]);
        if abi() < 6 {
            eprintln!(
                "SKIPPED each_layer_keeps_signals_and_abstract_sockets_inside: there are no scopes (ABI 6)"
            );
            return;
        }
        assert_eq!(reach(scope), [false; 2]);
        assert_eq!(reach(|| Ruleset::new(abi())?.restrict().map(drop)), [false; 2]);
        assert_eq!(reach(deny_everything), [false; 2]);
    }
}
