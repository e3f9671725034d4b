//! Tools besides the shell: files, the web, MCP, and those that reach nothing but the agent itself.

use serde_json::{Value, json};
use stockade_tests::Place;

use super::{call, decision, frame, given, text};

#[test]
fn rules_reach_the_file_web_and_mcp_tools_of_every_agent() {
    let place = Place::new("tools");
    let settings = json!({"permissions": {
        "deny": ["Read(secret.txt)", "Edit(locked/**)", "WebFetch(domain:bad.example)", "mcp__git__push"],
        "allow": ["Read(./**)", "Edit(./**)", "WebFetch(domain:good.example)", "mcp__git__pull"],
    }});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let patch = |path: &str| {
        format!(
            "*** Begin Patch\n*** Update File: open.txt\n*** Move to: {path}\n@@\n-a\n+b\n*** End Patch"
        )
    };
    let web = |host: &str| format!("https://{host}/x");
    for (agent, tool, good, bad, rule) in [
        (
            "claude",
            "Read",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "claude",
            "Edit",
            json!({"file_path": "open.txt", "old_string": "a", "new_string": "b"}),
            json!({"file_path": "locked/x", "old_string": "a", "new_string": "b"}),
            "Edit(locked/**)",
        ),
        (
            "claude",
            "NotebookEdit",
            json!({"notebook_path": "open.ipynb", "new_source": "x"}),
            json!({"notebook_path": "locked/x.ipynb", "new_source": "x"}),
            "Edit(locked/**)",
        ),
        (
            "claude",
            "WebFetch",
            json!({"url": web("good.example"), "prompt": "x"}),
            json!({"url": web("bad.example"), "prompt": "x"}),
            "WebFetch(domain:bad.example)",
        ),
        ("claude", "mcp__git__pull", json!({}), Value::Null, ""),
        ("claude", "mcp__git__push", Value::Null, json!({}), "mcp__git__push"),
        (
            "codex",
            "apply_patch",
            json!({"command": patch("moved.txt")}),
            json!({"command": patch("locked/x")}),
            "Edit(locked/**)",
        ),
        (
            "codex",
            "view_image",
            json!({"path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        ("codex", "mcp__git__push", Value::Null, json!({"x": 1}), "mcp__git__push"),
        (
            "gemini",
            "read_file",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "gemini",
            "replace",
            json!({"file_path": "open.txt", "old_string": "a", "new_string": "b", "instruction": "i"}),
            json!({"file_path": "locked/x", "old_string": "a", "new_string": "b"}),
            "Edit(locked/**)",
        ),
        (
            "gemini",
            "web_fetch",
            json!({"prompt": format!("read {}", web("good.example"))}),
            json!({"prompt": format!("read {} and {}", web("good.example"), web("bad.example"))}),
            "WebFetch(domain:bad.example)",
        ),
        (
            "copilot",
            "view",
            json!({"path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "copilot",
            "create",
            json!({"path": "open.txt", "file_text": "x"}),
            json!({"path": "locked/x", "file_text": "x"}),
            "Edit(locked/**)",
        ),
        (
            "opencode",
            "apply_patch",
            json!({"patchText": patch("moved.txt")}),
            json!({"patchText": patch("locked/x")}),
            "Edit(locked/**)",
        ),
        (
            "opencode",
            "webfetch",
            json!({"url": web("good.example"), "format": "text"}),
            json!({"url": web("bad.example"), "format": "text"}),
            "WebFetch(domain:bad.example)",
        ),
        (
            "cline",
            "read_files",
            json!({"files": [{"path": "open.txt"}]}),
            json!({"files": [{"path": "open.txt"}, {"path": "secret.txt"}]}),
            "Read(secret.txt)",
        ),
        (
            "cursor",
            "Delete",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "locked/x"}),
            "Edit(locked/**)",
        ),
        (
            "cursor",
            "Read",
            json!({"file_path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
    ] {
        if !good.is_null() {
            let output =
                given(&place, agent, &["--rewrite"], call(&place, agent, tool, good).as_bytes());
            let word = decision(&output).0;
            let expected = if agent == "codex" { "none" } else { "allow" };
            assert_eq!(
                word,
                expected,
                "{agent} {tool}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            );
        }
        if !bad.is_null() {
            let output =
                given(&place, agent, &["--rewrite"], call(&place, agent, tool, bad).as_bytes());
            let (word, reason) = decision(&output);
            assert_eq!(
                word,
                "deny",
                "{agent} {tool}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            );
            assert!(reason.contains(rule), "{agent} {tool}: {reason}");
        }
    }
}

#[test]
fn tools_of_the_agent_itself_are_left_to_it_where_no_rule_speaks() {
    let place = Place::new("inner");
    for (agent, file, event, tool, name) in [
        ("claude", "hook_claude330", "PreToolUse", "\"Bash\"", "\"Agent\""),
        ("gemini", "hook_gemini", "BeforeTool", "\"run_shell_command\"", "\"invoke_agent\""),
        ("opencode", "hook_opencode", "PreToolUse", "\"bash\"", "\"task\""),
    ] {
        let called = frame(&place, file, event, "pwd").replace(tool, name);
        let output = given(&place, agent, &["--rewrite"], called.as_bytes());
        let expected = if agent == "opencode" { "allow" } else { "none" };
        assert_eq!(decision(&output).0, expected, "{agent}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{agent}");
    }
    let settings = r#"{"permissions": {"deny": ["Agent"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    let called =
        frame(&place, "hook_claude330", "PreToolUse", "pwd").replace("\"Bash\"", "\"Agent\"");
    assert_eq!(decision(&given(&place, "claude", &[], called.as_bytes())).0, "deny");
}
