//! The names of programs: each counts only for a file that no command can change, and what was looked up is what runs.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::Place;

/// A place with a program in the project that leaves a mark in the home directory, which no confined command can.
fn planted(test: &str, name: &str) -> (Place, PathBuf) {
    let place = Place::new(test);
    let mark = place.home().join("mark");
    let text = format!("#!/bin/sh\necho planted; echo \"$0\" >> '{}'\n", mark.display());
    place.write("program", &text);
    place.write("project/venv/bin/.keep", "");
    let program = place.project().join("venv/bin").join(name);
    stockade_tests::copy_program(&place.root.join("program"), &program);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    // The act succeeds where nothing is in its way.
    assert!(Command::new(&program).status().expect("it starts").success());
    std::fs::remove_file(&mark).expect("it left its mark");
    (place, mark)
}

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The search path of the machine behind `first`.
fn search(first: &str) -> String {
    format!("{first}:{}", std::env::var("PATH").expect("a search path"))
}

fn run(place: &Place, search: &str, words: &[&str]) -> Output {
    let mut command = place.stockade([&["run", "--no-daemon", "--"], words].concat());
    command.env("PATH", search).output().expect("it starts")
}

#[test]
fn a_planted_program_never_runs_unconfined() {
    let (place, mark) = planted("known-planted", "id");
    let bin = place.project().join("venv/bin");
    symlink(&bin, place.root.join("link")).expect("a link");
    let entries = [
        bin.display().to_string(),
        place.root.join("link").display().to_string(),
        format!("{}/../project/venv/bin", place.home().display()),
        "venv/bin".to_owned(),
    ];
    let excluded = json!({ "enabled": true, "excludedCommands": ["id:*"] });
    for sandbox in [json!({ "enabled": false }), excluded] {
        user(&place, &json!({"sandbox": sandbox, "permissions": {"allow": ["Bash(id:*)"]}}));
        for entry in &entries {
            for words in [&["id -u"][..], &["id", "-u"], &["id", "-u", "root"]] {
                let output = run(&place, &search(entry), words);
                let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
                assert!(!mark.exists(), "{sandbox} {entry} {words:?} {stderr}");
                assert!(stdout.trim().parse::<u32>().is_ok(), "{stdout}{stderr}");
                let told =
                    stderr.contains("commands can write there, and this command runs unsandboxed");
                assert!(told, "{stderr}");
            }
        }
    }
}

#[test]
fn no_way_of_naming_it_makes_a_planted_program_an_excluded_one() {
    let (place, mark) = planted("known-excluded", "id");
    let excluded = json!({ "enabled": true, "excludedCommands": ["id:*", "git:*"] });
    user(&place, &json!({"sandbox": excluded, "permissions": {"allow": ["Bash"]}}));
    let bin = place.project().join("venv/bin");
    std::fs::create_dir(place.project().join("empty")).expect("a folder");
    for line in [
        "PATH=venv/bin id".to_owned(),
        format!("PATH={}:$PATH id", bin.display()),
        "export PATH=venv/bin; id".to_owned(),
        "venv/bin/id".to_owned(),
        "cd venv/bin && ./id".to_owned(),
        "hash -p venv/bin/id id; id".to_owned(),
        "env PATH=venv/bin id".to_owned(),
        "id() { venv/bin/id; }; id".to_owned(),
        "GIT_EXTERNAL_DIFF=venv/bin/id git diff --no-index .git/HEAD venv/bin/id".to_owned(),
    ] {
        let output = run(&place, &search("/nonexistent"), &[&line]);
        assert!(!mark.exists(), "{line} {}", text(&output.stderr));
    }
}

#[test]
fn a_program_that_lies_only_in_the_project_stays_confined() {
    let (place, mark) = planted("known-absent", "only-here");
    let bin = place.project().join("venv/bin").display().to_string();
    let excluded = json!({ "enabled": true, "excludedCommands": ["only-here:*"] });
    user(&place, &json!({"sandbox": excluded, "permissions": {"allow": ["Bash(only-here:*)"]}}));
    let output = run(&place, &search(&bin), &["only-here a"]);
    assert_eq!(text(&output.stdout), "planted\n", "{}", text(&output.stderr));
    assert!(!mark.exists());
    // Without the sandbox it is not found, and it is said why.
    user(
        &place,
        &json!({"permissions": {"allow": ["Bash(only-here:*)"]}, "sandbox": {"enabled": false}}),
    );
    let output = run(&place, &search(&bin), &["only-here a"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(121), "{stderr}");
    assert!(stderr.contains("only-here` is `"), "{stderr}");
    assert!(!mark.exists());
}

/// Returns the decision of `stockade hook claude` about a command that the agent runs itself.
fn hooked(place: &Place, search: &str, line: &str) -> String {
    let frame = json!({
        "session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": line}, "tool_use_id": "t",
    });
    let mut command = place.stockade(["hook", "claude"]);
    command.env("PATH", search).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    write!(stdin, "{frame}").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    let decided = &answer["hookSpecificOutput"]["permissionDecision"];
    decided.as_str().expect("a decision").to_owned()
}

#[test]
fn a_known_name_counts_only_for_a_known_file_where_the_agent_runs_it() {
    let (place, _) = planted("known-caller", "ls");
    let bin = place.project().join("venv/bin").display().to_string();
    let allow = json!({"permissions": {"allow": ["Bash(ls -x)"], "defaultMode": "acceptEdits"}});
    user(&place, &allow);
    let decided = |search: &str, line: &str| hooked(&place, search, line);
    let (usual, exposed) = (search("/nonexistent"), search(&bin));
    assert_eq!(decided(&usual, "ls"), "allow");
    for line in ["ls", "ls -x", "timeout 5 ls", "cd venv && ls"] {
        assert_eq!(decided(&exposed, line), "ask", "{line}");
    }
    // A program that is not planted is what it was, as long as the text itself plants none.
    assert_eq!(decided(&exposed, "cat venv/a; pwd"), "allow");
    assert_eq!(decided(&usual, "cp a venv/bin/cat; cat a"), "allow");
    assert_eq!(decided(&exposed, "cp a venv/bin/cat; cat a"), "ask");
    for search in [".", "venv/bin", ""] {
        assert_eq!(decided(&format!("{search}:{usual}"), "mkdir d; cat a"), "ask", "{search}");
    }
}

#[test]
fn what_one_command_plants_the_next_does_not_run_unconfined() {
    let place = Place::new("known-sequence");
    let excluded = json!({ "enabled": true, "excludedCommands": ["id:*"] });
    user(&place, &json!({"sandbox": excluded, "permissions": {"allow": ["Bash(id:*)"]}}));
    let mark = place.home().join("mark");
    // A directory of programs that is part of the work, so that commands may write there.
    let bin = place.project().join("node_modules/.bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    let search = search(&bin.display().to_string());
    let plant =
        format!("printf '#!/bin/sh\\necho x > {}\\n' > evil; chmod +x evil", mark.display());
    for line in [plant.as_str(), "ln -s ../../evil node_modules/.bin/id", "id -u"] {
        let output = run(&place, &search, &[line]);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }
    assert!(place.project().join("node_modules/.bin/id").exists());
    assert!(!mark.exists());
}

#[test]
fn what_a_command_of_another_project_plants_does_not_run_unconfined_here() {
    let place = Place::new("known-elsewhere");
    let other = place.root.join("other");
    place.repository(&other);
    let mark = place.home().join("mark");
    let program = format!("#!/bin/sh\necho planted >> '{}'\n", mark.display());
    place.write("other/bin/program", &program);
    let mut plant =
        place.stockade(["run", "--no-daemon", "cp bin/program bin/id; chmod +x bin/id"]);
    let planted = plant.current_dir(&other).output().expect("it starts");
    assert_eq!(planted.status.code(), Some(0), "{}", text(&planted.stderr));
    // The act succeeds where nothing is in its way.
    assert!(Command::new(other.join("bin/id")).status().expect("it starts").success());
    std::fs::remove_file(&mark).expect("it left its mark");
    let bin = search(&other.join("bin").display().to_string());
    for sandbox in
        [json!({"enabled": false}), json!({"enabled": true, "excludedCommands": ["id:*"]})]
    {
        user(&place, &json!({ "sandbox": sandbox }));
        let output = run(&place, &bin, &["id -u"]);
        assert!(!mark.exists(), "{sandbox}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}
