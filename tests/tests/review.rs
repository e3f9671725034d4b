//! `stockade review`: what commands and agents changed of the files that a person's tools execute.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, stockade, until, write_to_reader};

/// Runs `line` confined.
fn run(place: &Place, line: &str) {
    let ran = place.output(["run", line]);
    assert_eq!(ran.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Runs `script` as the person does.
fn plain(place: &Place, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", script]).current_dir(place.project());
    command.env("HOME", place.home()).env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(command.status().expect("bash").success(), "{script}");
}

fn review(place: &Place, more: &[&str]) -> (Option<i32>, Value) {
    let told = place.output([&["review", "--json"], more].concat());
    let value = serde_json::from_slice(&told.stdout);
    (told.status.code(), value.unwrap_or_else(|_| json!(String::from_utf8_lossy(&told.stderr))))
}

/// Returns the files that wait, by path below the project: the change and its lines.
fn waiting(place: &Place) -> BTreeMap<String, (String, String)> {
    let (status, told) = review(place, &[]);
    let files = told["files"].as_array().unwrap_or_else(|| panic!("{told}"));
    assert_eq!(status, Some(i32::from(!files.is_empty())), "{told}");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let project = format!("{}/", place.project().display());
    let one = |file: &Value| {
        let path = text(&file["path"]);
        let path = path.strip_prefix(&project).unwrap_or(&path).to_owned();
        (path, (text(&file["change"]), text(&file["diff"])))
    };
    files.iter().map(one).collect()
}

fn names(place: &Place) -> Vec<(String, String)> {
    waiting(place).into_iter().map(|(path, (change, _))| (path, change)).collect()
}

fn told(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(path, change)| ((*path).to_owned(), (*change).to_owned())).collect()
}

/// Marks all as looked at, at a terminal.
fn mark(test: &str, place: &Place) -> bool {
    let Some(mut terminal) = Terminal::start(place, stockade(), &["review", "--done"]) else {
        stockade_tests::skip(test, "no terminal");
        return false;
    };
    terminal.wait_for("reviewed? yes, no:");
    terminal.press("yes\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    true
}

#[test]
fn what_a_command_wrote_is_shown_with_the_command_and_the_lines() {
    let place = Place::new("review-shown");
    place.write("project/package.json", "{\n  \"name\": \"a\"\n}\n");
    assert_eq!(names(&place), []);
    let nothing = place.output(["review"]);
    let said = String::from_utf8_lossy(&nothing.stdout).into_owned();
    assert_eq!(said, "stockade: no files to review\n");
    run(&place, "cat package.json > notes.txt");
    assert_eq!(names(&place), []);
    run(
        &place,
        "sed -i 's/\"a\"/\"b\"/' package.json; echo 'token=ghp_abcdefghijklmnopqrstuvwxyz0123456789' > /dev/null",
    );
    let lines = "@@ -1 +1 @@\n {\n-  \"name\": \"a\"\n+  \"name\": \"b\"\n }";
    let expected = ("package.json".to_owned(), ("changed".to_owned(), lines.to_owned()));
    assert_eq!(waiting(&place), [expected].into());
    let (_, told) = review(&place, &[]);
    let writer = &told["files"][0]["writers"][0];
    let command = writer["command"].as_str().expect("a command");
    assert!(command.starts_with("sed -i 's/\"a\"/\"b\"/' package.json"), "{command}");
    assert!(!command.contains("ghp_"), "{command}");
    assert_eq!((&writer["program"], &writer["call"]), (&json!("sed"), &json!("rename")));
    let id = writer["decision_id"].as_str().expect("an id");
    let why = place.output(["audit", "why", id]);
    assert!(String::from_utf8_lossy(&why.stdout).contains("sed -i"), "{why:?}");
    let text = place.output(["review", "package.json"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.starts_with("package.json: changed; npm, yarn, pnpm and bun run its scripts\n"),
        "{text}"
    );
    assert!(text.contains("-  \"name\": \"a\"\n"), "{text}");
    assert_eq!(review(&place, &["notes.txt"]).1["files"], json!([]));
    // A file that is as it was waits no longer.
    run(&place, "sed -i 's/\"b\"/\"a\"/' package.json");
    assert_eq!(names(&place), []);
}

#[test]
fn a_commit_resets_nothing_and_what_was_there_first_counts() {
    let place = Place::new("review-commit");
    plain(&place, "git init -q .; git config user.name n; git config user.email n@example.invalid");
    plain(&place, "echo one > Makefile; git add .; git commit -qm one");
    run(&place, "echo two > Makefile");
    run(&place, "git add .; git commit -qm two");
    run(&place, "echo three > Makefile; git commit -qam three");
    let lines = "@@ -1 +1 @@\n-one\n+three".to_owned();
    let expected = ("Makefile".to_owned(), ("changed".to_owned(), lines));
    assert_eq!(waiting(&place), [expected].into());
    run(&place, "git checkout -q HEAD~1");
    assert!(waiting(&place)["Makefile"].1.ends_with("+two"));
    let (_, told) = review(&place, &[]);
    assert_eq!(told["files"][0]["writers"].as_array().map(Vec::len), Some(3), "{told}");
}

#[test]
fn every_way_over_several_commands_is_seen() {
    for (steps, expected) in [
        (&["echo x > a", "mv a Makefile"][..], &[("Makefile", "new")][..]),
        // Within one run a second name is the file itself; for the next one it is another file.
        (&["ln build.rs a; echo x >> a", "true"], &[("build.rs", "changed")]),
        (&["ln build.rs a", "echo x >> a"], &[]),
        (&["ln -s a build.gradle", "echo x > a"], &[("build.gradle", "new")]),
        (
            &["mkdir -p a/b", "echo x > a/b/ci.yml", "mv a .circleci"],
            &[(".circleci/b/ci.yml", "new")],
        ),
        (
            &["mkdir a", "ln -s a .circleci", "echo x > a/ci.yml"],
            // By the link and by what it leads to.
            &[(".circleci", "new"), ("a/ci.yml", "new")],
        ),
        (
            &[
                "mkdir node_modules",
                "mkdir node_modules/a; echo x > node_modules/a/setup.py",
                "mv node_modules/a b",
            ],
            &[("b/setup.py", "new")],
        ),
        (&["rm build.rs", "true"], &[("build.rs", "removed")]),
        (&["mv sub other", "true"], &[("other/Makefile", "new"), ("sub/Makefile", "removed")]),
        (&["truncate -s 1 build.rs"], &[("build.rs", "changed")]),
        (&["exec 3>>build.rs; rm -f a; echo x >&3"], &[("build.rs", "changed")]),
        (&["echo x > link.mk", "true"], &[("hidden.txt", "changed"), ("link.mk", "changed")]),
        (&["echo x > link.mk", "echo all: > hidden.txt"], &[]),
        (&["echo x > hidden.txt"], &[("hidden.txt", "changed")]),
        (&["cp build.rs a", "rm build.rs", "mv a build.rs"], &[]),
    ] {
        let place = Place::new("review-ways");
        place.write("project/build.rs", "fn main() {}\n");
        place.write("project/sub/Makefile", "all:\n");
        place.write("project/hidden.txt", "all:\n");
        std::os::unix::fs::symlink("hidden.txt", place.project().join("link.mk")).unwrap();
        std::os::unix::fs::symlink("hidden.txt", place.project().join("GNUmakefile")).unwrap();
        for step in steps {
            run(&place, step);
        }
        assert_eq!(names(&place), told(expected), "{steps:?}");
    }
}

#[test]
fn a_compiled_module_that_a_command_writes_is_shown_and_python_itself_writes_none() {
    let place = Place::new("pyc");
    place.write("project/harmless.py", "print('harmless')\n");
    run(&place, "python3 -c 'import harmless'");
    assert!(!place.project().join("__pycache__").exists());
    assert_eq!(names(&place), told(&[]));
    // A module of another source, as if it were that of the file.
    let compile = "python3 -c 'import importlib.util as u, py_compile as c; \
                   open(\"e.py\", \"w\").write(\"print(1)\"); \
                   c.compile(\"e.py\", cfile=u.cache_from_source(\"harmless.py\"), \
                   invalidation_mode=c.PycInvalidationMode.UNCHECKED_HASH)'";
    run(&place, compile);
    plain(&place, "python3 -c 'import harmless' > ../ran");
    assert_eq!(std::fs::read_to_string(place.root.join("ran")).expect("it ran"), "1\n");
    let listed = names(&place);
    let [(name, _)] = listed.as_slice() else { panic!("one file: {listed:?}") };
    assert!(name.starts_with("__pycache__/harmless.") && name.ends_with(".pyc"), "{name}");
    // Whoever wants them has them.
    let settings = r#"{"env": {"PYTHONDONTWRITEBYTECODE": ""}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place.write("project/other.py", "");
    run(&place, "python3 -c 'import other'");
    assert_eq!(names(&place).len(), 2);
}

#[test]
fn only_a_person_at_a_terminal_marks_it_and_then_only_what_was_shown() {
    let test = "only_a_person_at_a_terminal_marks_it_and_then_only_what_was_shown";
    let place = Place::new("review-mark");
    place.write("project/Makefile", "one\n");
    place.write("project/build.rs", "one\n");
    run(&place, "echo two > Makefile; ln build.rs other");
    let nobody = place.output(["review", "--done"]);
    assert_eq!(nobody.status.code(), Some(121), "{nobody:?}");
    assert_eq!(names(&place), told(&[("Makefile", "changed")]));
    // Neither shown nor marked from inside.
    let confined = format!(
        "{} review --state-dir {}",
        stockade_tests::stockade_word(),
        place.state().display()
    );
    for line in [confined.clone(), format!("{confined} --done")] {
        let inside = place.output(["run", &line]);
        let said = String::from_utf8_lossy(&inside.stderr).into_owned();
        assert_eq!(inside.status.code(), Some(122), "{said}");
        assert!(said.contains("a sandboxed command cannot see the files to review"), "{said}");
    }
    if !mark(test, &place) {
        return;
    }
    assert_eq!(names(&place), []);
    assert!(place.output(["audit", "verify"]).status.success());
    let grants = place.output(["audit", "search", "--json", "--kind", "grant"]);
    assert!(String::from_utf8_lossy(&grants.stdout).contains("reviewed "), "{grants:?}");
    // The next change counts from what was looked at; the person's own changes nobody asks about.
    plain(&place, "echo mine > Makefile");
    assert_eq!(names(&place), []);
    run(&place, "echo three > Makefile");
    assert_eq!(waiting(&place)["Makefile"].1, "@@ -1 +1 @@\n-mine\n+three");
    // A file that has a second name may be written by it later.
    run(&place, "echo two > other");
    let changed = fs::read_to_string(place.project().join("build.rs")).unwrap() == "two\n";
    assert_eq!(names(&place).iter().any(|(path, _)| path == "build.rs"), changed);
}

#[test]
fn what_goes_on_while_a_person_looks_is_shown_again() {
    let test = "what_goes_on_while_a_person_looks_is_shown_again";
    let place = Place::new("review-live");
    place.write("project/Makefile", "one\n");
    plain(&place, "mkfifo go");
    let line = "exec 3>>Makefile; echo two >&3; touch ready; read -r _ < go; echo three >&3";
    let mut child = place.stockade(["run", line]).stdin(Stdio::null()).spawn().expect("it starts");
    until("the command has begun", || place.project().join("ready").exists());
    assert_eq!(waiting(&place)["Makefile"].1, "@@ -1 +1 @@\n one\n+two");
    let marked = mark(test, &place);
    assert_eq!(names(&place).is_empty(), marked);
    write_to_reader(&place.project().join("go"), "\n");
    assert!(child.wait().expect("it ends").success());
    if marked {
        assert_eq!(waiting(&place)["Makefile"].1, "@@ -1 +1 @@\n one\n two\n+three");
    }
}

#[test]
fn what_a_killed_gateway_left_is_shown() {
    let place = Place::new("review-killed");
    place.write("project/Makefile", "one\n");
    let line = "echo two > Makefile; touch ready; sleep 1000";
    let mut child = place.stockade(["run", line]).stdin(Stdio::null()).spawn().expect("it starts");
    until("the command has begun", || place.project().join("ready").exists());
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    assert_eq!(names(&place), told(&[("Makefile", "changed")]));
    run(&place, "echo x > build.rs");
    assert_eq!(names(&place), told(&[("Makefile", "changed"), ("build.rs", "new")]));
}

#[test]
fn what_the_tools_of_an_agent_write_is_shown_whoever_judges() {
    let place = Place::new("review-edit");
    place.write("project/package.json", "{}\n");
    let settings = r#"{"permissions": {"allow": ["Edit"], "deny": ["Edit(justfile)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    let edit = |file: &str| {
        let frame = json!({
            "session_id": "s", "transcript_path": "/t", "cwd": place.project(), "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "u",
            "tool_input": { "file_path": place.project().join(file), "content": "new\n" },
        });
        let mut command = place.stockade(["hook", "claude"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().unwrap().write_all(frame.to_string().as_bytes()).unwrap();
        let answer = child.wait_with_output().expect("it answers");
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("an answer");
        let decision = answer["hookSpecificOutput"]["permissionDecision"].clone();
        decision.as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(edit("package.json"), "allow");
    // The agent has not written yet, and other commands run meanwhile.
    assert_eq!(names(&place), []);
    run(&place, "echo x > Makefile");
    place.write("project/package.json", "new\n");
    assert_eq!(edit("justfile"), "deny");
    place.write("project/justfile", "the person's\n");
    assert_eq!(edit("src/main.rs"), "allow");
    place.write("project/src/main.rs", "new\n");
    assert_eq!(names(&place), told(&[("Makefile", "new"), ("package.json", "changed")]));
    let (_, found) = review(&place, &[]);
    assert_eq!(found["files"][1]["writers"][0]["command"], json!("the tool Write of claude"));
    let gateway = Gateway::start(&place);
    assert_eq!(edit("sub/build.rs"), "allow");
    place.write("project/sub/build.rs", "new\n");
    run(&place, "echo x > sub/Rakefile");
    let all = [
        ("Makefile", "new"),
        ("package.json", "changed"),
        ("sub/Rakefile", "new"),
        ("sub/build.rs", "new"),
    ];
    assert_eq!(names(&place), told(&all));
    gateway.end();
}

#[test]
fn an_ordinary_user_has_it_as_well() {
    let test = "an_ordinary_user_has_it_as_well";
    if !stockade_tests::is_root() {
        return stockade_tests::skip(test, "it is an ordinary user already");
    }
    let place = Place::new("review-user");
    place.write("project/Makefile", "one\n");
    stockade_tests::give(&place.root, 65_534);
    let ran = place.stockade_as(65_534, ["run", "echo two > Makefile"]).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let told = place.stockade_as(65_534, ["review", "--json"]).output().expect("it runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(told["files"][0]["diff"], json!("@@ -1 +1 @@\n-one\n+two"));
}
