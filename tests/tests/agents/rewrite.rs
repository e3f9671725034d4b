//! What the hook puts in the place of an allowed command.

use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::Place;

use super::{AGENTS, call, denying, frame, given, text};

#[test]
fn a_rewritten_command_runs_through_the_gate() {
    let place = denying("rewrite");
    // These two take no new input.
    let takes = |event: &str| !["cline", "beforeShellExecution"].contains(&event);
    for (agent, file, event) in AGENTS.into_iter().filter(|it| takes(it.0) && takes(it.2)) {
        let line = "printf '%s' \"it's $((1+1))\" > made.txt; echo x > ~/outside";
        let output =
            given(&place, agent, &["--rewrite"], frame(&place, file, event, line).as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let found = [
            "/hookSpecificOutput/updatedInput",
            "/hookSpecificOutput/tool_input",
            "/modifiedArgs",
            "/updated_input",
        ]
        .iter()
        .find_map(|path| answer.pointer(path));
        let command = found.and_then(|input| input["command"].as_str()).expect("a new command");
        let mut shell = Command::new("bash");
        let plain = place.stockade([""; 0]);
        shell.args(["-c", command]).current_dir(place.project()).env_clear();
        shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let ran = shell.output().expect("bash");
        let made = place.project().join("made.txt");
        assert_eq!(std::fs::read_to_string(&made).expect("it ran"), "it's 2", "{agent}: {ran:?}");
        assert!(!place.home().join("outside").exists(), "{agent}: it ran unconfined");
        std::fs::remove_file(made).expect("it was made");
    }
}

#[test]
fn a_rewritten_command_means_the_same_whatever_its_text() {
    let place = Place::new("quoting");
    let long = format!("printf %s {} | wc -c", "x".repeat(100 << 10));
    for line in [
        "printf '%s|' \"it's\" 'a\"b' a\\'b \"\\$HOME\" \\\\",
        "cat <<'END'\n  $(touch no) `x` 'y'\nEND\necho done",
        "cat <<-END\n\tindented $((1 + 1))\n\tEND",
        "echo one\n\n# a comment with a ' in it\necho two",
        "sleep 0 & wait; echo after",
        "printf '\\303\\251 \u{e9} \u{1f980}'; false || echo $?",
        "echo a \\\n  b; exit 3",
        "f() { echo \"<$*>\"; }; f 'x  y' \"'\" '\"'",
        "! true; echo \"!$?!\"",
        &long,
    ] {
        let frame = call(
            &place,
            "claude",
            "Bash",
            json!({"command": line, "run_in_background": true, "timeout": 1000}),
        );
        let output = given(&place, "claude", &["--rewrite"], frame.as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let input = &answer["hookSpecificOutput"]["updatedInput"];
        assert_eq!(
            (&input["run_in_background"], &input["timeout"]),
            (&json!(true), &json!(1000)),
            "{line}: {answer}"
        );
        let ran = |line: &str| {
            let plain = place.stockade([""; 0]);
            let mut shell = Command::new("bash");
            shell.args(["-c", line]).current_dir(place.project()).env_clear();
            shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = shell.output().expect("bash");
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        assert_eq!(ran(input["command"].as_str().expect("a command")), ran(line), "{line}");
    }
    assert!(!place.project().join("no").exists());
}
