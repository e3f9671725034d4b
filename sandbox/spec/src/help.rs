//! Advice for a person about protections that are missing on a machine.

use crate::Protection;

/// CAP_SETFCAP (`linux/capability.h`).
const SETFCAP: u32 = 31;

/// Says what would give namespaces to this user on this machine.
pub fn namespaces() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    if read("/proc/sys/user/max_user_namespaces") == "0" {
        return "run `sysctl -w user.max_user_namespaces=10000` as root".to_owned();
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        let executable = std::env::current_exe().unwrap_or_else(|_| "/path/to/stockade".into());
        return profile(&executable.display().to_string());
    }
    if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        return "run `sysctl -w kernel.unprivileged_userns_clone=1` as root".to_owned();
    }
    let is_filtered = field(&read("/proc/self/status"), "Seccomp:") == Some("2");
    match (is_container(), is_filtered) {
        (true, _) => {
            "start the container with a system-call profile that allows `clone` and `unshare` with namespace flags \
             and `mount` (such as `--security-opt seccomp=unconfined`), and with an unmasked `/proc` \
             (`--security-opt systempaths=unconfined`, Podman: `--security-opt unmask=ALL`)"
        }
        (false, true) => {
            "a system-call filter around this process refuses namespaces: start stockade outside of the sandbox that \
             set it; in a unit of systemd, remove `RestrictNamespaces` and `SystemCallFilter`"
        }
        (false, false) => {
            "a security module of this machine refuses namespaces to this user: allow `user_namespace` \
             creation for stockade in its policy"
        }
    }
    .to_owned()
}

/// Says what gives `executable` the AppArmor profile with which it may make user namespaces. Where a user can change the executable,
/// `stockade install` refuses it.
fn profile(executable: &str) -> String {
    let known = "AppArmor restricts user namespaces to known programs";
    match ["/usr/", "/opt/"].iter().any(|it| executable.starts_with(it)) {
        true => format!("{known}: run `sudo {executable} install --apparmor`"),
        false => format!(
            "{known}: move stockade to `/usr/local/bin` and run `sudo stockade install --apparmor`, or have root write \
             `abi <abi/4.0>, include <tunables/global> profile stockade {executable} flags=(unconfined) {{ userns, }}` to \
             `/etc/apparmor.d/stockade` and run `apparmor_parser -r /etc/apparmor.d/stockade`"
        ),
    }
}

/// Says whether this is a container of Docker, Podman, or one that systemd knows
/// (systemd's container interface, "Environment Variables").
fn is_container() -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    marks.iter().any(|mark| std::path::Path::new(mark).exists())
        || std::env::var_os("container").is_some()
}

/// Says what would give notifications of system-call filters, which the supervisor answers (seccomp_unotify(2)).
pub fn notifications() -> String {
    "use Linux 5.9 or later, with `CONFIG_SECCOMP_FILTER`".to_owned()
}

/// Says what would give `protection`.
pub fn protection(protection: Protection) -> String {
    use Protection::*;
    match protection {
        // Supervision of names and sockets needs a `/proc` of the run's own.
        Processes | Protected | UnixSockets => {
            "a container that masks parts of `/proc` keeps a new one from being mounted: start it with \
             `--security-opt systempaths=unconfined` (Podman: `--security-opt unmask=ALL`)"
                .to_owned()
        }
        Limits => {
            "delegate a control group (version 2) to this user, such as with `Delegate=yes`"
                .to_owned()
        }
        WriteOutside | MetadataOutside | NoRead | HiddenNames | Network | Loopback | Ipc | Keyring
        | KernelSettings | Privilege | Syscalls | Env | Fds | Tty | Survivors => {
            format!("`stockade doctor` tells what this machine lacks for {}", protection.name())
        }
    }
}

/// Says what would let the user `uid` map its number into the namespace that this process is in.
pub fn mapping(uid: u32) -> String {
    // This process has all capabilities in its own namespace; those of the one that made it count.
    let status =
        |of: &str| std::fs::read_to_string(format!("/proc/{of}/status")).unwrap_or_default();
    let parent = field(&status("self"), "PPid:").unwrap_or_default().to_owned();
    if uid == 0 && lacks_setfcap(&status(&parent)) {
        return "root makes namespaces with CAP_SETFCAP only: start the container with `--cap-add=SETFCAP`, or run \
                stockade as another user (`--user`)"
            .to_owned();
    }
    namespaces()
}

/// Says whether a process with this `/proc/PID/status` lacks what root needs to map its own number, from Linux 5.12 on
/// (`user_namespaces(7)`).
fn lacks_setfcap(status: &str) -> bool {
    let set = field(status, "CapEff:").and_then(|set| u64::from_str_radix(set, 16).ok());
    set.is_some_and(|set| set & 1 << SETFCAP == 0)
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_gives_the_profile_to_an_executable_of_root() {
        let told = ["/usr/local/bin/stockade", "/home/ada/.cargo/bin/stockade"].map(profile);
        let expected = [
            "AppArmor restricts user namespaces to known programs: run `sudo /usr/local/bin/stockade install --apparmor`",
            "AppArmor restricts user namespaces to known programs: move stockade to `/usr/local/bin` and run \
             `sudo stockade install --apparmor`, or have root write `abi <abi/4.0>, include <tunables/global> profile \
             stockade /home/ada/.cargo/bin/stockade flags=(unconfined) { userns, }` to `/etc/apparmor.d/stockade` and run \
             `apparmor_parser -r /etc/apparmor.d/stockade`",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_capability_is_looked_for() {
        let seen = ["00000000800405fb", "000001ffffffffff", "000001ff7fffffff", "0", "", "x"]
            .map(|set| lacks_setfcap(&format!("PPid:\t1\nCapEff:\t{set}\nCapBnd:\t0\n")));
        assert_eq!(seen, [false, false, true, true, false, false]);
        assert!(!lacks_setfcap(""));
    }
}
