//! git and archives write files of the root that they do not name: a person is asked before the run, so that no version of the
//! project is left half written.
#![cfg(target_os = "linux")]

use std::process::Command;

use serde_json::json;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade};

/// Runs a text as the person does and returns what it printed.
fn plain(place: &Place, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-ec", script]).current_dir(place.project());
    command.env("HOME", place.home()).env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("bash");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A project with a branch that has protected files, one that has none, and archives.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    plain(
        &place,
        "git config --global user.name a; git config --global user.email a@b; rm -rf .git; git init -q -b main .
         echo a > a; echo '*.tar' > .gitignore; git add .; git commit -qm one
         git switch -qc plain; echo p > p; git add .; git commit -qm plain
         git switch -qc side main; mkdir -p .vscode sub; echo a=1 > .npmrc; echo 2 > .vscode/tasks.json; echo 3 > sub/.pylintrc
         mkdir -p sub/.idea; echo 4 > sub/.idea/x; git add .; git commit -qm two; git tag there
         tar -cf own.tar .npmrc .vscode sub; tar -cf sub.tar sub
         git switch -q main; echo b > b; git add .; git commit -qm three",
    );
    place
}

/// Everything about the working tree: what is checked out, and what differs from it.
fn state(place: &Place) -> String {
    plain(
        place,
        "git rev-parse HEAD; git status --porcelain; git stash list; cat .npmrc .vscode/tasks.json 2>&1 || true",
    )
}

/// Texts that write the protected files of `side` into the root, from `main`.
const LINES: [&str; 16] = [
    "git switch side",
    "git checkout side",
    "git -C . checkout -q there",
    "git switch -c more side",
    "git checkout -b more there^0",
    "git merge --no-edit side",
    "git rebase side",
    "git cherry-pick side",
    "git reset --hard side",
    "git checkout side -- .",
    "git restore --source side .npmrc .vscode",
    "git checkout -q plain && git checkout side",
    "mkdir -p below && cd below && git checkout side; rmdir below",
    "true; (cd . && timeout 9 git checkout side)",
    "tar xf own.tar",
    "tar --extract --file=own.tar",
];

#[test]
fn a_person_is_asked_before_git_or_an_archive_writes_protected_files() {
    let place = place("root-versions");
    let before = state(&place);
    for line in LINES {
        let ran = place.output(["run", line]);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(
            (ran.status.code(), state(&place)),
            (Some(121), before.clone()),
            "{line}: {told}"
        );
        assert!(told.contains("/.npmrc"), "{line}: {told}");
        assert!(told.contains("sandbox.filesystem.allowWrite"), "{line}: {told}");
    }
}

#[test]
fn a_yes_lets_the_whole_version_be_written() {
    for line in
        ["git switch side", "git merge --no-edit side", "git reset --hard side", "tar xf own.tar"]
    {
        let place = place("root-versions-yes");
        let Some(mut terminal) = Terminal::start(&place, stockade(), &["run", line]) else {
            skip("a_yes_lets_the_whole_version_be_written", "no terminal");
            return;
        };
        terminal.wait_for("run it?");
        terminal.press("once\n");
        let (_, screen) = terminal.end();
        let held = plain(&place, "cat .npmrc .vscode/tasks.json sub/.pylintrc; git ls-files -md");
        assert_eq!(held, "a=1\n2\n3\n", "{line}: {screen}");
        if line != "git switch side" {
            continue;
        }
        // And back: git removes the files and the directory.
        let ran = place.output(["run", "git switch main"]);
        assert_eq!(ran.status.code(), Some(121));
        let mut terminal =
            Terminal::start(&place, stockade(), &["run", "git switch main"]).expect("one");
        terminal.wait_for("run it?");
        terminal.press("once\n");
        let (_, screen) = terminal.end();
        let left = plain(&place, "git status --porcelain; ls -A; git branch --show-current");
        assert!(!left.contains(".npmrc") && !left.contains(".vscode"), "{left}: {screen}");
        assert!(left.ends_with("main\n"), "{left}: {screen}");
    }
}

#[test]
fn versions_without_such_files_and_files_further_down_are_written_unasked() {
    let place = place("root-versions-free");
    for line in [
        "git switch plain && git switch main",
        "git checkout -q plain && git checkout -q -",
        "git merge --no-edit plain",
        "git stash",
        "git reset --hard HEAD~1",
        "git checkout -- a; git restore .",
        "git switch -c fresh",
        "tar xf sub.tar",
        "tar tf own.tar",
        "git checkout side -- sub",
        "mkdir -p inner && tar xf own.tar -C inner",
    ] {
        let ran = place.output(["run", line]);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{line}: {told}");
    }
    // A setting opens them for good.
    let paths = [".npmrc", ".vscode"].map(|name| place.project().join(name));
    let settings = json!({ "sandbox": { "filesystem": { "allowWrite": paths } } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    plain(&place, "git add -A; git commit -qm all");
    let ran = place.output(["run", "git switch side && git switch fresh"]);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn what_no_command_may_write_is_told_before_the_run() {
    let place = Place::new("root-versions-never");
    plain(
        &place,
        "git config --global user.name a; git config --global user.email a@b; rm -rf .git; git init -q -b main .
         echo a > a; git add .; git commit -qm one; git switch -qc side; echo x > .envrc; echo y > y
         git add .; git commit -qm two; git switch -q main",
    );
    let ran = place.output(["run", "git switch side"]);
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    let branch = plain(&place, "git branch --show-current; ls");
    assert_eq!((ran.status.code(), branch.as_str()), (Some(121), "main\na\n"), "{told}");
    assert!(told.contains("/.envrc`, which no sandboxed command can"), "{told}");
}

#[test]
fn what_earlier_commands_left_in_the_objects_neither_stops_nor_forges_a_question() {
    let place = place("root-versions-forged");
    let forge = "git switch -q side; mkdir '.vscode/a\", \"'; echo x > '.vscode/a\", \"/b'; git add .; git commit -qm x; git switch -q main
         mkfifo .git/refs/heads/fifo; echo 'ref: refs/heads/loop' > .git/refs/heads/loop; ln -s /etc/passwd .git/refs/heads/out
         mkdir -p .git/objects/pack; head -c 3000 /dev/urandom > .git/objects/pack/pack-x.pack; head -c 3000 /dev/urandom > .git/objects/pack/pack-x.idx
         chmod 0 .git/objects/pack/pack-x.idx";
    plain(&place, forge);
    for rev in ["fifo", "loop", "out", "side~99999999", "side^{tree}", "@{-99999}", "stash@{7}"] {
        let start = std::time::Instant::now();
        let ran = place.output(["check", &format!("git switch --detach {rev}")]);
        let told = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success() && told.contains("allowed"), "{rev}: {told}");
        assert!(start.elapsed().as_secs() < 30, "{rev}");
    }
    plain(&place, "rm -f .git/objects/pack/pack-x.*");
    let ran = place.output(["run", "git switch side"]);
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(121), "{told}");
    // The name ends no string of the settings that are shown.
    let (_, settings) = told.split_once("to allow: ").expect("what allows it");
    let is_whole = settings.contains(r#".vscode/a\", \"/b""#) && !settings.contains(r#"a", ""#);
    assert!(is_whole, "{told}");
}
