//! A script that a shell is given runs as one that is started by its path: confined unasked, denied by its name, asked
//! about without confinement; and a shell without a script reads an input that is empty, or asks.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use stockade_tests::Place;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A project with a script that writes in it and outside of it, and a rule to keep.
fn place(name: &str, settings: &str) -> Place {
    let place = Place::new(name);
    place.write("home/.config/stockade/settings.json", settings);
    place.write("project/x.sh", "echo in > inside; echo out > ~/outside && echo wrote \"$1\"");
    place
}

/// Runs `command` and returns its exit status, its output and its messages.
fn run(place: &Place, command: &str) -> (Option<i32>, String, String) {
    let output = place.output(["run", "--no-daemon", "--", command]);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_script_runs_confined_unasked_and_writes_nothing_outside() {
    let place = place("script", r#"{"permissions": {"deny": ["Bash(shred:*)"]}}"#);
    let (inside, outside) = (place.project().join("inside"), place.home().join("outside"));
    let mut plain = Command::new("bash");
    plain.args(["x.sh", "it"]).current_dir(place.project()).env("HOME", place.home());
    assert_eq!(text(&plain.output().expect("bash").stdout), "wrote it\n");
    std::fs::remove_file(&inside).expect("what it wrote");
    std::fs::remove_file(&outside).expect("what it wrote");
    for command in ["bash x.sh it", "cd . && sh -e ./x.sh it 2>&1 | cat"] {
        let ran = run(&place, command);
        assert!(!ran.1.contains("wrote"), "{ran:?}");
        assert!([&ran.1, &ran.2].iter().any(|told| told.contains("Read-only")), "{ran:?}");
        assert_eq!(std::fs::read_to_string(&inside).expect("it ran"), "in\n");
        assert!(!outside.exists());
        std::fs::remove_file(&inside).expect("what it wrote");
    }
}

#[test]
fn a_deny_rule_for_the_script_refuses_it_and_one_that_the_text_writes_asks() {
    let rules = r#"{"permissions": {"deny": ["Bash(./x.sh *)", "Read(secret/**)"]}}"#;
    let place = place("script-denied", rules);
    place.write("project/secret/y.sh", "echo in > inside");
    let inside = place.project().join("inside");
    for (command, told) in [
        ("bash x.sh it", "`Bash(./x.sh *)`"),
        ("timeout 9 bash -e x.sh it", "`Bash(./x.sh *)`"),
        ("bash secret/y.sh", "`Read(secret/**)`"),
        (
            "echo 'echo in > inside' > z.sh; bash z.sh",
            "the text around it may have written the file",
        ),
    ] {
        let ran = run(&place, command);
        assert!(ran.0 != Some(0) && ran.2.contains(told), "{command}: {ran:?}");
        assert!(!inside.exists() && !place.project().join("z.sh").exists(), "{command}");
    }
}

#[test]
fn without_a_sandbox_a_script_asks_as_a_program_does() {
    let place = place("script-asked", r#"{"sandbox": {"enabled": false}}"#);
    for command in ["./x.sh it", "bash x.sh it"] {
        let ran = run(&place, command);
        assert!(ran.0 != Some(0) && ran.2.contains("no rule allows it"), "{command}: {ran:?}");
        assert!(!place.project().join("inside").exists(), "{command}");
    }
}

#[test]
fn a_shell_without_a_script_runs_nothing_where_there_is_no_input_and_asks_where_there_is() {
    let place = place("no-script", r#"{"permissions": {"deny": ["Bash(shred:*)"]}}"#);
    let command = "bash; echo after; exec sh -s a";
    assert_eq!(run(&place, command), (Some(0), "after\n".to_owned(), String::new()));
    for piped in ["echo 'echo in > inside' | bash", "{ bash; } <<< 'echo in > inside'"] {
        assert_ne!(run(&place, piped).0, Some(0), "{piped}");
    }
    let mut with_input = place.stockade(["run", "--no-daemon", "--", command]);
    with_input.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = with_input.spawn().expect("stockade starts");
    // `stockade` may refuse before it has read anything.
    let _ = child.stdin.take().expect("an input").write_all(b"echo in > inside\n");
    let output = child.wait_with_output().expect("it ends");
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("standard input"), "{}", text(&output.stderr));
    assert!(!place.project().join("inside").exists());
}
