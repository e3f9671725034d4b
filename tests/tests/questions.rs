//! What an agent's person said yes to is what runs, once, for the agent that asked, as long as nothing changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, stockade};

/// What the agent does: its hook gets a frame, and what comes back is a line to run.
const AGENT: &str = r#"
hook() { "$GATE" hook claude --rewrite < "../frame-$1" > ../answer; }
line() { python3 -c 'import json; print(json.load(open("../answer"))["hookSpecificOutput"]["updatedInput"]["command"])'; }
run() { "${AGENT_SHELL:-bash}" -c "$1" > ../told 2>&1; echo "$?"; }
"#;

fn place(name: &str) -> Place {
    let place = Place::new(name);
    let careful = json!({ "sandbox": { "autoAllowBashIfSandboxed": false } });
    place.write("home/.config/stockade/settings.json", &careful.to_string());
    symlink(stockade(), place.root.join("bash")).expect("a link");
    place
}

fn frame(place: &Place, name: &str, command: &str) {
    let frame = json!({ "session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": command }, "tool_use_id": "t" });
    place.write(&format!("frame-{name}"), &frame.to_string());
}

/// Has a process that is the agent do these steps; its shell is our own where `ours` says so.
fn agent(place: &Place, ours: bool, steps: &str) -> Vec<String> {
    place.write("agent.sh", &format!("{AGENT}\n{steps}\ntrue\n"));
    let plain = place.stockade([""; 0]);
    let mut command = Command::new("bash");
    command.arg(place.root.join("agent.sh")).current_dir(place.project()).env_clear();
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env("GATE", stockade());
    if ours {
        command.env("AGENT_SHELL", place.root.join("bash"));
    }
    let output = command.output().expect("bash");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(str::to_owned).collect()
}

fn told(place: &Place) -> String {
    fs::read_to_string(place.root.join("told")).unwrap_or_default()
}

#[test]
fn a_yes_runs_what_was_shown_once() {
    for (ours, stays) in [(false, false), (true, false), (false, true), (true, true)] {
        let place = place("shown");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "made", "touch made.txt");
        frame(&place, "other", "touch other.txt");
        let at = format!("shell of ours: {ours}, a gateway that stays: {stays}");
        let out =
            agent(&place, ours, "hook made; L=$(line); run \"$L\"; rm -f made.txt; run \"$L\"");
        assert_eq!(out, ["0", "121"], "{at}: {}", told(&place));
        let answer = fs::read(place.root.join("answer")).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "ask");
        // Another text, another number and no number are another question.
        let other = "hook made; L=$(line); run \"${L/made.txt/made2.txt}\"; run \"$L\"";
        assert_eq!(agent(&place, ours, other), ["121", "0"], "{at}: {}", told(&place));
        let number = "hook made; L=$(line); N=$(echo \"$L\" | sed \"s/--asked' '[0-9a-f]*'/--asked' '0'/\"); \
                      B=$(echo \"$L\" | sed \"s/'--asked' '[0-9a-f]*' //\"); run \"$N\"; run \"$B\"; run 'touch x && '\"$L\"";
        fs::remove_file(place.project().join("made.txt")).expect("it was made");
        let out = agent(&place, ours, number);
        assert_eq!(
            out.get(..2),
            Some(&["121".to_owned(), "121".to_owned()][..]),
            "{at}: {}",
            told(&place)
        );
        // The agent's next call means that the answer was no.
        let out = agent(&place, ours, "hook made; L=$(line); hook other; run \"$L\"");
        assert_eq!(out, ["121"], "{at}: {}", told(&place));
        let found = ["made2.txt", "other.txt"].iter().any(|it| place.project().join(it).exists());
        assert!(!found, "{at}");
    }
}

#[test]
fn only_the_agent_itself_spends_a_yes() {
    for stays in [false, true] {
        let place = place("spent");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "made", "touch made.txt");
        // A program that the agent started, and one that it left behind.
        let by_child = "hook made; line > ../line; bash ../child.sh";
        place.write("child.sh", "bash -c \"$(cat ../line)\" > ../told 2>&1; echo $?\n");
        assert_eq!(agent(&place, false, by_child), ["121"], "{stays}: {}", told(&place));
        assert!(!place.project().join("made.txt").exists());
        // It is nobody's then.
        let after = format!("{by_child}; run \"$(cat ../line)\"");
        assert_eq!(agent(&place, false, &after), ["121", "121"], "{stays}: {}", told(&place));
        // Through a shell that only carries out the line it is the agent's.
        let through =
            "hook made; line > ../line; sh -c 'bash -c \"$(cat ../line)\" > ../told 2>&1; echo $?'";
        assert_eq!(agent(&place, false, through), ["0"], "{stays}: {}", told(&place));
    }
}

#[test]
fn what_changed_while_a_person_was_asked_is_asked_anew() {
    let place = place("changed");
    place.write("project/x.sh", "touch made.txt\n");
    place.write("project/sub/y.sh", "touch ../made.txt\n");
    place.write("project/same.sh", "true\n");
    for (text, change, expected) in [
        ("bash x.sh", "true", "0"),
        ("bash x.sh", "echo 'touch evil' > x.sh", "121"),
        ("bash x.sh", "echo 'touch evil' > new; mv new x.sh", "121"),
        ("bash x.sh", "mv x.sh real.sh; ln -s same.sh x.sh", "121"),
        ("bash x.sh", "rm x.sh", "121"),
        ("bash < x.sh", "echo 'touch evil' > x.sh", "121"),
        ("env A=b bash ./x.sh", "echo 'touch evil' > x.sh", "121"),
        ("cd sub && bash y.sh", "echo 'touch evil' > sub/y.sh", "121"),
        ("cd sub && bash y.sh", "echo 'touch evil' > x.sh", "0"),
        ("python3 later.py", "echo 'open(\"evil\", \"w\")' > later.py", "121"),
        (
            "touch made.txt",
            "echo '{\"sandbox\": {\"autoAllowBashIfSandboxed\": false, \"network\": {\"enabled\": false}}}' > \"$HOME/.config/stockade/settings.json\"",
            "121",
        ),
    ] {
        for (file, content) in [("x.sh", "touch made.txt\n"), ("sub/y.sh", "touch ../made.txt\n")] {
            let _ = fs::remove_file(place.project().join(file)); // it may be a link
            place.write(&format!("project/{file}"), content);
        }
        frame(&place, "made", text);
        let out = agent(&place, false, &format!("hook made; L=$(line); {change}; run \"$L\""));
        assert_eq!(out, [expected], "{text}: {change}: {}", told(&place));
        assert!(!place.project().join("evil").exists(), "{text}: {change}");
    }
}
