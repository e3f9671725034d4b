//! A person at a terminal is asked, understood, and heard only when they mean it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, executable, skip, stockade};

/// Asks about every command that no rule allows.
const CAREFUL: &str = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts `stockade` on a terminal, or says that this test cannot run.
fn start(test: &str, place: &Place, arguments: &[&str]) -> Option<Terminal> {
    start_program(test, place, stockade(), arguments)
}

fn start_program(
    test: &str,
    place: &Place,
    program: &Path,
    arguments: &[&str],
) -> Option<Terminal> {
    let terminal = Terminal::start(place, program, arguments);
    if terminal.is_none() {
        skip(test, "the program `script`, which gives a terminal, is not installed");
    }
    terminal
}

fn careful(name: &str) -> Place {
    let place = Place::new(name);
    place.write("home/.config/stockade/settings.json", CAREFUL);
    place
}

/// Returns the members of the newest record of `kind`.
fn newest(place: &Place, kind: &str) -> Value {
    let output = place.output(["audit", "tail", "--json", "-n", "1", "--kind", kind]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no {kind}: {output:?}"))
}

fn assert_intact(place: &Place) {
    let output: Output = place.output(["audit", "verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn once_runs_it_and_deny_does_not() {
    for (answer, status, made, said) in [
        ("once\n", 0, true, "allow"),
        ("y\n", 0, true, "allow"),
        ("deny\n", 120, false, "deny"),
        ("what\nd\n", 120, false, "deny"),
        ("\n\n\n", 120, false, "deny"),
    ] {
        let place = careful("terminal");
        let test = "once_runs_it_and_deny_does_not";
        let Some(mut terminal) = start(test, &place, &["run", "touch made.txt"]) else { return };
        terminal.wait_for("stockade: needs a person: `touch made.txt`");
        terminal.wait_for("run it?");
        terminal.press(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(status), "{screen}");
        assert_eq!(place.project().join("made.txt").exists(), made, "{screen}");
        assert_eq!(newest(&place, "approval")["answer"], said);
        assert_intact(&place);
    }
}

#[test]
fn a_wider_rule_a_rule_of_ones_own_a_reason_and_a_mode_are_answers() {
    let test = "a_wider_rule_a_rule_of_ones_own_a_reason_and_a_mode_are_answers";
    for (command, answer, status, rule, said) in [
        ("touch made.txt", "wider\n", 0, Some("Bash(touch:*)"), "is allowed from now on"),
        ("touch made.txt", "always Bash(touch m*)\n", 0, Some("Bash(touch m*)"), "allowed from"),
        ("touch made.txt", "always Bash(rm:*)\n", 0, None, "it does not allow this call"),
        ("touch made.txt", "always Bash(touch\n", 0, None, "not a valid allow rule"),
        ("touch made.txt", "deny use git\n", 120, None, "a person denied it: use git"),
        ("touch made.txt", "mode dontAsk\n", 120, None, "mode dontAsk"),
        ("touch made.txt", "what now\nd\n", 120, None, "invalid answer `what now`"),
    ] {
        let place = careful("answers");
        assert_eq!(place.output(["check", "touch x.txt"]).status.code(), Some(121));
        let Some(mut terminal) = start(test, &place, &["run", command]) else { return };
        terminal.wait_for("wider writes `Bash(touch:*)` instead");
        terminal.wait_for("run it? once, always, wider, deny:");
        terminal.press(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(status), "{answer}: {screen}");
        assert!(screen.contains(said), "{answer}: {screen}");
        let local = place.project().join(".stockade/settings.local.json");
        let written = std::fs::read_to_string(local).ok();
        match (rule, written) {
            (Some(rule), Some(written)) => assert!(written.contains(rule), "{written}"),
            (None, None) => {}
            (rule, written) => panic!("{answer}: {rule:?}: {written:?}"),
        }
        assert_intact(&place);
    }
}

#[test]
fn a_rule_for_the_session_ends_with_it() {
    let test = "a_rule_for_the_session_ends_with_it";
    let place = careful("for-session");
    let _gateway = stockade_tests::gateway::Gateway::start(&place);
    let call =
        |name: &str, command: &str| place.output(["run", "--session", name, command]).status.code();
    assert_eq!(call("one", "touch made.txt"), Some(121));
    let run = ["run", "--session", "one", "touch made.txt"];
    let Some(mut terminal) = start(test, &place, &run) else { return };
    terminal.wait_for("session allows `Bash(touch made.txt)` until this session ends");
    terminal.wait_for("run it?");
    terminal.press("session\n");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(newest(&place, "approval")["scope"], "session");
    assert_eq!(call("one", "touch made.txt"), Some(0));
    // Neither another command, nor another session, nor the next one of this name.
    assert_eq!(call("one", "touch other.txt"), Some(121));
    assert_eq!(call("two", "touch made.txt"), Some(121));
    assert!(place.output(["sessions", "close", "one"]).status.success());
    assert_eq!(call("one", "touch made.txt"), Some(121));
    assert!(!place.project().join(".stockade/settings.local.json").exists());
}

#[test]
fn what_is_made_while_a_person_thinks_is_hidden_like_all_else() {
    let place = Place::new("thinking");
    let names = ["plain", ".env", "inner/.env", "inner/new.pem"];
    place.write("project/show.sh", &format!("cat {}\n", names.join(" ")));
    place.write("project/inner/other", "");
    let test = "what_is_made_while_a_person_thinks_is_hidden_like_all_else";
    for shown in [true, false] {
        // With rules that only ask, and that show what is hidden by default, all is shown.
        let project = place.project().display().to_string();
        let own = [".env", "inner/.env"].map(|name| format!("{project}/{name}"));
        let rules = match shown {
            true => serde_json::json!({
                "permissions": { "ask": ["Bash(sh:*)"] },
                "sandbox": { "filesystem": { "allowRead": own } },
            }),
            false => serde_json::json!({
                "permissions": { "deny": ["Read(**/.env)", "Read(**/*.pem)"], "ask": ["Bash(sh:*)"] },
            }),
        };
        place.write("home/.config/stockade/settings.json", &rules.to_string());
        for name in names {
            let _ = std::fs::remove_file(place.project().join(name)); // of the round before
        }
        let Some(mut terminal) = start(test, &place, &["run", "--no-daemon", "sh show.sh"]) else {
            return;
        };
        terminal.wait_for("run it?");
        for name in names {
            place.write(&format!("project/{name}"), &format!("text of {name};\n"));
        }
        terminal.press("y\n");
        let (_, screen) = terminal.end();
        let seen = names.map(|name| screen.contains(&format!("text of {name};")));
        assert_eq!(seen, [true, shown, shown, shown], "{screen}");
    }
}

#[test]
fn what_is_typed_before_the_question_is_no_answer() {
    let place = careful("early");
    // A hook holds the question up until the keys are typed.
    let path = place.root.join("hook.sh");
    let text = "#!/bin/sh\nwhile ! [ -e \"$HOME/typed\" ]; do sleep 0.05; done\n";
    stockade_tests::write_program(&path, text);
    let hook = serde_json::json!({"type": "command", "command": path});
    let settings = serde_json::json!({
        "sandbox": {"autoAllowBashIfSandboxed": false},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
    });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let test = "what_is_typed_before_the_question_is_no_answer";
    let Some(mut terminal) = start(test, &place, &["run", "touch made.txt"]) else { return };
    terminal.press("once\n");
    terminal.wait_for("once"); // the terminal has taken it
    place.write("home/typed", "");
    terminal.wait_for("run it?");
    terminal.press("deny\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(120), "{screen}");
    assert!(!place.project().join("made.txt").exists(), "{screen}");
}

#[test]
fn always_shows_the_rule_and_its_file_and_is_not_asked_again() {
    let place = careful("always");
    let test = "always_shows_the_rule_and_its_file_and_is_not_asked_again";
    let Some(mut terminal) = start(test, &place, &["run", "touch made.txt"]) else { return };
    let file = place.project().join(".stockade/settings.local.json");
    terminal.wait_for("always writes the allow rule `Bash(touch");
    terminal.wait_for(&format!("to {}", file.display()));
    terminal.wait_for("run it?");
    terminal.press("always\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(place.project().join("made.txt").exists());
    let rules: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("it");
    let rule = rules["permissions"]["allow"][0].as_str().expect("a rule");
    assert!(screen.contains(&format!("`{rule}`")), "{rule}: {screen}");
    assert_eq!(newest(&place, "grant")["rule"], rule);
    std::fs::remove_file(place.project().join("made.txt")).expect("it was made");
    let output = place.output(["run", "touch made.txt"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(place.project().join("made.txt").exists());
    let exclude = std::fs::read_to_string(place.project().join(".git/info/exclude"));
    assert_eq!(exclude.expect("it"), "/.stockade/settings.local.json\n");
    // Something else is still asked about.
    assert_eq!(place.output(["run", "mkdir made"]).status.code(), Some(121));
    assert_intact(&place);
}

#[test]
fn ctrl_c_at_the_question_runs_nothing_and_is_recorded() {
    let place = careful("ctrl-c");
    let test = "ctrl_c_at_the_question_runs_nothing_and_is_recorded";
    let Some(mut terminal) = start(test, &place, &["run", "touch made.txt"]) else { return };
    terminal.wait_for("run it?");
    terminal.press("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(121), "{screen}");
    assert!(!place.project().join("made.txt").exists(), "{screen}");
    assert_eq!(newest(&place, "approval")["answer"], "withdrawn");
    assert_intact(&place);
}

#[test]
fn ctrl_c_ends_the_command_and_its_result_is_recorded() {
    let place = Place::new("ctrl-c-run");
    let test = "ctrl_c_ends_the_command_and_its_result_is_recorded";
    let Some(mut terminal) = start(test, &place, &["run", "echo begun; sleep 100"]) else { return };
    terminal.wait_for("begun");
    terminal.press("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert_eq!(newest(&place, "result")["interrupted"], true);
    assert_intact(&place);
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let place = careful("nobody");
    let output = place.output(["run", "touch made.txt"]);
    assert_eq!(output.status.code(), Some(121), "{}", text(&output.stderr));
    let first = "stockade: needs a person: `touch made.txt`";
    assert!(text(&output.stderr).starts_with(first), "{}", text(&output.stderr));
    assert!(!place.project().join("made.txt").exists());
}

#[test]
fn the_agent_asks_at_the_terminal_like_run() {
    let agent = executable("stockade-agent");
    stockade();
    for (answer, status, made) in
        [("once\n", 0, true), ("deny\n", 120, false), ("\x03", 121, false)]
    {
        let place = careful("agent");
        let test = "the_agent_asks_at_the_terminal_like_run";
        let arguments = ["run", "touch made.txt"];
        let Some(mut terminal) = start_program(test, &place, &agent, &arguments) else { return };
        terminal.wait_for("stockade: needs a person: `touch made.txt`");
        terminal.wait_for("run it?");
        terminal.press(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(status), "{screen}");
        assert_eq!(place.project().join("made.txt").exists(), made, "{screen}");
    }
}

#[test]
fn a_project_permits_nothing_before_a_person_trusts_its_file() {
    let place = careful("trust");
    let allow = r#"{"permissions": {"allow": ["Bash(touch:*)"], "deny": ["Bash(mkdir:*)"]}}"#;
    place.write("project/.stockade/settings.json", allow);
    let status = |line: &str| place.output(["check", line]).status.code();
    // A rule that forbids counts at once, a rule that permits does not.
    assert_eq!((status("touch x"), status("mkdir x")), (Some(121), Some(120)));
    let nobody = place.output(["policy", "trust"]);
    assert_eq!(nobody.status.code(), Some(121), "{}", text(&nobody.stderr));
    let test = "a_project_permits_nothing_before_a_person_trusts_its_file";
    for (answer, trusted) in [("no\n", false), ("yes\n", true)] {
        let Some(mut terminal) = start(test, &place, &["policy", "trust"]) else { return };
        terminal.wait_for("Bash(touch:*)");
        terminal.wait_for("trust this content?");
        terminal.press(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(if trusted { 0 } else { 120 }), "{screen}");
        assert_eq!(status("touch x"), Some(if trusted { 0 } else { 121 }));
    }
    assert!(newest(&place, "grant")["rule"].to_string().contains("settings.json"));
    let show: Value =
        serde_json::from_slice(&place.output(["policy", "show", "--json"]).stdout).expect("JSON");
    let rules = show["rules"].as_array().expect("rules").iter();
    let rules: Vec<_> = rules.map(|it| (it["effect"].as_str(), it["rule"].as_str())).collect();
    let allow_and_deny =
        [(Some("allow"), Some("Bash(touch:*)")), (Some("deny"), Some("Bash(mkdir:*)"))];
    assert_eq!(rules, allow_and_deny, "{show}");
    assert_eq!(show["warnings"], serde_json::json!([]));
    // Another content waits again.
    place.write("project/.stockade/settings.json", &format!("{allow}\n"));
    assert_eq!(status("touch x"), Some(121));
    assert_intact(&place);
}
