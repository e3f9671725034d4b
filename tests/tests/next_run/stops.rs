//! Nothing that a command can make in its project stops the next command.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use stockade_tests::{Place, give, is_root};

/// Someone who is not root.
const ORDINARY: u32 = 1234;

/// Work that every command must do after another.
const NEXT: &str = "echo ran; touch new && echo wrote";

/// Runs the text of a script, so that no rule about its words is asked; as an ordinary user, and as root where the
/// tests run so.
struct Runs<'a> {
    place: &'a Place,
    ordinary: bool,
}

impl Runs<'_> {
    fn run(&self, text: &str) -> (i32, String) {
        self.run_in(&self.place.project(), text)
    }

    fn run_in(&self, cwd: &Path, text: &str) -> (i32, String) {
        fs::write(cwd.join("act.sh"), text).expect("a script");
        self.start(cwd, "bash act.sh")
    }

    fn run_told(&self, text: &str) -> String {
        self.start(&self.place.project(), text).1
    }

    fn start(&self, cwd: &Path, text: &str) -> (i32, String) {
        let folder = cwd.to_str().expect("a name in UTF-8");
        let arguments = ["--cwd", folder, "run", "--no-daemon", "--", text];
        let mut command = self.command(&arguments);
        if !is_root() {
            // The project may be closed to whoever starts it; the arguments name it.
            command.current_dir(&self.place.root);
        }
        let output: Output = command.output().expect("stockade");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let own = self.place.stockade(arguments);
        if !(self.ordinary && is_root()) {
            return own;
        }
        let id = ORDINARY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.arg(self.place.root.join("stockade")).args(arguments).env_clear();
        command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.current_dir(self.place.project()).stdin(Stdio::null());
        command
    }

    fn settings(&self, settings: &Value) {
        self.place.write("home/.config/stockade/settings.json", &settings.to_string());
        if self.ordinary && is_root() {
            give(&self.place.home(), ORDINARY);
        }
    }

    /// Runs [`NEXT`] and returns what it told besides.
    fn goes_on(&self, what: &str) -> String {
        let _ = fs::remove_file(self.place.project().join("new"));
        let (code, told) = self.run(NEXT);
        let rest = told.strip_prefix("ran\nwrote\n");
        assert!(code == 0 && rest.is_some(), "{what}: {code} {told}");
        rest.unwrap_or_default().to_owned()
    }
}

/// Does something in a place for root and one for an ordinary user.
fn as_each(name: &str, act: impl Fn(&Runs<'_>)) {
    for ordinary in [false, true] {
        if ordinary && !is_root() {
            continue;
        }
        let place = Place::new(name);
        if ordinary {
            // Gives everything, and makes the copy that an ordinary user can start.
            drop(place.stockade_as(ORDINARY, ["--version"]));
        }
        act(&Runs { place: &place, ordinary });
    }
}

/// Every kind of rule about `path`.
fn rules(path: &str) -> Vec<(&'static str, Value)> {
    let files = |key: &str| json!({"sandbox": {"filesystem": {key: [path]}}});
    vec![
        ("allow Edit", json!({"permissions": {"allow": [format!("Edit(/{path}/**)")]}})),
        ("deny Edit", json!({"permissions": {"deny": [format!("Edit(/{path}/**)")]}})),
        ("deny Read", json!({"permissions": {"deny": ["Read(./sr*)"]}})),
        ("further directory", json!({"permissions": {"additionalDirectories": [path]}})),
        ("allowWrite", files("allowWrite")),
        ("denyWrite", files("denyWrite")),
        ("denyRead", files("denyRead")),
        (
            "denyRead below",
            json!({"sandbox": {"filesystem": {"denyRead": [format!("{path}/a/b")]}}}),
        ),
        ("allowRead", files("allowRead")),
        ("socket", json!({"sandbox": {"network": {"allowUnixSockets": [path]}}})),
    ]
}

#[test]
fn a_link_that_leads_nowhere_or_everywhere_stops_no_command() {
    let long = "x".repeat(300);
    let links = ["src", "/", ".", "..", "/proc/self/cwd", "/dev/stdin", "/usr", &long];
    as_each("links-under-rules", |runs| {
        let path = runs.place.project().join("src").display().to_string();
        for link in links {
            runs.settings(&json!({}));
            // A run with a supervisor is kept from most of them; what is there stops nothing, whoever made it.
            let made = Command::new("sh")
                .args(["-c", &format!("rm -rf src; ln -s {link} src")])
                .current_dir(runs.place.project())
                .status();
            assert!(made.expect("sh starts").success(), "{link}");
            for (name, settings) in rules(&path) {
                runs.settings(&settings);
                runs.goes_on(&format!("{name}, src -> {link:.20}"));
            }
        }
    });
}

#[test]
fn what_a_rule_refuses_behind_a_link_stays_refused() {
    as_each("refused-behind-links", |runs| {
        let place = runs.place;
        place.write("project/real/key", "text of a key\n");
        runs.settings(&json!({}));
        runs.run("ln -s real conf; ln -s conf again; ln -s round round");
        let path = |name: &str| place.project().join(name).display().to_string();
        let denied = [path("again/key"), path("round")];
        runs.settings(&json!({"sandbox": {"filesystem": {"denyRead": denied}}}));
        let (_, told) = runs.run("cat real/key conf/key again/key; rm round; mkdir round");
        assert!(!told.contains("text of a key"), "{told}");
        // A name that leads nowhere is not made to lead elsewhere.
        assert!(place.project().join("round").is_symlink(), "{told}");
    });
}

#[test]
fn tens_of_thousands_of_directories_are_looked_through() {
    as_each("many-directories", |runs| {
        let place = runs.place;
        let settings = json!({"permissions": {"deny": ["Read(./**/*.pem)", "Read(./**/.secret)"]}});
        runs.settings(&settings);
        for outer in 0..70 {
            for inner in 0..300 {
                let folder = place.project().join(format!("modules/{outer}/{inner}"));
                fs::create_dir_all(folder).expect("a directory");
            }
        }
        place.write("project/modules/69/299/key.pem", "text of a key\n");
        place.write("project/modules/0/.secret", "text of a key\n");
        place.write("project/modules/5/open", "text of a file\n");
        let (code, told) = runs.run("cat modules/69/299/key.pem modules/0/.secret; cat modules/5/open; echo > a.pem; echo ran");
        assert!(code == 0 && told.contains("ran\n") && !told.contains("text of a key"), "{told}");
        // Where there was no time for all of it, that is told.
        let whole = told.contains("could not be looked through in 2 s and counts as a whole");
        assert!(whole || told.contains("text of a file"), "{told}");
        assert!(!place.project().join("a.pem").exists());
        runs.goes_on("21,070 directories");
    });
}

/// Makes directories of mode 000 in the project.
fn closed_directories(runs: &Runs<'_>, count: usize) {
    for number in 0..count {
        let folder = runs.place.project().join(format!("closed{number}"));
        DirBuilder::new().mode(0o000).create(&folder).expect("a directory");
        if runs.ordinary {
            lchown(&folder, Some(ORDINARY), Some(ORDINARY)).expect("chown");
        }
    }
}

/// Starts `stockade` where a process may have so many files open.
fn with_descriptors(runs: &Runs<'_>, (soft, hard): (usize, usize), text: &str) -> (i32, String) {
    let own = runs.command(&["run", "--no-daemon", "--", text]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -S -n {soft}; ulimit -H -n {hard}; exec \"$0\" \"$@\"")]);
    command.arg(own.get_program()).args(own.get_args()).env_clear();
    command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = command.current_dir(runs.place.project()).stdin(Stdio::null()).output();
    let output = output.expect("sh starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn thousands_of_closed_directories_stop_no_command() {
    as_each("closed-thousands", |runs| {
        runs.settings(&json!({"permissions": {"deny": ["Read(./**/*.pem)"]}}));
        closed_directories(runs, 2_000);
        let (code, told) = with_descriptors(runs, (1_024, 8_192), "echo ran; ulimit -S -n");
        assert_eq!((code, told.as_str()), (0, "ran\n1024\n"));
    });
}

#[test]
fn a_directory_with_too_many_closed_ones_is_read_only_and_the_next_command_runs() {
    as_each("closed-too-many", |runs| {
        if !runs.ordinary && is_root() {
            return; // for root there is none that cannot be looked through
        }
        runs.settings(&json!({"permissions": {"deny": ["Read(./**/*.pem)"]}}));
        closed_directories(runs, 900);
        let key = runs.place.project().join("closed7/a.pem");
        let open = |mode| {
            let closed = key.parent().expect("a directory");
            fs::set_permissions(closed, fs::Permissions::from_mode(mode)).expect("chmod");
        };
        open(0o755);
        fs::write(&key, "secret").expect("a file");
        open(0o000);
        let run = |text: &str| with_descriptors(runs, (1_024, 1_024), text);
        // Nothing that it holds is opened by the command, or moved to where it could be.
        let tries = "chmod 755 closed7; cat closed7/a.pem; mv closed7 /tmp/x; mv closed7 moved; echo ran; touch new";
        runs.place.write("project/act.sh", tries);
        let (code, told) = run("bash act.sh");
        assert!(code == 1 && told.contains("ran\n") && !told.contains("secret"), "{told}");
        assert!(!runs.place.project().join("new").exists(), "{told}");
        let run = || run("echo ran");
        let (_, help) = told.split_once("directories; `").expect("what helps");
        let (command, _) = help.split_once('`').expect("a command");
        let helped = Command::new("sh").args(["-c", command]).status().expect("sh starts");
        assert!(helped.success(), "{command}");
        assert_eq!(run(), (0, "ran\n".to_owned()));
    });
}

#[test]
fn a_directory_with_too_many_refused_files_is_read_only_and_the_next_command_runs() {
    as_each("refused-too-many", |runs| {
        runs.settings(&json!({"permissions": {"deny": ["Edit(./**/kept-*)"]}}));
        let project = runs.place.project();
        for number in 0..900 {
            runs.place.write(&format!("project/kept-{number}"), "old");
        }
        runs.place.write("project/below/plain", "");
        let run = |text: &str| with_descriptors(runs, (1_024, 1_024), text);
        let tries = "echo x > kept-7; echo x >> /proc/self/cwd/kept-8; mv kept-9 moved; rm -f kept-1; cp act.sh kept-2; ln kept-3 l; \
                     ln -s kept-4 s; touch new below/new; mkdir d; sed -i s/old/x/ kept-5; : > kept-900; truncate -s 0 kept-6; echo ran";
        runs.place.write("project/act.sh", tries);
        // Over more than one command.
        for _ in 0..2 {
            let (code, told) = run("bash act.sh");
            assert!(code == 0 && told.contains("ran\n"), "{told}");
            assert!(told.contains("move the refused files into a directory below it"), "{told}");
            let made = ["new", "moved", "l", "s", "d", "kept-900", "below/new"];
            assert_eq!(made.map(|name| project.join(name).exists()), [false; 7], "{told}");
            let held = |number| fs::read_to_string(project.join(format!("kept-{number}")));
            assert!((0..900).all(|it| held(it).is_ok_and(|text| text == "old")), "{told}");
        }
        // The advice helps.
        let mut moves = Command::new("sh");
        moves.args(["-c", "mv kept-* below/"]).current_dir(&project);
        assert!(moves.status().expect("sh starts").success());
        runs.place.write("project/act.sh", "echo ran; touch new; echo x > below/kept-7");
        let (_, told) = run("bash act.sh");
        assert!(told.starts_with("ran\n") && project.join("new").exists(), "{told}");
        assert_eq!(fs::read_to_string(project.join("below/kept-7")).expect("a file"), "old");
    });
}

#[test]
fn a_directory_that_is_gone_is_told_with_what_helps() {
    as_each("directory-gone", |runs| {
        let (place, project) = (runs.place, runs.place.project());
        let gone = project.join("gone");
        let name = gone.to_str().expect("text");
        // One that settings add stops nothing.
        runs.settings(&json!({"permissions": {"additionalDirectories": [name]}}));
        runs.goes_on("additionalDirectories");
        for option in ["--add-dir", "--cwd", "--project"] {
            let run = || {
                let arguments = [option, name, "run", "--no-daemon", "--", "echo ran"];
                let output = runs.command(&arguments).output().expect("stockade");
                let text = [output.stdout, output.stderr].concat();
                (output.status.code(), String::from_utf8_lossy(&text).into_owned())
            };
            let (code, told) = run();
            assert_eq!(code, Some(122), "{option}: {told}");
            assert!(told.contains(&format!("try: `mkdir -p {name}` makes it again")), "{told}");
            fs::create_dir(&gone).expect("a directory");
            if runs.ordinary {
                give(&gone, ORDINARY);
            }
            assert_eq!(run(), (Some(0), "ran\n".to_owned()), "{option}");
            fs::remove_dir(&gone).expect("it goes");
        }
        // The directory of the caller.
        let run = |cwd: &str| {
            fs::create_dir(&gone).expect("a directory");
            let own = runs.command(&[]);
            let mut command = Command::new("sh");
            let text =
                format!("rmdir {name}; exec \"$0\" \"$@\" {cwd} run --no-daemon -- 'echo ran'");
            command.args(["-c", &text]).arg(own.get_program()).args(own.get_args()).env_clear();
            command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = command.current_dir(&gone).stdin(Stdio::null()).output().expect("sh");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert_eq!(run(""), (Some(122), String::new()));
        let there = place.project().display().to_string();
        assert_eq!(run(&format!("--cwd {there}")), (Some(0), "ran\n".to_owned()));
    });
}

/// Sets the flag when it goes, after a panic as well: a thread that waits for the flag ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_path_that_is_exchanged_meanwhile_leads_nowhere_and_stops_one_call_at_most() {
    as_each("exchanged", |runs| {
        let place = runs.place;
        for name in ["project/src/old", "home/kept/old"] {
            place.write(name, "");
        }
        let (src, link) = (place.project().join("src"), place.project().join("link"));
        symlink("../home/kept", &link).expect("a link");
        if runs.ordinary {
            give(&place.project(), ORDINARY);
            give(&place.home(), ORDINARY);
        }
        runs.settings(&json!({"sandbox": {"filesystem": {"allowWrite": [&src]}}}));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&over);
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let exchanged = renameat_with(CWD, &src, CWD, &link, RenameFlags::EXCHANGE);
                    exchanged.expect("both are there");
                }
            });
            for _ in 0..8 {
                let (code, told) = runs.run("echo > src/planted; echo ran");
                let looked_anew = told.contains("run the call again");
                assert!((code == 0 && told.contains("ran\n")) || looked_anew, "{code} {told}");
            }
        });
        runs.goes_on("exchanged");
        assert!(!place.home().join("kept/planted").exists());
    });
}

#[test]
fn what_one_command_closes_is_refused_to_the_one_that_opens_it() {
    as_each("closed-and-opened", |runs| {
        let place = runs.place;
        let denied = json!({"permissions": {"deny": ["Read(./**/*.pem)"]},
            "sandbox": {"filesystem": {"denyRead": [format!("{}/**/.token", place.project().display())]}}});
        for closed in ["d", "d/sub", "d d/sub"] {
            for name in ["key.pem", ".env", ".token", "sub/key.pem", "sub/.env", "sub/.token"] {
                place.write(&format!("project/d/{name}"), "text of a secret\n");
            }
            if runs.ordinary {
                give(&place.project(), ORDINARY);
            }
            runs.settings(&json!({}));
            // Made by hand what the end of a run would open again.
            for name in closed.split(' ').rev() {
                close(place, name, 0o000);
            }
            runs.settings(&denied);
            let text = "chmod 755 d; chmod 755 d/sub; cat d/* d/.[a-z]* d/sub/* d/sub/.[a-z]*; mv d e; cat e/* e/sub/*; echo ran";
            let (_, told) = runs.run(text);
            assert!(
                told.contains("ran\n") && !told.contains("text of a secret"),
                "{closed}: {told}"
            );
            for name in closed.split(' ') {
                close(place, name, 0o755);
            }
            // The same by commands alone.
            runs.run(&format!("chmod 000 {closed}"));
            let (_, told) = runs.run(text);
            assert!(
                told.contains("ran\n") && !told.contains("text of a secret"),
                "{closed}: {told}"
            );
            for name in ["d", "d/sub"] {
                close(place, name, 0o755);
            }
        }
    });
}

#[test]
fn masses_of_files_that_are_hidden_by_default_stop_no_command() {
    as_each("masses", |runs| {
        let made = "for i in $(seq 1200); do : > .env.$i; done; ls -a | grep -c '^[.]env'";
        let (_, told) = runs.run(made);
        assert!(told.starts_with("1000\n"), "{told}");
        assert!(
            told.contains("more than 1000 files named `.env`, `.env.*` in one directory"),
            "{told}"
        );
        let ways =
            "touch f; ln -s f .env.s; ln f .env.l; mv f .env.m; mkdir d; ls -a | grep -c '^[.]env'";
        let (_, told) = runs.run(ways);
        assert!(told.starts_with("1000\n"), "{told}");
        // Names are free in a directory that no later run sees.
        let free = "for i in $(seq 1100); do : > /tmp/.env.$i; done && echo made";
        assert_eq!(runs.run(free), (0, "made\n".to_owned()));
        let (status, told) = runs.run(NEXT);
        assert_eq!((status, told.as_str()), (0, "ran\nwrote\n"));
        // Nothing keeps a person from making more.
        std::fs::write(runs.place.project().join(".env.own"), "SECRET=1").expect("a file");
        let (_, told) = runs.run("cat .env.own .env.1; echo read");
        assert_eq!(told, "read\n");
    });
}

#[test]
fn odd_names_and_deep_trees_stop_no_command() {
    let acts = [
        (
            "mkdir $'a\\nb' $'\\e[2J' 'a*[?' $'\\xff'; touch $'\\xff/\\xfe.pem'; mkfifo pipe.pe",
            "odd names",
        ),
        (
            "n=$(printf 'x%.0s' {1..255}); for i in $(seq 30); do mkdir $n && cd $n; done",
            "long paths",
        ),
        ("for i in $(seq 200); do mkdir d && cd d; done", "deep tree"),
        (
            "mkdir l; cd l; for i in $(seq 40); do ln -s / l$i; ln -s . m$i; ln -s /usr n$i; done",
            "links",
        ),
        (
            "git init -q sub; rm -rf sub/.git/HEAD; cd sub; for i in $(seq 50); do mkdir -p .git/modules/$i; done",
            "halves",
        ),
    ];
    let deny = ["Read(./**/*.pem)", "Edit(./*/*/**/k)", "Read(./l/*/*/key)"];
    for (text, what) in acts {
        as_each("odd-names", |runs| {
            runs.settings(&json!({"permissions": {"deny": deny}}));
            runs.run(text);
            runs.goes_on(what);
        });
    }
}

/// Sets the mode of something below the project, as a run that was killed may leave it.
fn close(place: &Place, name: &str, mode: u32) {
    // A closed directory is not looked through for the one that `.` is.
    let path: PathBuf = place.project().join(name).components().collect();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_directory_that_a_command_closes_is_open_for_the_next() {
    as_each("closed-directories", |runs| {
        let place = runs.place;
        place.write("project/conf/key", "text of a key\n");
        place.write("project/sub/file", "");
        if runs.ordinary {
            give(&place.project(), ORDINARY);
        }
        let denied = place.project().join("conf/key").display().to_string();
        runs.settings(&json!({"sandbox": {"filesystem": {"denyRead": [denied]}}}));
        for closed in ["chmod 000 .", "chmod 555 .", "chmod 600 .", "chmod 000 conf .git ."] {
            let (code, told) = runs.run(closed);
            assert!(code == 0 && told.contains("restored to"), "{closed}: {code} {told}");
            runs.goes_on(closed);
        }
        let sub = place.project().join("sub");
        let (_, told) = runs.run_in(&sub, "chmod 000 .");
        assert!(told.contains("restored to"), "{told}");
        assert_eq!(runs.run_in(&sub, "echo ran"), (0, "ran\n".to_owned()));
    });
}

#[test]
fn what_a_killed_command_left_closed_is_refused_all_the_same() {
    as_each("left-closed", |runs| {
        let place = runs.place;
        place.write("project/conf/inner/key", "text of a key\n");
        place.write("project/.git/objects/ab/0123456789abcdef0123456789abcdef012345", "an object");
        place.write("project/.git/hooks/x.sample", "");
        if runs.ordinary {
            give(&place.project(), ORDINARY);
        }
        let denied = place.project().join("conf/inner/key").display().to_string();
        runs.settings(&json!({"sandbox": {"filesystem": {"denyRead": [denied]}}}));
        close(place, "conf/inner", 0o000);
        close(place, ".git", 0o000);
        let opens = "chmod -R 755 conf .git; cat conf/inner/key; rm -rf .git/objects; echo x > .git/hooks/pre-commit; echo ran";
        let (code, told) = runs.run(opens);
        assert!(code == 0 && told.contains("ran\n"), "{code} {told}");
        assert!(!told.contains("text of a key"), "{told}");
        close(place, ".git", 0o755);
        let objects = place.project().join(".git/objects/ab");
        assert_eq!(fs::read_dir(objects).expect("objects").count(), 1, "{told}");
        assert!(!place.project().join(".git/hooks/pre-commit").exists(), "{told}");
        // An obstacle that keeps a command from its start is told with its fix.
        close(place, ".", 0o000);
        let told = runs.run_told("echo ran");
        close(place, ".", 0o755);
        let mends = format!("`chmod u+rwx {}` opens it again", place.project().display());
        assert!(told.contains(&mends), "{told}");
        runs.goes_on("opened");
    });
}
