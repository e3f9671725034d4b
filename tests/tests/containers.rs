//! In a container of a real engine: what its defaults allow, and what the flags of `docs/containers.md` give.
//!
//! Needs root and Podman; the container is made of this machine's own programs, so no image is fetched.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stockade_tests::{Place, is_root, skip, stockade};

/// Calls that Docker's profile allows to privileged containers only (moby, `profiles/seccomp/default.json`), which
/// Podman's allows to all.
const MISSING_IN_DOCKER: &[&str] = &[
    "clone3",
    "fsconfig",
    "fsmount",
    "fsopen",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "pivot_root",
    "setns",
    "umount",
    "umount2",
    "unshare",
];
const PODMANS_PROFILE: &str = "/usr/share/containers/seccomp.json";
const UNMASKED: &str = "--security-opt=unmask=ALL";
const NO_FILTER: &str = "--security-opt=seccomp=unconfined";

/// A line that shows that it runs, that the project can be written, and tries what it must not.
const LINE: &str = "echo hi > made; cat made; id -u; echo x > /etc/planted";

/// A container's file system, and where the engine keeps its things.
struct Engine {
    place: Place,
    /// The engine's own folder, whose name it wants short.
    store: PathBuf,
}

impl Engine {
    /// Returns one, or why there is none here.
    fn new(name: &str) -> Result<Engine, String> {
        if !is_root() {
            return Err("the engine needs root, or a user with subordinate ids".to_owned());
        }
        if Command::new("podman").arg("--version").output().is_err() {
            return Err("podman is not installed".to_owned());
        }
        let store = PathBuf::from(format!("/var/tmp/sc-{name}-{}", std::process::id()));
        let engine = Engine { place: Place::new(name), store };
        for folder in ["etc", "proc", "sys", "dev", "root", "opt", "run", "usr", "var/tmp", "tmp"] {
            std::fs::create_dir_all(engine.system().join(folder)).expect("a folder");
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{name}"), engine.system().join(name)).expect("a link");
        }
        for home in ["root", "home/user"] {
            std::fs::create_dir_all(engine.system().join(home).join("project")).expect("a folder");
        }
        stockade_tests::give(&engine.system().join("home/user"), 1000);
        let anybody = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(engine.system().join("tmp"), anybody).expect("a mode");
        std::fs::copy(stockade(), engine.system().join("opt/stockade")).expect("the executable");
        std::fs::write(
            engine.system().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
        )
        .expect("a file");
        let tried = engine.run(&[], "0", "true");
        match tried.status.success() {
            true => Ok(engine),
            false => Err(format!("the engine starts nothing here: {}", text(&tried.stderr))),
        }
    }

    fn system(&self) -> PathBuf {
        self.place.root.join("system")
    }

    /// Runs a shell line in a new container with these flags, as `user`.
    fn run(&self, flags: &[&str], user: &str, line: &str) -> Output {
        let at = |name: &str| self.store.join(name);
        // An old runtime refuses a machine with control groups of both versions; in a mount namespace of its own it
        // sees one. No group is made in any case.
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command
            .arg("umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"")
            .args(["sh", "podman"]);
        command
            .arg("--root")
            .arg(at("storage"))
            .arg("--runroot")
            .arg(at("engine"))
            .arg("--tmpdir")
            .arg(at("temporary"));
        command.args([
            "--cgroup-manager=cgroupfs",
            "run",
            "--rm",
            "--network=none",
            "--cgroups=disabled",
        ]);
        command.args([
            "--ulimit=nofile=1024:4096",
            "--ulimit=nproc=2048:2048",
            "--volume=/usr:/usr:ro",
        ]);
        command.args(["--user", user]).args(flags);
        let home = home(user);
        command.args([format!("--env=HOME=/{home}"), format!("--workdir=/{home}/project")]);
        command.arg("--rootfs").arg(self.system()).args(["sh", "-c", line]);
        command.output().expect("unshare starts")
    }

    /// Runs `stockade run LINE` in such a container.
    fn confined(&self, flags: &[&str], user: &str) -> Seen {
        let output = self.run(flags, user, &format!("/opt/stockade run --no-daemon -- '{LINE}'"));
        let made = self.system().join(home(user)).join("project/made");
        let seen = Seen {
            output: text(&output.stdout),
            told: text(&output.stderr),
            status: output.status.code(),
            ran: made.exists(),
            escaped: self.system().join("etc/planted").exists(),
        };
        if made.exists() {
            std::fs::remove_file(made).expect("the file of the command");
        }
        seen
    }

    /// Writes Podman's profile without the calls that Docker's lacks, and with `more` of them.
    fn profile(&self, name: &str, more: &[&str]) -> Option<PathBuf> {
        let profile = std::fs::read_to_string(PODMANS_PROFILE).ok()?;
        let mut profile: serde_json::Value = serde_json::from_str(&profile).expect("a profile");
        let entries = profile.get_mut("syscalls").and_then(|it| it.as_array_mut()).expect("a list");
        for entry in entries.iter_mut().filter(|it| it["action"] == "SCMP_ACT_ALLOW") {
            let names = entry.get_mut("names").and_then(|it| it.as_array_mut()).expect("names");
            names.retain(|name| {
                let name = name.as_str().unwrap_or_default();
                more.contains(&name) || !MISSING_IN_DOCKER.contains(&name) && name != "clone"
            });
        }
        if !more.contains(&"clone") {
            // Docker's lets `clone` through without the flags of namespaces.
            entries.push(serde_json::json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
                {"index": 0, "value": 2_114_060_288_u32, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
            ]}));
        }
        let path = self.place.root.join(name);
        std::fs::write(&path, profile.to_string()).expect("the profile");
        Some(path)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // What cannot be removed is a few empty folders.
        let _ = std::fs::remove_dir_all(&self.store);
    }
}

/// The home of a user in the container.
fn home(user: &str) -> &'static str {
    if user == "0" { "root" } else { "home/user" }
}

/// What came of a line.
struct Seen {
    output: String,
    told: String,
    status: Option<i32>,
    ran: bool,
    escaped: bool,
}

impl Seen {
    fn assert_confined(&self, user: &str) {
        assert_eq!(
            (self.output.as_str(), self.ran),
            (format!("hi\n{user}\n").as_str(), true),
            "{}",
            self.told
        );
        assert!(!self.escaped, "a file outside of the project was made");
    }

    fn assert_refused(&self, help: &str) {
        assert_eq!(
            (self.output.as_str(), self.ran, self.escaped),
            ("", false, false),
            "{}",
            self.told
        );
        assert_eq!(self.status, Some(122), "{}", self.told);
        assert!(self.told.contains(help), "{}", self.told);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_flags_it_refuses_and_says_which_would_do() {
    let engine = match Engine::new("masked") {
        Ok(engine) => engine,
        Err(reason) => return skip("without_flags_it_refuses_and_says_which_would_do", &reason),
    };
    for user in ["0", "1000"] {
        engine.confined(&[NO_FILTER], user).assert_refused("--security-opt unmask=ALL");
    }
    let doctor = text(&engine.run(&[NO_FILTER], "0", "/opt/stockade doctor").stdout);
    assert!(doctor.contains("parts of `/proc` are masked"), "{doctor}");
}

#[test]
fn doctor_says_that_it_has_no_place_for_its_probes() {
    let name = "doctor_says_that_it_has_no_place_for_its_probes";
    let engine = match Engine::new("closed") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let line = "chmod 755 /tmp /var/tmp; setpriv --reuid 1000 --clear-groups /opt/stockade doctor";
    let told = text(&engine.run(&[NO_FILTER, UNMASKED], "0", line).stdout);
    assert!(told.contains("let this user make files in `/tmp` or `/var/tmp`"), "{told}");
}

#[test]
fn the_flags_for_podman_give_everything_required() {
    let engine = match Engine::new("podman") {
        Ok(engine) => engine,
        Err(reason) => return skip("the_flags_for_podman_give_everything_required", &reason),
    };
    let outside = engine.run(&[NO_FILTER, UNMASKED], "0", "echo x > /etc/planted; rm /etc/planted");
    assert!(outside.status.success(), "unconfined it can be written: {}", text(&outside.stderr));
    for user in ["0", "1000"] {
        engine.confined(&[NO_FILTER, UNMASKED], user).assert_confined(user);
        let doctor = engine.run(&[NO_FILTER, UNMASKED], user, "/opt/stockade doctor --json");
        let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("a report");
        assert_eq!(
            (doctor.status.code(), &report["ok"]),
            (Some(0), &serde_json::json!(true)),
            "{report}"
        );
    }
}

#[test]
fn a_profile_like_dockers_needs_the_calls_that_are_listed_and_no_more() {
    let name = "a_profile_like_dockers_needs_the_calls_that_are_listed_and_no_more";
    let engine = match Engine::new("docker") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let Some(closed) = engine.profile("closed.json", &[]) else {
        return skip(name, &format!("there is no `{PODMANS_PROFILE}`"));
    };
    let listed = listed();
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let open = engine.profile("open.json", &listed).expect("a profile");
    let flag = |path: &Path| format!("--security-opt=seccomp={}", path.display());
    for user in ["0", "1000"] {
        engine
            .confined(&[&flag(&closed), UNMASKED], user)
            .assert_refused("a system-call profile that allows");
        engine.confined(&[&flag(&open), UNMASKED], user).assert_confined(user);
    }
}

/// Returns the calls that `docs/containers.md` names.
fn listed() -> Vec<String> {
    let page = std::fs::read_to_string(stockade_tests::root().join("docs/containers.md"))
        .expect("the page");
    let (_, list) = page.split_once("without a condition is enough: ").expect("the list");
    let (list, _) = list.split_once(". What").expect("its end");
    list.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect()
}
