//! How far the protections between commands hold with the supervisor, without it, and with the sandbox off: each row of the
//! table in `docs/internals/threats.md` is tried on each of the three, and `stockade doctor` says there what was found.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};
use stockade_tests::machine::{self, Lacking};
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip};

/// Confinement of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Supervised,
    Unsupervised,
    Off,
}

const LEVELS: [Level; 3] = [Level::Supervised, Level::Unsupervised, Level::Off];

/// A project at one level, with settings of the person's.
struct At {
    level: Level,
    place: Place,
}

impl At {
    fn new(level: Level) -> At {
        let at = At { level, place: Place::new("levels") };
        at.settings(json!({}));
        at
    }

    /// Writes the person's settings: all commands are allowed, and what `more` says.
    fn settings(&self, more: Value) {
        let mut settings = json!({"permissions": {"allow": ["Bash"]}, "sandbox": {}});
        for (key, value) in more.as_object().expect("settings") {
            match settings[key].as_object_mut() {
                Some(known) => known.extend(value.as_object().expect("an object").clone()),
                None => settings[key] = value.clone(),
            }
        }
        match self.level {
            Level::Supervised => {}
            Level::Unsupervised => settings["sandbox"]["failIfUnavailable"] = json!(false),
            Level::Off => settings["sandbox"]["enabled"] = json!(false),
        }
        self.place.write("home/.config/stockade/settings.json", &settings.to_string());
    }

    /// Returns `stockade` on a machine of this level.
    fn stockade(&self, words: &[&str]) -> Command {
        self.on(self.place.stockade(words))
    }

    fn on(&self, command: Command) -> Command {
        let lacking: &[Lacking] = match self.level {
            Level::Supervised | Level::Off => &[],
            Level::Unsupervised => &[Lacking::Notifications],
        };
        machine::without(lacking, &command).expect("a Python that sets up the machine")
    }

    fn run(&self, line: &str) -> Output {
        self.stockade(&["run", "--no-daemon", "--", line]).output().expect("it starts")
    }

    /// Runs a script, of which the gate knows nothing but its name, and returns what it printed.
    fn script(&self, text: &str) -> String {
        self.place.write("project/act.sh", text);
        String::from_utf8_lossy(&self.run("bash act.sh").stdout).into_owned()
    }

    fn home(&self, path: &str) -> String {
        self.place.home().join(path).display().to_string()
    }

    fn project(&self, path: &str) -> String {
        self.place.project().join(path).display().to_string()
    }

    fn is_there(&self, path: &str) -> bool {
        self.place.root.join(path).symlink_metadata().is_ok()
    }
}

/// Returns what `doctor` says at a level: whether each protection holds.
fn doctor(level: Level) -> BTreeMap<String, bool> {
    static SAID: [OnceLock<BTreeMap<String, bool>>; 3] = [const { OnceLock::new() }; 3];
    let slot = match level {
        Level::Supervised => &SAID[0],
        Level::Unsupervised => &SAID[1],
        Level::Off => &SAID[2],
    };
    slot.get_or_init(|| {
        let output = At::new(level).stockade(&["doctor", "--json"]).output().expect("it starts");
        let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
        let rows = told["between_commands"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["holds"].as_bool()?));
        rows.iter().filter_map(row).collect()
    })
    .clone()
}

/// Tries one row at each level, and compares what was found with `expected`, at the levels in their order, and with what
/// `doctor` says there.
fn row(name: &str, expected: [bool; 3], holds: impl Fn(&At) -> bool) {
    let nothing = Command::new("true");
    if machine::without(&[], &nothing).is_none() {
        return skip(name, "there is no Python that sets up the machine");
    }
    for (level, expected) in LEVELS.into_iter().zip(expected) {
        assert_eq!(holds(&At::new(level)), expected, "{name}: {level:?}");
        assert_eq!(doctor(level).get(name), Some(&expected), "{name}: doctor, {level:?}");
    }
}

#[test]
fn links_grant_nothing() {
    row("links-grant-nothing", [true, true, false], |at| {
        at.place.write("home/kept/old", "");
        symlink(at.home("kept"), at.project("src")).expect("a link");
        // Calls and our own settings go over no such link at any level.
        let words = ["run", "--no-daemon", "--cwd", "src", "--", "true"];
        let led = at.stockade(&words).output().expect("it starts");
        assert!(!led.status.success(), "{led:?}");
        at.settings(json!({"sandbox": {"filesystem": {"allowWrite": [at.project("src")]}}}));
        at.script("echo x > src/new");
        !at.is_there("home/kept/new")
    });
}

#[test]
fn links_over_which_a_rule_refuses_stay() {
    row("links-of-denials-stay", [true, false, false], |at| {
        at.place.write("home/real/key", "secret");
        symlink(at.home("real"), at.project("conf")).expect("a link");
        at.settings(json!({"sandbox": {"filesystem": {"denyRead": [at.project("conf/key")]}}}));
        at.script("rm conf");
        at.is_there("project/conf")
    });
}

#[test]
fn protected_trees_are_closed() {
    row("protected-trees-closed", [true, true, false], |at| {
        at.place.write("home/.config/fish/config.fish", "");
        let opened = json!({"sandbox": {"filesystem": {"allowWrite": [at.home(".config/fish"), at.home(".local/bin")]}}});
        at.place.write("home/.local/bin/tool", "");
        at.settings(opened);
        at.script("echo x > ~/.config/fish/new; echo x > ~/.local/bin/new");
        !at.is_there("home/.config/fish/new") && !at.is_there("home/.local/bin/new")
    });
}

#[test]
fn a_known_name_is_a_known_file() {
    row("known-programs", [true, true, true], |at| {
        at.settings(json!({"sandbox": {"excludedCommands": ["uname"]}}));
        let planted = format!("#!/bin/sh\necho x > {}\n", at.home("mark"));
        at.place.write("project/bin/uname", &planted);
        let file = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at.project("bin/uname"), file).expect("chmod");
        let search = std::env::var("PATH").expect("a search path");
        let mut command = at.place.stockade(["run", "--no-daemon", "--", "uname"]);
        command.env("PATH", format!("{}:{search}", at.project("bin")));
        at.on(command).output().expect("it starts");
        !at.is_there("home/mark")
    });
}

#[test]
fn hooks_run_apart() {
    row("hooks-apart", [true, true, true], |at| {
        let planted = format!("#!/bin/sh\necho x > {}\n", at.home("mark"));
        at.place.write("project/hook.sh", &planted);
        let file = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at.project("hook.sh"), file).expect("chmod");
        let hook = json!({"type": "command", "command": at.project("hook.sh")});
        at.settings(json!({"hooks": {"PreToolUse": [{"matcher": "", "hooks": [hook]}]}}));
        at.run("true");
        !at.is_there("home/mark")
    });
}

#[test]
fn a_yes_is_to_what_was_shown() {
    row("yes-to-what-was-shown", [true, true, true], |at| {
        at.settings(json!({"permissions": {"ask": ["Bash(bash:*)"], "allow": []}}));
        at.place.write("project/x.sh", "true\n");
        let asked = at.stockade(&["run", "--no-daemon", "--", "bash x.sh"]);
        let words: Vec<String> =
            asked.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let terminal = Terminal::start(&at.place, Path::new(asked.get_program()), &words);
        let mut terminal = terminal.expect("`script` of util-linux");
        terminal.wait_for("run it?");
        at.place.write("project/x.sh", "echo x > made\n");
        terminal.press("yes\n");
        let (_, _) = terminal.end();
        !at.is_there("project/made")
    });
}

#[test]
fn rules_hold_from_everywhere() {
    row("rules-from-everywhere", [true, true, false], |at| {
        at.settings(json!({"permissions": {"allow": ["Bash"], "deny": ["Read(./secret.txt)"]}}));
        at.place.write("project/secret.txt", "secret");
        at.place.write("project/sub/x.sh", "cat ../secret.txt");
        let from_below = |line: &str| {
            let words = ["run", "--no-daemon", "--cwd", "sub", "--", line];
            let output = at.stockade(&words).output().expect("it starts");
            output.stdout.ends_with(b"secret")
        };
        assert!(!from_below("cat ../secret.txt"), "{:?}", at.level);
        !from_below("bash x.sh")
    });
}

#[test]
fn links_are_not_bait() {
    row("links-as-bait", [true, false, false], |at| {
        at.place.write("home/kept/private", "");
        at.script(&format!("ln -s {} bait", at.home("kept/private")));
        !at.is_there("project/bait")
    });
}

#[test]
fn a_second_name_is_not_written() {
    row("second-names", [true, false, false], |at| {
        at.place.write("home/store/file", "kept");
        fs::hard_link(at.home("store/file"), at.project("file")).expect("a link");
        at.script("echo changed > file");
        fs::read_to_string(at.home("store/file")).expect("a file") == "kept"
    });
}

#[test]
fn no_credentials_are_seen() {
    row("no-credentials", [true, true, false], |at| {
        let secret = "npm_abcdefghijklmnopqrstuvwxyz0123456789";
        at.place.write("home/.netrc", secret);
        at.place.write("home/.npmrc", &format!("//registry.npmjs.org/:_authToken={secret}\n"));
        at.place.write("project/.env", secret);
        let seen = at.script("cat ~/.netrc; cat ~/.npmrc; cat .env");
        !seen.contains(secret)
    });
}

#[test]
fn settings_of_tools_stay_as_they_are() {
    row("settings-of-tools", [true, false, false], |at| {
        at.script("echo x > lefthook.yml");
        !at.is_there("project/lefthook.yml")
    });
}

#[test]
fn what_commands_write_is_reviewed() {
    row("review", [true, false, false], |at| {
        at.script("echo x > Makefile");
        let output = at.stockade(&["review", "--json"]).output().expect("it starts");
        let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
        !told["files"].as_array().expect("files").is_empty()
    });
}

#[test]
fn the_next_command_starts() {
    row("next-command-starts", [true, false, false], |at| {
        at.script("chmod 000 .");
        let mode = fs::metadata(at.place.project()).expect("a directory").permissions().mode();
        mode & 0o700 == 0o700
    });
}

#[test]
fn what_tightens_is_inherited() {
    row("tightening-is-inherited", [true, true, true], |at| {
        let deny = json!({"permissions": {"deny": ["Bash(uname:*)"]}});
        at.place.write("project/.stockade/settings.json", &deny.to_string());
        at.place.repository(&at.place.project().join("sub"));
        let words = ["run", "--no-daemon", "--cwd", "sub", "--", "uname"];
        at.stockade(&words).output().expect("it starts").stdout.is_empty()
    });
}

/// The machine, and the first two lines of what `doctor` says there.
#[test]
fn doctor_begins_with_the_one_cause_and_the_one_fix_for_this_machine() {
    let place = Place::new("levels-cause");
    let said = |command: &mut Command| {
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(122), "{output:?}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        told.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    // The marks of container engines.
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    let filtered = match marks.iter().any(|mark| Path::new(mark).exists()) {
        true => {
            "  fix: start the container with a system-call profile that allows `clone` and `unshare` with namespace \
             flags and `mount` (such as `--security-opt seccomp=unconfined`), and with an unmasked `/proc` \
             (`--security-opt systempaths=unconfined`, Podman: `--security-opt unmask=ALL`)"
        }
        false => {
            "  fix: a system-call filter around this process refuses namespaces: start stockade outside of the \
             sandbox that set it; in a unit of systemd, remove `RestrictNamespaces` and `SystemCallFilter`"
        }
    };
    for (lacking, lines) in [
        (
            &[Lacking::Namespaces][..],
            [
                "not ready: a confined start: namespaces cannot be made: Operation not permitted (os error 1)",
                filtered,
            ],
        ),
        (
            &[Lacking::Namespaces, Lacking::Landlock][..],
            [
                "not ready: Landlock: the kernel has no Landlock, or it is switched off",
                "  fix: add `landlock` to the kernel's `lsm=` parameter",
            ],
        ),
        (
            &[Lacking::Notifications][..],
            [
                "not ready: a confined start: system-call filter with notifications: Invalid argument (os error 22)",
                "  fix: use Linux 5.9 or later, with `CONFIG_SECCOMP_FILTER`",
            ],
        ),
    ] {
        let doctor = machine::without(lacking, &place.stockade(["doctor"]));
        let mut doctor = doctor.expect("a Python that sets up the machine");
        assert_eq!(said(&mut doctor), lines, "{lacking:?}");
    }
    let inner = place.stockade(["doctor"]);
    let mut limited = Command::new("unshare");
    limited.args([
        "-Ur",
        "sh",
        "-c",
        "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"",
        "sh",
    ]);
    limited.arg(inner.get_program()).args(inner.get_args()).env_clear();
    limited.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(place.project());
    if !Command::new("unshare").args(["-Ur", "true"]).status().is_ok_and(|it| it.success()) {
        let test = "doctor_begins_with_the_one_cause_and_the_one_fix_for_this_machine";
        return skip(test, "no user namespace can be made, so its limit cannot be tried");
    }
    let lines = [
        "not ready: user namespaces: the kernel allows 0 of them",
        "  fix: run `sysctl -w user.max_user_namespaces=10000` as root",
    ];
    assert_eq!(said(&mut limited), lines);
}
