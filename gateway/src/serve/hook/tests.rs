//! Frames recorded from real agents are read, and answers keep to each agent's form.

use serde_json::{Value, json};

use super::answer::{HookOutput, Ruling, answer, blocked};
use super::frame::{Frame, read};
use super::{Agent, table};

fn recorded(agent: Agent) -> Value {
    let text = match agent {
        Agent::Claude => include_str!("../../../../tests/fixtures/agents/hook_claude330.json"),
        Agent::Codex => include_str!("../../../../tests/fixtures/agents/hook_codex.json"),
        Agent::Gemini => include_str!("../../../../tests/fixtures/agents/hook_gemini.json"),
        Agent::Copilot => include_str!("../../../../tests/fixtures/agents/hook_copilot.json"),
        Agent::OpenCode => include_str!("../../../../tests/fixtures/agents/hook_opencode.json"),
        Agent::Cline => include_str!("../../../../tests/fixtures/agents/hook_cline.json"),
        Agent::Cursor
        | Agent::Antigravity
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => return json!({}),
    };
    serde_json::from_str(text).unwrap()
}

/// Each recorded frame as `event: what was read of it`.
fn readings(agent: Agent) -> Vec<String> {
    let row = table::row(agent.name()).unwrap();
    let recorded = recorded(agent);
    let mut lines = Vec::new();
    for (event, frames) in recorded["frames"].as_object().unwrap() {
        for frame in frames.as_array().unwrap() {
            let stdin = &frame["stdin"];
            // The plugin for OpenCode does not pass this one on to the hook.
            if event == "shell.env" {
                continue;
            }
            let read = match read(agent, &row, stdin.to_string().as_bytes()) {
                Ok(Frame::Other) => "nothing waits".to_owned(),
                Ok(Frame::Told(told)) => {
                    format!("{} of {:?}: nothing waits", told.ours, told.call.tool)
                }
                Ok(Frame::Calls(waiting)) => {
                    let calls = waiting.calls.iter();
                    let calls: Vec<_> = calls
                        .map(|call| {
                            format!("{} {} in {}", call.tool, call.input["command"], call.cwd)
                        })
                        .collect();
                    calls.join(" and ")
                }
                Err(error) => format!("blocked: {error}"),
            };
            lines.push(format!("{event}: {read}"));
        }
    }
    lines
}

#[test]
fn hooks_know_the_names_of_all_agents() {
    assert_eq!(Agent::ALL.map(Agent::name), stockade_hooks::own::AGENTS);
}

#[test]
fn recorded_frames_of_each_agent_are_read() {
    let first =
        r#"Bash "echo ALLOWED_RUN > allowed.txt; printf 'ALLOWED_%s\\n' OUT" in /home/u/proj"#;
    let second = r#"Bash "echo DENYME > denied.txt; printf 'LEAK%s\\n' ED_OUT" in /home/u/proj"#;
    for agent in
        [Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Copilot, Agent::OpenCode, Agent::Cline]
    {
        let readings = readings(agent);
        let calls: Vec<&String> = readings.iter().filter(|line| line.contains(": Bash ")).collect();
        assert!(calls.first().is_some_and(|line| line.ends_with(first)), "{agent:?}: {readings:?}");
        assert!(calls.get(1).is_some_and(|line| line.ends_with(second)), "{agent:?}: {readings:?}");
        let others = readings.iter().filter(|line| !line.contains(": Bash "));
        let blocked: Vec<_> = others.filter(|line| !line.ends_with("nothing waits")).collect();
        assert_eq!(blocked, Vec::<&String>::new(), "{agent:?}");
    }
}

#[test]
fn what_is_not_understood_is_blocked_with_the_reason() {
    let row = table::row("claude").unwrap();
    let read = |text: &str| read(Agent::Claude, &row, text.as_bytes()).unwrap_err();
    assert!(read("").starts_with("the frame is not a JSON object"));
    assert!(
        read(r#"{"hook_event_name":"PreToolUse","tool_na"#)
            .starts_with("the frame is not a JSON object")
    );
    assert!(read("{}{}").starts_with("the frame is not a JSON object"));
    assert_eq!(read("[]"), "the frame is not a JSON object");
    let twice = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","command":"rm x"}}"#;
    assert!(read(twice).ends_with("duplicate key `command`"));
    let escaped = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/p","tool_input":{"command":"ls","\u0063ommand":"rm x"}}"#;
    assert!(read(escaped).ends_with("duplicate key `command`"));
    let prototype = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/p","tool_input":{"command":"ls","__proto__":{"command":"rm x"}}}"#;
    assert_eq!(read(prototype), "unknown field `__proto__` of `Bash`");
    for value in ["\"\\ud800\"", "1e999", "-", "\"\t\"", "tru", "01", "NaN"] {
        let odd = format!(
            r#"{{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/p","tool_input":{{"command":"ls","timeout":{value}}}}}"#
        );
        assert!(read(&odd).starts_with("the frame is not a JSON object"), "{value}");
    }
    for input in ["\"ls\"", "[\"ls\"]", "1", "null", "\"[1]\"", "\"{\\\"command\\\":1}\""] {
        let odd = format!(
            r#"{{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/p","tool_input":{input}}}"#
        );
        assert!(!read(&odd).is_empty(), "{input}");
    }
    assert_eq!(read("{}"), "the frame does not name its event");
    assert_eq!(read(r#"{"hook_event_name":"PreToolUse"}"#), "the frame has no `tool_name`");
    let no_input = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","cwd":"/p"}"#;
    assert_eq!(read(no_input), "the frame has no `tool_input`");
    let no_command = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":1},"cwd":"/p"}"#;
    assert_eq!(read(no_command), "the shell tool has no `command`");
    assert_eq!(read(r#"{"hook_event_name":"BeforeShell"}"#), "unknown event `BeforeShell`");
    let relative = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"cwd":"p"}"#;
    assert_eq!(read(relative), "the working directory is not absolute");
}

fn shown(agent: Agent, event: &str, ruling: &Ruling) -> String {
    let HookOutput { stdout, stderr, status } = answer(agent, event, ruling);
    format!("{status} {}{}", stdout.trim_end(), stderr.trim_end())
}

#[test]
fn answers_hold_only_what_the_agent_reads() {
    let deny = Ruling::Deny("denied by `Bash(curl:*)`".into());
    let ask = Ruling::Ask { reason: "no rule".into(), rewritten: None };
    let allow = Ruling::Allow { reason: "read-only".into(), rewritten: None };
    let rewritten =
        Ruling::Allow { reason: "read-only".into(), rewritten: Some(json!({ "command": "x" })) };
    let mut lines = Vec::new();
    for (agent, event) in [
        (Agent::Claude, "PreToolUse"),
        (Agent::Codex, "PreToolUse"),
        (Agent::Codex, "PermissionRequest"),
        (Agent::Gemini, "BeforeTool"),
        (Agent::Copilot, "preToolUse"),
        (Agent::OpenCode, "PreToolUse"),
        (Agent::Cline, "tool_call"),
        (Agent::Cursor, "preToolUse"),
        (Agent::Antigravity, "PreToolUse"),
        (Agent::VsCode, "PreToolUse"),
        (Agent::Droid, "PreToolUse"),
        (Agent::Qwen, "PreToolUse"),
        (Agent::Windsurf, "pre_run_command"),
    ] {
        for ruling in [&deny, &ask, &allow, &rewritten] {
            lines.push(format!("{} {}", agent.name(), shown(agent, event, ruling)));
        }
        assert_eq!(shown(agent, event, &Ruling::NoObjection), "0 ");
    }
    expect_test::expect![[r#"
        claude 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}}
        claude 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"no rule"}}
        claude 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only"}}
        claude 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        codex 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}}
        codex 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no rule"}}
        codex 0 
        codex 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        codex 0 {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"denied by `Bash(curl:*)`"}}}
        codex 0 
        codex 0 {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}
        codex 0 {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}
        gemini 0 {"decision":"deny","reason":"denied by `Bash(curl:*)`"}
        gemini 0 {"decision":"deny","reason":"no rule"}
        gemini 0 {"decision":"allow"}
        gemini 0 {"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"x"}}}
        copilot 0 {"permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}
        copilot 0 {"permissionDecision":"ask","permissionDecisionReason":"no rule"}
        copilot 0 {"permissionDecision":"allow"}
        copilot 0 {"permissionDecision":"allow","modifiedArgs":{"command":"x"}}
        opencode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}}
        opencode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no rule"}}
        opencode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only"}}
        opencode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        cline 0 {"cancel":true,"errorMessage":"denied by `Bash(curl:*)`"}
        cline 0 {"cancel":true,"errorMessage":"no rule"}
        cline 0 {"cancel":false}
        cline 0 {"cancel":false,"overrideInput":{"command":"x"}}
        cursor 0 {"permission":"deny","user_message":"denied by `Bash(curl:*)`","agent_message":"denied by `Bash(curl:*)`"}
        cursor 0 {"permission":"ask","user_message":"no rule","agent_message":"no rule"}
        cursor 0 {"permission":"allow"}
        cursor 0 {"permission":"allow","updated_input":{"command":"x"}}
        antigravity 0 {"decision":"deny","reason":"denied by `Bash(curl:*)`"}
        antigravity 0 {"decision":"force_ask","reason":"no rule"}
        antigravity 0 {"decision":"allow"}
        antigravity 0 {"decision":"allow"}
        vscode 2 stockade: blocked: denied by `Bash(curl:*)`
        vscode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"no rule"}}
        vscode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only"}}
        vscode 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        droid 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}}
        droid 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no rule"}}
        droid 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only"}}
        droid 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        qwen 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by `Bash(curl:*)`"}}
        qwen 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no rule"}}
        qwen 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only"}}
        qwen 0 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"read-only","updatedInput":{"command":"x"}}}
        windsurf 2 stockade: blocked: denied by `Bash(curl:*)`
        windsurf 2 stockade: blocked: no rule
        windsurf 0 
        windsurf 0 "#]].assert_eq(&lines.join("\n"));
}

#[test]
fn only_cline_runs_something_in_the_place_of_what_is_refused() {
    let refused = Ruling::Deny("no rule".into());
    let replaced = Ruling::Replace { reason: "no rule".into(), input: json!({ "command": "x" }) };
    for agent in Agent::ALL.into_iter().filter(|agent| *agent != Agent::Cline) {
        let event = if agent == Agent::Copilot { "preToolUse" } else { "PreToolUse" };
        assert_eq!(shown(agent, event, &replaced), shown(agent, event, &refused), "{agent:?}");
    }
    let told = shown(Agent::Cline, "tool_call", &replaced);
    assert_eq!(told, r#"0 {"cancel":false,"overrideInput":{"command":"x"}}"#);
}

#[test]
fn a_failure_of_ours_blocks_in_every_form() {
    for agent in Agent::ALL {
        let HookOutput { stdout, stderr, status } = blocked(agent, "");
        if agent == Agent::Cline {
            assert_eq!(stdout, "{\"cancel\":true,\"errorMessage\":\"not allowed by stockade\"}\n");
            assert_eq!((stderr.as_str(), status), ("", 0));
        } else if agent == Agent::Antigravity {
            assert_eq!(stdout, "{\"decision\":\"deny\",\"reason\":\"not allowed by stockade\"}\n");
            assert_eq!((stderr.as_str(), status), ("", 0));
        } else {
            assert_eq!((stdout.as_str(), status), ("", 2));
            assert_eq!(stderr, "stockade: blocked: not allowed by stockade\n");
        }
    }
}

#[test]
fn a_sub_agent_and_what_it_runs_are_told_apart() {
    let text = include_str!("../../../../tests/fixtures/agents/hook_claude_subagent.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    let row = table::row("claude").unwrap();
    let frames = recorded["frames"]["PreToolUse"].as_array().unwrap().iter();
    let read = frames.map(|frame| {
        match read(Agent::Claude, &row, frame["stdin"].to_string().as_bytes()) {
            Ok(Frame::Calls(waiting)) => (waiting.calls[0].tool.clone(), waiting.inner),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(read.collect::<Vec<_>>(), [("Agent".to_owned(), true), ("Bash".to_owned(), false)]);
    // A tool that runs a command, reads, writes or reaches out never counts as one of the agent itself.
    for agent in Agent::ALL {
        let row = table::row(agent.name()).unwrap();
        assert!(row.inner.iter().all(|name| !row.tools.contains_key(name)), "{agent:?}");
    }
}
