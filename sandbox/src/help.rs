//! What a person can do about what is missing on a machine.

use crate::Protection;

/// Says what would give namespaces to this user on this machine.
pub(crate) fn namespaces() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    if read("/proc/sys/user/max_user_namespaces") == "0" {
        return "set the sysctl `user.max_user_namespaces` to a number above 0".to_owned();
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        let executable = std::env::current_exe().unwrap_or_else(|_| "/path/to/stockade".into());
        return format!(
            "AppArmor keeps user namespaces from unknown programs: write `abi <abi/4.0>, include \
             <tunables/global> profile stockade {} flags=(unconfined) {{ userns, }}` to \
             `/etc/apparmor.d/stockade` and run `apparmor_parser -r /etc/apparmor.d/stockade` as root, or set \
             the sysctl `kernel.apparmor_restrict_unprivileged_userns` to 0",
            executable.display()
        );
    }
    if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        return "set the sysctl `kernel.unprivileged_userns_clone` to 1".to_owned();
    }
    "in a container, let it make namespaces: a system-call profile that allows `clone` and `unshare` \
     with namespace flags and `mount` (such as `--security-opt seccomp=unconfined`), and an unmasked \
     `/proc` (`--security-opt systempaths=unconfined`, Podman: `--security-opt unmask=ALL`)"
        .to_owned()
}

/// Says what would give `protection`.
pub(crate) fn protection(protection: Protection) -> String {
    match protection {
        // What watches over names and sockets needs a `/proc` of the run's own.
        Protection::Processes | Protection::Protected | Protection::UnixSockets => {
            "a container that masks parts of `/proc` keeps a new one from being mounted: start it with \
             `--security-opt systempaths=unconfined` (Podman: `--security-opt unmask=ALL`)"
                .to_owned()
        }
        Protection::Limits => {
            "delegate a control group (version 2) to this user, such as with `Delegate=yes`"
                .to_owned()
        }
        other => format!("`stockade doctor` tells what this machine lacks for {}", other.name()),
    }
}
