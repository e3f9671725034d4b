//! `stockade hook` as agents meet it, with the frames that real agents sent.
//!
//! `cargo run -p stockade-tests --bin agents` drives the agents themselves where they are installed.

#[path = "agents/documented.rs"]
mod documented;
#[path = "agents/faults.rs"]
mod faults;
#[path = "agents/frames.rs"]
mod frames;
#[path = "agents/gateway.rs"]
mod gateway;
#[path = "agents/rewrite.rs"]
mod rewrite;
#[path = "agents/tools.rs"]
mod tools;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::{Place, root};

/// Agents, the file of their frames (recorded, but for Cursor: see there), and the event at which a call waits.
const AGENTS: [(&str, &str, &str); 8] = [
    ("claude", "hook_claude330", "PreToolUse"),
    ("codex", "hook_codex", "PreToolUse"),
    ("gemini", "hook_gemini", "BeforeTool"),
    ("copilot", "hook_copilot", "preToolUse"),
    ("opencode", "hook_opencode", "PreToolUse"),
    ("cline", "hook_cline", "PreToolUse"),
    ("cursor", "hook_cursor", "preToolUse"),
    ("cursor", "hook_cursor", "beforeShellExecution"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first recorded frame of an agent in which a shell command waits, in the project of `place` and with
/// `command` in the place of its own.
fn frame(place: &Place, file: &str, event: &str, command: &str) -> String {
    let path = root().join(format!("tests/fixtures/agents/{file}.json"));
    let recorded: Value = serde_json::from_slice(&std::fs::read(path).expect("it")).expect("JSON");
    let stdin = recorded["frames"][event][0]["stdin"].to_string();
    let own = Value::from(r"echo ALLOWED_RUN > allowed.txt; printf 'ALLOWED_%s\n' OUT").to_string();
    let text = |value: &str| Value::from(value).to_string();
    assert!(stdin.contains(&own), "{stdin}");
    stdin
        .replace(&own, &text(command))
        .replace("\"/home/u/proj\"", &text(&place.project().display().to_string()))
}

/// The frame of an agent for a call of `tool`.
fn call(place: &Place, agent: &str, tool: &str, input: Value) -> String {
    let cwd = place.project();
    let frame = match agent {
        "copilot" => json!({"sessionId": "s", "cwd": cwd, "toolName": tool, "toolArgs": input}),
        "cline" => json!({"hookName": "tool_call", "workspaceRoots": [cwd], "taskId": "s",
            "tool_call": {"id": "1", "name": tool, "input": input}}),
        _ => {
            let event = match agent {
                "gemini" => "BeforeTool",
                "cursor" => "preToolUse",
                _ => "PreToolUse",
            };
            json!({"session_id": "s", "cwd": cwd, "hook_event_name": event, "tool_name": tool,
                "tool_input": input, "tool_use_id": "t"})
        }
    };
    frame.to_string()
}

/// Gives `stockade hook AGENT` these bytes.
fn given(place: &Place, agent: &str, options: &[&str], bytes: &[u8]) -> Output {
    given_to(place.stockade([&["hook", agent], options].concat()), bytes)
}

/// Gives `command` these bytes.
fn given_to(mut command: Command, bytes: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let bytes = bytes.to_vec();
    // A hook that refuses early does not read the rest.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    output
}

/// Asserts the explicit refusal of a failure, as the agent reads it.
fn assert_blocked(agent: &str, output: &Output, what: &str) {
    let (out, told) = (text(&output.stdout), text(&output.stderr));
    if agent == "cline" {
        let answer: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{what}: {out}"));
        assert_eq!(answer["cancel"], true, "{what}: {out}");
        assert!(answer["errorMessage"].as_str().is_some_and(|it| !it.is_empty()), "{what}: {out}");
        assert_eq!(output.status.code(), Some(0), "{what}");
        return;
    }
    if agent == "antigravity" {
        assert_eq!(decision(output).0, "deny", "{what}: {out}");
        assert_eq!(output.status.code(), Some(0), "{what}");
        return;
    }
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{agent}: {what}: {told}");
    assert!(told.starts_with("stockade: blocked: "), "{agent}: {what}: {told}");
    assert_eq!(told.lines().count(), 1, "{agent}: {what}: {told}");
}

/// The decision in an answer, and its reason.
fn decision(output: &Output) -> (String, String) {
    let out = text(&output.stdout);
    if out.is_empty() {
        return ("none".into(), String::new());
    }
    let answer: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}"));
    let inner =
        answer.get("hookSpecificOutput").filter(|it| it.get("permissionDecision").is_some());
    let inner = inner.unwrap_or(&answer);
    let word =
        |keys: &[&str]| keys.iter().find_map(|key| inner.get(key)?.as_str()).map(str::to_owned);
    let decision = match inner.get("cancel").and_then(Value::as_bool) {
        Some(true) => Some("deny".to_owned()),
        Some(false) => Some("allow".to_owned()),
        None => word(&["permissionDecision", "decision", "permission"]),
    };
    let reason = word(&["permissionDecisionReason", "reason", "errorMessage", "agent_message"]);
    (decision.unwrap_or_default(), reason.unwrap_or_default())
}

fn denying(name: &str) -> Place {
    let place = Place::new(name);
    let settings = r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place
}

#[test]
fn recorded_frames_are_allowed_or_denied_with_the_reason() {
    let place = denying("frames");
    for (agent, file, event) in AGENTS {
        let allowed = given(&place, agent, &[], frame(&place, file, event, "pwd").as_bytes());
        let (word, _) = decision(&allowed);
        // One agent takes no plain consent: it goes on when nothing is said.
        assert_eq!(word, if agent == "codex" { "none" } else { "allow" }, "{agent}");
        assert_eq!(allowed.status.code(), Some(0), "{agent}");
        let denied = frame(&place, file, event, "echo a | touch made.txt");
        // Where the run would end, a rewriting hook refuses in the command's place.
        let options: &[&str] = if agent == "cline" { &[] } else { &["--rewrite"] };
        let denied = given(&place, agent, options, denied.as_bytes());
        let (word, reason) = decision(&denied);
        assert_eq!((word.as_str(), denied.status.code()), ("deny", Some(0)), "{agent}");
        let expected = "stockade: denied `touch made.txt` (second part of a pipeline); by deny rule `Bash(touch:*)` in";
        assert!(reason.starts_with(expected), "{agent}: {reason}");
    }
}

#[test]
fn the_directory_that_a_call_names_chooses_neither_project_nor_rules() {
    let place = Place::new("directories");
    place
        .write("project/.stockade/settings.json", r#"{"permissions": {"deny": ["Bash(curl:*)"]}}"#);
    place.write("project/secret/x", "hidden");
    place.write("project/src/x", "plain");
    place.write("project/.git/HEAD", "ref: refs/heads/main\n");
    place.write("elsewhere/x", "theirs");
    let flag = r#"{"permissions": {"deny": ["Read(./secret/**)"]}, "sandbox": {"enabled": false}}"#;
    let elsewhere = place.root.join("elsewhere").display().to_string();
    for (agent, event, tool, field) in [
        ("gemini", "BeforeTool", "run_shell_command", "dir_path"),
        ("opencode", "PreToolUse", "bash", "workdir"),
        ("cursor", "preToolUse", "Shell", "working_directory"),
    ] {
        let word = |options: &[&str], command: &str, directory: &str| {
            let frame = json!({"hook_event_name": event, "cwd": place.project(), "tool_name": tool,
                "tool_input": {"command": command, field: directory}});
            let output = given(&place, agent, options, frame.to_string().as_bytes());
            let (word, reason) = decision(&output);
            println!("{agent} {command} in {directory}: {word} {reason} {}", text(&output.stderr));
            word
        };
        let flag = ["--settings", flag];
        assert_eq!(word(&[], "curl x", &elsewhere), "deny", "{agent}");
        assert_eq!(word(&[], "curl x", "src"), "deny", "{agent}");
        assert_eq!(word(&flag, "cat x", "secret"), "deny", "{agent}");
        assert_eq!(word(&flag, "cat secret/x", "."), "deny", "{agent}");
        assert_eq!(word(&flag, "cat x", "src"), "allow", "{agent}");
        // A directory does not become a working directory of the session because a call names it.
        assert_ne!(word(&[], "cat x", &elsewhere), "allow", "{agent}");
        assert_eq!(word(&["--rewrite"], "echo a", &elsewhere), "deny", "{agent}");
        assert_eq!(word(&["--rewrite"], "echo a", "src"), "allow", "{agent}");
    }
}

#[test]
fn arguments_that_are_wrong_block() {
    let place = Place::new("wrong-arguments");
    for words in [
        &["hook"][..],
        &["hook", "nobody"],
        &["hook", "claude", "--bogus"],
        &["hook", "claude", "--deadline", "soon"],
    ] {
        let output = place.output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{words:?}");
    }
    let output = place.output(["hook", "cline", "--bogus"]);
    assert_blocked("cline", &output, "a wrong option");
}

#[test]
fn settings_of_the_agent_that_are_read_as_ours_do_not_make_the_gate_ask_itself() {
    let place = Place::new("imported");
    place.write("home/.config/stockade/settings.json", r#"{"import": ["claude-code"]}"#);
    place.write("home/.claude/settings.json", r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#);
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    for (command, expected) in [("pwd", "allow"), ("touch made.txt", "deny")] {
        let frame = frame(&place, "hook_claude330", "PreToolUse", command);
        let output = given(&place, "claude", &["--rewrite"], frame.as_bytes());
        let (word, reason) = decision(&output);
        assert_eq!(word, expected, "{reason}{}", text(&output.stderr));
    }
}

#[test]
fn what_an_agents_own_rules_refuse_is_not_hidden_by_the_rewrite() {
    let place = Place::new("own-rules");
    let own = r#"{"permissions": {"deny": ["Bash(mkdir:*)"], "ask": ["Bash(git push:*)"], "allow": ["Bash(rm:*)"]}}"#;
    place.write("home/.claude/settings.json", own);
    let asked = |command: &str, options: &[&str]| {
        let frame = frame(&place, "hook_claude330", "PreToolUse", command);
        decision(&given(&place, "claude", options, frame.as_bytes()))
    };
    assert_eq!(asked("ls", &["--rewrite"]).0, "allow");
    let (word, reason) = asked("ls; mkdir x", &["--rewrite"]);
    assert_eq!(word, "deny", "{reason}");
    assert!(reason.contains("`Bash(mkdir:*)`"), "{reason}");
    assert_eq!(asked("git push", &["--rewrite"]).0, "ask");
    place.write(
        "project/.claude/settings.local.json",
        r#"{"permissions": {"deny": ["Bash(ls:*)"]}}"#,
    );
    assert_eq!(asked("ls", &["--rewrite"]).0, "deny");
    place.write("project/.claude/settings.local.json", "{ broken");
    let frame = frame(&place, "hook_claude330", "PreToolUse", "pwd");
    assert_blocked(
        "claude",
        &given(&place, "claude", &["--rewrite"], frame.as_bytes()),
        "broken settings",
    );
}
