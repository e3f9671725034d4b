//! Commands that the hook puts in the place of allowed ones.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade};

use super::{AGENTS, call, decision, denying, frame, given, given_to, text};

/// Where the new input of a call stands in the answers of agents.
const INPUTS: [&str; 5] = [
    "/hookSpecificOutput/updatedInput",
    "/hookSpecificOutput/tool_input",
    "/modifiedArgs",
    "/updated_input",
    "/overrideInput",
];

#[test]
fn a_rewritten_command_runs_through_the_gate() {
    let place = denying("rewrite");
    // This event takes no new input.
    let takes = |event: &str| event != "beforeShellExecution";
    for (agent, file, event) in AGENTS.into_iter().filter(|it| takes(it.2)) {
        let line = "printf '%s' \"it's $((1+1))\" > made.txt; echo x > ~/outside";
        let output =
            given(&place, agent, &["--rewrite"], frame(&place, file, event, line).as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let found = INPUTS.iter().find_map(|path| answer.pointer(path));
        let command = found.and_then(new_command).expect("a new command");
        let ran = in_bash(&place, command);
        let made = place.project().join("made.txt");
        assert_eq!(std::fs::read_to_string(&made).expect("it ran"), "it's 2", "{agent}: {ran:?}");
        assert!(!place.home().join("outside").exists(), "{agent}: it ran unconfined");
        std::fs::remove_file(made).expect("it was made");
    }
}

/// The command of a new input; Cline has a list.
fn new_command(input: &Value) -> Option<&str> {
    input["command"].as_str().or_else(|| input["commands"][0].as_str())
}

/// Runs a line as an agent's shell does.
fn in_bash(place: &Place, line: &str) -> Output {
    let mut shell = Command::new("bash");
    let plain = place.stockade([""; 0]);
    shell.args(["-c", line]).current_dir(place.project()).env_clear();
    shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.output().expect("bash")
}

#[test]
fn a_refusal_does_not_end_the_run_of_cline() {
    let place = denying("rewrite-cline");
    let (harmless, denied) = ("echo x > made.txt", "touch 'it'\\''s'; echo x > made.txt");
    let place_of =
        |commands: Value| call(&place, "cline", "run_commands", json!({"commands": commands}));
    let frame = place_of(json!([harmless, denied]));
    let output = given(&place, "cline", &["--rewrite"], frame.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!(answer["cancel"], false, "{answer}");
    let lines = answer["overrideInput"]["commands"].as_array().expect("new commands");
    assert_eq!(lines.len(), 2, "{answer}");
    for line in lines {
        let ran = in_bash(&place, line.as_str().expect("a command"));
        let told = text(&ran.stderr);
        assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(120), ""), "{told}");
        assert!(told.contains("denied `touch 'it'") && told.contains("Bash(touch:*)"), "{told}");
    }
    assert!(!place.project().join("made.txt").exists(), "a refused list ran");
    // Without the gate's own line, a refusal is the one that the agent has.
    let output = given(&place, "cline", &[], frame.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!((&answer["cancel"], answer.get("overrideInput")), (&json!(true), None), "{answer}");
    // Allowed commands run through the gate, each for itself.
    let frame = place_of(json!([harmless, "echo two"]));
    let output = given(&place, "cline", &["--rewrite"], frame.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    let commands = answer["overrideInput"]["commands"].as_array().expect("new commands");
    let ran: Vec<_> = commands
        .iter()
        .map(|line| in_bash(&place, line.as_str().expect("a command")))
        .map(|ran| (ran.status.code(), text(&ran.stdout)))
        .collect();
    assert_eq!(ran, [(Some(0), String::new()), (Some(0), "two\n".to_owned())]);
    assert!(place.project().join("made.txt").exists());
}

#[test]
fn the_line_for_an_agent_that_joins_both_streams_keeps_their_order() {
    let place = denying("rewrite-order");
    let line = "for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done";
    let written = (1..=5).map(|n| format!("o{n}\ne{n}\n")).collect::<String>();
    for agent in ["codex", "gemini", "opencode"] {
        let (_, file, event) = AGENTS.into_iter().find(|it| it.0 == agent).expect("the agent");
        let output =
            given(&place, agent, &["--rewrite"], frame(&place, file, event, line).as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let found = INPUTS.iter().find_map(|path| answer.pointer(path));
        let ran = in_bash(&place, found.and_then(new_command).expect("a new command"));
        assert_eq!((text(&ran.stdout), text(&ran.stderr)), (written.clone(), String::new()));
    }
}

#[test]
fn codex_gets_a_terminal_where_it_has_one_itself() {
    let place = denying("rewrite-terminal");
    let frame =
        frame(&place, "hook_codex", "PreToolUse", "test -t 0 && test -t 1 && tty && stty size");
    let line = rewritten(&place, "codex", &frame);
    let ran = in_bash(&place, &line);
    assert_eq!(ran.status.code(), Some(1), "without a terminal: {}", text(&ran.stderr));
    let Some(mut terminal) = Terminal::start(&place, Path::new("bash"), &["-c", &line]) else {
        return skip(
            "codex_gets_a_terminal_where_it_has_one_itself",
            "the program `script`, which gives a terminal, is not installed",
        );
    };
    terminal.wait_for("/dev/pts/");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(0), "{screen}");
}

/// Returns the command that the hook puts in the place of a frame's command.
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
    for (agent, file, event, session, streams) in [
        ("claude", "hook_claude330", "PreToolUse", "c7304f71-2813-4226-84e2-855ce46977d3", ""),
        (
            "codex",
            "hook_codex",
            "PreToolUse",
            "01a2000c-484a-7883-8549-e1a8ee1cfda7",
            "'--pty=auto' '--merge-output' ",
        ),
        (
            "gemini",
            "hook_gemini",
            "BeforeTool",
            "fe8b54f2-0ad0-4665-9e00-d12dff9003b2",
            "'--merge-output' ",
        ),
        (
            "copilot",
            "hook_copilot",
            "preToolUse",
            "996840ca-52cd-4a74-87f7-b1555de3ec13",
            "'--merge-output' ",
        ),
        (
            "opencode",
            "hook_opencode",
            "PreToolUse",
            "ses_dfff51730ffeYYf992W0AYtdrJ",
            "'--merge-output' ",
        ),
        ("cursor", "hook_cursor", "preToolUse", "9f0c", "'--merge-output' "),
    ] {
        let recorded = frame(&place, file, event, "pwd");
        let line =
            |session: &str| format!("'{gate}' 'run' '--for-agent' {session}{streams}'--' 'pwd'");
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
    // A session that the person named for the agent holds for its commands, too.
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
    // A command that is refused where no sandbox keeps it is refused, and nobody is asked.
    let settings = json!({ "permissions": { "ask": ["Bash(touch:*)"], "defaultMode": "dontAsk" } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let frame = frame(&place, "hook_copilot", "preToolUse", "touch made.txt");
    let output = given(&place, "copilot", &["--rewrite"], frame.as_bytes());
    assert_eq!(decision(&output).0, "deny", "{}", text(&output.stdout));
}
