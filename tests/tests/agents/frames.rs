//! Frames that are cut, doubled, too long, of another encoding or of an unknown kind, and streams that are closed.

use std::process::Command;
use std::time::{Duration, Instant};

use stockade_tests::{Place, stockade};

use super::{AGENTS, assert_blocked, decision, frame, given, text};

#[test]
fn a_frame_that_is_not_one_whole_object_blocks() {
    let place = Place::new("cut");
    for (agent, file, event) in AGENTS {
        let whole = frame(&place, file, event, "pwd");
        let cut: Vec<&str> = [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 1]
            .iter()
            .map(|at| &whole[..*at])
            .collect();
        for bytes in cut {
            assert_blocked(agent, &given(&place, agent, &[], bytes.as_bytes()), bytes);
        }
        let wide: Vec<u8> = whole.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let latin = [whole.trim_end_matches('}').as_bytes(), b", \"x\": \"\xe9\"}"].concat();
        let marked = [b"\xef\xbb\xbf", whole.as_bytes()].concat();
        let two = format!("{whole}\n{whole}");
        let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let zero = whole.replace("pwd", "pwd\\u0000rm");
        for (what, bytes) in [
            ("UTF-16", wide),
            ("Latin-1", latin),
            ("a byte order mark", marked),
            ("two frames", two.into_bytes()),
            ("a deep one", deep.into_bytes()),
            ("no object", b"[1]".to_vec()),
            ("a word", b"hello".to_vec()),
            ("a NUL in the command", zero.into_bytes()),
            ("NUL bytes", vec![0; 4096]),
        ] {
            assert_blocked(agent, &given(&place, agent, &[], &bytes), what);
        }
    }
}

#[test]
fn a_frame_of_ten_megabytes_is_answered_and_one_above_the_limit_blocks() {
    let place = Place::new("large");
    let start = Instant::now();
    let above = format!("{{\"padding\":\"{}\"}}", "x".repeat(17 << 20));
    for (agent, file, event) in AGENTS {
        let large = frame(&place, file, event, &format!("echo {}", "x".repeat(10 << 20)));
        assert_blocked(agent, &given(&place, agent, &[], large.as_bytes()), "a long command");
        // A long frame around a short command is one like others.
        let padded = frame(&place, file, event, "pwd");
        let padded = format!("{{\"padding\":\"{}\",{}", "x".repeat(10 << 20), &padded[1..]);
        let output = given(&place, agent, &["--deadline", "120s"], padded.as_bytes());
        let consent = if agent == "codex" { "none" } else { "allow" };
        assert_eq!(decision(&output).0, consent, "{agent}: {}", text(&output.stderr));
        assert_blocked(agent, &given(&place, agent, &[], above.as_bytes()), "above the limit");
    }
    assert!(start.elapsed() < Duration::from_secs(900), "{:?}", start.elapsed());
}

#[test]
fn tools_and_events_that_are_not_known_are_not_allowed() {
    let place = Place::new("unknown");
    for (agent, file, event) in AGENTS {
        let known = frame(&place, file, event, "pwd");
        // At this event there is a command and no tool.
        if event != "beforeShellExecution" {
            let mut unknown = known.clone();
            let names = ["Bash", "run_shell_command", "bash", "run_commands", "Shell"];
            for name in names.map(|name| format!("\"{name}\"")) {
                unknown = unknown.replace(&name, "\"teleport\"");
            }
            assert_ne!(known, unknown, "{agent}");
            let output = given(&place, agent, &["--rewrite"], unknown.as_bytes());
            let (word, _) = decision(&output);
            assert!(["ask", "deny"].contains(&word.as_str()), "{agent}: {}", text(&output.stdout));
        }
        let mut version = known.clone();
        for name in [event, "tool_call"].map(|name| format!("\"{name}\"")) {
            version = version.replace(&name, "\"another\"");
        }
        // Its frames do not name the event.
        if agent != "copilot" {
            assert_blocked(agent, &given(&place, agent, &[], version.as_bytes()), "a new event");
        }
    }
}

#[test]
fn a_frame_that_is_not_understood_is_never_passed_over_in_silence() {
    let place = Place::new("strange");
    let frames = [
        r#"{}"#,
        r#"{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":{"command":"id"},"cwd":"/"}"#,
        r#"{"hookName":["preToolUse"],"toolName":"bash","toolArgs":{"command":"id"},"cwd":"/"}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/","toolArgs":{"command":"id"}}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/","toolName":"bash","toolArgs":{"command":"id"},"toolResult":null}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/","source":"new","toolArgs":{"command":"id"}}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/","toolName":["bash"],"toolArgs":{"command":"id"}}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/","toolName":"bash","toolArgs":[{"command":"id"}]}"#,
        r#"{"sessionId":"s","timestamp":1,"cwd":"/"}"#,
        r#"[{"sessionId":"s","timestamp":1,"cwd":"/","source":"new"}]"#,
    ];
    for frame in frames {
        assert_blocked("copilot", &given(&place, "copilot", &[], frame.as_bytes()), frame);
    }
}

#[test]
fn a_closed_or_unreadable_input_blocks() {
    let place = Place::new("closed-input");
    for (agent, ..) in AGENTS {
        assert_blocked(agent, &given(&place, agent, &[], b""), "nothing");
        for closed in ["<&-", "< /", "0> /dev/null"] {
            let line = format!("exec \"$0\" hook {agent} {closed}");
            let plain = place.stockade([""; 0]);
            let mut shell = Command::new("bash");
            shell.args(["-c", &line]).arg(stockade()).current_dir(place.project()).env_clear();
            shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
            assert_blocked(agent, &shell.output().expect("bash"), closed);
        }
    }
}

#[test]
fn an_answer_that_nobody_can_read_is_status_2() {
    let place = Place::new("closed-output");
    let whole = frame(&place, "hook_claude330", "PreToolUse", "pwd");
    place.write("frame.json", &whole);
    for closed in [">&-", "> /dev/full", "> /dev/null", "2>&- >&-"] {
        let line = format!("exec \"$0\" hook claude {closed} < ../frame.json");
        let plain = place.stockade([""; 0]);
        let mut shell = Command::new("bash");
        shell.args(["-c", &line]).arg(stockade()).current_dir(place.project()).env_clear();
        shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        assert_eq!(shell.output().expect("bash").status.code(), Some(2), "{closed}");
    }
}
