//! Answers of hooks: how they are read, and how several are merged. Processes are in `tests/tests/hooks.rs`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn origin(layer: Layer, line: u32) -> Origin {
    Origin { layer, file: "s.json".into(), line, column: 1, pointer: String::new() }
}

fn read(event: HookEvent, exit: i32, stdout: &str, stderr: &str) -> Result<HookAnswer, String> {
    answer::read(event, Some(exit), stdout.as_bytes(), stderr.as_bytes())
}

/// An answer in a line: verdict, reason, and what else was said.
fn line(read: Result<HookAnswer, String>) -> String {
    match read {
        Err(failure) => format!("fails: {failure}"),
        Ok(answer) => {
            let mut words =
                vec![answer.verdict.map_or("-".into(), |it| format!("{it:?}").to_lowercase())];
            words.extend((!answer.reason.is_empty()).then(|| format!("because {}", answer.reason)));
            words.extend(answer.updated.map(|input| format!("input {input}")));
            words.extend(answer.context.map(|it| format!("agent: {it}")));
            words.extend(answer.message.map(|it| format!("person: {it}")));
            words.extend(answer.stop.map(|it| format!("stop: {it}")));
            words.extend(answer.retry.then(|| "retry".to_owned()));
            words.join("; ")
        }
    }
}

#[test]
fn answers_of_pre_tool_use_are_read() {
    let specific =
        |text: &str| format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{text}}}}}"#);
    let mut lines = Vec::new();
    for (exit, stdout, stderr) in [
        (0, String::new(), ""),
        (0, "all is well".to_owned(), ""),
        (2, String::new(), "not today\n"),
        (2, specific(r#""permissionDecision":"allow""#), ""),
        (1, String::new(), "\noops\nmore"),
        (3, specific(r#""permissionDecision":"deny","permissionDecisionReason":"no""#), ""),
        (0, specific(r#""permissionDecision":"ask","additionalContext":"look""#), ""),
        (0, specific(r#""permissionDecision":"allow","updatedInput":{"command":"x"}"#), ""),
        (0, specific(r#""permissionDecision":"defer""#), ""),
        (0, specific(r#""permissionDecision":"perhaps""#), ""),
        (0, specific(r#""permissionDecision":1"#), ""),
        (0, specific(r#""updatedInput":"x""#), ""),
        (0, specific(r#""permissionDecision":"deny","permissionDecision":"allow""#), ""),
        (0, r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse"}}"#.to_owned(), ""),
        (0, r#"{"hookSpecificOutput":"x"}"#.to_owned(), ""),
        (0, r#"{"decision":"approve"}"#.to_owned(), ""),
        (0, r#"{"decision":"block","reason":"old words"}"#.to_owned(), ""),
        (0, r#"{"decision":"maybe"}"#.to_owned(), ""),
        (0, r#"{"continue":false,"stopReason":"enough"}"#.to_owned(), ""),
        (0, r#"{"continue":"no"}"#.to_owned(), ""),
        (0, r#"{"systemMessage":"hello","suppressOutput":true}"#.to_owned(), ""),
        (0, "{ nonsense".to_owned(), ""),
        (0, "{}".to_owned(), ""),
    ] {
        lines.push(line(read(HookEvent::PreToolUse, exit, &stdout, stderr)));
    }
    expect_test::expect![[r#"
        -
        -
        deny; because not today
        deny; because a hook blocked it
        fails: it ended with status 1: oops
        deny; because no
        ask; agent: look
        allow; input {"command":"x"}
        defer
        fails: `permissionDecision` of its answer is not known
        fails: `permissionDecision` of its answer is not a string
        fails: `updatedInput` of its answer is not an object
        fails: its answer is not valid JSON: duplicate key `permissionDecision`
        fails: `hookEventName` of its answer is not `PreToolUse`
        fails: `hookEventName` of its answer is not `PreToolUse`
        allow
        deny; because old words
        fails: `decision` of its answer is not known
        deny; because enough; stop: enough
        fails: `continue` of its answer is not a Boolean
        -; person: hello
        fails: its answer is not valid JSON: expected a key in double quotes
        -"#]]
    .assert_eq(&lines.join("\n"));
    let killed = answer::read(HookEvent::PreToolUse, None, br#"{"decision":"approve"}"#, b"");
    assert_eq!(killed, Err("it was ended by a signal".to_owned()), "a crash is not an answer");
}

#[test]
fn answers_of_other_events_are_read() {
    use HookEvent::{
        ConfigChange, Notification, PermissionDenied, PermissionRequest, PostCompact, PostToolUse,
        SessionEnd, SessionStart, Stop, UserPromptSubmit,
    };
    let request = |text: &str| {
        format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{text}}}}}"#
        )
    };
    let mut lines = Vec::new();
    for (event, exit, stdout) in [
        (PermissionRequest, 0, request(r#"{"behavior":"allow","updatedInput":{"command":"y"}}"#)),
        (PermissionRequest, 0, request(r#"{"behavior":"deny","message":"no","interrupt":true}"#)),
        (PermissionRequest, 0, request(r#"{"behavior":"perhaps"}"#)),
        (PermissionRequest, 2, String::new()),
        (
            PermissionDenied,
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionDenied","retry":true}}"#
                .to_owned(),
        ),
        (PostToolUse, 0, r#"{"decision":"block","reason":"untested"}"#.to_owned()),
        (PostToolUse, 2, String::new()),
        (PostToolUse, 0, r#"{"decision":"approve"}"#.to_owned()),
        (SessionStart, 0, "the branch is main\n".to_owned()),
        (SessionStart, 2, String::new()),
        (SessionEnd, 2, String::new()),
        (ConfigChange, 2, String::new()),
        (ConfigChange, 0, r#"{"decision":"block","reason":"frozen"}"#.to_owned()),
        (UserPromptSubmit, 0, "the branch is main\n".to_owned()),
        (UserPromptSubmit, 2, String::new()),
        (Stop, 0, r#"{"decision":"block","reason":"untested"}"#.to_owned()),
        (Stop, 0, "words for nobody\n".to_owned()),
        (PostCompact, 2, String::new()),
        (Notification, 2, String::new()),
        (Notification, 0, r#"{"decision":"block"}"#.to_owned()),
    ] {
        lines.push(format!("{} {}", event.name(), line(read(event, exit, &stdout, "words"))));
    }
    expect_test::expect![[r#"
        PermissionRequest allow; input {"command":"y"}
        PermissionRequest deny; because no; stop: no
        PermissionRequest fails: `behavior` of its answer is not `allow` or `deny`
        PermissionRequest -
        PermissionDenied -; retry
        PostToolUse deny; because untested
        PostToolUse deny; because words
        PostToolUse fails: `decision` of its answer is not known
        SessionStart -; agent: the branch is main
        SessionStart -; person: words
        SessionEnd -; person: words
        ConfigChange deny; because words
        ConfigChange deny; because frozen
        UserPromptSubmit -; agent: the branch is main
        UserPromptSubmit deny; because words
        Stop deny; because untested
        Stop -
        PostCompact -; person: words
        Notification -
        Notification fails: `decision` of its answer is not known"#]]
    .assert_eq(&lines.join("\n"));
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
        assert_eq!(matches_subject(matcher, "Bash"), matched, "{matcher}");
    }
    assert!(!matches_subject("mcp__memory", "mcp__memory__get"), "a name is the whole name");
}

/// A run of the hook with this index.
fn ran(index: usize, layer: Layer, answer: Result<HookAnswer, String>) -> Ran {
    Ran {
        event: HookEvent::PreToolUse,
        index,
        handler: format!("hook-{index}"),
        origin: origin(layer, u32::try_from(index).unwrap_or(0) + 1),
        exit: Some(0),
        milliseconds: 1,
        answer,
    }
}

fn says(verdict: Option<HookVerdict>, input: Option<u8>) -> HookAnswer {
    HookAnswer {
        verdict,
        reason: verdict.map(|it| format!("{it:?}")).unwrap_or_default(),
        updated: input.map(|number| json!({ "command": format!("c{number}") })),
        ..HookAnswer::default()
    }
}

#[test]
fn a_yes_about_the_old_input_does_not_hold_for_the_new_one() {
    let giver = says(None, Some(1));
    let yes = says(Some(HookVerdict::Allow), None);
    let first = merge::before(vec![ran(0, Layer::User, Ok(giver)), ran(1, Layer::User, Ok(yes))]);
    assert_eq!(first.outcome.as_ref().map(|it| it.verdict), Some(HookVerdict::Allow));
    let input = json!({ "command": "c1" });
    let kept = merge::kept(&first, &input);
    assert_eq!(kept, None);
    let no = says(Some(HookVerdict::Deny), None);
    let second = merge::again(first, kept, &input, vec![ran(1, Layer::User, Ok(no))]);
    assert_eq!(second.outcome.as_ref().map(|it| it.verdict), Some(HookVerdict::Deny));
    assert_eq!(second.ran.len(), 3, "both times are told");
}

#[test]
fn a_refused_or_deferred_call_keeps_its_input() {
    for verdict in [HookVerdict::Deny, HookVerdict::Defer] {
        let report = merge::before(vec![
            ran(0, Layer::User, Ok(says(Some(HookVerdict::Allow), Some(1)))),
            ran(1, Layer::User, Ok(says(Some(verdict), None))),
        ]);
        assert_eq!(report.updated, None, "{verdict:?}");
    }
}

/// The strictest of all answers, computed without the code that merges.
fn expected(runs: &[Ran]) -> Option<HookVerdict> {
    use HookVerdict::{Allow, Ask, Defer, Deny};
    let of = |run: &Ran| match &run.answer {
        Ok(answer) => answer.verdict,
        Err(_) => (run.origin.layer == Layer::Policy).then_some(Deny),
    };
    let said: Vec<HookVerdict> = runs.iter().filter_map(of).collect();
    let inputs: Vec<&Value> =
        runs.iter().filter_map(|run| run.answer.as_ref().ok()?.updated.as_ref()).collect();
    let differ = inputs.windows(2).any(|two| two[0] != two[1]);
    let strictest = [Deny, Defer, Ask, Allow].into_iter().find(|verdict| said.contains(verdict));
    match strictest {
        Some(Deny | Defer) => strictest,
        Some(Ask | Allow) | None if differ => Some(Ask),
        Some(Ask | Allow) | None => strictest,
    }
}

fn answers() -> impl Strategy<Value = Vec<(bool, Option<Option<u8>>, u8)>> {
    proptest::collection::vec(
        (any::<bool>(), proptest::option::of(proptest::option::of(0..2u8)), 0..5u8),
        0..6,
    )
}

proptest! {
    #[test]
    fn what_hooks_come_to_does_not_depend_on_which_ended_first(
        made in answers(),
        order in any::<prop::sample::Index>(),
        swaps in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
    ) {
        let verdicts = [
            None,
            Some(HookVerdict::Allow),
            Some(HookVerdict::Ask),
            Some(HookVerdict::Defer),
            Some(HookVerdict::Deny),
        ];
        let runs: Vec<Ran> = made.iter().enumerate().map(|(index, (managed, input, verdict))| {
            let layer = if *managed { Layer::Policy } else { Layer::User };
            let answer = match input {
                None => Err("it broke".to_owned()),
                Some(input) => Ok(says(verdicts[usize::from(*verdict)], *input)),
            };
            ran(index, layer, answer)
        }).collect();
        let mut shuffled = runs.clone();
        if !shuffled.is_empty() {
            let length = shuffled.len();
            shuffled.rotate_left(order.index(length));
            for (one, other) in &swaps {
                shuffled.swap(one.index(length), other.index(length));
            }
        }
        let merged = merge::before(runs.clone());
        prop_assert_eq!(&merged, &merge::before(shuffled.clone()));
        prop_assert_eq!(merged.outcome.map(|it| it.verdict), expected(&runs));
        let verdict = |report: Report| (report.outcome, report.updated);
        prop_assert_eq!(verdict(merge::requested(runs)), verdict(merge::requested(shuffled)));
    }
}

fn place() -> Place {
    let here = PathBuf::from("/p");
    Place {
        cwd: here.clone(),
        session: None,
        project: here.clone(),
        roots: Vec::new(),
        home: here,
        homes: Vec::new(),
        additional: Vec::new(),
    }
}

#[test]
fn a_front_end_says_nothing_in_place_of_what_the_gateway_knows() {
    let (place, input) = (place(), json!({ "command": "true" }));
    let context = Context { session: Some("s".into()), ..Context::default() };
    let further = json!({ "session_id": "x", "cwd": "/", "hook_event_name": "Stop", "tool_name": "Read",
        "tool_input": {}, "tool_use_id": "2", "permission_mode": "plan", "tool_response": "r" });
    let call = Call {
        event: HookEvent::PostToolUse,
        subject: "Bash",
        input: &input,
        further: &further,
        id: "1",
        mode: "default",
        place: &place,
        context: &context,
        covers: &|_| true,
    };
    let frame = frame::input(&call);
    let expected = json!({ "session_id": "s", "transcript_path": "", "cwd": "/p", "permission_mode": "default",
        "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": input, "tool_use_id": "1", "tool_response": "r" });
    assert_eq!(frame, expected);
}

#[test]
fn a_managed_hook_gets_nothing_of_the_callers_environment() {
    let place = place();
    let context = Context {
        environment: vec![("PATH".into(), "/evil".into()), ("LD_PRELOAD".into(), "x".into())],
        ..Context::default()
    };
    let input = json!({});
    let call = Call {
        event: HookEvent::PreToolUse,
        subject: "Bash",
        input: &input,
        further: &input,
        id: "",
        mode: "",
        place: &place,
        context: &context,
        covers: &|_| true,
    };
    let text = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;
    let text = stockade_policy::SettingsText {
        layer: Layer::Policy,
        file: "/etc/s.json".into(),
        text: text.into(),
        anchor: "/etc".into(),
        trusted: true,
        above: false,
    };
    let loaded = stockade_policy::load(&[text]);
    let hook = &loaded.rules.settings().hooks[0];
    let names: Vec<String> = frame::variables(hook, &call).unwrap().into_keys().collect();
    assert_eq!(
        names,
        ["CLAUDE_PROJECT_DIR", "HOME", "LANG", "PATH", "PWD", "STOCKADE_PROJECT_DIR"]
    );
}
