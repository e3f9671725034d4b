//! The lines that agents were recorded to give their shell.

use super::*;

const RECORDED: &str = include_str!("../../../../../tests/fixtures/agents/shell_argv.json");

fn folders() -> Vec<PathBuf> {
    vec![PathBuf::from("/tmp")]
}

fn inner(text: &str) -> Option<Unwrapped> {
    unwrap(text, &folders()).unwrap()
}

/// Each recorded command line with what was found in it.
fn recorded(agent: &str) -> Vec<(String, Option<Unwrapped>)> {
    let recorded: serde_json::Value = serde_json::from_str(RECORDED).unwrap();
    let calls = recorded[agent].as_array().unwrap().iter();
    let commands = calls.filter(|call| call["role"] == "command");
    let text = |call: &serde_json::Value| {
        call["argv"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
    };
    commands.map(text).map(|text| (text.clone(), inner(&text))).collect()
}

#[test]
fn the_command_is_found_in_every_recorded_wrapping() {
    let allowed = r"echo ALLOWED_RUN > allowed.txt; printf 'ALLOWED_%s\n' OUT";
    let second = "printf 'REWRITTEN_%s' OUT";
    for agent in ["claude", "claude330", "gemini2"] {
        let found: Vec<String> =
            recorded(agent).into_iter().map(|(_, found)| found.unwrap().text).collect();
        assert_eq!(found, [allowed, second], "{agent}");
    }
    let prefixed: Vec<String> =
        recorded("claude_pfx").into_iter().map(|(_, found)| found.unwrap().text).collect();
    let piped = r"printf '%s\n' one two | wc -l; cd /tmp && ls / >/dev/null && echo SECOND_OK";
    assert_eq!(prefixed, ["echo MARK_42; pwd", piped]);
    // This one gives the command as it is.
    assert!(recorded("opencode").iter().all(|(_, found)| found.is_none()));
    let markers: Vec<_> = recorded("claude").into_iter().map(|it| it.1.unwrap().marker).collect();
    assert_eq!(markers, ["/tmp/claude-300d-cwd", "/tmp/claude-e3fd-cwd"].map(|it| Some(it.into())));
}

#[test]
fn a_line_that_is_not_exactly_a_wrapping_is_judged_whole() {
    let good = "shopt -u extglob 2>/dev/null || true && eval 'ls' < /dev/null && pwd -P >| /tmp/claude-1f-cwd";
    assert_eq!(inner(good).map(|it| it.text).as_deref(), Some("ls"));
    for wrong in [
        format!("{good}; rm x"),
        format!("{good}\nrm x"),
        good.replace("'ls'", "\"$(rm x)\""),
        good.replace("'ls'", "ls; rm x"),
        good.replace("'ls'", "'ls' $(rm x)"),
        good.replace("/tmp/claude-1f-cwd", "/etc/claude-1f-cwd"),
        good.replace("/tmp/claude-1f-cwd", "/tmp/other"),
        good.replace("eval", "evil"),
        good.replace("'ls'", "''"),
    ] {
        assert_eq!(inner(&wrong), None, "{wrong}");
    }
}

#[test]
fn commands_in_front_of_a_wrapping_are_part_of_what_is_judged() {
    let tail = "shopt -u extglob 2>/dev/null || true && eval 'ls' < /dev/null && pwd -P >| /tmp/claude-1f-cwd";
    let head = "source /h/snapshot.sh 2>/dev/null || true && ";
    for before in ["export A=1\nexport PATH=/x:\"$PATH\"", "true && rm x", "eval 'rm x'", "rm x;"] {
        for head in [head, ""] {
            let found = inner(&format!("{head}{before} && {tail}")).expect(before);
            assert_eq!((found.before.as_str(), found.text.as_str()), (before, "ls"), "{head}");
        }
    }
    // Only what stands in front of all of the rest.
    assert_eq!(inner(&format!("export A=1; {tail}; rm x")), None);
    assert_eq!(inner(&format!("export A=1\n{tail} && rm x")), None);
    assert_eq!(inner(&format!("{}{tail}", "rm x && ".repeat(MOST_ENDS + 1))), None);
}

#[test]
fn a_command_that_closes_its_wrapping_is_still_all_that_is_judged() {
    let (line, _) = recorded("gemini2").remove(0);
    let (head, _) = line.split_once("echo ALLOWED").unwrap();
    let tail = "\n)\n__code=$?\nexit $__code";
    let sly = format!("ls{tail}\nrm x\n(\ntrue");
    assert_eq!(inner(&format!("{head}{sly}{tail}")).map(|it| it.text), Some(sly));
    assert_eq!(inner(&format!("{head}ls{tail}\nrm x")), None);
}

#[test]
fn the_line_of_a_hook_is_found_with_and_without_its_end() {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let line = |rest: &str| stockade_hooks::own::own_hook(&format!("'{}' {rest}", own.display()));
    let words = Some(["hook", "claude", "--rewrite"].map(str::to_owned).to_vec());
    assert_eq!(line("hook claude --rewrite"), words);
    assert_eq!(line("hook claude --rewrite || exit 2"), words);
    for wrong in ["hook claude || exit 0", "hook claude || exit 2 || true", "hook claude; true"] {
        assert_eq!(line(wrong), None, "{wrong}");
    }
}

#[test]
fn only_this_executable_is_the_gate() {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let line = |program: &str, rest: &str| through_gate(&format!("'{program}' {rest}"));
    let own = own.to_str().unwrap();
    assert_eq!(
        line(own, r#"'run' '--for-agent' '--' 'echo '"'"'a'"'"''"#),
        Some(Through { text: "echo 'a'".into(), session: None, question: None })
    );
    assert_eq!(
        line(own, "'run' '--for-agent' '--session' 's-1' '--' 'ls'"),
        Some(Through { text: "ls".into(), session: Some("s-1".into()), question: None })
    );
    assert_eq!(line("/bin/sh", "'run' '--for-agent' '--' 'ls'"), None);
    for wrong in [
        "'run' '--for-agent' '--' 'ls'; rm x",
        "'run' '--for-agent' '--' 'ls' x",
        "'run' '--' 'ls'",
        "'run' '--for-agent' '--unsandboxed' '--' 'ls'",
        "'check' '--' 'ls'",
        "'run' '--session' 's' '--for-agent' '--' 'ls'",
        "'run' '--for-agent' '--session' 's' 'ls'",
        "'run' '--for-agent' '--session' 's' '--session' 't' '--' 'ls'",
        "'run' '--for-agent' '--session' 'a b' '--' 'ls'",
        "'run' '--for-agent' '--session' '-s' '--' 'ls'",
        "'run' '--for-agent' '--session' $(id) '--' 'ls'",
    ] {
        assert_eq!(line(own, wrong), None, "{wrong}");
    }
}

fn named(session: &str) -> Parts<'_> {
    Parts { session: Some(session), ..Parts::default() }
}

#[test]
fn the_line_of_a_refusal_is_one_word_of_text() {
    let line = refusing_line("/bin/stockade", "no; it's `$(id)`");
    assert_eq!(line, r#"'/bin/stockade' 'refuse' '--' 'no; it'"'"'s `$(id)`'"#);
    assert!(!is_refusing_line(&line), "another program's line");
    let own = std::fs::read_link("/proc/self/exe").unwrap().display().to_string();
    let line = refusing_line(&own, "no; it's `$(id)`");
    assert!(is_refusing_line(&line));
    for wrong in [format!("{line}; rm x"), line.replace("refuse", "run"), line.replace("'--' ", "")]
    {
        assert!(!is_refusing_line(&wrong), "{wrong}");
    }
}

#[test]
fn the_line_of_the_hook_names_a_session_with_a_plain_name() {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let own = own.to_str().unwrap();
    let longest = "a".repeat(128);
    for name in ["01a2000c-484a-7883-8549-e1a8ee1cfda7", "ses_dfff51730", "a.b:c", "1", &longest] {
        let line = line(own, named(name), "echo 'a'");
        let words = format!("'{own}' 'run' '--for-agent' '--session' '{name}' '--' ");
        assert_eq!(line, words + r#"'echo '"'"'a'"'"''"#);
        let (text, session) = ("echo 'a'".into(), Some(name.to_owned()));
        assert_eq!(through_gate(&line), Some(Through { text, session, question: None }));
    }
    let too_long = "a".repeat(129);
    for name in
        ["", "a b", "a'b", "a\nb", "a\0b", "-a", "--", "_a", "$HOME", "a/b", "é", "a;b", &too_long]
    {
        assert_eq!(line(own, named(name), "ls"), line(own, Parts::default(), "ls"), "{name:?}");
    }
    let plain = format!("'{own}' 'run' '--for-agent' '--' 'ls'");
    assert_eq!(line(own, Parts::default(), "ls"), plain);
    // In the order of the line, whatever that of the table is.
    let streams = ["--merge-output", "--pty=auto", "--unsandboxed"].map(str::to_owned);
    let parts = Parts { session: Some("s"), question: Some("07af"), streams: &streams };
    let line = line(own, parts, "ls");
    let words =
        "'run' '--for-agent' '--session' 's' '--asked' '07af' '--pty=auto' '--merge-output'";
    assert_eq!(line, format!("'{own}' {words} '--' 'ls'"));
    let (text, session, question) = ("ls".into(), Some("s".into()), Some("07af".into()));
    assert_eq!(through_gate(&line), Some(Through { text, session, question }));
}
