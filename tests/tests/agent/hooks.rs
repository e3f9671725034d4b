//! Hooks of the settings and of a host at the events that only an agent has: each hears its frame, and what it says has
//! the effect that its event is documented with.

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply, Server};
use stockade_tests::{Place, until, word};

use super::host::Host;
use super::{agent, call, frames, result, run, say, script, text};

/// Notes what it hears, and answers with the file of its event, if there is one.
const RECORDER: &str = r#"input=$(cat); printf '%s\n' "$input" >> "$1/seen"
event=$(printf '%s' "$input" | sed 's/.*"hook_event_name":"\([A-Za-z]*\)".*/\1/')
if [ -e "$1/answers/$event" ]; then cat "$1/answers/$event"; fi
"#;

/// Puts a hook of the user that records everything at these events.
fn record(place: &Place, events: &[&str]) {
    place.write("recorder.sh", RECORDER);
    let recorder = word(&place.root.join("recorder.sh"));
    let command = format!("/bin/sh {recorder} {}", word(&place.root));
    let group = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), group.clone())).collect();
    place.write("home/.config/stockade/settings.json", &json!({ "hooks": hooks }).to_string());
}

fn answers(place: &Place, event: &str, answer: &Value) {
    place.write(&format!("answers/{event}"), &answer.to_string());
}

fn adds(event: &str, words: &str) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": words } })
}

/// The frames that hooks heard, in order.
fn heard(place: &Place) -> Vec<Value> {
    let seen = std::fs::read_to_string(place.root.join("seen")).unwrap_or_default();
    // A hook may be about to write a further line.
    let whole = seen.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).expect("a frame")).collect()
}

fn names(place: &Place) -> Vec<String> {
    heard(place)
        .iter()
        .map(|it| it["hook_event_name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn of<'a>(heard: &'a [Value], event: &str) -> &'a Value {
    heard
        .iter()
        .find(|it| it["hook_event_name"] == event)
        .unwrap_or_else(|| panic!("no {event}: {heard:?}"))
}

#[test]
fn hooks_of_the_settings_hear_each_event_of_a_turn_and_add_to_it() {
    let place = Place::new("ag-hook-turn");
    record(
        &place,
        &[
            "SessionStart",
            "InstructionsLoaded",
            "UserPromptSubmit",
            "TaskCreated",
            "TaskCompleted",
            "CwdChanged",
            "PostToolBatch",
            "Stop",
            "SessionEnd",
        ],
    );
    place.write("project/AGENTS.md", "be kind\n");
    place.write("project/sub/x", "");
    answers(&place, "SessionStart", &adds("SessionStart", "START_7"));
    answers(&place, "UserPromptSubmit", &adds("UserPromptSubmit", "PROMPT_7"));
    answers(&place, "PostToolBatch", &adds("PostToolBatch", "BATCH_7"));
    let created = json!({ "subject": "the item", "description": "more" });
    let server = script(
        Form::Anthropic,
        &[
            &[call("a", "TaskCreate", created), call("b", "Bash", json!({ "command": "cd sub" }))],
            &[call("c", "TaskUpdate", json!({ "taskId": "1", "status": "completed" }))],
            &[say("done")],
        ],
    );
    let output = run(&place, &server, &["-p", "go on"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("done", ""));
    assert_eq!(
        names(&place),
        [
            "SessionStart",
            "InstructionsLoaded",
            "UserPromptSubmit",
            "TaskCreated",
            "CwdChanged",
            "PostToolBatch",
            "TaskCompleted",
            "PostToolBatch",
            "Stop",
            "SessionEnd",
        ]
    );
    let heard = heard(&place);
    let ids: Vec<&Value> = heard.iter().map(|it| &it["session_id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
    assert_eq!(of(&heard, "SessionStart")["source"], "startup");
    let loaded = of(&heard, "InstructionsLoaded");
    assert!(
        loaded["file_path"].as_str().is_some_and(|it| it.ends_with("project/AGENTS.md")),
        "{loaded}"
    );
    assert_eq!(
        (&loaded["memory_type"], &loaded["load_reason"]),
        (&json!("Project"), &json!("session_start"))
    );
    assert_eq!(of(&heard, "UserPromptSubmit")["prompt"], "go on");
    let item = of(&heard, "TaskCreated");
    assert_eq!((&item["task_id"], &item["task_subject"]), (&json!("1"), &json!("the item")));
    assert_eq!(of(&heard, "TaskCompleted")["task_subject"], "the item");
    let moved = of(&heard, "CwdChanged");
    assert!(moved["new_cwd"].as_str().is_some_and(|it| it.ends_with("project/sub")), "{moved}");
    let batch = of(&heard, "PostToolBatch");
    let tools: Vec<&Value> =
        batch["tool_calls"].as_array().expect("calls").iter().map(|it| &it["tool_name"]).collect();
    assert_eq!(tools, ["TaskCreate", "Bash"]);
    let stop = of(&heard, "Stop");
    assert_eq!(
        (&stop["stop_hook_active"], &stop["last_assistant_message"]),
        (&json!(false), &json!("done"))
    );
    assert_eq!(of(&heard, "SessionEnd")["reason"], "other");
    let first = server.received()[0].body["messages"].to_string();
    assert!(first.contains("START_7") && first.contains("PROMPT_7"), "{first}");
    assert!(server.received()[1].body["messages"].to_string().contains("BATCH_7"));
}

#[test]
fn a_cd_out_of_the_project_is_not_gone_on_from_and_the_model_is_told() {
    let place = Place::new("ag-cd");
    place.write("project/sub/x", "");
    let bash = |id: &str, line: &str| call(id, "Bash", json!({ "command": line }));
    let server = script(
        Form::Anthropic,
        &[
            &[bash("a", "cd sub")],
            &[bash("b", "cd /usr; pwd")],
            &[bash("c", "pwd")],
            &[say("done")],
        ],
    );
    let output = run(&place, &server, &["-p", "go on"]);
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
    let inside = place.project().canonicalize().expect("the project").join("sub");
    let (told, _) = result(&server, "b");
    let line = format!("the working directory stays `{}`: `/usr` is outside", inside.display());
    assert!(told.starts_with("/usr") && told.contains(&line), "{told}");
    assert_eq!(result(&server, "c").0, inside.display().to_string());
}

#[test]
fn a_prompt_that_a_hook_blocks_reaches_no_model_and_is_not_kept() {
    let place = Place::new("ag-hook-prompt");
    record(&place, &["UserPromptSubmit"]);
    answers(&place, "UserPromptSubmit", &json!({ "decision": "block", "reason": "NOT_TODAY" }));
    let server = script(Form::Anthropic, &[&[say("no")]]);
    let id = "55555555-5555-4555-8555-555555555555";
    let output = run(&place, &server, &["-p", "the secret plan", "--session-id", id]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("NOT_TODAY"), "{}", text(&output.stderr));
    assert_eq!(server.received().len(), 0);
    let listed = place.output(["agent", "sessions"]);
    assert!(!text(&listed.stdout).contains("the secret plan"), "{}", text(&listed.stdout));
}

#[test]
fn hooks_keep_an_item_off_the_list_send_the_model_on_and_end_a_turn() {
    let place = Place::new("ag-hook-block");
    record(&place, &["TaskCreated", "Stop"]);
    answers(&place, "TaskCreated", &json!({ "decision": "block", "reason": "LIST_IS_CLOSED" }));
    answers(&place, "Stop", &json!({ "decision": "block", "reason": "RUN_THE_TESTS" }));
    let create = call("a", "TaskCreate", json!({ "subject": "x", "description": "y" }));
    let last = [say("really")];
    let mut turns: Vec<&[stockade_model_server::Turn]> = vec![std::slice::from_ref(&create)];
    let list = [call("b", "TaskList", json!({}))];
    turns.push(&list);
    turns.extend([&last[..]; 9]);
    let server = script(Form::Anthropic, &turns);
    let output = run(&place, &server, &["-p", "go"]);
    assert_eq!(text(&output.stdout), "really");
    let (told, is_error) = result(&server, "a");
    assert!(is_error && told.contains("LIST_IS_CLOSED"), "{told}");
    let (told, _) = result(&server, "b");
    assert!(told.contains("No tasks found"), "{told}");
    // The model is sent on eight times, then it may stop.
    assert_eq!(server.received().len(), 11);
    let stops: Vec<bool> = heard(&place)
        .iter()
        .filter(|it| it["hook_event_name"] == "Stop")
        .map(|it| it["stop_hook_active"] == true)
        .collect();
    assert_eq!((stops.len(), stops[0], stops[1]), (9, false, true));

    let place = Place::new("ag-hook-batch");
    record(&place, &["PostToolBatch"]);
    answers(&place, "PostToolBatch", &json!({ "decision": "block", "reason": "ENOUGH_DONE" }));
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": "true" }))], &[say("no")]],
    );
    let output = run(&place, &server, &["-p", "go"]);
    assert_eq!((server.received().len(), output.status.code()), (1, Some(1)));
    assert!(text(&output.stderr).contains("ENOUGH_DONE"), "{}", text(&output.stderr));
}

#[test]
fn hooks_hear_of_a_summary_refuse_it_and_add_to_what_comes_after() {
    let place = Place::new("ag-hook-compact");
    record(&place, &["PreCompact", "PostCompact", "SessionStart"]);
    let id = "66666666-6666-4666-8666-666666666666";
    run(
        &place,
        &script(Form::Anthropic, &[&[say("a long answer")]]),
        &["-p", "words", "--session-id", id],
    );
    answers(&place, "PreCompact", &json!({ "decision": "block", "reason": "KEEP_IT" }));
    let server = script(Form::Anthropic, &[&[say("THE SUMMARY")]]);
    let compact = ["-p", "/compact the names", "--resume", id];
    let output = run(&place, &server, &compact);
    assert!(
        text(&output.stderr).contains("KEEP_IT") && server.received().is_empty(),
        "{}",
        text(&output.stderr)
    );
    answers(&place, "PreCompact", &json!({}));
    answers(&place, "SessionStart", &adds("SessionStart", "AGAIN_7"));
    let output = run(&place, &server, &compact);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let heard = heard(&place);
    let pre = of(&heard, "PreCompact");
    assert_eq!(
        (&pre["trigger"], &pre["custom_instructions"]),
        (&json!("manual"), &json!("the names"))
    );
    assert_eq!(of(&heard, "PostCompact")["compact_summary"], "THE SUMMARY");
    assert_eq!(heard.last().expect("a frame")["source"], "compact");
    let server = script(Form::Anthropic, &[&[say("more")]]);
    run(&place, &server, &["-p", "and more", "--resume", id]);
    let told = server.received()[0].body["messages"].to_string();
    assert!(told.contains("THE SUMMARY") && told.contains("AGAIN_7"), "{told}");
}

#[test]
fn a_model_that_does_not_answer_is_told_to_hooks() {
    let place = Place::new("ag-hook-failure");
    record(&place, &["StopFailure", "Stop"]);
    let server = Server::start([Reply::error(401, "invalid x-api-key")]).expect("a server");
    run(&place, &server, &["-p", "go"]);
    assert_eq!(names(&place), ["StopFailure"]);
    let heard = heard(&place);
    assert_eq!(heard[0]["error"], "authentication_failed");
    assert!(
        heard[0]["error_details"].as_str().is_some_and(|it| it.contains("invalid x-api-key")),
        "{heard:?}"
    );
}

#[test]
fn a_host_hears_that_a_person_is_wanted_and_its_hooks_answer_for_it() {
    let place = Place::new("ag-hook-host");
    record(&place, &["Notification", "DirectoryAdded", "PreToolUse"]);
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let server =
        script(Form::Anthropic, &[&[write("a")], &[write("b")], &[write("c")], &[say("done")]]);
    let arguments = ["--permission-prompt-tool", "stdio", "--include-hook-events"];
    let mut host = Host::start(&place, &server, &arguments);
    let matcher = json!([{ "matcher": "Write", "hookCallbackIds": ["cb"] }]);
    host.request(json!({ "subtype": "initialize", "hooks": { "PermissionRequest": matcher } }));
    host.user("go");
    let decide = |decision: Value| json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } });
    // The hook allows the first, says no to the second, and leaves the third to the host.
    let asked = host.until("hook_callback");
    assert_eq!(asked["request"]["input"]["hook_event_name"], "PermissionRequest");
    assert_eq!(asked["request"]["input"]["tool_input"]["file_path"], "a.txt");
    host.answer(&asked, decide(json!({ "behavior": "allow" })));
    let asked = host.until("hook_callback");
    host.answer(&asked, decide(json!({ "behavior": "deny", "message": "HOOK_NO" })));
    let asked = host.until("hook_callback");
    host.answer(&asked, json!({}));
    let asked = host.until("can_use_tool");
    assert_eq!(asked["request"]["tool_use_id"], "c");
    until("the hook hears of it", || names(&place).contains(&"Notification".to_owned()));
    let added =
        json!([{ "type": "addDirectories", "directories": ["/tmp"], "destination": "session" }]);
    host.answer(&asked, json!({ "behavior": "allow", "updatedInput": { "file_path": "c.txt", "content": "x" }, "updatedPermissions": added }));
    let shown = host.until("hook_response");
    assert_eq!(
        (&shown["hook_event"], &shown["outcome"]),
        (&json!("DirectoryAdded"), &json!("success"))
    );
    assert_eq!(host.until("result")["result"], "done");
    let there = |name: &str| place.project().join(name).exists();
    assert_eq!([there("a.txt"), there("b.txt"), there("c.txt")], [true, false, true]);
    let (told, is_error) = result(&server, "b");
    assert!(is_error && told.contains("HOOK_NO"), "{told}");
    let heard = heard(&place);
    let wanted = of(&heard, "Notification");
    assert_eq!(wanted["notification_type"], "permission_prompt");
    assert!(wanted["message"].as_str().is_some_and(|it| it.contains("Write")), "{wanted}");
    assert_eq!(of(&heard, "DirectoryAdded")["directory"], "/tmp");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_stream_shows_the_hooks_that_ran_where_that_is_wanted() {
    let place = Place::new("ag-hook-shown");
    record(&place, &["UserPromptSubmit", "PreToolUse"]);
    let server = || {
        script(
            Form::Anthropic,
            &[&[call("a", "Bash", json!({ "command": "true" }))], &[say("done")]],
        )
    };
    let whole = ["-p", "go", "--output-format", "stream-json"];
    let shown = |more: &[&str]| -> Vec<String> {
        let server = server();
        let output = agent(&place, &server, Form::Anthropic, &[&whole[..], more].concat())
            .output()
            .expect("it starts");
        let frames = frames(&output);
        let hooks = frames.iter().filter(|it| it["subtype"] == "hook_response");
        hooks.map(|it| it["hook_event"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(shown(&[]), [""; 0]);
    assert_eq!(shown(&["--include-hook-events"]), ["UserPromptSubmit", "PreToolUse"]);
}

#[test]
fn setup_runs_before_the_session_begins_where_an_option_asks_for_it() {
    let place = Place::new("ag-hook-setup");
    record(&place, &["Setup", "SessionStart", "UserPromptSubmit", "SessionEnd"]);
    answers(&place, "Setup", &adds("Setup", "SETUP_7"));
    let server = script(Form::Anthropic, &[&[say("done")]]);
    let output = run(&place, &server, &["-p", "go", "--init"]);
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
    assert!(server.received()[0].body["messages"].to_string().contains("SETUP_7"));
    // Without a prompt and without a model.
    let silent = script(Form::Anthropic, &[]);
    let output = run(&place, &silent, &["--init-only"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(silent.received().is_empty());
    let server = script(Form::Anthropic, &[&[say("done")]]);
    let output = run(&place, &server, &["-p", "go", "--maintenance"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let both = ["Setup", "SessionStart"];
    assert_eq!(
        names(&place),
        [
            &both[..],
            &["UserPromptSubmit", "SessionEnd"],
            &both,
            &["SessionEnd"],
            &both,
            &["UserPromptSubmit", "SessionEnd"]
        ]
        .concat()
    );
    let triggers: Vec<Value> = heard(&place)
        .into_iter()
        .filter(|it| it["hook_event_name"] == "Setup")
        .map(|it| it["trigger"].clone())
        .collect();
    assert_eq!(triggers, [json!("init"), json!("init"), json!("maintenance")]);
}

#[test]
fn a_hook_keeps_the_model_or_hears_that_it_changed() {
    let place = Place::new("ag-hook-model");
    record(&place, &["PreModelSwitch", "PostModelSwitch"]);
    answers(&place, "PostModelSwitch", &adds("PostModelSwitch", "SWITCHED_7"));
    let server =
        script(Form::Anthropic, &[&[say("one")], &[say("two")], &[say("three")], &[say("four")]]);
    let mut host = Host::start(&place, &server, &["--model", "claude-opus-4-5"]);
    host.request(json!({ "subtype": "initialize" }));
    let turn = |host: &mut Host, model: Option<&str>| {
        if let Some(model) = model {
            host.request(json!({ "subtype": "set_model", "model": model }));
        }
        host.user("go");
        host.until("result");
        let body = server.received().pop().expect("a request").body;
        (body["model"].as_str().expect("a model").to_owned(), body["messages"].to_string())
    };
    let (first, _) = turn(&mut host, None);
    let (second, told) = turn(&mut host, Some("claude-haiku-4-5"));
    assert_eq!((first.as_str(), second.as_str()), ("claude-opus-4-5", "claude-haiku-4-5"));
    assert!(told.contains("SWITCHED_7"), "{told}");
    let seen = heard(&place);
    let before = of(&seen, "PreModelSwitch");
    assert_eq!(
        (&before["from_model"], &before["to_model"], &before["source"], &before["pricing"]),
        (&json!("claude-opus-4-5"), &json!("claude-haiku-4-5"), &json!("sdk"), &json!("catalog"))
    );
    assert!(before["context_tokens"].as_u64().is_some_and(|it| it > 0), "{before}");
    assert_eq!(before["prompt_cache_warm"], true);
    // A no and a question keep it.
    for decision in ["deny", "ask"] {
        let answer = json!({ "hookSpecificOutput": {
            "hookEventName": "PreModelSwitch", "permissionDecision": decision, "permissionDecisionReason": "too dear",
        }});
        answers(&place, "PreModelSwitch", &answer);
        let (kept, _) = turn(&mut host, Some("claude-opus-4-5"));
        assert_eq!(kept, "claude-haiku-4-5", "{decision}");
    }
    assert_eq!(names(&place).iter().filter(|it| *it == "PostModelSwitch").count(), 1);
    assert_eq!(host.end(), Some(0));
}

#[test]
fn hooks_hear_of_a_file_that_somebody_else_changed_and_of_each_text_that_is_shown() {
    let place = Place::new("ag-hook-files");
    record(&place, &["FileChanged", "MessageDisplay"]);
    let settings = place.root.join("home/.config/stockade/settings.json");
    let text = std::fs::read_to_string(&settings).expect("settings");
    std::fs::write(
        &settings,
        text.replacen('{', r#"{"permissions":{"allow":["Edit","Write"]},"#, 1),
    )
    .expect("settings");
    place.write("project/a.txt", "one\n");
    let read = |id: &str| call(id, "Read", json!({ "file_path": "a.txt" }));
    let change = |id: &str, text: &str| {
        call(id, "Bash", json!({ "command": format!("echo {text} > a.txt") }))
    };
    let write = |id: &str| call(id, "Write", json!({ "file_path": "a.txt", "content": "mine\n" }));
    let server = script(
        Form::Anthropic,
        &[
            &[say("I look"), read("a")],
            &[change("b", "two")],
            &[write("c")],
            &[read("d")],
            &[write("e")],
            &[read("f")],
            &[say("done")],
        ],
    );
    let output = run(&place, &server, &["-p", "go"]);
    assert_eq!(text_of(&output), "done");
    let told = heard(&place);
    let of =
        |event: &str| told.iter().filter(|it| it["hook_event_name"] == event).collect::<Vec<_>>();
    let path = place.project().join("a.txt");
    let changed: Vec<(&Value, &Value)> =
        of("FileChanged").into_iter().map(|it| (&it["file_path"], &it["event"])).collect();
    // Once by the write that is refused, once by the read after it; its own write is nobody else's.
    let expected = (&json!(path), &json!("change"));
    assert_eq!(changed, [expected, expected], "{told:?}");
    let shown: Vec<(&Value, &Value, &Value)> = of("MessageDisplay")
        .into_iter()
        .map(|it| (&it["delta"], &it["index"], &it["final"]))
        .collect();
    let (zero, last) = (json!(0), json!(true));
    assert_eq!(
        shown,
        [(&json!("I look"), &zero, &last), (&json!("done"), &zero, &last)],
        "{told:?}"
    );
}

fn text_of(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn hooks_hear_of_calls_their_ends_refusals_and_changed_settings() {
    let place = Place::new("ag-hook-calls");
    let events = [
        "PreToolUse",
        "PermissionRequest",
        "PermissionDenied",
        "PostToolUse",
        "PostToolUseFailure",
        "ConfigChange",
    ];
    record(&place, &events);
    let settings = place.root.join("home/.config/stockade/settings.json");
    let before = std::fs::read_to_string(&settings).expect("settings");
    let bash = |id: &str, line: &str| call(id, "Bash", json!({ "command": line }));
    let server = script(
        Form::Anthropic,
        &[
            &[bash("a", "true")],
            &[bash("b", "false")],
            &[say("one")],
            &[bash("c", "date")],
            &[say("two")],
        ],
    );
    let mut host = Host::start(&place, &server, &["--permission-mode", "auto"]);
    host.request(json!({ "subtype": "initialize", "hooks": null }));
    host.user("go");
    assert_eq!(host.until("result")["result"], "one");
    let tools = ["PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure"];
    assert_eq!(names(&place), tools);
    let deny = r#"{"permissions":{"deny":["Bash(date:*)"]},"#;
    std::fs::write(&settings, before.replacen('{', deny, 1)).expect("settings");
    host.user("go on");
    assert_eq!(host.until("result")["result"], "two");
    let (told, is_error) = result(&server, "c");
    assert!(is_error, "{told}");
    let heard = heard(&place);
    let changed = of(&heard, "ConfigChange");
    assert!(
        changed["file_path"].as_str().is_some_and(|it| it.ends_with("stockade/settings.json")),
        "{changed}"
    );
    let denied = of(&heard, "PermissionDenied");
    assert_eq!(
        (&denied["tool_name"], &denied["tool_use_id"], &denied["tool_input"]["command"]),
        (&json!("Bash"), &json!("c"), &json!("date"))
    );
    assert!(denied["reason"].as_str().is_some_and(|it| !it.is_empty()), "{denied}");
    let failed = of(&heard, "PostToolUseFailure");
    assert_eq!((&failed["tool_use_id"], &failed["is_interrupt"]), (&json!("b"), &json!(false)));
    assert!(failed.get("error").is_some() && failed.get("duration_ms").is_some(), "{failed}");
    assert_eq!(host.end(), Some(0));
}
