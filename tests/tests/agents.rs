//! `stockade hook` and `setup` as agents meet them, with the frames that real agents sent.
//!
//! `cargo run -p stockade-tests --bin agents` drives the agents themselves where they are installed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::agents::HARM;
use stockade_tests::{Place, root, stockade};

/// Agents with recorded frames, the file of these, and the event at which a call waits.
const AGENTS: [(&str, &str, &str); 6] = [
    ("claude", "hook_claude330", "PreToolUse"),
    ("codex", "hook_codex", "PreToolUse"),
    ("gemini", "hook_gemini", "BeforeTool"),
    ("copilot", "hook_copilot", "preToolUse"),
    ("opencode", "hook_opencode", "PreToolUse"),
    ("cline", "hook_cline", "PreToolUse"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first recorded frame of an agent in which a shell command waits, in the project of `place` and with
/// `command` in the place of its own.
fn frame(place: &Place, file: &str, event: &str, command: &str) -> String {
    let path = root().join(format!("tests/fixtures/agents/{file}.json"));
    let recorded: Value = serde_json::from_slice(&std::fs::read(path).expect("it")).expect("JSON");
    let stdin = recorded["frames"][event][0]["stdin"].to_string();
    let own = Value::from(r"echo ALLOWED_RUN > allowed.txt; printf 'ALLOWED_%s\n' OUT").to_string();
    let text = |value: &str| Value::from(value).to_string();
    assert!(stdin.contains(&own), "{stdin}");
    stdin
        .replace(&own, &text(command))
        .replace("\"/home/u/proj\"", &text(&place.project().display().to_string()))
}

/// Gives `stockade hook AGENT` these bytes.
fn given(place: &Place, agent: &str, options: &[&str], bytes: &[u8]) -> Output {
    let mut command = place.stockade([&["hook", agent], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let bytes = bytes.to_vec();
    // A hook that refuses early does not read the rest.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    output
}

/// Asserts the explicit refusal of a failure, as the agent reads it.
fn assert_blocked(agent: &str, output: &Output, what: &str) {
    let (out, told) = (text(&output.stdout), text(&output.stderr));
    if agent == "cline" {
        let answer: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{what}: {out}"));
        assert_eq!(answer["cancel"], true, "{what}: {out}");
        assert!(answer["errorMessage"].as_str().is_some_and(|it| !it.is_empty()), "{what}: {out}");
        assert_eq!(output.status.code(), Some(0), "{what}");
        return;
    }
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{agent}: {what}: {told}");
    assert!(told.starts_with("stockade: blocked: "), "{agent}: {what}: {told}");
    assert_eq!(told.lines().count(), 1, "{agent}: {what}: {told}");
}

/// The decision in an answer, and its reason.
fn decision(output: &Output) -> (String, String) {
    let out = text(&output.stdout);
    if out.is_empty() {
        return ("none".into(), String::new());
    }
    let answer: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}"));
    let inner =
        answer.get("hookSpecificOutput").filter(|it| it.get("permissionDecision").is_some());
    let inner = inner.unwrap_or(&answer);
    let word =
        |keys: &[&str]| keys.iter().find_map(|key| inner.get(key)?.as_str()).map(str::to_owned);
    let decision = match inner.get("cancel").and_then(Value::as_bool) {
        Some(true) => Some("deny".to_owned()),
        Some(false) => Some("allow".to_owned()),
        None => word(&["permissionDecision", "decision"]),
    };
    let reason = word(&["permissionDecisionReason", "reason", "errorMessage"]);
    (decision.unwrap_or_default(), reason.unwrap_or_default())
}

fn denying(name: &str) -> Place {
    let place = Place::new(name);
    let settings = r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place
}

#[test]
fn recorded_frames_are_allowed_or_denied_with_the_reason() {
    let place = denying("frames");
    for (agent, file, event) in AGENTS {
        let allowed = given(&place, agent, &[], frame(&place, file, event, "pwd").as_bytes());
        let (word, _) = decision(&allowed);
        // One agent takes no plain consent: it goes on when nothing is said.
        assert_eq!(word, if agent == "codex" { "none" } else { "allow" }, "{agent}");
        assert_eq!(allowed.status.code(), Some(0), "{agent}");
        let denied = frame(&place, file, event, "echo a | touch made.txt");
        let denied = given(&place, agent, &["--rewrite"], denied.as_bytes());
        let (word, reason) = decision(&denied);
        assert_eq!((word.as_str(), denied.status.code()), ("deny", Some(0)), "{agent}");
        let expected = "stockade: denied `touch made.txt` (second part of a pipeline); by deny rule `Bash(touch:*)` in";
        assert!(reason.starts_with(expected), "{agent}: {reason}");
    }
}

#[test]
fn a_rewritten_command_runs_through_the_gate() {
    let place = denying("rewrite");
    for (agent, file, event) in AGENTS.into_iter().filter(|(agent, ..)| *agent != "cline") {
        let line = "printf '%s' \"it's $((1+1))\" > made.txt; echo x > ~/outside";
        let output =
            given(&place, agent, &["--rewrite"], frame(&place, file, event, line).as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let found =
            ["/hookSpecificOutput/updatedInput", "/hookSpecificOutput/tool_input", "/modifiedArgs"]
                .iter()
                .find_map(|path| answer.pointer(path));
        let command = found.and_then(|input| input["command"].as_str()).expect("a new command");
        let mut shell = Command::new("bash");
        let plain = place.stockade([""; 0]);
        shell.args(["-c", command]).current_dir(place.project()).env_clear();
        shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let ran = shell.output().expect("bash");
        let made = place.project().join("made.txt");
        assert_eq!(std::fs::read_to_string(&made).expect("it ran"), "it's 2", "{agent}: {ran:?}");
        assert!(!place.home().join("outside").exists(), "{agent}: it ran unconfined");
        std::fs::remove_file(made).expect("it was made");
    }
}

#[test]
fn a_handler_that_dies_hangs_or_babbles_blocks() {
    let place = Place::new("faults");
    place.write("harm.sh", HARM);
    let path = place.root.join("harm.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let hook = json!({"type": "command", "command": path});
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    for (agent, file, event) in AGENTS {
        let good = given(&place, agent, &[], frame(&place, file, event, "pwd").as_bytes());
        assert_eq!(good.status.code(), Some(0), "{agent}: {}", text(&good.stderr));
        for fault in ["killed", "garbage"] {
            let frame = frame(&place, file, event, &format!("echo {fault}"));
            assert_blocked(agent, &given(&place, agent, &["--rewrite"], frame.as_bytes()), fault);
        }
        let start = Instant::now();
        let late = frame(&place, file, event, "echo stopped");
        let late = given(&place, agent, &["--deadline", "1s"], late.as_bytes());
        assert_blocked(agent, &late, "stopped");
        assert!(start.elapsed() < Duration::from_secs(30), "{agent}: {:?}", start.elapsed());
    }
}

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
    let (agent, file, event) = AGENTS[0];
    let large = frame(&place, file, event, &format!("echo {}", "x".repeat(10 << 20)));
    let start = Instant::now();
    assert_blocked(agent, &given(&place, agent, &[], large.as_bytes()), "a long command");
    // A long frame around a short command is one like others.
    let padded = frame(&place, file, event, "pwd");
    let padded = format!("{{\"padding\":\"{}\",{}", "x".repeat(10 << 20), &padded[1..]);
    let output = given(&place, agent, &[], padded.as_bytes());
    assert_eq!(decision(&output).0, "allow", "{}", text(&output.stderr));
    let above = format!("{{\"padding\":\"{}\"}}", "x".repeat(17 << 20));
    for (agent, ..) in AGENTS {
        assert_blocked(agent, &given(&place, agent, &[], above.as_bytes()), "above the limit");
    }
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

#[test]
fn tools_and_events_that_are_not_known_are_not_allowed() {
    let place = Place::new("unknown");
    for (agent, file, event) in AGENTS {
        let known = frame(&place, file, event, "pwd");
        let mut unknown = known.clone();
        for name in ["\"Bash\"", "\"run_shell_command\"", "\"bash\"", "\"run_commands\""] {
            unknown = unknown.replace(name, "\"teleport\"");
        }
        assert_ne!(known, unknown, "{agent}");
        let output = given(&place, agent, &["--rewrite"], unknown.as_bytes());
        let (word, _) = decision(&output);
        assert!(["ask", "deny"].contains(&word.as_str()), "{agent}: {}", text(&output.stdout));
        let version = known
            .replace("\"PreToolUse\"", "\"PreToolUse2\"")
            .replace("\"BeforeTool\"", "\"BeforeTool2\"")
            .replace("\"tool_call\"", "\"tool_call2\"");
        if agent != "copilot" {
            assert_blocked(agent, &given(&place, agent, &[], version.as_bytes()), "a new event");
        }
    }
}

#[test]
fn tools_of_the_agent_itself_are_left_to_it_where_no_rule_speaks() {
    let place = Place::new("inner");
    for (agent, file, event, tool, name) in [
        ("claude", "hook_claude330", "PreToolUse", "\"Bash\"", "\"Agent\""),
        ("gemini", "hook_gemini", "BeforeTool", "\"run_shell_command\"", "\"invoke_agent\""),
        ("opencode", "hook_opencode", "PreToolUse", "\"bash\"", "\"task\""),
    ] {
        let called = frame(&place, file, event, "pwd").replace(tool, name);
        let output = given(&place, agent, &["--rewrite"], called.as_bytes());
        let expected = if agent == "opencode" { "allow" } else { "none" };
        assert_eq!(decision(&output).0, expected, "{agent}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{agent}");
    }
    let settings = r#"{"permissions": {"deny": ["Agent"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    let called =
        frame(&place, "hook_claude330", "PreToolUse", "pwd").replace("\"Bash\"", "\"Agent\"");
    assert_eq!(decision(&given(&place, "claude", &[], called.as_bytes())).0, "deny");
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
fn arguments_that_are_wrong_block() {
    let place = Place::new("wrong-arguments");
    for words in [
        &["hook"][..],
        &["hook", "nobody"],
        &["hook", "claude", "--bogus"],
        &["hook", "claude", "--deadline", "soon"],
    ] {
        let output = place.output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{words:?}");
    }
    let output = place.output(["hook", "cline", "--bogus"]);
    assert_blocked("cline", &output, "a wrong option");
}

/// The files below the home directory and the project, with what they hold or where they lead.
fn files(place: &Place) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![place.home(), place.project()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match std::fs::read_link(&path) {
                Ok(target) => {
                    found.push((path.display().to_string(), target.display().to_string()))
                }
                Err(_) if path.is_dir() => waiting.push(path),
                Err(_) => {
                    let held = text(&std::fs::read(&path).expect("a file"));
                    found.push((path.display().to_string(), held));
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn undo_all_takes_every_agent_out_and_leaves_every_byte() {
    let place = Place::new("setup");
    place.write(
        "home/.claude/settings.json",
        "{\n  \"model\": \"x\" ,\n\n  \"env\": { \"A\":\"1\" }\n}\n",
    );
    place.write("home/.gemini/settings.json", "{}");
    place.write("home/.config/opencode/opencode.json", "{\"theme\":\"dark\"}");
    let before = files(&place);
    for agent in ["claude", "codex", "gemini", "copilot", "opencode", "cline", "cursor"] {
        let shown = place.output(["setup", agent, "--dry-run"]);
        assert_eq!(shown.status.code(), Some(0), "{agent}: {}", text(&shown.stderr));
        assert!(text(&shown.stderr).contains("would change"), "{agent}: {}", text(&shown.stderr));
        assert_eq!(files(&place), before, "{agent}: a dry run writes nothing");
    }
    for agent in ["claude", "codex", "gemini", "copilot", "opencode", "cline", "cursor"] {
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        let once = files(&place);
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        assert_eq!(files(&place), once, "{agent}: once more changes nothing");
    }
    assert_eq!(place.output(["setup", "claude", "--scope", "project"]).status.code(), Some(0));
    let output = place.output(["setup", "--undo", "--all"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(files(&place), before);
}

#[test]
fn settings_that_are_no_json_are_refused_and_stay() {
    for held in
        ["{ \"hooks\": ", "{ // mine\n}", "[]", "\u{feff}{}", "{\"hooks\":{\"PreToolUse\":{}}}"]
    {
        let place = Place::new("no-json");
        place.write("home/.claude/settings.json", held);
        let before = files(&place);
        for words in [
            &["setup", "claude"][..],
            &["setup", "claude", "--undo"],
            &["setup", "--undo", "--all"],
        ] {
            let output = place.output(words);
            assert_eq!(files(&place), before, "{words:?}: {held}");
            if words.len() == 2 {
                assert_eq!(output.status.code(), Some(122), "{held}");
                assert!(
                    text(&output.stderr).contains("nothing was written"),
                    "{}",
                    text(&output.stderr)
                );
            }
        }
    }
}

/// The lines of `doctor --agent` as name and state, and the exit status.
fn doctor(place: &Place, agent: &str) -> (Option<i32>, Vec<(String, String)>, String) {
    let output = place.output(["doctor", "--agent", agent, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer["findings"].as_array().expect("findings").iter();
    let word = |finding: &Value, key: &str| finding[key].as_str().expect("a word").to_owned();
    let pairs = findings.map(|finding| (word(finding, "name"), word(finding, "state"))).collect();
    (output.status.code(), pairs, answer.to_string())
}

#[test]
fn doctor_says_whether_the_gate_is_in_force() {
    for agent in ["claude", "gemini", "copilot", "opencode", "cline", "cursor"] {
        let place = Place::new("doctor");
        let (status, _, told) = doctor(&place, agent);
        assert_eq!(status, Some(122), "{agent}: {told}");
        assert!(told.contains("no settings of this agent name it"), "{agent}: {told}");
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        let (status, findings, told) = doctor(&place, agent);
        assert_eq!(status, Some(0), "{agent}: {told}");
        assert!(findings.iter().all(|(_, state)| state != "bad"), "{agent}: {told}");
        let tried =
            findings.iter().filter(|(name, state)| name == "hook answers" && state == "good");
        assert_eq!(tried.count(), 3, "{agent}: {told}");
    }
}

#[test]
fn doctor_finds_what_puts_the_gate_out_of_force() {
    let place = Place::new("doctor-bad");
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    let file = "home/.claude/settings.json";
    let written = std::fs::read_to_string(place.root.join(file)).expect("it");
    let gate = stockade().canonicalize().expect("it").display().to_string();
    for (change, said) in [
        (written.replacen('{', "{\"disableAllHooks\":true,", 1), "`disableAllHooks` in"),
        (written.replace(&gate, "/nowhere/stockade"), "`/nowhere/stockade` is not there"),
        (written.replace(&gate, "stockade"), "is no absolute path"),
        (written.replace("/claude/bash", "/claude/dash"), "the agent's shell is not ours"),
    ] {
        assert_ne!(change, written, "{said}");
        place.write(file, &change);
        let (status, _, told) = doctor(&place, "claude");
        assert_eq!(status, Some(122), "{said}: {told}");
        assert!(told.contains(said), "{said}: {told}");
    }
    place.write(file, &written);
    let other = place.root.join("stockade");
    std::fs::write(&other, "#!/bin/sh\nexit 0\n").expect("a file");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    place.write(file, &written.replace(&gate, &other.display().to_string()));
    let (status, _, told) = doctor(&place, "claude");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("is another executable than this one"), "{told}");
    assert!(told.contains("a frame that is cut off is let through"), "{told}");
    // The link of the second layer leads elsewhere.
    place.write(file, &written);
    let link = place.home().join(".local/share/stockade/claude/bash");
    std::fs::remove_file(&link).expect("the link");
    std::os::unix::fs::symlink("/bin/bash", &link).expect("a link");
    let (status, _, told) = doctor(&place, "claude");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("is not this executable"), "{told}");
}

#[test]
fn doctor_wants_the_trust_that_codex_wants() {
    let place = Place::new("doctor-codex");
    assert_eq!(place.output(["setup", "codex"]).status.code(), Some(0));
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("no trusted hash for this hook"), "{told}");
    let hooks = place.home().canonicalize().expect("it").join(".codex/hooks.json");
    let config = format!(
        "model = \"x\"\n[hooks.state.\"{}:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:00\"\n",
        hooks.display()
    );
    place.write("home/.codex/config.toml", &config);
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(0), "{told}");
}
