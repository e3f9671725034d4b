//! Aliases and functions of a person in the texts of commands: judged where they are used.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use stockade_tests::Place;

use super::{denying, seen, text};

type Seen = (Option<i32>, String, String);

/// Hands `definitions` over, as a person's bash does.
fn hand_over(place: &Place, definitions: &str) -> Seen {
    let mut command = place.stockade(["snapshot"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(definitions.as_bytes()).expect("it reads");
    seen(&child.wait_with_output().expect("it ends"))
}

/// Returns these definitions as bash prints them.
fn printed(definitions: &str) -> String {
    let line = format!("shopt -s expand_aliases\n{definitions}\nalias -p; declare -f");
    let output = super::Command::new("bash").args(["--norc", "-c", &line]).output();
    text(&output.expect("bash starts").stdout)
}

#[test]
fn aliases_and_functions_of_the_person_run_as_they_were_judged() {
    let place = denying("sn-runs");
    assert_eq!(super::run(&place, &["-c", "hello"]).0, Some(127));
    let definitions = "alias one='printf %s\\\\n'\nalias new='touch made'\n\
                       hello() { one hello \"$1\"; twice; }\ntwice() { printf 'twice\\n'; }";
    let told = hand_over(&place, &printed(definitions));
    assert_eq!(told.0, Some(0), "{}", told.2);
    assert_eq!(told.2, "stockade: kept aliases: 2, functions: 2\n");
    // Through each door that gives a text to bash, and as a stranger to none of them.
    for words in [&["run", "--quiet", "--"][..], &["shell", "-c"]] {
        let run = |line: &str| seen(&place.output([words, &[line]].concat()));
        let told = |status, out: &str| (Some(status), out.to_owned(), String::new());
        assert_eq!(run("one x | cat"), told(0, "x\n"), "{words:?}");
        assert_eq!(run("hello you; echo $(one y)"), told(0, "hello\nyou\ntwice\ny\n"), "{words:?}");
        assert_eq!(run("'one' x").0, Some(127), "a word in quotes is no alias");
        // The rule is about what the alias stands for.
        let (status, _, said) = run("new");
        assert_eq!(status, Some(120), "{said}");
        assert!(said.starts_with("stockade: denied `touch made`"), "{said}");
    }
    let checked = place.output(["check", "--json", "--", "new"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("an object");
    assert_eq!((&checked["decision"], &checked["rule"]), (&json!("deny"), &json!("Bash(touch:*)")));
    assert!(!place.project().join("made").exists());
    let newest = place.output([
        "audit",
        "search",
        "--kind",
        "decision",
        "--json",
        "--command",
        "touch made",
    ]);
    assert!(text(&newest.stdout).contains("touch made"), "{}", text(&newest.stderr));
    assert_eq!(place.output(["snapshot", "--remove"]).status.code(), Some(0));
    assert_eq!(super::run(&place, &["-c", "one x"]).0, Some(127));
}

#[test]
fn a_function_in_which_something_is_denied_does_not_run() {
    let place = denying("sn-function");
    hand_over(&place, &printed("make_it() { echo begun; sub; }\nsub() { touch made; }"));
    let (status, out, said) = super::run(&place, &["-c", "make_it"]);
    assert_eq!((status, out.as_str()), (Some(120), ""), "{said}");
    assert!(said.contains("touch made"), "{said}");
    // A function that is not called takes no part.
    assert_eq!(super::run(&place, &["-c", "echo make_it"]).1, "make_it\n");
}

#[test]
fn nothing_in_the_sandbox_makes_or_changes_a_snapshot() {
    let place = denying("sn-inside");
    hand_over(&place, "alias one='printf 1'\n");
    let file = place.state().join("definitions.json");
    let before = std::fs::read(&file).expect("the file");
    let line = format!("echo \"alias one='printf 2'\" | {} snapshot", super::stockade_word());
    // As a text it is nothing that could be allowed, as a program of the project it runs confined.
    assert_eq!(super::run(&place, &["-c", &line]).0, Some(121));
    let program = place.project().join("x");
    stockade_tests::write_program(&program, &format!("#!/bin/sh\n{line}\n"));
    let (status, out, said) = super::run(&place, &["-c", "./x; one"]);
    assert_eq!((status, out.as_str()), (Some(0), "1"), "{said}");
    assert!(said.contains("a sandboxed command cannot change or see your aliases"), "{said}");
    let (status, _, said) = super::run(&place, &["-c", &format!("echo x > '{}'", file.display())]);
    assert_ne!(status, Some(0), "{said}");
    assert_eq!(std::fs::read(&file).expect("the file"), before);
}

#[test]
fn what_cannot_be_used_is_left_out_with_its_reason_and_what_is_broken_stops_a_call() {
    let place = Place::new("sn-left");
    let (status, _, said) = hand_over(&place, "alias s='sudo '\nalias ok='ls'\nrm -rf /\n");
    assert_eq!(status, Some(0), "{said}");
    let expected = "stockade: kept aliases: 1, functions: 0\n\
                    stockade: left out `s`: its value continues in the words after it\n\
                    stockade: left out `rm -rf /`: not an alias or a function as bash prints them\n";
    assert_eq!(said, expected);
    assert_eq!(text(&place.output(["snapshot", "--show"]).stdout), "alias ok='ls'\n");
    let (status, _, said) = hand_over(&place, "echo\n");
    assert_eq!(status, Some(122));
    assert!(said.contains("no alias and no function that can be used"), "{said}");
    let record = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "grant"]);
    assert!(text(&record.stdout).contains("aliases and functions, sha256 "));
    std::fs::write(place.state().join("definitions.json"), "{").expect("the file");
    let (status, _, said) = seen(&place.output(["run", "--", "ls"]));
    assert_eq!(status, Some(122), "{said}");
    assert!(said.contains("stockade snapshot"), "{said}");
}
