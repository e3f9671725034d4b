//! A container of this machine's own programs, started by Podman.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::{Place, give, is_root, stockade};

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
pub const PODMANS_PROFILE: &str = "/usr/share/containers/seccomp.json";

/// The user who starts the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    Root,
    /// An ordinary user of the machine, who is root in the container unless a flag says otherwise.
    User(u32),
}

/// A container's file system, and where the engine keeps its things.
pub struct Engine {
    place: Place,
    /// The engine's own folder, whose name it wants short.
    store: PathBuf,
    starter: Starter,
}

impl Engine {
    /// Returns an engine, or the reason why there is none here.
    pub fn new(name: &str) -> Result<Engine, String> {
        Engine::started_by(name, Starter::Root)
    }

    /// Returns one that `starter` uses, or why there is none here.
    pub fn started_by(name: &str, starter: Starter) -> Result<Engine, String> {
        if !is_root() {
            return Err("only root can give the container's files to its users".to_owned());
        }
        if Command::new("podman").arg("--version").output().is_err() {
            return Err("podman is not installed".to_owned());
        }
        let store = PathBuf::from(format!("/var/tmp/sc-{name}-{}", std::process::id()));
        let engine = Engine { place: Place::new(name), store, starter };
        for folder in ["etc", "proc", "sys", "dev", "root", "opt", "run", "usr", "var/tmp", "tmp"] {
            std::fs::create_dir_all(engine.system().join(folder)).expect("a folder");
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{name}"), engine.system().join(name)).expect("a link");
        }
        for home in ["root", "home/user"] {
            std::fs::create_dir_all(engine.system().join(home).join("project")).expect("a folder");
        }
        let anybody = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(engine.system().join("tmp"), anybody).expect("a mode");
        std::fs::copy(stockade(), engine.system().join("opt/stockade")).expect("the executable");
        std::fs::write(
            engine.system().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
        )
        .expect("a file");
        engine.belongs_to(match starter {
            Starter::Root => 0,
            Starter::User(user) => user,
        });
        let tried = engine.run(&[], "0", "true");
        match tried.status.success() {
            true => Ok(engine),
            false => Err(format!("the engine starts nothing here: {}", text(&tried.stderr))),
        }
    }

    /// Gives everything to the user whom the container takes for root, and a home to its ordinary user.
    pub fn belongs_to(&self, root: u32) {
        std::fs::create_dir_all(&self.store).expect("a folder");
        give(&self.store, root);
        give(&self.system(), root);
        if self.starter == Starter::Root {
            give(&self.system().join("home/user"), root + 1000);
        }
    }

    pub fn system(&self) -> PathBuf {
        self.place.root.join("system")
    }

    /// Runs a shell line in a new container with these flags, as `user`.
    pub fn run(&self, flags: &[&str], user: &str, line: &str) -> Output {
        let at = |name: &str| self.store.join(name);
        // An old runtime refuses a machine with control groups of both versions; in a mount namespace of its own it
        // sees one. No group is made in any case. What a user's engine leaves running ends with its process namespace.
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
        command
            .arg("umount /sys/fs/cgroup/unified 2>/dev/null; mount --make-rshared /; exec \"$@\"")
            .arg("sh");
        if let Starter::User(user) = self.starter {
            let user = user.to_string();
            command.args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]);
            command.env("HOME", &self.store).env("XDG_RUNTIME_DIR", &self.store);
            for folder in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"] {
                command.env_remove(folder); // they are those of whoever runs the tests
            }
        }
        command.arg("podman");
        command.arg("--root").arg(at("storage")).arg("--runroot").arg(at("engine"));
        command.arg("--tmpdir").arg(at("temporary"));
        command.args(["--cgroup-manager=cgroupfs", "run", "--rm", "--network=none"]);
        command.args(["--cgroups=disabled", "--volume=/usr:/usr:ro"]);
        // Without an input of its own a container gets `/dev/null`, which crun gives to the container's root: the host's.
        command.arg("--interactive").stdin(Stdio::piped());
        command.args(["--ulimit=nofile=1024:4096", "--ulimit=nproc=2048:2048"]);
        if !flags.iter().any(|flag| flag.starts_with("--userns=keep-id")) {
            command.args(["--user", user]);
        }
        let home = home(user);
        command.args([format!("--env=HOME=/{home}"), format!("--workdir=/{home}/project")]);
        command.args(flags).arg("--rootfs").arg(self.system()).args(["sh", "-c", line]);
        command.current_dir("/").output().expect("unshare starts")
    }

    /// Runs `stockade run LINE` in such a container, with a line that shows that it runs, that the project can be
    /// written, and tries what it must not.
    pub fn confined(&self, flags: &[&str], user: &str) -> Seen {
        let line = "echo hi > made; cat made; id -u; echo x > /etc/planted";
        let output = self.run(flags, user, &format!("/opt/stockade run --no-daemon -- '{line}'"));
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

    /// Returns what `stockade doctor --json` reports in such a container.
    pub fn doctor(&self, flags: &[&str], user: &str) -> Value {
        let output = self.run(flags, user, "/opt/stockade doctor --json");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{flags:?} {user}: {error}: {} {}", text(&output.stdout), text(&output.stderr))
        })
    }

    /// Writes what both users have in their settings.
    pub fn settings(&self, settings: &Value) {
        for home in ["root", "home/user"] {
            let folder = self.system().join(home).join(".config/stockade");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("settings.json"), settings.to_string()).expect("settings");
        }
        self.belongs_to(0);
    }

    /// Writes Podman's profile without the calls that Docker's lacks, and with `more` of them.
    pub fn profile(&self, name: &str, more: &[&str]) -> Option<PathBuf> {
        let mut profile = podmans_profile()?;
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
            entries.push(json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
                {"index": 0, "value": 2_114_060_288_u32, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
            ]}));
        }
        // Docker's profile does not permit a call that it does not name, while Podman's says that there is no such call.
        entries.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}));
        profile["defaultErrnoRet"] = json!(1);
        profile["defaultErrno"] = json!("EPERM");
        let path = self.place.root.join(name);
        std::fs::write(&path, profile.to_string()).expect("the profile");
        Some(path)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A removal that fails leaves a few empty folders.
        let _ = std::fs::remove_dir_all(&self.store);
    }
}

/// Returns Podman's own profile, if it is where Podman looks for it.
pub fn podmans_profile() -> Option<Value> {
    let profile = std::fs::read_to_string(PODMANS_PROFILE).ok()?;
    Some(serde_json::from_str(&profile).expect("a profile"))
}

/// The home of a user in the container.
pub fn home(user: &str) -> &'static str {
    if user == "0" { "root" } else { "home/user" }
}

/// The flag that names a profile.
pub fn flag(profile: &Path) -> String {
    format!("--security-opt=seccomp={}", profile.display())
}

/// Results of a line.
pub struct Seen {
    pub output: String,
    pub told: String,
    pub status: Option<i32>,
    pub ran: bool,
    pub escaped: bool,
}

impl Seen {
    #[track_caller]
    pub fn assert_confined(&self, user: &str) {
        assert_eq!(
            (self.output.as_str(), self.ran),
            (format!("hi\n{user}\n").as_str(), true),
            "{}",
            self.told
        );
        assert!(!self.escaped, "a file outside of the project was made");
    }

    #[track_caller]
    pub fn assert_refused(&self, help: &str) {
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

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
