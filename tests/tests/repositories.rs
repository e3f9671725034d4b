//! The configuration of a git repository names programs: a rule for git, and what only reads, reach no repository whose
//! configuration may start one.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use stockade_tests::Place;

fn git(directory: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(directory).env_clear().env("PATH", std::env::var("PATH").expect("a path"));
    command.args(["-c", "user.name=a", "-c", "user.email=b", "-c", "init.defaultBranch=main"]);
    let output = command.args(words).output().expect("git starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a text where nobody can be asked; says how it ended and what was told.
fn run(place: &Place, line: &str) -> (Option<i32>, String) {
    let output = place.output(["run", "--no-daemon", line]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A project with a repository inside, in which git starts a program that leaves a mark, and with a harmless one.
fn place(name: &str, permissions: &serde_json::Value) -> (Place, std::path::PathBuf) {
    let place = Place::new(name);
    place.repository(&place.project());
    let settings = json!({ "sandbox": { "enabled": false }, "permissions": permissions });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let mark = place.home().join("mark");
    place.write("project/program", &format!("#!/bin/sh\necho ran >> '{}'\n", mark.display()));
    for name in ["vendor/evil", "vendor/plain"] {
        let inner = place.project().join(name);
        std::fs::create_dir_all(&inner).expect("a folder");
        git(&inner, &["init", "-q"]);
        git(&inner, &["commit", "-q", "--allow-empty", "-m", "x"]);
    }
    let program = format!("sh {}/program", place.project().display());
    git(&place.project().join("vendor/evil"), &["config", "core.fsmonitor", &program]);
    (place, mark)
}

#[test]
fn a_nested_repository_whose_configuration_starts_programs_is_asked_about() {
    let rules = json!({ "allow": ["Bash(git:*)", "Bash(git status)"] });
    for (name, permissions) in [("with-rule", rules), ("without-rule", json!({}))] {
        let (place, mark) = place(name, &permissions);
        // The act succeeds where nothing is in its way.
        git(&place.project().join("vendor/evil"), &["status"]);
        assert!(mark.exists());
        std::fs::remove_file(&mark).expect("the mark");
        for line in [
            "cd vendor/evil && git status",
            "git -C vendor/evil status",
            "git -C vendor -C evil status",
            "git --git-dir=vendor/evil/.git --work-tree=vendor/evil status",
            "git --git-dir vendor/evil/.git status",
            "GIT_DIR=vendor/evil/.git git status",
            "env GIT_DIR=vendor/evil/.git git status",
            "(cd vendor; cd evil; timeout 5 git status)",
            "cd \"$(echo vendor/evil)\" && git status",
        ] {
            let (status, told) = run(&place, line);
            assert_eq!(status, Some(121), "{name} {line}: {told}");
            assert!(!mark.exists(), "{name} {line}");
        }
        let (_, told) = run(&place, "git -C vendor/evil status");
        assert!(
            told.contains("sets `core.fsmonitor`, which can start a program or redirect git"),
            "{told}"
        );
        assert_eq!(run(&place, "git status").0, Some(0), "{name}");
    }
}

#[test]
fn a_harmless_repository_inside_and_the_projects_own_programs_need_no_question() {
    let (place, _) = place("harmless", &json!({ "allow": ["Bash(git:*)"] }));
    git(&place.project(), &["config", "core.hooksPath", ".husky/_"]);
    git(&place.project(), &["worktree", "add", "-q", "--orphan", "tree"]);
    for line in [
        "git status",
        "cd vendor/plain && git status",
        "git -C vendor/plain log --oneline",
        "git -C tree status",
    ] {
        let (status, told) = run(&place, line);
        assert_eq!(status, Some(0), "{line}: {told}");
    }
    // A text that adds is looked at with all that lies in the tree.
    std::fs::remove_dir_all(place.project().join("vendor/evil")).expect("a repository");
    let (status, told) = run(&place, "git add vendor && git status && cd vendor && git diff");
    assert_eq!(status, Some(0), "{told}");
}

#[test]
fn git_in_the_project_does_not_run_the_programs_of_a_repository_that_was_added() {
    let (place, mark) = place("added", &json!({ "allow": ["Bash(git:*)"] }));
    for line in [
        "git add -A && git commit -m x",
        "git add vendor; git status",
        "for i in 1 2; do git status; git add .; done",
        "git add -A && cd vendor && git diff",
        "git add -A && git -C . commit -qm x && git push",
    ] {
        let (status, told) = run(&place, line);
        assert_eq!(status, Some(121), "{line}: {told}");
        assert!(!mark.exists(), "{line}");
        assert!(told.contains("core.fsmonitor"), "{line}: {told}");
    }
    git(&place.project(), &["-c", "advice.addEmbeddedRepo=false", "add", "vendor/evil"]);
    git(&place.project(), &["status"]);
    assert!(mark.exists(), "the act succeeds where nothing is in its way");
    std::fs::remove_file(&mark).expect("the mark");
    for line in ["git status", "git commit -m x", "git diff"] {
        let (status, told) = run(&place, line);
        assert_eq!(status, Some(121), "{line}: {told}");
        assert!(!mark.exists(), "{line}");
    }
}
