//! Where this process runs, as far as it matters to what can be enforced: for `doctor`.

use std::fs;
use std::path::Path;

use super::attempts::{Counted, Group};

/// Returns one sentence for each fact worth knowing.
pub(crate) fn notes() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let facts = Facts {
        version: read("/proc/version"),
        status: read("/proc/self/status"),
        groups: read("/proc/self/cgroup"),
        ptrace_scope: read("/proc/sys/kernel/yama/ptrace_scope"),
        in_container: ["/.dockerenv", "/run/.containerenv"].iter().any(|it| Path::new(it).exists())
            || read("/proc/1/environ").contains("container="),
        masked: hides_parts_of_proc(&read("/proc/self/mountinfo")),
        counted: Group::make().map(|group| group.counts()).unwrap_or_default(),
        apparmor: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        // `proc_pid_attr(5)`: the name of the profile, and its mode in parentheses.
        profile: read("/proc/self/attr/current"),
    };
    facts.sentences()
}

/// Facts read from the system.
#[derive(Debug, Default)]
struct Facts {
    version: String,
    status: String,
    groups: String,
    ptrace_scope: String,
    in_container: bool,
    masked: bool,
    counted: Counted,
    apparmor: String,
    profile: String,
}

/// Says whether mounts cover parts of `/proc`, given `/proc/self/mountinfo`. Linux then refuses a new `/proc` to a user
/// namespace (`mount_too_revealing` in `fs/namespace.c`); empty places for mounts, as `binfmt_misc` has one, do not count.
fn hides_parts_of_proc(mounts: &str) -> bool {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    places
        .filter(|place| *place != "/proc/sys/fs/binfmt_misc")
        .any(|place| place.starts_with("/proc/"))
}

impl Facts {
    fn sentences(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut say = |text: &str| notes.push(text.to_owned());
        if self.version.contains("gVisor") {
            say("gVisor has neither Landlock nor the mounts of a sandbox: use another runtime");
        }
        if self.version.contains("Microsoft") && !self.version.contains("WSL2") {
            say("this is WSL 1, which has no namespaces: use WSL 2");
        }
        if self.in_container {
            say(
                "this is a container: namespaces inside one need its consent (docs/guide/containers.md)",
            );
        }
        if self.masked {
            say(
                "parts of `/proc` are masked, so a new one cannot be mounted: start the container with \
                 `--security-opt systempaths=unconfined` (Podman: `--security-opt unmask=ALL`)",
            );
        }
        if self.apparmor.trim() == "1"
            && self.profile.trim_end_matches(['\n', '\0']) == "unconfined"
        {
            say(
                "AppArmor keeps user namespaces from programs without a profile: `sudo stockade install --apparmor` installs one",
            );
        }
        let filters = self.status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        if let Some(count) = filters.map(str::trim).filter(|count| *count != "0") {
            say(&format!("{count} system-call filters are in force already and stay so"));
        }
        if self.status.lines().any(|line| line == "NoNewPrivs:\t1") {
            say("this process is confined already (no new privileges)");
        }
        if matches!(self.ptrace_scope.trim(), "2" | "3") {
            say("tracing is restricted to privileged processes; the supervisor does not need it");
        }
        let by_version_1 = || self.groups.lines().any(|line| !line.starts_with("0::"));
        say(match self.counted {
            Counted { memory: true, processes: true } => {
                "each run has a control group that limits its memory and its processes"
            }
            Counted { memory: false, processes: true } => {
                "each run has a control group that limits its processes; memory is sampled"
            }
            Counted { memory: true, processes: false } => {
                "each run has a control group that limits its memory"
            }
            Counted { memory: false, processes: false } if by_version_1() => {
                "control groups are of version 1, which cannot be delegated: limits are sampled; a kernel started with \
                 `systemd.unified_cgroup_hierarchy=1` has version 2"
            }
            Counted { memory: false, processes: false } => {
                "no control group is delegated to this user: limits are sampled; a program that is started with \
                 `systemd-run --user --scope -p Delegate=yes` has one"
            }
        });
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_proc_is_seen() {
        let plain = "22 1 0:20 / /proc rw - proc proc rw\n40 22 0:9 / /proc/sys/fs/binfmt_misc rw - autofs a rw\n";
        let masked = "362 360 0:62 / /proc rw - proc proc rw\n636 362 0:6 /null /proc/keys ro - devtmpfs d rw\n";
        assert_eq!([plain, masked].map(hides_parts_of_proc), [false, true]);
    }

    #[test]
    fn known_situations_are_named() {
        let facts = Facts {
            version: "Linux version 4.4.0 gVisor".to_owned(),
            status: "NoNewPrivs:\t1\nSeccomp_filters:\t2\n".to_owned(),
            groups: "9:memory:/x\n0::/\n".to_owned(),
            ptrace_scope: "2\n".to_owned(),
            in_container: true,
            masked: true,
            counted: Counted::default(),
            apparmor: "1\n".to_owned(),
            profile: "unconfined\n".to_owned(),
        };
        let notes = facts.sentences();
        for part in [
            "gVisor",
            "container",
            "masked",
            "AppArmor",
            "2 system-call filters",
            "confined already",
            "tracing",
            "version 1",
        ] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
        let notes = Facts { groups: "0::/user.slice\n".to_owned(), ..Facts::default() }.sentences();
        let expected = "no control group is delegated to this user: limits are sampled; a program that is started with \
                        `systemd-run --user --scope -p Delegate=yes` has one";
        assert_eq!(notes, [expected]);
        let has_one = Facts {
            groups: "0::/user.slice\n".to_owned(),
            apparmor: "1\n".to_owned(),
            profile: "stockade (unconfined)\n".to_owned(),
            ..Facts::default()
        };
        assert_eq!(has_one.sentences(), [expected]);
    }
}
