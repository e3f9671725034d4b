//! Requests of a host besides questions and hooks: each does what it says, or is answered with an error.

use serde_json::{Value, json};
use stockade_model_server::{Form, Turn};
use stockade_tests::Place;

use super::host::Host;
use super::{SECRET, call, result, run, say, script, text};

pub(super) fn answered(host: &mut Host, request: Value) -> Value {
    host.request(request);
    host.until("control_response")["response"].clone()
}

pub(super) fn good(host: &mut Host, request: Value) -> Value {
    let answer = answered(host, request);
    assert_eq!(answer["subtype"], "success", "{answer}");
    answer["response"].clone()
}

pub(super) fn error(host: &mut Host, request: Value) -> String {
    let answer = answered(host, request);
    assert_eq!(answer["subtype"], "error", "{answer}");
    answer["error"].as_str().expect("an error").to_owned()
}

#[test]
fn a_host_changes_thinking_and_takes_back_a_message_that_waits() {
    let place = Place::new("ag-thinking");
    let server = script(Form::Anthropic, &[&[say("one")], &[say("two")]]);
    let mut host = Host::start(&place, &server, &["--effort", "low"]);
    good(&mut host, json!({ "subtype": "initialize", "hooks": null }));
    let wrong = json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": "many" });
    assert_eq!(error(&mut host, wrong), "`max_thinking_tokens` is not a number");
    good(&mut host, json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 3000 }));
    let version = good(&mut host, json!({ "subtype": "get_binary_version" }));
    assert_eq!(version, json!({ "version": "2.1.330" }));
    host.user("go");
    assert_eq!(host.until("result")["result"], "one");
    good(&mut host, json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0 }));
    host.user("go on");
    assert_eq!(host.until("result")["result"], "two");
    let received = server.received();
    assert_eq!(received[0].body["thinking"]["budget_tokens"], 3000);
    assert_eq!(received[1].body.get("thinking"), None);
    let none = json!({ "subtype": "cancel_async_message", "message_uuid": "11111111-1111-4111-8111-111111111111" });
    assert_eq!(good(&mut host, none), json!({ "cancelled": false }));
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_host_switches_a_server_off_and_its_tools_are_refused() {
    let place = Place::new("ag-toggle");
    let add = |id: &str| call(id, "mcp__calc__add", json!({ "a": 1 }));
    let server = script(Form::Anthropic, &[&[say("one")], &[add("a")], &[say("two")]]);
    let config = r#"{"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}}"#;
    let mut host =
        Host::start(&place, &server, &["--mcp-config", config, "--allowedTools", "mcp__calc__add"]);
    good(&mut host, json!({ "subtype": "initialize", "hooks": null }));
    let status =
        |host: &mut Host| good(host, json!({ "subtype": "mcp_status" }))["mcpServers"].clone();
    assert_eq!(status(&mut host), json!([{ "name": "calc", "status": "pending" }]));
    host.user("go");
    for _ in 0..3 {
        let asked = host.until("mcp_message");
        let message = &asked["request"]["message"];
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "calc", "version": "1" } })
            }
            Some("tools/list") => {
                json!({ "tools": [{ "name": "add", "description": "d", "inputSchema": { "type": "object" } }] })
            }
            _ => json!({}),
        };
        host.answer(
            &asked,
            json!({ "mcp_response": { "jsonrpc": "2.0", "id": message["id"], "result": result } }),
        );
    }
    assert_eq!(host.until("result")["result"], "one");
    assert_eq!(status(&mut host), json!([{ "name": "calc", "status": "connected" }]));
    let off = json!({ "subtype": "mcp_toggle", "serverName": "calc", "enabled": false });
    good(&mut host, off);
    assert_eq!(status(&mut host), json!([{ "name": "calc", "status": "disabled" }]));
    host.user("go on");
    assert_eq!(host.until("result")["result"], "two");
    let (told, is_error) = result(&server, "a");
    assert!(is_error && told.contains("The server `calc` is switched off."), "{told}");
    // The list of tools stays as it was, for the provider's cache.
    let received = server.received();
    assert_eq!(received[0].body["tools"], received[1].body["tools"]);
    good(&mut host, json!({ "subtype": "mcp_toggle", "serverName": "calc", "enabled": true }));
    good(&mut host, json!({ "subtype": "mcp_reconnect", "serverName": "calc" }));
    assert_eq!(status(&mut host), json!([{ "name": "calc", "status": "connected" }]));
    let other = json!({ "subtype": "mcp_reconnect", "serverName": "other" });
    assert_eq!(error(&mut host, other), "there is no server `other`");
    let usage = good(&mut host, json!({ "subtype": "get_context_usage" }));
    assert!(usage["totalTokens"].as_u64().is_some_and(|it| it > 0), "{usage}");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn requests_that_could_widen_or_do_not_exist_are_errors() {
    let place = Place::new("ag-unknown");
    let server = script(Form::Anthropic, &[&[say("one")]]);
    let mut host = Host::start(&place, &server, &[]);
    for key in
        ["settings", "managedSettings", "disallowedTools", "toolAliases", "plugins", "mcpServers"]
    {
        let request = json!({ "subtype": "initialize", "hooks": null, key: {} });
        assert!(error(&mut host, request).contains("pass it as an option"), "{key}");
    }
    let agents = json!({ "subtype": "initialize", "hooks": null, "agents": [] });
    assert_eq!(error(&mut host, agents), "the agents are not a JSON object");
    good(&mut host, json!({ "subtype": "initialize", "hooks": null }));
    for subtype in [
        "update_settings",
        "mcp_call",
        "mcp_read_resource",
        "read_file",
        "rename_session",
        "register_repo_root",
        "seed_read_state",
        "reload_plugins",
        "set_mcp_permission_mode_override",
        "x",
    ] {
        let told =
            error(&mut host, json!({ "subtype": subtype, "path": "/etc/passwd", "settings": {} }));
        let starts = format!("the request `{subtype}` is not supported");
        assert!(told == starts || told.starts_with(&format!("{starts}: ")), "{told}");
    }
    assert_eq!(host.end(), Some(0));
}

#[test]
fn requests_to_the_model_are_noted_without_key_and_content() {
    let place = Place::new("ag-debug");
    let server = script(Form::Anthropic, &[&[say("one")]]);
    let output =
        run(&place, &server, &["-p", "WORDS_7", "--debug-file", "notes", "--task-budget", "7000"]);
    assert_eq!(text(&output.stdout), "one", "{}", text(&output.stderr));
    let notes = std::fs::read_to_string(place.project().join("notes")).expect("notes");
    let id = server.received()[0].header("x-client-request-id").expect("an identity").to_owned();
    assert!(
        notes.contains(&format!(" request {id} bytes ")) && notes.contains(" status 200 ms "),
        "{notes}"
    );
    assert!(!notes.contains(SECRET) && !notes.contains("WORDS_7"), "{notes}");
    let body = server.received()[0].body.to_string();
    assert!(body.contains("Tokens for the whole task: 7000"), "{body}");
}

#[test]
fn a_session_goes_on_only_if_nothing_but_the_named_turn_is_dropped() {
    let place = Place::new("ag-drops");
    let ids = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    let server = script(Form::Anthropic, &[&[say("one")], &[say("two")], &[say("three")]]);
    let session = "33333333-3333-4333-8333-333333333333";
    let mut host = Host::start(&place, &server, &["--session-id", session]);
    good(&mut host, json!({ "subtype": "initialize", "hooks": null }));
    let mut last = Vec::new();
    for (at, words) in ["first", "second"].iter().enumerate() {
        host.send(&json!({ "type": "user", "uuid": ids[at], "message": { "role": "user", "content": words } }));
        host.until("result");
    }
    assert_eq!(host.end(), Some(0));
    let log = place.root.join(format!("state/stockade/agent/sessions/{session}/events.jsonl"));
    for line in std::fs::read_to_string(log).expect("a log").lines() {
        let event: Value = serde_json::from_str(line).expect("an event");
        if event["type"] == "assistant.message" {
            last.push(event["data"]["uuid"].as_str().expect("an identity").to_owned());
        }
    }
    let go = |at: &str, turn: &str| {
        let server = script(Form::Anthropic, &[&[say("again")] as &[Turn]]);
        let arguments = [
            "-p",
            "x",
            "--resume",
            session,
            "--fork-session",
            "--resume-session-at",
            at,
            "--resume-drops-turn",
            turn,
        ];
        let output = run(&place, &server, &arguments);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(go(&last[0], ids[1]), (Some(0), "again".into(), String::new()));
    for (at, turn) in
        [(&last[0], ids[0]), (&last[1], ids[1]), (&ids[0].to_owned(), ids[1]), (&last[0], "")]
    {
        let (code, _, stderr) = go(at, turn);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("Resume rejected by --resume-drops-turn:"), "{stderr}");
    }
}

#[test]
fn options_that_would_be_passed_over_are_errors() {
    let place = Place::new("ag-passed-over");
    let server = script(Form::Anthropic, &[&[say("one")]]);
    let elsewhere = place.root.join("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    for (arguments, told) in [
        (["--project-config-root", elsewhere], "is neither the working directory nor above it"),
        (["--permission-prompt-tool", "mcp__host__ask"], "--permission-prompt-tool"),
        (["--resume-drops-turn", "x"], "--resume-session-at"),
    ] {
        let output = run(&place, &server, &[&["-p", "go"], &arguments[..]].concat());
        assert_ne!(output.status.code(), Some(0));
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    let output = run(&place, &server, &["-p", "go", "--project-config-root", "."]);
    assert_eq!(text(&output.stdout), "one", "{}", text(&output.stderr));
}
