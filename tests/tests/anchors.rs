//! Rules hold from everywhere: below the project, in repositories that a run made, and in either home.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_tests::Place;

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Runs a command in `folder`, and returns what it wrote and what was told beside it.
fn run(place: &Place, folder: &Path, line: &str) -> (String, String) {
    let mut command = place.stockade(["run", "--no-daemon", "--", line]);
    let output = command.current_dir(folder).output().expect("the executable starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn decision(place: &Place, folder: &Path, line: &str) -> String {
    let mut command = place.stockade(["check", "--no-daemon", "--json", "--", line]);
    let output = command.current_dir(folder).output().expect("the executable starts");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    answer["decision"].as_str().expect("a decision").to_owned()
}

const SECRETS: [&str; 4] = [".env", "conf/key", "private/key", "part/deep.pem"];

/// A project with secrets, and rules about them whose paths name no place of their own.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    for secret in SECRETS {
        place.write(&format!("project/{secret}"), &format!("text of {secret}\n"));
    }
    place.write("project/kept/file", "kept\n");
    place.write("project/src/open", "open\n");
    let settings = json!({
        "permissions": { "deny": ["Read(./.env)", "Read(conf/key)", "Edit(kept/file)"] },
        "sandbox": { "filesystem": { "denyRead": ["private"], "denyWrite": ["./locked"] },
                     "credentials": { "files": [{ "path": "part/*.pem" }] } },
    });
    user(&place, &settings);
    place
}

/// Says what a command in `folder` could get at of what is refused, by a way that the text does not tell.
#[track_caller]
fn nothing_is_reached(place: &Place, folder: &Path, up: &str) {
    // Written backwards, so that the text names none of them.
    let names = SECRETS.map(|secret| format!("{up}/{secret}").chars().rev().collect::<String>());
    let names = names.join(" ");
    let line = format!(
        "python3 -c 'import sys\nfor n in sys.argv[1:]:\n  try: print(open(n[::-1]).read())\n  except OSError as e: print(e.strerror)' {names}"
    );
    let (told, notes) = run(place, folder, &line);
    assert!(!told.contains("text of"), "{told}{notes}");
    assert_eq!(told.lines().count(), SECRETS.len(), "{told}{notes}");
    let line = format!("python3 -c 'open(\"{up}/kept/file\", \"w\")'; mkdir {up}/locked; echo ran");
    let (told, notes) = run(place, folder, &line);
    assert_eq!(told, "ran\n", "{notes}");
    assert_eq!(fs::read_to_string(place.project().join("kept/file")).expect("it"), "kept\n");
    assert!(!place.project().join("locked").exists(), "{notes}");
    for secret in [".env", "conf/key"] {
        assert_eq!(decision(place, folder, &format!("cat {up}/{secret}")), "deny", "{secret}");
    }
}

#[test]
fn what_is_refused_is_refused_from_below_the_project() {
    let place = place("from-below");
    let src = place.project().join("src");
    // The acts themselves are possible; a file of this name is asked for unless it is allowed.
    let env = fs::canonicalize(place.project()).expect("a folder").join(".env");
    user(&place, &json!({ "sandbox": { "filesystem": { "allowRead": [env] } } }));
    let (told, notes) =
        run(&place, &src, "cat ../.env ../private/key; mkdir ../locked && echo made");
    assert_eq!(told, "text of .env\ntext of private/key\nmade\n", "{notes}");
    fs::remove_dir(place.project().join("locked")).expect("it");
    let place = self::place("from-below");
    nothing_is_reached(&place, &place.project().join("src"), "..");
}

#[test]
fn a_repository_that_a_run_makes_moves_no_root() {
    let place = place("made-root");
    let project = place.project();
    let script = "mkdir -p sub && git init -q sub && \
                  git -c user.name=x -c user.email=x@x commit -q --allow-empty -m zero && git worktree add -q tree && echo made";
    let (told, notes) = run(&place, &project, script);
    assert_eq!(told, "made\n", "{notes}");
    for made in ["sub", "tree"] {
        let folder = project.join(made);
        assert!(folder.join(".git").exists(), "{made}");
        nothing_is_reached(&place, &folder, "..");
        fs::create_dir_all(folder.join("deep/.git")).expect("a folder");
        nothing_is_reached(&place, &folder.join("deep"), "../..");
    }
}

/// Returns the home of the password database.
fn other_home() -> PathBuf {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").expect("the users");
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&uid)).expect("this user");
    line.split(':').nth(5).expect("a home").into()
}

#[test]
fn a_home_is_that_of_the_variable_and_that_of_the_database() {
    let place = Place::new("two-homes");
    let other = other_home();
    let rules = json!({ "permissions": { "deny": ["Read(~/no-such-key)"], "allow": ["Read(~/no-such-note)"] },
                        "sandbox": { "enabled": false } });
    user(&place, &rules);
    let ask = |home: &Path, folder: &Path, file: &str| {
        let line = format!("cat {}/{file}", folder.display());
        let mut command = place.stockade(["check", "--no-daemon", "--json", "--", &line]);
        command.env("HOME", home).env("XDG_CONFIG_HOME", place.home().join(".config"));
        let output = command.output().expect("the executable starts");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        answer["decision"].as_str().expect("a decision").to_owned()
    };
    for folder in [&place.home(), &other] {
        assert_eq!(ask(&place.home(), folder, "no-such-key"), "deny", "{folder:?}");
        assert_eq!(ask(&place.home(), folder, "no-such-note"), "ask", "{folder:?}");
    }
    assert_eq!(ask(&other, &other, "no-such-note"), "allow");
}
