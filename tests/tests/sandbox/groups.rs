//! Limits that the kernel counts, where a control group of version 2 is delegated. Where none is, these tests say why
//! they are not run; `docs/internals/sandbox.md` says how to have one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_spec::{Protection, State};
use stockade_tests::skip;

use crate::place::{Place, is_root, pass_on, run, start};

/// In the copy of a test that runs in a delegated group: that group's parent.
const DELEGATED: &str = "STOCKADE_TEST_GROUP";
const NOBODY: u32 = 65534;

/// Returns those of the two controllers that groups below `group` get.
fn given(group: &Path) -> Vec<String> {
    let text = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    text.split_whitespace().filter(|it| ["memory", "pids"].contains(it)).map(Into::into).collect()
}

/// A group that is removed with what is beneath it.
struct Above(PathBuf);

impl Drop for Above {
    fn drop(&mut self) {
        let beneath = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|it| it.path());
        for group in beneath.filter(|it| it.is_dir()).chain([self.0.clone()]) {
            let _ = fs::remove_dir(group); // what is not empty was told of by the test
        }
    }
}

/// Runs `body` in a group that lies in one that is delegated: as root, and as an ordinary user to whom it belongs.
fn delegated(test: &str, body: impl FnOnce(&Path)) {
    if let Some(above) = std::env::var_os(DELEGATED) {
        return body(Path::new(&above));
    }
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let Some(root) = roots.into_iter().find(|it| it.join("cgroup.controllers").exists()) else {
        return skip(test, "no control groups of version 2 are mounted");
    };
    if !is_root() {
        return skip(test, "only root can delegate a group for it");
    }
    let given = given(root);
    if given.is_empty() {
        let none = "groups of version 2 get neither `memory` nor `pids` here";
        return skip(test, &format!("{none} (`{}/cgroup.subtree_control`)", root.display()));
    }
    for owner in [0, NOBODY] {
        let above = Above(root.join(format!(
            "test-of-{}-{owner}-{}",
            test.replace(':', "-"),
            std::process::id()
        )));
        let own = above.0.join("own");
        fs::create_dir(&above.0).expect("root makes groups");
        fs::create_dir(&own).unwrap();
        if owner == 0 {
            for name in &given {
                fs::write(above.0.join("cgroup.subtree_control"), format!("+{name}")).unwrap();
            }
        }
        for path in ["", "cgroup.procs", "cgroup.subtree_control", "own", "own/cgroup.procs"] {
            chown(above.0.join(path), Some(owner), None).unwrap();
        }
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let number = owner.to_string();
        let output = Command::new("bash")
            .args(["-c", enter])
            .arg(&own)
            .args(["setpriv", "--reuid", &number, "--regid", &number, "--clear-groups"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(DELEGATED, &above.0)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let more = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "as {owner}: {text}\n{more}");
        pass_on(&more);
    }
}

/// Returns the groups of runs that are there.
fn left(above: &Path) -> Vec<PathBuf> {
    let beneath = fs::read_dir(above).unwrap().map(|it| it.unwrap().path());
    beneath.filter(|it| it.is_dir() && !it.ends_with("own")).collect()
}

#[test]
fn the_kernel_counts_what_a_delegated_group_lets_it() {
    delegated("groups::the_kernel_counts_what_a_delegated_group_lets_it", |above| {
        let place = Place::new("groups");
        let ran = run(&place.spec("cat /proc/self/cgroup; echo 0 > /sys/fs/cgroup/cgroup.procs"))
            .unwrap();
        let given = given(above);
        match (&ran.enforced.states[&Protection::Limits], given.len()) {
            (State::Enforced(layers), 2) => assert_eq!(layers[0], "control group"),
            (State::Partial(open), 1) => assert!(!open.contains("root caller"), "{open}"),
            (state, _) => panic!("{given:?}: {state:?}"),
        }
        assert_ne!(ran.exit.code, Some(0), "no group can be left from inside: {}", ran.text);
        assert_eq!(left(above), <[PathBuf; 0]>::default());
        // Somebody who asks for more keeps to what the group around allows.
        assert_eq!(given.iter().any(|it| it == "pids"), above.join("own/pids.max").exists());
    });
}

#[test]
fn a_bomb_in_a_delegated_group_ends_and_is_reported() {
    delegated("groups::a_bomb_in_a_delegated_group_ends_and_is_reported", |above| {
        let place = Place::new("group-bombs");
        let fork = "perl -e '$| = 1; $n = 0; while ($n < 400 and defined(my $p = fork)) { $p or sleep 100, exit; $n++ } \
                    print $n; kill 9, -getpgrp if $ENV{PLAIN}'";
        if above.join("own/pids.max").exists() {
            let plain = place.plain(&format!("PLAIN=1 setsid -w {fork}"));
            assert!(plain.text.starts_with("400"), "unconfined it makes them all: {}", plain.text);
            let mut spec = place.spec(fork);
            spec.limits.processes = 150;
            let ran = run(&spec).unwrap();
            // Bash, perl, and the rest of what is allowed.
            let made: u32 = ran.text.parse().unwrap();
            assert!((140..150).contains(&made), "{made}");
            let told: Vec<_> =
                ran.violations.iter().map(|it| (&*it.kind, &*it.call, &*it.object)).collect();
            assert_eq!(told, [("limit", "processes", "150 processes")]);
        } else {
            skip("groups: processes", "`pids` is not given here");
        }
        if above.join("own/memory.max").exists() {
            // Files in memory, which no sum over processes shows.
            let hog = "perl -e '$n = \"m\"; $f = syscall(319, $n, 0); open(my $m, \">&=\", $f) or die; $x = \"a\" x (1 << 20); \
                       for (1..300) { syswrite($m, $x) or die } print \"whole\"'; echo after";
            assert_eq!(place.plain(hog).text, "wholeafter\n");
            let mut spec = place.spec(hog);
            spec.limits.memory_bytes = 100 << 20;
            let ran = run(&spec).unwrap();
            assert!(!ran.text.contains("whole"), "{}", ran.text);
            let told: Vec<_> = ran.violations.iter().map(|it| (&*it.kind, &*it.call)).collect();
            assert!(told.contains(&("limit", "memory")), "{told:?} {}", ran.text);
        } else {
            skip("groups: memory", "`memory` is not given here");
        }
        assert_eq!(left(above), <[PathBuf; 0]>::default());
    });
}

#[test]
fn the_limits_of_the_group_around_stay_in_force() {
    delegated("groups::the_limits_of_the_group_around_stay_in_force", |above| {
        if !is_root() || !above.join("own/pids.max").exists() {
            let why =
                "only root sets limits of a group that it did not make; or `pids` is not given";
            return skip("groups::the_limits_of_the_group_around_stay_in_force", why);
        }
        let place = Place::new("group-around");
        fs::write(above.join("own/pids.max"), "60").unwrap();
        let fork = "perl -e '$| = 1; $n = 0; while ($n < 400 and defined(my $p = fork)) { $p or sleep 100, exit; $n++ } print $n'";
        let made: u32 = run(&place.spec(fork)).unwrap().text.parse().unwrap();
        assert!(made < 60, "{made}");
    });
}

#[test]
fn what_a_killed_monitor_left_goes_with_the_next_run() {
    delegated("groups::what_a_killed_monitor_left_goes_with_the_next_run", |above| {
        let place = Place::new("group-left");
        let (child, _, _reader) = start(&place.spec("sleep 100")).unwrap();
        assert_eq!(left(above).len(), 1);
        let killed =
            Command::new("kill").args(["-9", &child.monitor().to_string()]).status().unwrap();
        assert!(killed.success());
        drop(child);
        assert_eq!(left(above).len(), 1, "nobody was there to remove it");
        let parallel = start(&place.spec("sleep 100")).unwrap();
        place.works("true");
        assert_eq!(left(above).len(), 1, "the one of the run that goes on");
        drop(parallel);
        assert_eq!(left(above), <[PathBuf; 0]>::default());
        let mode = fs::metadata(above).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    });
}
