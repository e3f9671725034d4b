//! The protections that a command needs by default, and whether this machine can enforce them.

use stockade_spec::Protection;

/// The protections that must hold before a command starts, when the settings say so.
pub const REQUIRED: &[Protection] = &[
    Protection::WriteOutside,
    Protection::Protected,
    Protection::NoRead,
    Protection::Network,
    Protection::KernelSettings,
    Protection::Privilege,
    Protection::Syscalls,
    Protection::Tty,
    Protection::Fds,
    Protection::Env,
    Protection::Limits,
    Protection::Survivors,
];

/// Says whether this machine can enforce what is required by default, found by trying.
pub fn is_available() -> bool {
    static AVAILABLE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let enforced = stockade_probe::Host::start().enforced;
        REQUIRED.iter().all(|protection| enforced.suffices(*protection))
    })
}
