//! What the hook puts in the place of an allowed command.

use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, stockade};

use super::{AGENTS, call, decision, denying, frame, given, given_to, text};

/// Where the new input of a call stands in the answers of agents.
const INPUTS: [&str; 4] = [
    "/hookSpecificOutput/updatedInput",
    "/hookSpecificOutput/tool_input",
    "/modifiedArgs",
    "/updated_input",
];

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
        let found = INPUTS.iter().find_map(|path| answer.pointer(path));
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

/// What the hook makes of a frame's command.
fn rewritten(place: &Place, agent: &str, frame: &str) -> String {
    let output = given(place, agent, &["--rewrite"], frame.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    let command = INPUTS.iter().find_map(|path| answer.pointer(path)?["command"].as_str());
    command.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_rewritten_command_names_the_session_of_its_frame() {
    let place = Place::new("rewrite-session");
    let _gateway = Gateway::start(&place);
    let gate = stockade().display();
    for (agent, file, event, session) in [
        ("claude", "hook_claude330", "PreToolUse", "c7304f71-2813-4226-84e2-855ce46977d3"),
        ("codex", "hook_codex", "PreToolUse", "01a2000c-484a-7883-8549-e1a8ee1cfda7"),
        ("gemini", "hook_gemini", "BeforeTool", "fe8b54f2-0ad0-4665-9e00-d12dff9003b2"),
        ("copilot", "hook_copilot", "preToolUse", "996840ca-52cd-4a74-87f7-b1555de3ec13"),
        ("opencode", "hook_opencode", "PreToolUse", "ses_dfff51730ffeYYf992W0AYtdrJ"),
        ("cursor", "hook_cursor", "preToolUse", "9f0c"),
    ] {
        let recorded = frame(&place, file, event, "pwd");
        let line = |session: &str| format!("'{gate}' 'run' '--for-agent' {session}'--' 'pwd'");
        let named = line(&format!("'--session' '{session}' "));
        assert_eq!(rewritten(&place, agent, &recorded), named, "{agent}");
        // A name that could be read as anything else is left out, and the command stays what it is.
        let id = Value::from(session).to_string();
        let with = |name: &Value| recorded.replace(&id, &name.to_string());
        assert_ne!(with(&json!("x")), recorded, "{agent}");
        let long = "a".repeat(129);
        for name in [
            "",
            " ",
            "a b",
            "it's",
            "a\"b",
            "a\nb",
            "a\tb",
            "\u{1b}[m",
            "a\0",
            "-v",
            "--",
            "$HOME",
            "`id`",
            "$(id)",
            "a;id",
            "a\\b",
            "../a",
            "é",
            "\u{202e}a",
            &long,
        ] {
            assert_eq!(
                rewritten(&place, agent, &with(&json!(name))),
                line(""),
                "{agent}: {name:?}"
            );
        }
        for other in [json!(null), json!(7), json!(["a"]), json!({"a": "b"})] {
            assert_eq!(rewritten(&place, agent, &with(&other)), line(""), "{agent}: {other}");
        }
    }
    // What the person named for the agent holds for its commands, too.
    let frame = call(&place, "claude", "Bash", json!({"command": "pwd"}));
    let mut hook = place.stockade(["hook", "claude", "--rewrite"]);
    let answer = text(
        &given_to(
            {
                hook.env("STOCKADE_SESSION", "mine");
                hook
            },
            frame.as_bytes(),
        )
        .stdout,
    );
    assert!(answer.contains("'--for-agent' '--session' 'mine' '--' 'pwd'"), "{answer}");
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

#[test]
fn a_question_is_about_what_the_agent_would_run() {
    let place = Place::new("rewrite-question");
    let settings = json!({ "permissions": { "ask": ["Bash(touch:*)"] } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    // After a yes these run what they sent, where no sandbox is; the one that takes a line with the question runs that.
    for (agent, file, event, runs) in [
        ("claude", "hook_claude330", "PreToolUse", "nobody"),
        ("copilot", "hook_copilot", "preToolUse", "caller"),
        ("cursor", "hook_cursor", "preToolUse", "caller"),
    ] {
        let frame = frame(&place, file, event, "touch made.txt");
        let output = given(&place, agent, &["--rewrite"], frame.as_bytes());
        assert_eq!(decision(&output).0, "ask", "{agent}: {}", text(&output.stdout));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let input = INPUTS.iter().find_map(|path| answer.pointer(path));
        let line = input.and_then(|input| input["command"].as_str());
        assert_eq!(
            line.is_some_and(|line| line.contains("'--asked'")),
            agent == "claude",
            "{answer}"
        );
        assert_eq!(input.is_some(), agent == "claude", "{answer}");
        let last = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "decision"]);
        let last: Value = serde_json::from_slice(&last.stdout).expect("one record");
        assert_eq!(last["runs"], runs, "{agent}");
    }
    // What is refused where no sandbox keeps it is refused, and not asked.
    let settings = json!({ "permissions": { "ask": ["Bash(touch:*)"], "defaultMode": "dontAsk" } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let frame = frame(&place, "hook_copilot", "preToolUse", "touch made.txt");
    let output = given(&place, "copilot", &["--rewrite"], frame.as_bytes());
    assert_eq!(decision(&output).0, "deny", "{}", text(&output.stdout));
}
