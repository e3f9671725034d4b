//! Agents that were not run here: frames and answers as their documentation has them.

use serde_json::{Value, json};
use stockade_tests::Place;

use super::{assert_blocked, decision, given, text};

/// How an agent reads consent, a question and a refusal.
struct Words {
    agent: &'static str,
    allow: &'static str,
    ask: &'static str,
    /// None where a refusal is the exit status.
    deny: Option<&'static str>,
}

const AGENTS: [Words; 5] = [
    Words { agent: "antigravity", allow: "allow", ask: "force_ask", deny: Some("deny") },
    Words { agent: "vscode", allow: "allow", ask: "ask", deny: None },
    Words { agent: "droid", allow: "allow", ask: "deny", deny: Some("deny") },
    Words { agent: "qwen", allow: "allow", ask: "deny", deny: Some("deny") },
    // Silence is consent, and there is no question.
    Words { agent: "windsurf", allow: "none", ask: "", deny: None },
];

/// The frame of an agent for a shell command.
fn command(place: &Place, agent: &str, command: &str) -> Value {
    let cwd = place.project();
    match agent {
        "antigravity" => json!({"conversationId": "s", "stepIdx": 2, "workspacePaths": [cwd],
            "transcriptPath": "/t", "artifactDirectoryPath": "/a",
            "toolCall": {"name": "run_command", "args": {"CommandLine": command, "Cwd": cwd,
                "WaitMsBeforeAsync": 500, "SafeToAutoRun": true}}}),
        "vscode" => json!({"timestamp": "2026-02-09T10:30:00.000Z", "cwd": cwd, "sessionId": "s",
            "hookEventName": "PreToolUse", "transcript_path": "/t", "tool_use_id": "1",
            "tool_name": "run_in_terminal", "tool_input": {"command": command, "explanation": "x",
                "mode": "sync", "timeout": 60000}}),
        "windsurf" => json!({"agent_action_name": "pre_run_command", "trajectory_id": "s",
            "execution_id": "e", "timestamp": "2026-02-09T10:30:00Z",
            "tool_info": {"command_line": command, "cwd": cwd}}),
        _ => json!({"session_id": "s", "transcript_path": "/t", "cwd": cwd,
            "permission_mode": "default", "hook_event_name": "PreToolUse",
            "tool_name": if agent == "droid" { "Execute" } else { "run_shell_command" },
            "tool_input": {"command": command}}),
    }
}

fn place(name: &str) -> Place {
    let place = Place::new(name);
    let settings =
        r#"{"permissions": {"deny": ["Bash(touch:*)", "Read(secret)"], "ask": ["Bash(git:*)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place
}

#[test]
fn agents_get_consent_questions_and_refusals_in_their_own_words() {
    let place = place("documented");
    for Words { agent, allow, ask, deny } in AGENTS {
        let answered = |line: &str| {
            given(&place, agent, &[], command(&place, agent, line).to_string().as_bytes())
        };
        let allowed = answered("pwd");
        assert_eq!(decision(&allowed).0, allow, "{agent}: {}", text(&allowed.stderr));
        assert_eq!(allowed.status.code(), Some(0), "{agent}");
        for (line, word, rule) in [
            ("git push", Some(ask).filter(|it| !it.is_empty()), "Bash(git:*)"),
            ("pwd; touch made", deny, "Bash(touch:*)"),
        ] {
            let output = answered(line);
            let Some(word) = word else {
                assert_blocked(agent, &output, line);
                assert!(text(&output.stderr).contains(rule), "{agent}: {}", text(&output.stderr));
                continue;
            };
            let (decided, reason) = decision(&output);
            assert_eq!(decided, word, "{agent}: {line}: {}", text(&output.stderr));
            assert!(reason.contains(rule), "{agent}: {reason}");
        }
        for broken in ["{}", "[]", "{\"hook_event_name\":\"PreToolUse\"}", "{\"toolCall\":null}"] {
            assert_blocked(agent, &given(&place, agent, &[], broken.as_bytes()), broken);
        }
    }
}

#[test]
fn a_command_of_an_agent_that_takes_no_new_input_is_judged_as_run_by_the_agent() {
    let place = Place::new("documented-bare");
    for Words { agent, allow, .. } in AGENTS {
        // Confined it would be allowed; these run it themselves.
        let frame = command(&place, agent, "make all").to_string();
        let output = given(&place, agent, &["--rewrite"], frame.as_bytes());
        assert!(decision(&output).0 != allow || output.status.code() == Some(2), "{agent}");
        assert!(!text(&output.stdout).contains("--for-agent"), "{agent}");
    }
}

#[test]
fn the_files_of_windsurf_are_judged_from_the_directory_of_the_workspace() {
    let place = place("windsurf");
    let frame = |event: &str, path: &str| {
        let path = place.project().join(path);
        json!({"agent_action_name": event, "trajectory_id": "s", "execution_id": "e",
            "tool_info": {"file_path": path}})
        .to_string()
    };
    place.write("project/secret", "x");
    place.write("project/plain", "x");
    let output = given(&place, "windsurf", &[], frame("pre_read_code", "plain").as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = given(&place, "windsurf", &[], frame("pre_read_code", "secret").as_bytes());
    assert_blocked("windsurf", &output, "secret");
    let tool = json!({"agent_action_name": "pre_mcp_tool_use", "trajectory_id": "s",
        "tool_info": {"mcp_server_name": "github", "mcp_tool_name": "create", "mcp_tool_arguments": {}}});
    let output = given(&place, "windsurf", &[], tool.to_string().as_bytes());
    assert_blocked("windsurf", &output, "a tool of a server");
    assert!(text(&output.stderr).contains("mcp__github__create"), "{}", text(&output.stderr));
}

#[test]
fn vs_code_is_answered_in_its_own_words_at_the_hooks_of_others() {
    let place = place("vscode");
    for agent in ["claude", "copilot", "vscode"] {
        for (line, status) in [("pwd", Some(0)), ("touch made", Some(2))] {
            let mut frame = command(&place, "vscode", line);
            for event in ["hookEventName", "hook_event_name"] {
                let members = frame.as_object_mut().expect("an object");
                members.remove("hookEventName");
                members.insert(event.to_owned(), json!("PreToolUse"));
                let given = given(&place, agent, &["--rewrite"], frame.to_string().as_bytes());
                assert_eq!(given.status.code(), status, "{agent}: {event}: {line}");
                let word = if status == Some(0) { "allow" } else { "none" };
                assert_eq!(decision(&given).0, word, "{agent}: {event}: {line}");
                assert!(!text(&given.stdout).contains("updatedInput"), "{agent}");
            }
        }
    }
}
