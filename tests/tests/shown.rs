//! Help, color, closed pipes, and the settings that `learn` and `allow --last` propose.

use std::process::{Output, Stdio};

use stockade_tests::Place;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn first_line(output: &Output) -> String {
    text(&output.stderr).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn help_of_a_subcommand_shows_its_own_options_and_names_the_global_ones() {
    let place = Place::new("help-options");
    let help = text(&place.output(["audit", "tail", "--help"]).stdout);
    assert!(help.starts_with("Show the newest records"), "{help}");
    let (own, global) = help.split_once("Global options").expect("the line");
    assert!(own.contains("--follow") && !own.contains("--setting-sources"), "{own}");
    assert!(global.contains("--setting-sources"), "{global}");
    let top = text(&place.output(["--help"]).stdout);
    assert!(top.contains("--setting-sources <LAYERS>"), "{top}");
}

#[test]
fn color_is_for_terminals_and_for_those_who_want_it() {
    let place = Place::new("color");
    let colored = |arguments: &[&str]| {
        let output = place.output(arguments);
        text(&output.stderr).contains("\u{1b}[")
    };
    assert!(!colored(&["check", "--", "ls"]));
    assert!(colored(&["--color", "always", "check", "--", "ls"]));
    assert!(!colored(&["check", "--color", "never", "--", "ls"]));
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    let place = Place::new("closed");
    assert!(place.output(["run", "true"]).status.success());
    for line in ["audit tail", "settings page", "policy show", "run --json true", "man run"] {
        let mut child = place
            .stockade(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("cannot be written"), "{line}");
    }
}

#[test]
fn what_was_refused_is_learned_or_allowed_after_a_yes_alone() {
    let place = Place::new("learn");
    let file = place.home().join("out.txt");
    std::fs::write(&file, "").expect("a file");
    let command = format!("echo x >> {}", file.display());
    let entry = format!("+ sandbox.filesystem.allowWrite: `{}`", file.display());
    let local = place.project().join(".stockade/settings.local.json");
    for arguments in
        [&["learn", "--dry-run", "--", &command][..], &["allow", "--last", "--dry-run"]]
    {
        let told = text(&place.output(arguments).stdout);
        assert!(told.contains(&entry), "{arguments:?}: {told}");
    }
    // Without a terminal nothing widens.
    for arguments in [&["learn", "--", &command][..], &["allow", "--last"]] {
        assert_eq!(place.output(arguments).status.code(), Some(121), "{arguments:?}");
        assert!(!local.exists());
    }
    let none = place.output(["learn", "--", "echo x > inside.txt"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(first_line(&none).contains("nothing was refused"), "{}", first_line(&none));
    assert_eq!(place.output(["block", "--last"]).status.code(), Some(122));
}
