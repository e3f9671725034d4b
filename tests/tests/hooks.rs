//! Hooks as the executable runs them: each event, each form of handler, each way to fail.

#[path = "hooks/events.rs"]
mod events;
#[path = "hooks/processes.rs"]
mod processes;
#[path = "hooks/services.rs"]
mod services;
#[path = "hooks/standing.rs"]
mod standing;

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::{Place, until, write_program};

fn script(place: &Place, name: &str, text: &str) -> String {
    let path = place.root.join(name);
    write_program(&path, &format!("#!/bin/sh\n{text}\n"));
    path.display().to_string()
}

/// Hooks of one event with one group of handlers.
fn hooks(event: &str, handlers: Value) -> Value {
    json!({ "hooks": { event: [{ "matcher": "", "hooks": handlers }] } })
}

fn command(text: &str) -> Value {
    json!({ "type": "command", "command": text })
}

/// A shell text that answers with this output of PreToolUse.
fn answering(fields: &Value) -> String {
    let mut specific = fields.clone();
    specific["hookEventName"] = json!("PreToolUse");
    format!("cat > /dev/null; printf '%s' '{}'", json!({ "hookSpecificOutput": specific }))
}

fn saying(decision: &str) -> String {
    answering(&json!({ "permissionDecision": decision, "permissionDecisionReason": decision }))
}

/// Judges a command under settings of one layer, with the hooks run.
fn judged(place: &Place, layer: &str, settings: &Value, line: &str) -> Value {
    let case = json!({
        "layers": { layer: settings }, "tool": "Bash", "input": { "command": line },
        "cwd": place.project(), "home": place.home(),
    });
    judged_case(place, &case)
}

fn judged_case(place: &Place, case: &Value) -> Value {
    let mut child = place
        .stockade(["check", "--jsonl", "--run-hooks", "--no-daemon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{case}").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn decision(answer: &Value) -> (&str, &str) {
    (answer["decision"].as_str().unwrap_or("-"), answer["source"].as_str().unwrap_or("-"))
}

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Says whether a process still runs: it is there, and is more than an entry that nobody has taken away yet.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_hook_decides_in_shell_form_and_in_exec_form() {
    let place = Place::new("hook-forms");
    let exec = script(
        &place,
        "exec.sh",
        r#"cat > /dev/null; [ "$#" = 2 ] && [ "$1" = 'a b' ] && [ "$2" = "$CLAUDE_PROJECT_DIR" ] && echo "exec form" >&2 && exit 2"#,
    );
    let bash = "[[ -d ${CLAUDE_PROJECT_DIR} ]] && { cat > /dev/null; echo bash >&2; exit 2; }";
    for (handler, reason) in [
        (command("cat > /dev/null; echo shell form >&2; exit 2"), "shell form"),
        (
            json!({"type": "command", "command": exec, "args": ["a b", "${CLAUDE_PROJECT_DIR}"]}),
            "exec form",
        ),
        (json!({"type": "command", "command": bash, "shell": "bash"}), "bash"),
        (command("test \"$PWD\" = / && echo here >&2; exit 2"), "here"),
    ] {
        let answer = judged(&place, "user", &hooks("PreToolUse", json!([handler])), "ls");
        assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
        assert_eq!(answer["reason"], json!(format!("a hook refused: {reason}")));
        assert_eq!(answer["hooks"][0]["exit"], json!(2));
    }
}

#[test]
fn hooks_run_side_by_side_and_the_strictest_wins() {
    let place = Place::new("hook-parallel");
    // Each waits for the other, so both must run at once; the one that ends last does not win.
    let meet = |own: &str, other: &str, then: &str| {
        let root = place.root.display();
        command(&format!("touch {root}/{own}; until [ -e {root}/{other} ]; do :; done; {then}"))
    };
    for order in [["deny", "allow"], ["allow", "deny"]] {
        let first = meet("one", "two", &saying(order[0]));
        let second = meet("two", "one", &format!("sleep 0.2; {}", saying(order[1])));
        let answer = judged(&place, "user", &hooks("PreToolUse", json!([first, second])), "ls");
        assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
        assert_eq!(answer["reason"], json!("a hook refused: deny"));
        for name in ["one", "two"] {
            std::fs::remove_file(place.root.join(name)).expect("a mark");
        }
    }
}

#[test]
fn a_new_input_is_judged_again_by_rules_and_by_the_other_hooks() {
    let place = Place::new("hook-input");
    let gives = |line: &str| {
        command(&answering(
            &json!({ "permissionDecision": "allow", "updatedInput": { "command": line } }),
        ))
    };
    let mut settings = hooks("PreToolUse", json!([gives("shred notes")]));
    settings["permissions"] = json!({ "deny": ["Bash(shred:*)"] });
    let answer = judged(&place, "user", &settings, "ls");
    assert_eq!((&answer["decision"], &answer["rule"]), (&json!("deny"), &json!("Bash(shred:*)")));
    assert_eq!(answer["input"], json!({ "command": "shred notes" }));

    // A managed hook refuses what it sees; it sees what another hook made of the call.
    let guard = command("if grep -q evil; then echo no evil >&2; exit 2; fi");
    let layers = json!({
        "policy": hooks("PreToolUse", json!([guard])),
        "user": hooks("PreToolUse", json!([gives("evil --now")])),
    });
    let case = json!({
        "layers": layers, "tool": "Bash", "input": { "command": "ls" },
        "cwd": place.project(), "home": place.home(),
    });
    let answer = judged_case(&place, &case);
    assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
    assert_eq!(answer["reason"], json!("a hook refused: no evil"));

    let two = hooks("PreToolUse", json!([gives("gentool a"), gives("gentool b")]));
    let answer = judged(&place, "user", &two, "ls");
    assert_eq!(decision(&answer), ("ask", "hook"), "{answer}");

    for bad in [json!({}), json!({ "command": 7 }), json!({ "command": "" })] {
        let handler = command(&answering(&json!({ "updatedInput": bad })));
        let answer = judged(&place, "user", &hooks("PreToolUse", json!([handler])), "ls");
        assert_eq!(decision(&answer), ("deny", "hook"), "{answer}");
    }
}

#[test]
fn a_new_input_is_what_runs_and_the_record_names_the_hook() {
    let place = Place::new("hook-runs");
    let handler = command(&answering(
        &json!({ "updatedInput": { "command": "echo changed" }, "additionalContext": "it was changed" }),
    ));
    user(&place, &hooks("PreToolUse", json!([handler])));
    let output = place.output(["run", "--no-daemon", "--", "echo as asked"]);
    assert_eq!(stdout(&output), "changed\n", "{}", told(&output));
    assert!(told(&output).contains("it was changed"), "{}", told(&output));
    let why = stdout(&place.output(["audit", "why", "last"]));
    assert!(why.contains("the input was changed by the hook in "), "{why}");
    assert!(why.contains("hook PreToolUse `"), "{why}");
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", told(&verified));
}

#[test]
fn an_if_names_the_calls_at_which_a_hook_runs() {
    let place = Place::new("hook-if");
    let handler =
        json!({"type": "command", "command": "cat > /dev/null; exit 2", "if": "Bash(git push *)"});
    let settings = hooks("PreToolUse", json!([handler]));
    for (line, runs) in [
        ("git push origin main", true),
        ("ls && git push", true),
        ("LANG=C git push", true),
        ("echo $(git push)", true),
        ("echo `git push x`", true),
        ("$X push", true),
        ("git \"$(x", true),
        ("python3 -c 'print(1)'", true),
        ("vim -c '!ls' x", true),
        ("git pull", false),
        ("ls", false),
    ] {
        let answer = judged(&place, "user", &settings, line);
        assert_eq!(answer["hooks"].is_array(), runs, "{line}: {answer}");
        assert_eq!(answer["decision"] == json!("deny"), runs, "{line}: {answer}");
    }
    let paths =
        json!([{"type": "command", "command": "cat > /dev/null; exit 2", "if": "Edit(src/**)"}]);
    for (path, runs) in [("src/a.rs", true), ("doc/a.md", false)] {
        let case = json!({
            "layers": { "user": hooks("PreToolUse", paths.clone()) }, "tool": "Write",
            "input": { "file_path": place.project().join(path), "content": "x" },
            "cwd": place.project(), "home": place.home(),
        });
        assert_eq!(judged_case(&place, &case)["hooks"].is_array(), runs, "{path}");
    }
}

#[test]
fn a_refusal_behind_a_mark_or_behind_other_text_is_a_refusal() {
    let place = Place::new("hook-text");
    let object = |decision: &str| {
        let specific = json!({
            "hookEventName": "PreToolUse", "permissionDecision": decision,
            "updatedInput": { "command": "echo other" },
        });
        json!({ "hookSpecificOutput": specific }).to_string()
    };
    let old = json!({ "decision": "block", "reason": "no" }).to_string();
    let ends = json!({ "continue": false }).to_string();
    for (name, output, ruled, wanted) in [
        ("a mark", format!("\\357\\273\\277{}", object("deny")), true, "deny"),
        ("a mark, the old form", format!("\\357\\273\\277{old}"), true, "deny"),
        ("text in front", format!("loading\\n{}", object("deny")), true, "deny"),
        ("text in front, the old form", format!("loading\\n{old}"), true, "deny"),
        ("text in front, the end of the turn", format!("loading\\n{ends}"), true, "deny"),
        ("text in front of a question", format!("loading\\n{}", object("ask")), true, "ask"),
        ("text in front of a yes", format!("loading\\n{}", object("allow")), false, "ask"),
        ("text alone", "loading".to_owned(), true, "allow"),
    ] {
        let text = format!("cat > /dev/null; printf '{output}'");
        for status in ["", "; exit 1"] {
            let mut settings = hooks("PreToolUse", json!([command(&format!("{text}{status}"))]));
            if ruled {
                settings["permissions"] = json!({ "allow": ["Bash(made *)"] });
            }
            settings["sandbox"] = json!({ "enabled": false });
            let answer = judged(&place, "user", &settings, "made it");
            assert_eq!(answer["decision"], wanted, "{name}{status}: {answer}");
            assert_eq!(answer["input"]["command"], "made it", "{name}{status}: {answer}");
        }
    }
}

fn request_hook(decision: &Value) -> Value {
    let specific = json!({ "hookEventName": "PermissionRequest", "decision": decision });
    let text =
        format!("cat > /dev/null; printf '%s' '{}'", json!({ "hookSpecificOutput": specific }));
    hooks("PermissionRequest", json!([command(&text)]))
}

#[test]
fn a_hook_answers_a_question_but_not_that_of_a_rule() {
    let place = Place::new("hook-request");
    let with = |mut settings: Value, key: &str, value: Value| {
        settings[key] = value;
        settings
    };
    let yes = request_hook(&json!({ "behavior": "allow" }));
    let ask = json!({ "ask": ["Bash(fmttool:*)"], "deny": ["Bash(shred:*)"] });
    let yes = with(yes, "permissions", ask.clone());
    for (line, decided) in [
        ("gentool", ("allow", "hook")),
        ("fmttool x", ("ask", "user")),
        ("shred x", ("deny", "user")),
        ("rm -rf /var", ("ask", "builtin")),
        ("gentool > .npmrc", ("ask", "builtin")),
        ("ls", ("allow", "builtin")),
    ] {
        assert_eq!(decision(&judged(&place, "user", &yes, line)), decided, "{line}");
    }
    let no = request_hook(&json!({ "behavior": "deny", "message": "not on my watch" }));
    let answer = judged(&place, "user", &no, "gentool");
    assert_eq!(decision(&answer), ("deny", "hook"));
    assert_eq!(answer["reason"], json!("a hook refused: not on my watch"));
    let other = json!({ "behavior": "allow", "updatedInput": { "command": "shred x" } });
    let other = with(request_hook(&other), "permissions", ask);
    assert_eq!(decision(&judged(&place, "user", &other, "gentool")), ("deny", "user"));
    // Without anybody to ask, a hook is who can answer.
    let case = json!({
        "layers": { "user": yes }, "tool": "Bash", "input": { "command": "gentool" },
        "cwd": place.project(), "home": place.home(), "interactive": false,
    });
    assert_eq!(decision(&judged_case(&place, &case)), ("allow", "hook"));
}

#[test]
fn no_hook_of_another_layer_answers_what_a_managed_hook_asks() {
    let place = Place::new("hook-bound");
    let case = |asks: &str| {
        let (one, other) = if asks == "policy" { ("policy", "user") } else { ("user", "policy") };
        json!({
            "layers": {
                one: hooks("PreToolUse", json!([command(&saying("ask"))])),
                other: request_hook(&json!({ "behavior": "allow" })),
            },
            "tool": "Bash", "input": { "command": "gentool" },
            "cwd": place.project(), "home": place.home(),
        })
    };
    assert_eq!(decision(&judged_case(&place, &case("policy"))), ("ask", "hook"));
    assert_eq!(decision(&judged_case(&place, &case("user"))), ("allow", "hook"));
}

#[test]
fn hooks_that_cannot_run_are_told_with_their_place() {
    let place = Place::new("hook-bad");
    let handlers = json!([
        command("/no/such/program"),
        { "type": "prompt", "prompt": "is it fine?" },
        { "type": "command" },
        { "type": "command", "command": "true", "timeout": -1 },
        { "type": "command", "command": "true", "if": "Bash(" },
        { "type": "command", "command": "true", "comand": "x" },
        { "type": "http", "url": "ftp://x" },
    ]);
    let mut settings = hooks("PreToolUse", handlers.clone());
    settings["hooks"]["Elicitation"] = json!([]);
    settings["hooks"]["PreToolUs"] = json!([]);
    user(&place, &settings);
    let output = place.output(["check", "--run-hooks", "ls"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let file = place.home().join(".config/stockade/settings.json").display().to_string();
    for words in [
        "handlers of this type are not supported",
        "the handler has no `command`",
        "`timeout` must be a number of seconds above 0",
        "invalid rule in `if`",
        "unknown key `comand`",
        "the handler has no valid `url`",
        "hooks of `Elicitation` are not supported",
        "unknown event `PreToolUs`",
        "failed: it ended with status 127",
    ] {
        let line =
            told(&output).lines().find(|line| line.contains(words)).unwrap_or_default().to_owned();
        assert!(line.contains(&format!("{file}:1:")), "{words}: {}", told(&output));
    }
    // In managed settings each of these refuses, but what has no effect anyway.
    for (index, refuses) in [(1, true), (2, true), (3, true), (4, true), (5, false), (6, true)] {
        let answer = judged(&place, "policy", &hooks("PreToolUse", json!([handlers[index]])), "ls");
        let rejected = answer["reason"]
            .as_str()
            .unwrap_or_default()
            .starts_with("settings are rejected: <policy>:1:");
        assert_eq!(rejected, refuses, "{index}: {answer}");
        assert_eq!(answer["decision"] == json!("deny"), refuses, "{index}: {answer}");
    }
}

/// The cases of `tests/cases/hooks.jsonl`, which are the manual of what hooks may decide.
#[test]
fn the_recorded_outcomes_of_hooks_decide_as_written() {
    let place = Place::new("hook-cases");
    let file = stockade_tests::root().join("tests/cases/hooks.jsonl");
    let output = place.stockade(["policy", "test"]).arg(file).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), told(&output));
}

#[test]
fn an_explanation_names_each_hook() {
    let place = Place::new("hook-explain");
    user(&place, &hooks("PreToolUse", json!([command(&saying("deny")), command("exit 1")])));
    let output = place.output(["check", "--explain", "--run-hooks", "ls"]);
    let file = place.home().join(".config/stockade/settings.json").display().to_string();
    let text = told(&output);
    assert_eq!(output.status.code(), Some(120), "{text}");
    assert!(text.contains("hook PreToolUse `cat > /dev/null; printf"), "{text}");
    assert!(text.contains(&format!("of user in {file}:1:")), "{text}");
    assert!(
        text.contains("ms): deny: deny") && text.contains("failed: it ended with status 1"),
        "{text}"
    );
}
