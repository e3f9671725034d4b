use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use stockade_policy::{CommandHook, Origin};

use super::*;
use crate::testing::Folder;

fn hook(folder: &Folder, layer: Layer, script: &str) -> Hook {
    let name = format!("{}.sh", script.len());
    let path = folder.write(&name, format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Hook {
        event: HookEvent::PreToolUse,
        matcher: "Bash".into(),
        origin: Origin { layer, file: "s.json".into(), line: 3, column: 1, pointer: String::new() },
        command: CommandHook {
            command: path.to_string_lossy().into_owned(),
            arguments: None,
            timeout: Duration::from_secs(20),
        },
    }
}

fn report(folder: &Folder, hooks: &[Hook]) -> Report {
    let here = folder.path().to_path_buf();
    let place =
        Place { cwd: here.clone(), project: here.clone(), home: here, additional: Vec::new() };
    let context = Context {
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        ..Context::default()
    };
    let input = json!({ "command": "ls" });
    let call = Call {
        tool: "Bash",
        input: &input,
        id: "call-1",
        mode: "default",
        place: &place,
        context: &context,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(before(hooks, &call)).unwrap()
}

fn outcome(report: &Report) -> Option<(HookVerdict, &str)> {
    report.outcome.as_ref().map(|outcome| (outcome.verdict, outcome.reason.as_str()))
}

#[test]
fn exit_status_2_blocks_with_its_words() {
    let folder = Folder::new();
    let blocks = hook(&folder, Layer::User, "echo not today >&2; exit 2");
    assert_eq!(outcome(&report(&folder, &[blocks])), Some((HookVerdict::Deny, "not today")));
}

#[test]
fn a_hook_sees_the_call_and_answers_in_json() {
    let folder = Folder::new();
    let text = r#"grep -q '"command":"ls"' && grep -q . /dev/null || printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"look","updatedInput":{"command":"ls -l"}}}'"#;
    let report = report(&folder, &[hook(&folder, Layer::User, text)]);
    assert_eq!(outcome(&report), Some((HookVerdict::Ask, "look")));
    assert_eq!(report.updated, Some((json!({ "command": "ls -l" }), 0)));
}

#[test]
fn a_managed_hook_that_fails_blocks_and_another_does_not() {
    let folder = Folder::new();
    for script in
        ["exit 1", "kill -9 $$", "echo '{ nonsense'", "exec head -c 3000000 /dev/zero", "no-such-x"]
    {
        let managed = report(&folder, &[hook(&folder, Layer::Policy, script)]);
        assert_eq!(outcome(&managed).map(|it| it.0), Some(HookVerdict::Deny), "{script}");
        let own = report(&folder, &[hook(&folder, Layer::User, script)]);
        assert_eq!((outcome(&own), own.notices.len()), (None, 1), "{script}");
    }
}

#[test]
fn a_managed_hook_that_cannot_start_blocks() {
    let folder = Folder::new();
    let mut missing = hook(&folder, Layer::Policy, "true");
    missing.command.command = "/no/such/program".into();
    missing.command.arguments = Some(Vec::new());
    assert_eq!(outcome(&report(&folder, &[missing])).map(|it| it.0), Some(HookVerdict::Deny));
}

#[test]
fn a_hook_that_hangs_is_ended_with_all_it_started() {
    let folder = Folder::new();
    let script = "setsid sleep 1000 & echo $! > left; exec sleep 1000";
    let mut hangs = hook(&folder, Layer::Policy, script);
    hangs.command.timeout = Duration::from_millis(500);
    let report = report(&folder, &[hangs]);
    assert_eq!(
        outcome(&report),
        Some((HookVerdict::Deny, "a managed hook failed: it did not end within 0.5 seconds"))
    );
    let left = std::fs::read_to_string(folder.path().join("left")).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", left.trim()));
    // It is gone, or dead and waiting for whoever adopted it.
    assert!(status.is_err() || status.unwrap().contains("State:\tZ"), "{left}");
}

#[test]
fn what_a_hook_leaves_behind_does_not_hold_the_call_up() {
    let folder = Folder::new();
    let script = "cat > /dev/null; sleep 1000 & setsid sleep 1000 & exit 0";
    let start = std::time::Instant::now();
    let report = report(&folder, &[hook(&folder, Layer::User, script)]);
    assert_eq!((outcome(&report), report.notices.len()), (None, 0));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_strictest_hook_wins() {
    let folder = Folder::new();
    let says = |decision: &str| {
        let answer = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"{decision}","permissionDecisionReason":"{decision}"}}}}"#
        );
        hook(&folder, Layer::User, &format!("printf '%s' '{answer}'"))
    };
    let report = report(&folder, &[says("allow"), says("deny"), says("defer")]);
    assert_eq!(outcome(&report), Some((HookVerdict::Deny, "deny")));
    assert_eq!(report.ran.len(), 3);
}

#[test]
fn two_hooks_that_change_the_input_differently_make_a_question() {
    let folder = Folder::new();
    let gives = |command: &str| {
        let answer = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{{"command":"{command}"}}}}}}"#
        );
        hook(&folder, Layer::User, &format!("printf '%s' '{answer}'"))
    };
    let report = report(&folder, &[gives("a"), gives("bb")]);
    assert_eq!(outcome(&report), Some((HookVerdict::Ask, "two hooks gave different inputs")));
}

#[test]
fn a_matcher_is_a_list_of_names_or_an_expression() {
    for (matcher, matched) in [
        ("", true),
        ("*", true),
        ("Bash", true),
        ("Edit|Bash", true),
        ("Edit, Bash", true),
        ("Bas", false),
        ("B.*", true),
        ("^E", false),
        ("(", true),
    ] {
        assert_eq!(matches_tool(matcher, "Bash"), matched, "{matcher}");
    }
}

#[test]
fn a_managed_hook_gets_nothing_of_the_callers_environment() {
    let folder = Folder::new();
    let hook = hook(&folder, Layer::Policy, "true");
    let here = folder.path().to_path_buf();
    let place =
        Place { cwd: here.clone(), project: here.clone(), home: here, additional: Vec::new() };
    let context = Context {
        environment: vec![("PATH".into(), "/evil".into()), ("LD_PRELOAD".into(), "x".into())],
        ..Context::default()
    };
    let input = json!({});
    let call =
        Call { tool: "Bash", input: &input, id: "", mode: "", place: &place, context: &context };
    let names: Vec<String> = variables(&hook, &call).unwrap().into_keys().collect();
    assert_eq!(
        names,
        ["CLAUDE_PROJECT_DIR", "HOME", "LANG", "PATH", "PWD", "STOCKADE_PROJECT_DIR"]
    );
}
