//! Requests that an agent may make.

use super::*;
use crate::protocol::types::AtLimit;
use stockade_wire::progress::Step;

fn rights(has_host: bool) -> Rights {
    Rights {
        session: "s".into(),
        cwd: "/p".into(),
        settings: vec!["{}".into()],
        mode: Some("default".into()),
        disallowed: vec!["Edit".into()],
        directories: vec!["/d".into()],
        has_host,
        environment: vec![("PATH".into(), "/bin".into())],
        ..Rights::default()
    }
}

/// Rights whose host gave a rule, a directory and a mode.
fn under_a_host() -> Rights {
    let rights = rights(true).with(vec![("PATH".into(), "/bin".into())]);
    let request = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "c", "input": { "command": "ls" } });
    let ask = json!({ "type": "control_request", "request_id": "q", "request": request });
    let said = rights.host().expect("a host");
    said.of_agent(ask.to_string().as_bytes());
    let updates = json!([
        { "type": "addRules", "behavior": "allow", "rules": [{ "toolName": "Bash", "ruleContent": "make" }] },
        { "type": "addDirectories", "directories": ["/"] },
        { "type": "setMode", "mode": "acceptEdits" },
        { "type": "setMode", "mode": "default" },
    ]);
    let answer = json!({ "behavior": "allow", "updatedPermissions": updates });
    let response = json!({ "subtype": "success", "request_id": "q", "response": answer });
    let answer = json!({ "type": "control_response", "response": response });
    said.of_host(answer.to_string().as_bytes());
    rights
}

/// Everything that an agent could ask for.
fn greedy() -> Context {
    Context {
        settings: vec!["{}".into()],
        setting_sources: Some(Vec::new()),
        mode: Some("default".into()),
        allowed_tools: vec!["Bash".into()],
        import: vec!["claude-code".into()],
        additional_directories: vec!["/".into()],
        managed: vec!["{}".into()],
        plugins: vec!["/other".into()],
        project: Some("/other".into()),
        session_directory: Some("/other".into()),
        profile: Some("x".into()),
        session: Some("other".into()),
        hook_session: Some("other".into()),
        hook_question: Some("1".into()),
        interactive: true,
        environment: vec![("PATH".into(), "/evil".into())],
        door: "run".into(),
        agent: Some("nobody".into()),
        disallowed_tools: vec!["Write".into()],
    }
}

#[test]
fn i8_whatever_an_agent_says_its_rights_are_those_of_its_beginning() {
    let mut expected = rights(false).context();
    expected.disallowed_tools.push("Write".into());
    assert_eq!(rights(false).narrow(&greedy()), Ok(expected.clone()));
    assert!(rights(true).narrow(&greedy()).is_err(), "a directory that no host added");
    expected.additional_directories = vec!["/".into()];
    assert_eq!(under_a_host().narrow(&greedy()), Ok(expected));
}

#[test]
fn an_agent_answers_no_question_closes_no_session_reads_no_records_and_opens_no_port() {
    let asked = |method: &str, params: Value| rights(true).params(method, params);
    for (method, params) in [
        ("approval", json!({ "act": "list" })),
        ("answered", json!({ "question_id": "a", "answer": "once" })),
        ("session", json!({ "act": "close", "session": "s" })),
        ("subscribe", json!({ "from": 0 })),
        ("task", json!({ "act": "open", "task_id": "x" })),
    ] {
        assert!(asked(method, params).is_err(), "{method}");
    }
    let tasks = asked("task", json!({ "act": "list", "session": "other" }));
    assert_eq!(tasks, Ok(json!({ "act": "list", "session": "s" })));
}

/// Passes the frames of a run: the agent asks for it, the gateway puts a question, and the agent answers.
fn passed(rights: &Rights, command: &str, question: Value, answer: Value) -> Value {
    let open = Mutex::default();
    let line = |frame: &Frame| {
        let line = frames::encode(frame);
        line.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(line)
    };
    let request = CommandRequest {
        command: CommandText::Shell(command.into()),
        cwd: "/p".into(),
        timeout_ms: None,
        background: false,
        at_limit: AtLimit::Stop,
        one_stream: false,
        pty: false,
        window: None,
        description: None,
        unsandboxed: false,
        stdin: false,
        report_cwd: false,
        carry_cwd: false,
        call_id: Some("c".into()),
        context: Context::default(),
    };
    let params = value(&request).unwrap();
    let run = Frame::Request { id: Id::Number(7), method: "run".into(), params };
    rights.line(&line(&run), &open).expect("a run");
    assert!(rights.line(&line(&run), &open).is_err(), "an identity serves once");
    let params = json!({ "run": 7, "question": question });
    let id = Id::Text("question-1".into());
    rights
        .told(&line(&Frame::Request { id: id.clone(), method: "question".into(), params }), &open);
    let answer = Frame::Answer { id: Some(id), result: Ok(answer) };
    let line = rights.line(&line(&answer), &open).expect("an answer");
    serde_json::from_slice::<Value>(&line).unwrap()["result"].clone()
}

fn question() -> Value {
    let question = Question {
        decision: Default::default(),
        command: "ls".into(),
        always: None,
        connection: None,
        session: None,
        mode: String::new(),
    };
    serde_json::to_value(question).unwrap()
}

#[test]
fn i4_an_agent_says_yes_only_where_its_host_did() {
    for (rights, command, expected) in [
        (under_a_host(), "ls", "once"),
        (under_a_host(), "rm -r x", "deny"),
        (rights(true), "ls", "deny"),
        (rights(false), "ls", "deny"),
    ] {
        assert_eq!(
            passed(&rights, command, question(), json!("once")),
            json!(expected),
            "{command}"
        );
    }
    let mut host = question();
    host["connection"] = json!({ "host": "example.com", "port": 443 });
    assert_eq!(passed(&under_a_host(), "ls", host, json!("once")), json!("deny"));
}

#[test]
fn an_agent_gives_no_rule_that_outlives_a_call() {
    let passed = |answer: Value| passed(&under_a_host(), "ls", question(), answer);
    for kept in [json!("once"), json!("deny"), json!({ "deny_with": "no" }), json!("withdrawn")] {
        assert_eq!(passed(kept.clone()), kept);
    }
    for rule in [json!("session"), json!("always"), json!({ "always_rule": "Bash(:*)" })] {
        assert_eq!(passed(rule), json!("deny"));
    }
    for wrong in [json!(null), json!(true), json!({ "always": 1 })] {
        assert_eq!(passed(wrong), json!("withdrawn"));
    }
}

#[test]
fn a_mode_is_the_one_of_the_beginning_or_of_the_host() {
    let modes = ["default", "plan", "dontAsk", "acceptEdits", "auto", "bypassPermissions"];
    let of = |rights: &Rights, mode: &str| rights.mode(Some(mode)).ok().flatten();
    let some = |mode: &str| Some(mode.to_owned());
    let (d, p, a) = (some("default"), some("plan"), some("dontAsk"));
    let expected = [d.clone(), p.clone(), a.clone(), None, None, None];
    assert_eq!(modes.map(|mode| of(&rights(false), mode)), expected);
    let begun = rights(true).with(Vec::new());
    assert_eq!(modes.map(|mode| of(&begun, mode)), expected, "a host that said nothing");
    // The host set another mode before the current one: a late call in the former mode gets the current one.
    let host = under_a_host();
    assert_eq!(modes.map(|mode| of(&host, mode)), [d.clone(), p, a, d, None, None]);
    let host = Rights { may_bypass: true, ..under_a_host() };
    assert_eq!(of(&host, "bypassPermissions"), None);
    let set = json!({ "type": "control_request", "request_id": "m", "request": { "subtype": "set_permission_mode", "mode": "bypassPermissions" } });
    host.said.of_host(set.to_string().as_bytes());
    assert_eq!(of(&host, "bypassPermissions"), some("bypassPermissions"));
    assert_eq!(of(&Rights { may_bypass: false, ..host }, "bypassPermissions"), None);
}

#[test]
fn a_host_adds_rules_and_nothing_else() {
    let text = json!({ "permissions": { "allow": ["Bash(make)"], "deny": ["Read(x)"] }, "sandbox": { "enabled": false } });
    let kept =
        json!({ "permissions": { "allow": ["Bash(make)"], "deny": ["Read(x)"] } }).to_string();
    assert_eq!(under_a_host().rules(&text.to_string()), Ok(kept));
    assert!(rights(true).rules(&text.to_string()).is_err(), "a rule that no host gave");
    assert!(rights(false).rules(&text.to_string()).is_err());
    assert!(rights(false).rules(r#"{"permissions":{"deny":["Bash"]}}"#).is_ok());
    let mode = r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#;
    assert!(under_a_host().rules(mode).is_err());
    assert!(under_a_host().rules("/a/file").is_err());
}

#[test]
fn each_request_is_narrowed_and_no_other_method_passes() {
    let line = |method: &str, params: Value| {
        frames::encode(&Frame::Request { id: Id::Number(1), method: method.into(), params })
    };
    let passed = |method: &str, params: Value| {
        let line = line(method, params);
        let passed = rights(false)
            .line(line.strip_suffix(b"\n").unwrap_or(&line), &Mutex::default())
            .ok()?;
        Some(serde_json::from_slice::<Value>(&passed).unwrap()["params"].clone())
    };
    let check =
        CheckRequest { context: greedy(), case: Some(Default::default()), ..Default::default() };
    let told = EventRequest { context: greedy(), ..Default::default() };
    let step = ProgressRequest { step: Step::Turn {}, cwd: "/".into(), context: greedy() };
    let requests = [("check", value(&check)), ("tell", value(&told)), ("progress", value(&step))];
    for (method, params) in requests {
        let passed = passed(method, params.unwrap()).unwrap();
        assert_eq!(passed["context"]["session"], "s", "{method}");
        assert_eq!(passed["case"], Value::Null);
    }
    assert_eq!(
        passed("task", json!({ "session": "other", "act": "list" })).unwrap()["session"],
        "s"
    );
    assert_eq!(passed("anything", json!({})), None);
}
