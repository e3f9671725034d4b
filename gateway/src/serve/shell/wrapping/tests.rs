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
        format!("rm x; {good}"),
        good.replace("'ls'", "\"$(rm x)\""),
        good.replace("'ls'", "ls; rm x"),
        good.replace("'ls'", "'ls' $(rm x)"),
        good.replace("/tmp/claude-1f-cwd", "/etc/claude-1f-cwd"),
        good.replace("/tmp/claude-1f-cwd", "/tmp/other"),
        good.replace("extglob 2>", "extglob; rm x 2>"),
        good.replace("eval", "evil"),
        good.replace("'ls'", "''"),
    ] {
        assert_eq!(inner(&wrong), None, "{wrong}");
    }
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
fn only_this_executable_is_the_gate() {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let line = |program: &str, rest: &str| through_gate(&format!("'{program}' {rest}"));
    let own = own.to_str().unwrap();
    assert_eq!(
        line(own, r#"'run' '--for-agent' '--' 'echo '"'"'a'"'"''"#).as_deref(),
        Some("echo 'a'")
    );
    assert_eq!(line("/bin/sh", "'run' '--for-agent' '--' 'ls'"), None);
    for wrong in [
        "'run' '--for-agent' '--' 'ls'; rm x",
        "'run' '--for-agent' '--' 'ls' x",
        "'run' '--' 'ls'",
        "'run' '--for-agent' '--unsandboxed' '--' 'ls'",
        "'check' '--' 'ls'",
    ] {
        assert_eq!(line(own, wrong), None, "{wrong}");
    }
}
