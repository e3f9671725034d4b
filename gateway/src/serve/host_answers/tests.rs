//! Answers that count as the host's.

use super::*;

/// Has the agent ask its host, who answers.
fn told(said: &Said, id: &str, request: Value, answer: Value) {
    let frame = json!({ "type": "control_request", "request_id": id, "request": request });
    said.of_agent(frame.to_string().as_bytes()).expect("a frame");
    answered(said, id, answer);
}

fn answered(said: &Said, id: &str, answer: Value) {
    let response = json!({ "subtype": "success", "request_id": id, "response": answer });
    let frame = json!({ "type": "control_response", "response": response });
    said.of_host(frame.to_string().as_bytes());
}

fn question(tool: &str, input: Value) -> Value {
    json!({ "subtype": "can_use_tool", "tool_name": tool, "tool_use_id": "c", "input": input })
}

fn hook(event: &str, input: Value) -> Value {
    let input = json!({ "hook_event_name": event, "tool_name": "Bash", "tool_input": input });
    json!({ "subtype": "hook_callback", "callback_id": "h", "input": input, "tool_use_id": "c" })
}

fn shell(command: &str) -> Value {
    json!({ "command": command, "dangerouslyDisableSandbox": false })
}

fn asked(run: &str, input: Value) -> Asked {
    let (run, call) = (RunOf { connection: 1, id: run.to_owned() }, "c".to_owned());
    Asked { run, call, tool: None, sent: input.clone(), input, by_rule: false }
}

#[test]
fn a_yes_is_for_the_call_that_the_host_saw_and_for_one_run() {
    let said = Said::default();
    let yes = json!({ "behavior": "allow" });
    assert!(!said.agrees(&asked("1", shell("ls"))));
    told(&said, "q1", question("Bash", shell("ls")), yes.clone());
    assert!(!said.agrees(&asked("1", shell("rm x"))));
    assert!(!said.agrees(&Asked { call: "d".into(), ..asked("1", shell("ls")) }));
    assert!(!said.agrees(&Asked { tool: Some("Write".into()), ..asked("1", shell("ls")) }));
    let out = json!({ "command": "ls", "dangerouslyDisableSandbox": true });
    assert!(!said.agrees(&asked("1", out)), "out of the sandbox");
    assert!(said.agrees(&asked("1", shell("ls"))));
    assert!(said.agrees(&asked("1", shell("ls"))), "a second question of the same run");
    assert!(!said.agrees(&asked("2", shell("ls"))), "another run");
    // The input that the host gave is the one that counts.
    let changed = json!({ "behavior": "allow", "updatedInput": shell("pwd") });
    told(&said, "q2", question("Bash", shell("ls")), changed);
    assert!(!said.agrees(&asked("3", shell("ls"))));
    assert!(said.agrees(&asked("3", shell("pwd"))));
    for no in
        [json!({ "behavior": "deny" }), json!({ "behavior": "yes" }), json!("allow"), json!(null)]
    {
        told(&said, &format!("q{no}"), question("Bash", shell("id")), no);
        assert!(!said.agrees(&asked("4", shell("id"))));
    }
}

#[test]
fn an_identity_that_comes_twice_and_an_answer_to_nothing_are_no_word() {
    let said = Said::default();
    let ask = |id: &str, command: &str| {
        let request = question("Bash", shell(command));
        json!({ "type": "control_request", "request_id": id, "request": request }).to_string()
    };
    said.of_agent(ask("q", "ls").as_bytes());
    said.of_agent(ask("q", "rm x").as_bytes());
    answered(&said, "q", json!({ "behavior": "allow" }));
    answered(&said, "other", json!({ "behavior": "allow" }));
    assert!(!said.agrees(&asked("1", shell("rm x"))) && !said.agrees(&asked("1", shell("ls"))));
    // A request inside of another, behind what some readers take for the end of a line.
    let hidden = format!("{{\"type\":\"x\",\r\"y\":{}\u{2028}\r\n}}", ask("r", "ls"));
    assert_eq!(said.of_agent(hidden.as_bytes()), None);
    let hidden =
        format!("{{\"type\":\"x\",\r\"y\":\"\u{2028}\u{85}\",\r\"y\":{}}}", ask("r", "ls"));
    let passed = said.of_agent(hidden.as_bytes()).expect("a frame");
    assert_eq!(passed, format!("{{\"type\":\"x\",\"y\":{}}}", ask("r", "ls")));
    let passed = said.of_agent("{\"x\":\"\u{2028}\u{85}\"}".as_bytes()).expect("a frame");
    assert_eq!(passed, r#"{"x":"\u2028\u0085"}"#);
    for odd in ["", "[1]", "{", "text"] {
        assert_eq!(said.of_agent(odd.as_bytes()), None);
    }
}

#[test]
fn hooks_of_the_host_answer_together_and_one_no_is_enough() {
    let decision = |word: &str| json!({ "hookSpecificOutput": { "permissionDecision": word } });
    let said = |words: &[Value]| {
        let said = Said::default();
        for (at, word) in words.iter().enumerate() {
            told(&said, &format!("h{at}"), hook("PreToolUse", shell("ls")), word.clone());
        }
        let by_rule = said.agrees(&Asked { by_rule: true, ..asked("1", shell("ls")) });
        assert!(!by_rule, "what a rule asks is a person's to answer");
        said.agrees(&asked("1", shell("ls")))
    };
    assert!(said(&[decision("allow")]) && said(&[json!({}), decision("allow"), json!({})]));
    assert!(said(&[json!({ "decision": "approve" })]));
    assert!(!said(&[json!({})]) && !said(&[decision("ask")]) && !said(&[json!("allow")]));
    assert!(!said(&[decision("deny"), decision("allow")]));
    assert!(!said(&[decision("allow"), json!({ "decision": "block" })]));
    assert!(!said(&[decision("allow"), json!({ "continue": false })]));
    let requested = |answers: &[&str]| {
        let said = Said::default();
        for (at, word) in answers.iter().enumerate() {
            let answer = json!({ "hookSpecificOutput": { "decision": { "behavior": word } } });
            told(&said, &format!("h{at}"), hook("PermissionRequest", shell("ls")), answer);
        }
        said.agrees(&Asked { by_rule: true, ..asked("1", shell("ls")) })
    };
    assert!(
        requested(&["allow"]) && !requested(&["allow", "deny"]) && !requested(&["deny", "allow"])
    );
    let other = Said::default();
    told(&other, "h", hook("PostToolUse", shell("ls")), decision("allow"));
    assert!(!other.agrees(&asked("1", shell("ls"))));
}

#[test]
fn rules_directories_and_modes_are_those_that_the_host_gave_last() {
    let said = Said::default();
    said.begin(Some("default"));
    let updates = json!([
        { "type": "addRules", "behavior": "allow", "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }, { "toolName": "Read" }] },
        { "type": "addRules", "behavior": "deny", "rules": [{ "toolName": "Write" }] },
        { "type": "addDirectories", "directories": ["/d"] },
        { "type": "setMode", "mode": "acceptEdits" },
    ]);
    let no = json!({ "behavior": "deny", "updatedPermissions": updates });
    told(&said, "a", question("Bash", shell("ls")), no);
    assert_eq!((said.rule("Read"), said.mode()), (None, Some("default".into())));
    let yes = json!({ "behavior": "allow", "updatedPermissions": updates });
    told(&said, "b", question("Bash", shell("ls")), yes);
    let rules = ["Bash(make:*)", "Read", "Write", "Bash"].map(|rule| said.rule(rule));
    assert_eq!(rules, [Some(true), Some(true), None, None]);
    assert_eq!((said.directory("/d"), said.directory("/")), (Some(true), None));
    assert_eq!(said.mode().as_deref(), Some("acceptEdits"));
    let taken = json!([
        { "type": "removeRules", "behavior": "allow", "rules": [{ "toolName": "Read" }] },
        { "type": "removeDirectories", "directories": ["/d"] },
    ]);
    let yes = json!({ "behavior": "allow", "updatedPermissions": taken });
    told(&said, "c", question("Bash", shell("ls")), yes.clone());
    assert_eq!((said.rule("Read"), said.directory("/d")), (Some(false), Some(false)));
    let mode = |mode: &str| {
        let request = json!({ "subtype": "set_permission_mode", "mode": mode });
        let frame = json!({ "type": "control_request", "request_id": "m", "request": request });
        said.of_host(frame.to_string().as_bytes());
    };
    mode("plan");
    assert_eq!(said.mode().as_deref(), Some("plan"));
    told(&said, "d", question("ExitPlanMode", json!({})), yes);
    assert_eq!(said.mode().as_deref(), Some("acceptEdits"));
    assert!(said.knows_mode("plan") && !said.knows_mode("bypassPermissions"));
}

#[test]
fn files_go_back_only_where_the_host_wants_it() {
    let said = Said::default();
    let input = json!({ "file_path": "a", "restore": "x" });
    let restore = Asked { tool: Some("Write".into()), ..asked("1", input) };
    assert!(!said.agrees(&restore));
    said.of_host(br#"{"type":"user","message":{"content":"please /rewind"}}"#);
    assert!(!said.agrees(&restore));
    said.of_host(br#"{"type":"user","message":{"content":[{"type":"text","text":"/rewind u"}]}}"#);
    assert!(said.agrees(&restore));
}
