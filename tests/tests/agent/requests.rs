//! Changes that a host may make in a running session, and those that it may not: settings, servers of tools, thinking, messages that
//! wait. Requests come in the middle of turns and questions, and late.

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply};
use stockade_tests::Place;

use super::control::{error, good};
use super::host::Host;
use super::{call, result, run, say, script, text};

const CALC: &str = r#"{"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}}"#;

fn begun(host: &mut Host) {
    good(host, json!({ "subtype": "initialize", "hooks": null }));
}

fn turn(host: &mut Host, words: &str) -> Value {
    host.user(words);
    host.until("result")
}

/// Answers a message to a server of the host, whose one tool adds.
fn serve(host: &mut Host, asked: &Value) {
    let message = &asked["request"]["message"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "calc", "version": "1" } }),
        Some("tools/list") => {
            json!({ "tools": [{ "name": "add", "description": "d", "inputSchema": { "type": "object" } }] })
        }
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "SUM_7" }] }),
        _ => json!({}),
    };
    let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    host.answer(asked, json!({ "mcp_response": reply }));
}

fn greet(host: &mut Host) {
    for _ in 0..3 {
        let asked = host.until("mcp_message");
        serve(host, &asked);
    }
}

#[test]
fn settings_of_a_host_tighten_a_session_and_never_loosen_it() {
    let place = Place::new("ag-flag-settings");
    let bash = |id: &str| call(id, "Bash", json!({ "command": "echo SHOWN_7" }));
    let server =
        script(Form::Anthropic, &[&[bash("a")], &[say("one")], &[bash("b")], &[say("two")]]);
    let settings = r#"{"model": "claude-haiku-4-5", "includeCoAuthoredBy": false}"#;
    let mut host = Host::start(&place, &server, &["--settings", settings]);
    begun(&mut host);
    let known = good(&mut host, json!({ "subtype": "get_settings" }));
    let given: Value = serde_json::from_str(settings).expect("settings");
    assert_eq!(known["sources"], json!([{ "source": "flagSettings", "settings": given }]));
    assert_eq!(turn(&mut host, "go")["result"], "one");
    assert!(!result(&server, "a").1);
    let apply = |settings: Value| json!({ "subtype": "apply_flag_settings", "settings": settings });
    for (settings, key) in [
        (json!({ "permissions": { "allow": ["Bash"], "deny": ["Read"] } }), "permissions.allow"),
        (json!({ "sandbox": { "enabled": false } }), "sandbox"),
        (json!({ "permissions": { "deny": null } }), "permissions.deny"),
        (json!({ "permissions": { "defaultMode": "bypassPermissions" } }), "bypassPermissions"),
        (json!({ "effortLevel": "endless" }), "effortLevel"),
        (json!({ "hooks": {} }), "hooks"),
    ] {
        let told = error(&mut host, apply(settings));
        assert!(told.contains(&format!("`{key}`")), "{told}");
    }
    let tight = json!({ "model": "claude-opus-4-5", "effortLevel": "low", "permissions": { "deny": ["Bash(echo:*)"] } });
    good(&mut host, apply(tight));
    let known = good(&mut host, json!({ "subtype": "get_settings" }))["applied"].clone();
    assert_eq!(known, json!({ "model": "claude-opus-4-5", "effort": "low" }));
    assert_eq!(turn(&mut host, "go on")["result"], "two");
    let (told, is_error) = result(&server, "b");
    assert!(is_error && !told.contains("SHOWN_7"), "{told}");
    let received = server.received();
    assert_eq!(
        (&received[0].body["model"], &received[2].body["model"]),
        (&json!("claude-haiku-4-5"), &json!("claude-opus-4-5"))
    );
    assert_eq!(received[0].body.get("thinking"), None);
    assert_eq!(received[2].body["thinking"]["budget_tokens"], 2048);
    assert_eq!(host.end(), Some(0));
}

#[test]
fn servers_are_exchanged_before_the_first_message_and_taken_away_after_it() {
    let place = Place::new("ag-set-servers");
    let add = |id: &str| call(id, "mcp__calc__add", json!({ "a": 1 }));
    let turns: [&[stockade_model_server::Turn]; 6] =
        [&[add("a")], &[say("one")], &[add("b")], &[say("two")], &[add("c")], &[say("three")]];
    let server = script(Form::Anthropic, &turns);
    let mut host = Host::start(&place, &server, &["--allowedTools", "mcp__calc__add"]);
    begun(&mut host);
    let set = |servers: Value| json!({ "subtype": "mcp_set_servers", "servers": servers });
    let calc = || json!({ "type": "sdk", "name": "calc" });
    let local = json!({ "command": "true" });
    let answer = good(&mut host, set(json!({ "calc": calc(), "local": local })));
    assert_eq!((&answer["added"], &answer["removed"]), (&json!(["calc"]), &json!([])));
    assert_eq!(
        answer["errors"]["local"],
        "servers of the type `stdio` are not built; use one of the type `sdk`"
    );
    host.user("go");
    greet(&mut host);
    let asked = host.until("mcp_message");
    serve(&mut host, &asked);
    assert_eq!(host.until("result")["result"], "one");
    assert!(result(&server, "a").0.contains("SUM_7"));
    let answer = good(&mut host, set(json!({ "later": { "type": "sdk", "name": "later" } })));
    assert_eq!((&answer["added"], &answer["removed"]), (&json!([]), &json!(["calc"])));
    assert!(answer["errors"]["later"].as_str().is_some_and(|it| it.contains("never change")));
    let status =
        |host: &mut Host| good(host, json!({ "subtype": "mcp_status" }))["mcpServers"].clone();
    assert_eq!(status(&mut host), json!([]));
    let on = json!({ "subtype": "mcp_toggle", "serverName": "calc", "enabled": true });
    assert_eq!(error(&mut host, on), "there is no server `calc`");
    // A server that is gone is not called, and the tools stay as they were.
    assert_eq!(turn(&mut host, "go on")["result"], "two");
    let (told, is_error) = result(&server, "b");
    assert!(is_error && told.contains("The server `calc` is switched off."), "{told}");
    let answer = good(&mut host, set(json!({ "calc": calc() })));
    assert_eq!(answer, json!({ "added": ["calc"], "removed": [], "errors": {} }));
    host.user("and again");
    let asked = host.until("mcp_message");
    assert_eq!(asked["request"]["message"]["method"], "tools/call");
    serve(&mut host, &asked);
    assert_eq!(host.until("result")["result"], "three");
    assert_eq!(server.received()[0].body["tools"], server.received()[5].body["tools"]);
    assert_eq!(host.end(), Some(0));
}

#[test]
fn policies_that_a_host_has_for_tools_of_its_servers_hold() {
    let place = Place::new("ag-tool-policies");
    let add = |id: &str| call(id, "mcp__calc__add", json!({ "a": 1 }));
    let server = script(Form::Anthropic, &[&[add("a")], &[say("one")]]);
    let arguments = ["--mcp-config", CALC, "--allowedTools", "mcp__calc__add"];
    let mut host = Host::start(&place, &server, &arguments);
    let policy = |policy: &str| {
        json!({ "subtype": "initialize", "hooks": null, "sdkMcpServers": ["calc"],
            "sdkMcpServerConfigs": { "calc": { "tools": [{ "name": "add", "permission_policy": policy }] } } })
    };
    assert_eq!(error(&mut host, policy("never")), "`permission_policy` is invalid: `never`");
    good(&mut host, policy("always_deny"));
    host.user("go");
    greet(&mut host);
    assert_eq!(host.until("result")["result"], "one");
    let (told, is_error) = result(&server, "a");
    assert!(is_error && !told.contains("SUM_7"), "{told}");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn thinking_comes_back_as_the_host_wants_it() {
    let place = Place::new("ag-thinking-display");
    let server = script(Form::Anthropic, &[&[say("one")], &[say("two")], &[say("three")]]);
    let arguments = ["--max-thinking-tokens", "2000", "--thinking-display", "omitted"];
    let mut host = Host::start(&place, &server, &arguments);
    begun(&mut host);
    turn(&mut host, "go");
    let think = |display: Value| json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 3000, "thinking_display": display });
    assert_eq!(error(&mut host, think(json!("loud"))), "`thinking_display` is invalid");
    good(&mut host, think(json!("summarized")));
    turn(&mut host, "go on");
    good(&mut host, think(Value::Null));
    turn(&mut host, "and on");
    let thinking: Vec<Value> =
        server.received().iter().map(|it| it.body["thinking"].clone()).collect();
    assert_eq!(
        thinking,
        [
            json!({ "type": "enabled", "budget_tokens": 2000, "display": "omitted" }),
            json!({ "type": "enabled", "budget_tokens": 3000, "display": "summarized" }),
            json!({ "type": "enabled", "budget_tokens": 3000 }),
        ]
    );
    assert_eq!(host.end(), Some(0));
    let output = run(&place, &server, &["-p", "go", "--thinking-display", "loud"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn words_that_a_host_composed_are_no_commands() {
    let place = Place::new("ag-verbatim");
    let server = script(Form::Anthropic, &[&[say("words")]]);
    let mut host = Host::start(&place, &server, &[]);
    begun(&mut host);
    let message = json!({ "role": "user", "content": "/context" });
    host.send(&json!({ "type": "user", "message": message, "client_composed": true }));
    assert_eq!(host.until("result")["result"], "words");
    let told = turn(&mut host, "/context");
    assert!(told["result"].as_str().is_some_and(|it| it.starts_with("Context: ")), "{told}");
    assert_eq!(server.received().len(), 1);
    let usage = good(&mut host, json!({ "subtype": "get_context_usage" }));
    let kinds: Vec<&Value> =
        usage["categories"].as_array().expect("rows").iter().map(|it| &it["id"]).collect();
    assert_eq!(kinds, ["system_prompt", "system_tools", "memory_files", "messages", "free_space"]);
    let spent = good(&mut host, json!({ "subtype": "get_usage" }));
    assert!(spent["session"]["model_usage"].as_object().is_some_and(|it| it.len() == 1), "{spent}");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn requests_in_the_middle_of_a_question_are_answered_and_answer_nothing() {
    let place = Place::new("ag-middle");
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let server = script(Form::Anthropic, &[&[write("a")], &[say("one")], &[say("two")]]);
    let mut host = Host::start(&place, &server, &["--permission-prompt-tool", "stdio"]);
    begun(&mut host);
    host.user("go");
    let asked = host.until("can_use_tool");
    // Answers to questions that nobody asked, and a second `initialize`, are no answer to this one.
    for id in ["", "x", "h1"] {
        let answer = json!({ "subtype": "success", "request_id": id, "response": { "behavior": "allow", "updatedInput": {} } });
        host.send(&json!({ "type": "control_response", "response": answer }));
    }
    let again = good(&mut host, json!({ "subtype": "initialize", "hooks": null }));
    assert_eq!(
        (&again["session_state"], &again["current_permission_mode"]),
        (&json!("running"), &json!("default"))
    );
    good(&mut host, json!({ "subtype": "get_context_usage" }));
    let waits = "44444444-4444-4444-8444-444444444444";
    host.send(
        &json!({ "type": "user", "uuid": waits, "message": { "role": "user", "content": "next" } }),
    );
    assert!(!place.project().join("a.txt").exists());
    let stop = good(&mut host, json!({ "subtype": "interrupt" }));
    assert_eq!(stop, json!({ "still_queued": [waits] }));
    let ended = host.until("result");
    assert_eq!(ended["subtype"], "error_during_execution");
    // An answer that comes when the call is over runs nothing.
    host.answer(
        &asked,
        json!({ "behavior": "allow", "updatedInput": { "file_path": "a.txt", "content": "x" } }),
    );
    assert_eq!(host.until("result")["result"], "one");
    assert!(!place.project().join("a.txt").exists());
    let stop = good(&mut host, json!({ "subtype": "interrupt", "cancel_queued": true }));
    assert_eq!(stop, json!({ "still_queued": [], "cancelled": [] }));
    assert_eq!(turn(&mut host, "go on")["result"], "two");
    assert!(!place.project().join("a.txt").exists());
    assert_eq!(host.end(), Some(0));
}

#[test]
fn what_a_hook_of_a_host_says_late_or_twice_counts_for_no_later_call() {
    let place = Place::new("ag-late-hook");
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let server =
        script(Form::Anthropic, &[&[write("a")], &[say("one")], &[write("b")], &[say("two")]]);
    let mut host = Host::start(&place, &server, &[]);
    let hooks =
        json!({ "PreToolUse": [{ "matcher": "Write", "hookCallbackIds": ["cb"], "timeout": 5 }] });
    good(&mut host, json!({ "subtype": "initialize", "hooks": hooks }));
    let allow = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow" } });
    host.user("go");
    let asked = host.until("hook_callback");
    // The host takes too long: the call is refused.
    let withdrawn = host.until("control_cancel_request");
    assert_eq!(withdrawn["request_id"], asked["request_id"]);
    assert_eq!(host.until("result")["result"], "one");
    host.user("go on");
    let second = host.until("hook_callback");
    host.answer(&asked, allow.clone());
    host.answer(&asked, allow);
    let no = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "NO_7" } });
    host.answer(&second, no);
    assert_eq!(host.until("result")["result"], "two");
    let there = |name: &str| place.project().join(name).exists();
    assert_eq!([there("a.txt"), there("b.txt")], [false, false]);
    assert!(result(&server, "b").0.contains("NO_7"));
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_server_that_goes_away_while_it_is_called_leaves_a_call_with_a_result() {
    let place = Place::new("ag-server-gone");
    let add = call("a", "mcp__calc__add", json!({ "a": 1 }));
    let server = script(Form::Anthropic, &[&[add], &[say("one")]]);
    let arguments = ["--mcp-config", CALC, "--allowedTools", "mcp__calc__add"];
    let mut host = Host::start(&place, &server, &arguments);
    begun(&mut host);
    host.user("go");
    greet(&mut host);
    let asked = host.until("mcp_message");
    let none = json!({ "subtype": "mcp_set_servers", "servers": {} });
    assert_eq!(good(&mut host, none)["removed"], json!(["calc"]));
    // The host answers for a server that it does not have any more, with something that is no reply.
    host.answer(&asked, json!({ "mcp_response": { "jsonrpc": "2.0", "id": 99 } }));
    assert_eq!(host.until("result")["result"], "one");
    let (told, is_error) = result(&server, "a");
    assert!(is_error, "{told}");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_person_changes_a_plugin_between_two_turns_and_no_host_reloads_it() {
    let place = Place::new("ag-plugin-changes");
    place.write("plugin/.claude-plugin/plugin.json", r#"{"name":"guard"}"#);
    let guard = |words: &str| {
        let output = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse",
            "permissionDecision": words, "permissionDecisionReason": "GUARD_7" } });
        let command = format!("echo '{output}'");
        json!({ "hooks": { "PreToolUse": [{ "hooks": [{ "type": "command", "command": command }] }] } })
            .to_string()
    };
    place.write("plugin/hooks/hooks.json", &guard("deny"));
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let server =
        script(Form::Anthropic, &[&[write("a")], &[say("one")], &[write("b")], &[say("two")]]);
    let plugin = place.root.join("plugin");
    let arguments = ["--plugin-dir", plugin.to_str().expect("UTF-8")];
    let mut host = Host::start(&place, &server, &arguments);
    begun(&mut host);
    assert_eq!(turn(&mut host, "go")["result"], "one");
    assert!(result(&server, "a").0.contains("GUARD_7"));
    // The plugin lies where no command writes: the person changes it, as settings are changed.
    place.write("plugin/hooks/hooks.json", &guard("allow"));
    let told = error(&mut host, json!({ "subtype": "reload_plugins" }));
    assert!(told.contains("plugins are read when a session begins"), "{told}");
    assert_eq!(turn(&mut host, "go on")["result"], "two");
    let there = |name: &str| place.project().join(name).exists();
    assert_eq!([there("a.txt"), there("b.txt")], [false, true]);
    assert_eq!(host.end(), Some(0));
}

#[test]
fn an_endpoint_that_answers_too_much_is_tried_again_as_the_host_hears() {
    let place = Place::new("ag-retry-told");
    let server = stockade_model_server::Server::start([
        Reply::error(529, "overloaded"),
        Reply::answer(Form::Anthropic, &[say("one")]),
    ])
    .expect("a server");
    let stream = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
    let mut command = super::agent(&place, &server, Form::Anthropic, &stream);
    let mut host = Host::of(command.env("STOCKADE_MODEL_TRIES", "2"));
    begun(&mut host);
    host.user("go");
    let retry = host.until("api_retry");
    assert_eq!((&retry["error_status"], &retry["attempt"]), (&json!(529), &json!(1)), "{retry}");
    assert_eq!(host.until("result")["result"], "one");
    assert_eq!(host.end(), Some(0));
}
