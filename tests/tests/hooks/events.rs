//! Hooks of the events at which nothing is decided about a call: after it, beside it, at sessions, at changes of settings,
//! and those of which an agent tells.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::{Gateway, Peer};

use super::{answering, command, hooks, judged_case, script, stdout, told, until, user};

#[test]
fn refusals_in_auto_mode_are_told() {
    let place = Place::new("hook-denied");
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PermissionDenied","retry":true}}"#;
    let seen = place.root.join("seen");
    let text = format!("cat > {}; echo '{answer}'", seen.display());
    let mut settings = hooks("PermissionDenied", json!([command(&text)]));
    settings["permissions"] = json!({ "deny": ["Bash(gentool:*)"] });
    for (mode, told) in [("default", false), ("auto", true)] {
        let case = json!({
            "layers": { "user": settings }, "tool": "Bash", "input": { "command": "gentool" },
            "cwd": place.project(), "home": place.home(), "mode": mode,
        });
        let answer = judged_case(&place, &case);
        assert_eq!(answer["decision"], json!("deny"));
        assert_eq!(seen.exists(), told, "{mode}");
        assert_eq!(answer["context"].is_array(), told, "{answer}");
    }
}

#[test]
fn hooks_run_after_a_command_by_the_way_it_ended() {
    let place = Place::new("after");
    let seen = place.root.join("seen");
    let answer =
        r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"well done"}}"#;
    let good = script(&place, "good.sh", &format!("cat > {}; echo '{answer}'", seen.display()));
    let bad =
        script(&place, "bad.sh", &format!("cat > {}; echo try again >&2; exit 2", seen.display()));
    let group = |command: &str| json!([{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]);
    let settings =
        json!({"hooks": {"PostToolUse": group(&good), "PostToolUseFailure": group(&bad)}});
    user(&place, &settings);

    let output = place.output(["run", "echo hi"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("well done") && !told(&output).contains("try again"));
    let frame = || -> Value {
        serde_json::from_slice(&std::fs::read(&seen).expect("the hook ran")).expect("JSON")
    };
    let first = frame();
    assert_eq!(
        (
            &first["hook_event_name"],
            &first["tool_input"]["command"],
            &first["tool_response"]["stdout"]
        ),
        (&json!("PostToolUse"), &json!("echo hi"), &json!("hi\n"))
    );
    let why = stdout(&place.output(["audit", "why", "last"]));
    assert!(why.contains("hook PostToolUse `"), "{why}");

    let output = place.output(["run", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains("try again") && !told(&output).contains("well done"));
    let second = frame();
    assert_eq!(
        (&second["hook_event_name"], &second["error"], &second["is_interrupt"]),
        (&json!("PostToolUseFailure"), &json!("it ended with status 3"), &json!(false))
    );
    let why = stdout(&place.output(["audit", "why", "last"]));
    assert!(why.contains("(exit 2, ") && why.contains(" ms): block"), "{why}");
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", told(&verified));
}

#[test]
fn what_a_hook_beside_has_to_tell_reaches_the_next_call() {
    let place = Place::new("hook-async");
    let done = place.root.join("done");
    let text = format!(
        "cat > /dev/null; {}; touch {}",
        answering(&json!({ "permissionDecision": "deny", "additionalContext": "the tests pass" })),
        done.display()
    );
    let handler = json!({"type": "command", "command": text, "async": true, "timeout": 30});
    user(&place, &hooks("PreToolUse", json!([handler])));
    let run = || place.output(["run", "--session", "s-1", "echo hi"]);
    let first = run();
    assert_eq!((first.status.code(), stdout(&first)), (Some(0), "hi\n".into()), "{}", told(&first));
    until("the hook ends", || done.exists());
    let folder = place.state().join("hooks");
    let kept = |folder: &Path| {
        let sessions = std::fs::read_dir(folder).into_iter().flatten().flatten();
        sessions
            .flat_map(|it| std::fs::read_dir(it.path()).into_iter().flatten().flatten())
            .any(|it| it.path().extension().is_some_and(|ending| ending == "json"))
    };
    until("its outcome is kept", || kept(&folder));
    let second = run();
    assert!(told(&second).contains("the tests pass"), "{}", told(&second));
}

#[test]
fn a_session_of_a_gateway_begins_and_ends_once() {
    let place = Place::new("hook-session");
    let seen = place.root.join("seen");
    let note = |context: &str| json!([{"matcher": "startup|other", "hooks": [{"type": "command", "timeout": 30, "command": format!("cat >> {0}; echo >> {0}; {context}", seen.display())}]}]);
    let settings = json!({"hooks": {"SessionStart": note("echo the branch is main"), "SessionEnd": note("true")}});
    user(&place, &settings);
    let gateway = Gateway::start(&place);
    let run = || place.output(["run", "--session", "s-7", "echo hi"]);
    let first = run();
    assert!(told(&first).contains("the branch is main"), "{}", told(&first));
    let second = run();
    assert!(!told(&second).contains("the branch is main"), "{}", told(&second));
    let events = || -> Vec<(Value, Value, Value)> {
        let text = std::fs::read_to_string(&seen).unwrap_or_default();
        let frames = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        frames
            .map(|it| {
                (
                    it["hook_event_name"].clone(),
                    it["session_id"].clone(),
                    it.get("source").or(it.get("reason")).cloned().unwrap_or_default(),
                )
            })
            .collect()
    };
    assert_eq!(events(), [(json!("SessionStart"), json!("s-7"), json!("startup"))]);
    assert_eq!(gateway.end(), Some(0));
    assert_eq!(events()[1..], [(json!("SessionEnd"), json!("s-7"), json!("other"))]);
    let search = stdout(&place.output(["audit", "search", "--json"]));
    assert_eq!(search.matches(r#""kind":"hooks""#).count(), 2, "{search}");
}

#[test]
fn nobody_ends_the_session_of_another_by_naming_it() {
    let place = Place::new("hook-sessions");
    let seen = place.root.join("seen");
    let note = json!([{"matcher": "startup|other", "hooks": [{"type": "command", "timeout": 30, "command": format!("cat >> {0}; echo >> {0}", seen.display())}]}]);
    user(&place, &json!({"hooks": {"SessionStart": note, "SessionEnd": note}}));
    let gateway = Gateway::start(&place);
    let environment = json!([["HOME", place.home()], ["PATH", "/usr/bin:/bin"]]);
    let run = |peer: &mut Peer, session: &str| {
        let context = json!({"settings": [], "allowed_tools": [], "disallowed_tools": [], "import": [],
            "additional_directories": [], "environment": environment, "door": "socket",
            "interactive": false, "session": session});
        let request = json!({"command": {"shell": "true"}, "cwd": place.project(), "background": false,
            "pty": false, "unsandboxed": false, "stdin": false, "context": context});
        peer.request("run", request);
        assert_eq!(peer.outcome(), "ran");
    };
    let leave = |mut peer: Peer| {
        peer.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert_eq!(peer.message(), None);
    };
    let events = || -> Vec<(String, String)> {
        let text = std::fs::read_to_string(&seen).unwrap_or_default();
        // One that is just being written is none yet.
        let frames = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        frames.map(|it| (text(&it["hook_event_name"]), text(&it["session_id"]))).collect()
    };
    let event = |name: &str, session: &str| (name.to_owned(), session.to_owned());
    assert_eq!(place.output(["run", "--session", "brief", "true"]).status.code(), Some(0));
    let (mut first, mut second) = (gateway.greet(), gateway.greet());
    run(&mut first, "shared");
    run(&mut second, "shared");
    run(&mut second, "brief");
    leave(second);
    run(&mut first, "shared");
    let begun = [event("SessionStart", "brief"), event("SessionStart", "shared")];
    assert_eq!(events(), begun);
    leave(first);
    until("the end of the session", || events().len() > 2);
    assert_eq!(gateway.end(), Some(0));
    let ended = [event("SessionEnd", "shared"), event("SessionEnd", "brief")];
    assert_eq!(events(), [begun, ended].concat());
}

#[test]
fn a_change_of_settings_is_told_and_can_be_kept_from_counting() {
    let place = Place::new("hook-change");
    let seen = place.root.join("seen");
    let text = format!("cat > {}; echo frozen >&2; exit 2", seen.display());
    let mut settings = hooks("ConfigChange", json!([command(&text)]));
    user(&place, &settings);
    let gateway = Gateway::start(&place);
    let run = || place.output(["run", "uname"]);
    assert_eq!(run().status.code(), Some(0));
    assert!(!seen.exists(), "nothing has changed yet");
    settings["permissions"] = json!({ "deny": ["Bash(uname:*)"] });
    user(&place, &settings);
    let blocked = run();
    assert_eq!(blocked.status.code(), Some(0), "{}", told(&blocked));
    assert!(told(&blocked).contains("is ignored: a hook blocked it: frozen"), "{}", told(&blocked));
    let frame: Value =
        serde_json::from_slice(&std::fs::read(&seen).expect("it ran")).expect("JSON");
    assert_eq!(
        (&frame["hook_event_name"], &frame["source"]),
        (&json!("ConfigChange"), &json!("user_settings"))
    );
    assert!(frame["file_path"].as_str().unwrap_or_default().ends_with("stockade/settings.json"));
    // A gateway that begins anew takes the files as they are.
    assert_eq!(gateway.end(), Some(0));
    assert_eq!(run().status.code(), Some(120));
}

/// Gives a frame to `stockade hook claude` and returns status and output.
fn hook_claude(place: &Place, frame: &Value) -> (Option<i32>, String, String) {
    let mut child = place
        .stockade(["hook", "claude"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable starts");
    write!(child.stdin.take().expect("a pipe"), "{frame}").expect("it reads");
    let output = child.wait_with_output().expect("its end");
    (output.status.code(), stdout(&output), told(&output))
}

#[test]
fn frames_of_an_agent_reach_the_hooks_and_what_they_say_goes_back() {
    let place = Place::new("hook-frames");
    let says = |event: &str| {
        let answer = json!({
            "systemMessage": "for the person",
            "hookSpecificOutput": { "hookEventName": event, "additionalContext": format!("after {event}") }
        });
        json!([{ "hooks": [command(&format!("cat > /dev/null; printf '%s' '{answer}'"))] }])
    };
    let block = json!([{ "hooks": [command("cat > /dev/null; echo look again >&2; exit 2")] }]);
    let input = json!([{ "hooks": [command(&answering(&json!({
        "permissionDecision": "allow", "additionalContext": "changed for you",
        "updatedInput": { "command": "ls -l", "description": "list" }
    })))] }]);
    user(
        &place,
        &json!({ "hooks": {
        "PreToolUse": input, "PostToolUse": says("PostToolUse"), "PostToolUseFailure": block,
        "SessionStart": says("SessionStart"),
    } }),
    );
    let frame = |event: &str, further: Value| {
        let mut frame = json!({
            "session_id": "s-1", "cwd": place.project(), "hook_event_name": event,
            "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "toolu_1",
        });
        for (key, value) in further.as_object().expect("members") {
            frame[key] = value.clone();
        }
        frame
    };
    let body = |answer: (Option<i32>, String, String)| -> Value {
        assert_eq!(answer.0, Some(0), "{answer:?}");
        serde_json::from_str(&answer.1).unwrap_or_else(|_| panic!("{answer:?}"))
    };
    let before = body(hook_claude(&place, &frame("PreToolUse", json!({}))));
    let specific = &before["hookSpecificOutput"];
    assert_eq!(specific["permissionDecision"], json!("allow"), "{before}");
    assert_eq!(specific["updatedInput"], json!({ "command": "ls -l", "description": "list" }));
    assert_eq!(specific["additionalContext"], json!("changed for you"));
    let response = json!({ "tool_response": { "stdout": "x" }, "duration_ms": 3 });
    let after = body(hook_claude(&place, &frame("PostToolUse", response)));
    assert_eq!(
        after,
        json!({
            "hookSpecificOutput": { "additionalContext": "after PostToolUse", "hookEventName": "PostToolUse" },
            "systemMessage": "for the person",
        })
    );
    let failure = body(hook_claude(&place, &frame("PostToolUseFailure", json!({ "error": "e" }))));
    assert_eq!(failure, json!({ "decision": "block", "reason": "look again" }));
    let start = body(hook_claude(&place, &frame("SessionStart", json!({ "source": "startup" }))));
    assert_eq!(start["hookSpecificOutput"]["additionalContext"], json!("after SessionStart"));
    let end = hook_claude(&place, &frame("SessionEnd", json!({ "reason": "other" })));
    assert_eq!(end, (Some(0), String::new(), String::new()));
    let search = stdout(&place.output(["audit", "search", "--json"]));
    assert_eq!(search.matches(r#""kind":"hooks""#).count(), 3, "{search}");
    assert!(search.contains(r#""call_id":"toolu_1""#), "{search}");
}
