//! Nothing that a command can make in its project stops the next command.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::{Place, give, is_root};

/// Someone who is not root.
const ORDINARY: u32 = 1234;

/// What every command after another has to do.
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
        let output: Output = self.command(&arguments).output().expect("stockade");
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
fn a_hundred_thousand_directories_are_looked_through() {
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
    let path = place.project().join(name);
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
            assert!(code == 0 && told.contains("put back to"), "{closed}: {code} {told}");
            runs.goes_on(closed);
        }
        let sub = place.project().join("sub");
        let (_, told) = runs.run_in(&sub, "chmod 000 .");
        assert!(told.contains("put back to"), "{told}");
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
        // What keeps a command from its start is told with what mends it.
        close(place, ".", 0o000);
        let told = runs.run_told("echo ran");
        close(place, ".", 0o755);
        let mends = format!("`chmod u+rwx {}` opens it again", place.project().display());
        assert!(told.contains(&mends), "{told}");
        runs.goes_on("opened");
    });
}
