//! Every path, command and address of a call is judged, and what could hide one blocks.

use serde_json::{Value, json};

use super::super::frame::{Frame, read};
use super::super::{Agent, table};

/// The frame in which `agent` asks for a call.
fn frame(agent: Agent, tool: &str, input: &Value) -> Value {
    match agent {
        Agent::Copilot => {
            json!({"sessionId": "s", "cwd": "/p", "toolName": tool, "toolArgs": input})
        }
        Agent::Cline => json!({"hookName": "tool_call", "workspaceRoots": ["/p"],
            "tool_call": {"id": "1", "name": tool, "input": input}}),
        Agent::Gemini => json!({"hook_event_name": "BeforeTool", "cwd": "/p", "tool_name": tool,
            "tool_input": input}),
        Agent::Cursor => json!({"hook_event_name": "preToolUse", "cwd": "/p", "tool_name": tool,
            "tool_input": input}),
        Agent::Claude | Agent::Codex | Agent::OpenCode | Agent::Droid | Agent::Qwen => {
            json!({"hook_event_name": "PreToolUse", "cwd": "/p", "tool_name": tool,
                "tool_input": input})
        }
        Agent::VsCode => json!({"hookEventName": "PreToolUse", "cwd": "/p", "tool_name": tool,
            "tool_input": input}),
        Agent::Antigravity => json!({"conversationId": "c", "workspacePaths": ["/p"],
            "toolCall": {"name": tool, "args": input}}),
        Agent::Windsurf => json!({"agent_action_name": tool, "tool_info": input}),
    }
}

/// Returns the calls of a frame that are judged, one by one.
fn seen(agent: Agent, frame: &Value) -> String {
    let row = table::row(agent.name()).unwrap();
    match read(agent, &row, frame.to_string().as_bytes()) {
        Ok(Frame::Calls(waiting)) => {
            let calls = waiting.calls.iter();
            let shown = calls.map(|call| format!("{} {} in {}", call.tool, call.input, call.cwd));
            shown.collect::<Vec<_>>().join(" and ")
        }
        Ok(Frame::Other | Frame::Told(_)) => "nothing waits".to_owned(),
        Err(reason) => format!("blocked: {reason}"),
    }
}

fn check(agent: Agent, tool: &str, input: Value, expected: &str) {
    let seen = seen(agent, &frame(agent, tool, &input));
    assert_eq!(seen, expected, "{agent:?} {tool} {input}");
}

#[test]
fn file_and_web_tools_are_judged_under_our_names() {
    use Agent::{Claude, Cline, Codex, Copilot, Cursor, Gemini, OpenCode};
    let read = r#"Read {"file_path":"/s"} in /p"#;
    check(Claude, "Read", json!({"file_path": "/s"}), read);
    check(Codex, "view_image", json!({"path": "/s", "detail": "original"}), read);
    check(Gemini, "read_file", json!({"file_path": "/s", "start_line": 1}), read);
    check(Gemini, "read_file", json!({"absolute_path": "/s"}), read);
    check(Copilot, "view", json!({"path": "/s", "view_range": [1, 2]}), read);
    check(OpenCode, "read", json!({"filePath": "/s", "offset": 3}), read);
    check(Cline, "read_files", json!({"files": [{"path": "/s", "start_line": 1}]}), read);
    check(
        Cline,
        "read_files",
        json!({"files": ["/s", {"path": "/t"}]}),
        r#"Read {"file_path":"/s"} in /p and Read {"file_path":"/t"} in /p"#,
    );
    check(Cursor, "Read", json!({"path": "/s"}), read);
    let write = r#"Write {"file_path":"a","content":"x"} in /p"#;
    check(Claude, "Write", json!({"file_path": "a", "content": "x"}), write);
    check(Gemini, "write_file", json!({"file_path": "a", "content": "x"}), write);
    check(Copilot, "create", json!({"path": "a", "file_text": "x"}), write);
    check(OpenCode, "write", json!({"filePath": "a", "content": "x"}), write);
    check(Cursor, "Write", json!({"file_path": "a", "contents": "x"}), write);
    let edit = r#"Edit {"file_path":"a","old_string":"x","new_string":"y"} in /p"#;
    check(
        Gemini,
        "replace",
        json!({"file_path": "a", "old_string": "x", "new_string": "y", "instruction": "i"}),
        edit,
    );
    check(Copilot, "edit", json!({"path": "a", "old_str": "x", "new_str": "y"}), edit);
    check(
        OpenCode,
        "edit",
        json!({"filePath": "a", "oldString": "x", "newString": "y", "replaceAll": true}),
        edit,
    );
    check(
        Cline,
        "editor",
        json!({"path": "a", "old_text": "x", "new_text": "y"}),
        r#"Edit {"file_path":"a"} in /p"#,
    );
    check(Cursor, "Delete", json!({"file_path": "a"}), r#"Edit {"file_path":"a"} in /p"#);
    check(
        Claude,
        "NotebookEdit",
        json!({"notebook_path": "n", "new_source": "x", "edit_mode": "insert"}),
        r#"NotebookEdit {"notebook_path":"n","new_source":"x","edit_mode":"insert"} in /p"#,
    );
    check(
        Claude,
        "MultiEdit",
        json!({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
        r#"MultiEdit {"file_path":"a","edits":[{"old_string":"x","new_string":"y"}]} in /p"#,
    );
    let web = r#"WebFetch {"url":"https://a.example/x"} in /p"#;
    check(Copilot, "web_fetch", json!({"url": "https://a.example/x"}), web);
    check(OpenCode, "webfetch", json!({"url": "https://a.example/x", "format": "text"}), web);
    check(
        Cline,
        "fetch_web_content",
        json!({"requests": [{"url": "https://a.example/x", "prompt": "read it"}]}),
        web,
    );
    check(
        Gemini,
        "web_fetch",
        json!({"prompt": "read https://a.example/x and HTTP://b.example too"}),
        r#"WebFetch {"url":"https://a.example/x"} in /p and WebFetch {"url":"HTTP://b.example"} in /p"#,
    );
}

#[test]
fn a_command_is_judged_where_it_will_run() {
    let bash = |folder: &str| format!(r#"Bash {{"command":"ls"}} in {folder}"#);
    for (agent, tool, field) in [
        (Agent::Gemini, "run_shell_command", "dir_path"),
        (Agent::Gemini, "run_shell_command", "directory"),
        (Agent::OpenCode, "bash", "workdir"),
        (Agent::Cursor, "Shell", "working_directory"),
    ] {
        check(agent, tool, json!({"command": "ls", field: "/etc"}), &bash("/etc"));
        check(agent, tool, json!({"command": "ls", field: "sub"}), &bash("/p/sub"));
        check(agent, tool, json!({"command": "ls", field: null}), &bash("/p"));
        check(
            agent,
            tool,
            json!({"command": "ls", field: 7}),
            "blocked: the working directory of the call is not a string",
        );
    }
    check(
        Agent::Gemini,
        "run_shell_command",
        json!({"command": "ls", "dir_path": "/a", "directory": "/b"}),
        "blocked: `run_shell_command` has its `cwd` twice",
    );
    let number = json!({"hook_event_name": "preToolUse", "cwd": 1, "workspace_roots": ["/p"],
        "tool_name": "Shell", "tool_input": {"command": "ls"}});
    assert_eq!(seen(Agent::Cursor, &number), "blocked: the working directory is not a string");
}

#[test]
fn every_file_of_a_patch_is_judged() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n@@\n-x\n+y\n*** Add File: c\n\
                 +*** Delete File: no\n*** Delete File: d\n*** End Patch";
    let expected =
        ["a.rs", "b.rs", "c", "d"].map(|path| format!(r#"Edit {{"file_path":"{path}"}} in /p"#));
    for (agent, tool, field) in [
        (Agent::Codex, "apply_patch", "command"),
        (Agent::OpenCode, "apply_patch", "patchText"),
        (Agent::Cline, "apply_patch", "input"),
    ] {
        check(agent, tool, json!({field: patch}), &expected.join(" and "));
        // Some readers pass over blanks in front, and end lines in their own way.
        let sly = "*** Begin Patch\n*** Add File: a\n+x\n \t*** Delete File: b\r*** Add File: c\r\n*** End Patch";
        let expected =
            ["a", "b", "c"].map(|path| format!(r#"Edit {{"file_path":"{path}"}} in /p"#));
        check(agent, tool, json!({field: sly}), &expected.join(" and "));
        for (wrong, said) in [
            ("*** Begin Patch\n*** End Patch", "the patch names no file"),
            (
                "*** Begin Patch\n*** Rename File: x\n",
                "invalid line `*** Rename File: x` in the patch",
            ),
            ("*** Add File:x", "invalid line `*** Add File:x` in the patch"),
            ("*** Add File: ", "invalid line `*** Add File:` in the patch"),
            ("*** Add File:  x", "invalid line `*** Add File:  x` in the patch"),
            ("*** Add File: x:y", "invalid line `*** Add File: x:y` in the patch"),
            (
                "*** Environment ID: x\n*** Add File: y",
                "invalid line `*** Environment ID: x` in the patch",
            ),
        ] {
            check(agent, tool, json!({field: wrong}), &format!("blocked: {said}"));
        }
        check(
            agent,
            tool,
            json!({field: ["x"]}),
            &format!("blocked: `apply_patch` has no text `{field}`"),
        );
    }
}

#[test]
fn a_field_that_could_hide_a_path_or_a_command_blocks() {
    for (agent, tool, input) in [
        (Agent::Claude, "Bash", json!({"command": "ls"})),
        (Agent::Claude, "Read", json!({"file_path": "a"})),
        (Agent::Claude, "Edit", json!({"file_path": "a", "old_string": "x", "new_string": "y"})),
        (Agent::Claude, "WebFetch", json!({"url": "https://a.example"})),
        (Agent::Codex, "Bash", json!({"command": "ls"})),
        (Agent::Codex, "apply_patch", json!({"command": "*** Add File: a"})),
        (Agent::Gemini, "run_shell_command", json!({"command": "ls"})),
        (Agent::Gemini, "web_fetch", json!({"prompt": "https://a.example"})),
        (Agent::Copilot, "bash", json!({"command": "ls"})),
        (Agent::OpenCode, "bash", json!({"command": "ls"})),
        (Agent::Cline, "run_commands", json!({"commands": ["ls"]})),
        (Agent::Cursor, "Shell", json!({"command": "ls"})),
    ] {
        let good = seen(agent, &frame(agent, tool, &input));
        assert!(!good.starts_with("blocked"), "{agent:?}: {good}");
        let with = |value: Value| {
            let mut input = input.clone();
            input["novel"] = value;
            seen(agent, &frame(agent, tool, &input))
        };
        let blocked = format!("blocked: unknown field `novel` of `{tool}`");
        for value in [json!("/etc/shadow"), json!(["rm x"]), json!({"command": "rm x"})] {
            assert_eq!(with(value.clone()), blocked, "{agent:?} {value}");
        }
        // Nothing can stand in these.
        for value in [json!(true), json!(3), json!(null), json!(""), json!([]), json!({})] {
            assert!(!with(value.clone()).starts_with("blocked"), "{agent:?} {value}");
        }
    }
}

#[test]
fn an_element_is_what_the_agent_runs_and_nothing_beside_it() {
    let twice = r#"Bash {"command":"ls"} in /p and Bash {"command":"rm x"} in /p"#;
    check(Agent::Cline, "run_commands", json!({"commands": ["ls", "rm x"]}), twice);
    check(
        Agent::Cline,
        "run_commands",
        json!({"commands": "ls"}),
        r#"Bash {"command":"ls"} in /p"#,
    );
    for wrong in [
        json!({"commands": [{"path": "ls", "command": "rm x"}]}),
        json!({"commands": [{"command": "rm", "args": ["x"]}]}),
        json!({"commands": [["rm x"]]}),
        json!({"commands": [1]}),
        json!({"commands": [{}]}),
        json!({"commands": {"command": "rm x"}}),
        json!({"command": "rm x"}),
        json!({"commands": ["ls"], "cmd": "rm x"}),
        json!({}),
    ] {
        let seen = seen(Agent::Cline, &frame(Agent::Cline, "run_commands", &wrong));
        assert!(seen.starts_with("blocked: "), "{wrong}: {seen}");
    }
    check(
        Agent::Cline,
        "read_files",
        json!({"files": [{"path": "/a", "file": "/b"}]}),
        "blocked: unknown field `file` of `read_files`",
    );
}

#[test]
fn a_tool_that_only_bears_a_name_of_ours_is_not_taken_for_it() {
    // Two have such a tool, and one names no tools.
    let others = [Agent::Claude, Agent::Droid, Agent::Windsurf];
    for agent in Agent::ALL.into_iter().filter(|agent| !others.contains(agent)) {
        let name = "TodoWrite";
        let blocked = format!("blocked: unknown tool `{name}` of this agent");
        check(agent, name, json!({"command": "rm x"}), &blocked);
    }
    let asked = |frame: Value| seen(Agent::Cursor, &frame);
    let mcp = json!({"hook_event_name": "beforeMCPExecution", "workspace_roots": ["/p"], "tool_name": "Read",
        "tool_input": "{\"file_path\":\"/s\"}", "command": "npx server"});
    assert_eq!(asked(mcp), r#"mcp__cursor__Read {"file_path":"/s"} in /p"#);
    let twice = json!({"hook_event_name": "beforeMCPExecution", "workspace_roots": ["/p"], "tool_name": "q",
        "tool_input": "{\"a\":1,\"a\":2}"});
    assert!(asked(twice).starts_with("blocked: `tool_input` is not a JSON object"));
    check(Agent::Cursor, "MCP:query", json!({"x": "y"}), r#"mcp__cursor__query {"x":"y"} in /p"#);
    let mut gemini = frame(Agent::Gemini, "mcp_git_hub_push", &json!({"x": "y"}));
    assert_eq!(seen(Agent::Gemini, &gemini), r#"mcp_git_hub_push {"x":"y"} in /p"#);
    gemini["mcp_context"] =
        json!({"server_name": "git_hub", "tool_name": "push", "command": "npx"});
    assert_eq!(seen(Agent::Gemini, &gemini), r#"mcp__git_hub__push {"x":"y"} in /p"#);
    gemini["mcp_context"] = json!({"server_name": "git_hub"});
    assert_eq!(
        seen(Agent::Gemini, &gemini),
        "blocked: `mcp_context` does not name server and tool"
    );
}

#[test]
fn an_address_that_a_browser_would_read_otherwise_blocks() {
    for text in [
        "(https://a.example)",
        "file:///etc/passwd",
        "https://a.example\\@b.example",
        "https://b\u{fc}cher.example",
        "see a.example",
        "x://y",
    ] {
        let seen =
            seen(Agent::Gemini, &frame(Agent::Gemini, "web_fetch", &json!({"prompt": text})));
        assert!(seen.starts_with("blocked: "), "{text}: {seen}");
    }
}

#[test]
fn a_frame_cut_at_any_byte_blocks() {
    for agent in Agent::ALL {
        let (tool, input) = match agent {
            Agent::Claude | Agent::Codex => ("Bash", json!({"command": "echo \u{e9}"})),
            Agent::Gemini => ("run_shell_command", json!({"command": "echo \u{e9}"})),
            Agent::Copilot | Agent::OpenCode => ("bash", json!({"command": "echo \u{e9}"})),
            Agent::Cline => ("run_commands", json!({"commands": ["echo \u{e9}"]})),
            Agent::Cursor => ("Shell", json!({"command": "echo \u{e9}"})),
            Agent::Antigravity => ("run_command", json!({"CommandLine": "echo \u{e9}"})),
            Agent::VsCode => ("run_in_terminal", json!({"command": "echo \u{e9}"})),
            Agent::Droid => ("Execute", json!({"command": "echo \u{e9}"})),
            Agent::Qwen => ("run_shell_command", json!({"command": "echo \u{e9}"})),
            Agent::Windsurf => ("pre_run_command", json!({"command_line": "echo \u{e9}"})),
        };
        let row = table::row(agent.name()).unwrap();
        let whole = frame(agent, tool, &input).to_string().into_bytes();
        assert!(matches!(read(agent, &row, &whole), Ok(Frame::Calls(_))), "{agent:?}");
        for end in 0..whole.len() {
            assert!(read(agent, &row, &whole[..end]).is_err(), "{agent:?}: the first {end} bytes");
            assert!(
                read(agent, &row, &whole[end + 1..]).is_err(),
                "{agent:?}: from byte {}",
                end + 1
            );
            // A byte that no text can hold, anywhere.
            let mut broken = whole.clone();
            broken[end] = 0xff;
            assert!(read(agent, &row, &broken).is_err(), "{agent:?}: byte {end} broken");
        }
    }
}
