//! `stockade hook` as agents meet it, with the frames that real agents sent.
//!
//! `cargo run -p stockade-tests --bin agents` drives the agents themselves where they are installed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
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
    given_to(place.stockade([&["hook", agent], options].concat()), bytes)
}

/// Gives `command` these bytes.
fn given_to(mut command: Command, bytes: &[u8]) -> Output {
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
        None => word(&["permissionDecision", "decision", "permission"]),
    };
    let reason = word(&["permissionDecisionReason", "reason", "errorMessage", "agent_message"]);
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
fn the_directory_that_a_call_names_chooses_neither_project_nor_rules() {
    let place = Place::new("directories");
    place
        .write("project/.stockade/settings.json", r#"{"permissions": {"deny": ["Bash(curl:*)"]}}"#);
    place.write("project/secret/x", "hidden");
    place.write("project/src/x", "plain");
    place.write("project/.git/HEAD", "ref: refs/heads/main\n");
    place.write("elsewhere/x", "theirs");
    let flag = r#"{"permissions": {"deny": ["Read(./secret/**)"]}, "sandbox": {"enabled": false}}"#;
    let elsewhere = place.root.join("elsewhere").display().to_string();
    for (agent, event, tool, field) in [
        ("gemini", "BeforeTool", "run_shell_command", "dir_path"),
        ("opencode", "PreToolUse", "bash", "workdir"),
        ("cursor", "preToolUse", "Shell", "working_directory"),
    ] {
        let word = |options: &[&str], command: &str, directory: &str| {
            let frame = json!({"hook_event_name": event, "cwd": place.project(), "tool_name": tool,
                "tool_input": {"command": command, field: directory}});
            let output = given(&place, agent, options, frame.to_string().as_bytes());
            let (word, reason) = decision(&output);
            println!("{agent} {command} in {directory}: {word} {reason} {}", text(&output.stderr));
            word
        };
        let flag = ["--settings", flag];
        assert_eq!(word(&[], "curl x", &elsewhere), "deny", "{agent}");
        assert_eq!(word(&[], "curl x", "src"), "deny", "{agent}");
        assert_eq!(word(&flag, "cat x", "secret"), "deny", "{agent}");
        assert_eq!(word(&flag, "cat secret/x", "."), "deny", "{agent}");
        assert_eq!(word(&flag, "cat x", "src"), "allow", "{agent}");
        // It is not a working directory of the session because a call names it.
        assert_ne!(word(&[], "cat x", &elsewhere), "allow", "{agent}");
        assert_eq!(word(&["--rewrite"], "echo a", &elsewhere), "deny", "{agent}");
        assert_eq!(word(&["--rewrite"], "echo a", "src"), "allow", "{agent}");
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

/// Gives a hook a frame whose gateway does what `act` says with the connection and the number of the hook's process.
fn given_with(
    place: &Place,
    (agent, options): (&str, &[&str]),
    frame: &str,
    act: impl FnOnce(UnixStream, u32) + Send + 'static,
) -> Output {
    let socket = place.root.join("runtime/stockade/gateway.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
    let _ = std::fs::remove_file(&socket); // of the call before
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut command = place.stockade([&["hook", agent], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let pid = child.id();
    child.stdin.take().expect("its input").write_all(frame.as_bytes()).expect("it reads");
    let gateway = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the hook comes");
        // Both lines, the greeting and the call.
        let mut lines = BufReader::new(stream.try_clone().expect("it")).lines();
        let hello: Value =
            serde_json::from_str(&lines.next().expect("one").expect("it")).expect("JSON");
        let call = lines.next().expect("another").expect("it");
        assert!(call.contains("\"check\"") && hello["method"] == "hello", "{call}");
        writeln!(stream, "{}", json!({"jsonrpc": "2.0", "id": hello["id"], "result": {}}))
            .expect("it reads");
        act(stream, pid);
    });
    let output = child.wait_with_output().expect("it ends");
    gateway.join().expect("the gateway ends");
    output
}

#[test]
fn a_hook_whose_gateway_is_late_babbles_or_goes_away_blocks() {
    let place = Place::new("faulty-gateway");
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for said in [
            "no json\n",
            "{}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"decision\":\"allow\"}}\n",
            "",
        ] {
            let output = given_with(&place, (agent, &[]), &frame, |mut stream, _| {
                stream.write_all(said.as_bytes()).expect("it reads");
            });
            assert_blocked(agent, &output, said);
        }
        let late = given_with(&place, (agent, &["--deadline", "300ms"]), &frame, |stream, _| {
            // The hook ends before this side says anything.
            let mut rest = BufReader::new(stream).lines();
            assert!(rest.next().is_none_or(|line| line.is_err()));
        });
        assert_blocked(agent, &late, "late");
        let told = [text(&late.stdout), text(&late.stderr)].concat();
        assert!(told.contains("no answer within 300 ms"), "{told}");
    }
}

/// Signals by which others end a process that does nothing about them, as x86 and ARM number them (signal(7)): HUP, INT,
/// QUIT, USR1, USR2, ALRM, TERM, STKFLT, XFSZ, VTALRM, PROF, IO, PWR, and the first and last real-time one.
const ENDS: [&str; 15] =
    ["1", "2", "3", "10", "12", "14", "15", "16", "25", "26", "27", "29", "30", "34", "64"];

/// Waits until process `pid` does something about the last signal, and so about all (`SigCgt` in proc(5)).
fn wait_until_it_listens_to_signals(pid: u32) {
    let start = Instant::now();
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).expect("a set");
        u64::from_str_radix(set, 16).expect("digits") & 1 << 63 != 0
    };
    while !catches() {
        assert!(start.elapsed() < Duration::from_secs(20), "it takes no notice of signals");
        std::thread::yield_now();
    }
}

#[test]
fn a_hook_that_is_told_to_end_blocks_without_a_gateway_too() {
    let place = Place::new("ended-hook");
    for (agent, ..) in AGENTS {
        for signal in ENDS {
            let mut command = place.stockade(["hook", agent]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            let input = child.stdin.take().expect("its input"); // and nothing comes
            wait_until_it_listens_to_signals(child.id());
            let sent = [format!("-{signal}"), child.id().to_string()];
            let sent = Command::new("kill").args(sent).status();
            assert!(sent.expect("kill starts").success());
            let output = child.wait_with_output().expect("it ends");
            drop(input);
            assert_blocked(agent, &output, signal);
        }
    }
}

#[test]
fn a_hook_whose_gateway_takes_no_connections_blocks_in_time() {
    let place = Place::new("full-gateway");
    let socket = place.root.join("runtime/stockade/gateway.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.expect("a runtime");
    let entered = runtime.enter();
    let full = tokio::net::UnixSocket::new_stream().expect("a socket");
    full.bind(&socket).expect("a place");
    let listener = full.listen(0).expect("it listens");
    let waiting = UnixStream::connect(&socket).expect("one has room");
    let named = ["--socket", socket.to_str().expect("a path")];
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for options in
            [&["--deadline", "300ms"][..], &[&named[..], &["--deadline", "300ms"]].concat()]
        {
            let start = Instant::now();
            assert_blocked(agent, &given(&place, agent, options, frame.as_bytes()), "no room");
            assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        }
    }
    // Nor does anybody wait without end who has no deadline.
    for options in [&[][..], &named] {
        let output = place.output([&["check"], options, &["pwd"]].concat());
        assert_eq!(output.status.code(), Some(122), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("it takes no more connections"));
    }
    drop((waiting, listener, entered));
}

#[test]
fn a_confined_command_in_the_place_of_the_gateway_is_not_believed() {
    let place = denying("played-gateway");
    let folder = place.project().join(".run/stockade");
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("gateway.sock");
    let socket = socket.to_str().expect("a path");
    let answers = |what: &str| {
        AGENTS.map(|(agent, file, event)| {
            let frame = frame(&place, file, event, "touch made.txt");
            let named = given(&place, agent, &["--socket", socket], frame.as_bytes());
            let mut command = place.stockade(["hook", agent]);
            command.env("XDG_RUNTIME_DIR", place.project().join(".run"));
            let usual = given_to(command, frame.as_bytes());
            (agent, what.to_owned(), named, usual)
        })
    };
    let words = [env!("CARGO_BIN_EXE_impostor"), socket];
    // What it says is an answer: unconfined it would be taken for a gateway of this user.
    let mut plain = Command::new(words[0]);
    plain.arg(socket).current_dir(place.project());
    let mut plain = started(plain);
    for (agent, _, named, usual) in answers("unconfined") {
        for output in [named, usual] {
            let word = if agent == "codex" { "none" } else { "allow" };
            assert_eq!(decision(&output).0, word, "{agent}: {}", text(&output.stderr));
        }
    }
    plain.kill().and_then(|()| plain.wait()).expect("it ends");
    std::fs::remove_file(socket).expect("its socket");
    let options =
        ["run", "--no-daemon", "--settings", r#"{"permissions":{"allow":["Bash"]}}"#, "--"];
    let mut confined = started(place.stockade([&options[..], &words].concat()));
    for (agent, what, named, usual) in answers("confined") {
        for output in [named, usual] {
            assert_blocked(agent, &output, &what);
            let told = [text(&output.stdout), text(&output.stderr)].concat();
            assert!(told.contains("is confined, as a command of an agent is"), "{told}");
        }
    }
    let output = place.output(["run", "--socket", socket, "--", "echo", "ran"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(122), ""));
    let told = format!("stockade: what listens at `{socket}` is not taken for a gateway: process ");
    assert!(text(&output.stderr).starts_with(&told), "{}", text(&output.stderr));
    confined.kill().and_then(|()| confined.wait()).expect("it ends");
}

/// Starts a program and waits until it says that it listens.
fn started(mut command: Command) -> std::process::Child {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let said: Vec<String> =
        lines.map_while(Result::ok).take_while(|it| !it.contains("listening")).collect();
    assert!(child.try_wait().expect("its state").is_none(), "{said:?}");
    child
}

#[test]
fn a_hook_that_breaks_while_its_gateway_judges_blocks() {
    let place = Place::new("broken-hook");
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for signal in ["ABRT", "SEGV", "BUS", "ILL", "FPE", "SYS", "XCPU"].into_iter().chain(ENDS) {
            let output = given_with(&place, (agent, &[]), &frame, move |stream, pid| {
                let sent =
                    Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
                assert!(sent.expect("kill starts").success());
                let _ = BufReader::new(stream).lines().next(); // until the hook is gone
            });
            assert_blocked(agent, &output, signal);
        }
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

/// The frame of an agent for a call of `tool`.
fn call(place: &Place, agent: &str, tool: &str, input: Value) -> String {
    let cwd = place.project();
    let frame = match agent {
        "copilot" => json!({"sessionId": "s", "cwd": cwd, "toolName": tool, "toolArgs": input}),
        "cline" => json!({"hookName": "tool_call", "workspaceRoots": [cwd], "taskId": "s",
            "tool_call": {"id": "1", "name": tool, "input": input}}),
        _ => {
            let event = match agent {
                "gemini" => "BeforeTool",
                "cursor" => "preToolUse",
                _ => "PreToolUse",
            };
            json!({"session_id": "s", "cwd": cwd, "hook_event_name": event, "tool_name": tool,
                "tool_input": input, "tool_use_id": "t"})
        }
    };
    frame.to_string()
}

#[test]
fn rules_reach_the_file_web_and_mcp_tools_of_every_agent() {
    let place = Place::new("tools");
    let settings = json!({"permissions": {
        "deny": ["Read(secret.txt)", "Edit(locked/**)", "WebFetch(domain:bad.example)", "mcp__git__push"],
        "allow": ["Read(./**)", "Edit(./**)", "WebFetch(domain:good.example)", "mcp__git__pull"],
    }});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let patch = |path: &str| {
        format!(
            "*** Begin Patch\n*** Update File: open.txt\n*** Move to: {path}\n@@\n-a\n+b\n*** End Patch"
        )
    };
    let web = |host: &str| format!("https://{host}/x");
    for (agent, tool, good, bad, rule) in [
        (
            "claude",
            "Read",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "claude",
            "Edit",
            json!({"file_path": "open.txt", "old_string": "a", "new_string": "b"}),
            json!({"file_path": "locked/x", "old_string": "a", "new_string": "b"}),
            "Edit(locked/**)",
        ),
        (
            "claude",
            "NotebookEdit",
            json!({"notebook_path": "open.ipynb", "new_source": "x"}),
            json!({"notebook_path": "locked/x.ipynb", "new_source": "x"}),
            "Edit(locked/**)",
        ),
        (
            "claude",
            "WebFetch",
            json!({"url": web("good.example"), "prompt": "x"}),
            json!({"url": web("bad.example"), "prompt": "x"}),
            "WebFetch(domain:bad.example)",
        ),
        ("claude", "mcp__git__pull", json!({}), Value::Null, ""),
        ("claude", "mcp__git__push", Value::Null, json!({}), "mcp__git__push"),
        (
            "codex",
            "apply_patch",
            json!({"command": patch("moved.txt")}),
            json!({"command": patch("locked/x")}),
            "Edit(locked/**)",
        ),
        (
            "codex",
            "view_image",
            json!({"path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        ("codex", "mcp__git__push", Value::Null, json!({"x": 1}), "mcp__git__push"),
        (
            "gemini",
            "read_file",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "gemini",
            "replace",
            json!({"file_path": "open.txt", "old_string": "a", "new_string": "b", "instruction": "i"}),
            json!({"file_path": "locked/x", "old_string": "a", "new_string": "b"}),
            "Edit(locked/**)",
        ),
        (
            "gemini",
            "web_fetch",
            json!({"prompt": format!("read {}", web("good.example"))}),
            json!({"prompt": format!("read {} and {}", web("good.example"), web("bad.example"))}),
            "WebFetch(domain:bad.example)",
        ),
        (
            "copilot",
            "view",
            json!({"path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
        (
            "copilot",
            "create",
            json!({"path": "open.txt", "file_text": "x"}),
            json!({"path": "locked/x", "file_text": "x"}),
            "Edit(locked/**)",
        ),
        (
            "opencode",
            "apply_patch",
            json!({"patchText": patch("moved.txt")}),
            json!({"patchText": patch("locked/x")}),
            "Edit(locked/**)",
        ),
        (
            "opencode",
            "webfetch",
            json!({"url": web("good.example"), "format": "text"}),
            json!({"url": web("bad.example"), "format": "text"}),
            "WebFetch(domain:bad.example)",
        ),
        (
            "cline",
            "read_files",
            json!({"files": [{"path": "open.txt"}]}),
            json!({"files": [{"path": "open.txt"}, {"path": "secret.txt"}]}),
            "Read(secret.txt)",
        ),
        (
            "cursor",
            "Delete",
            json!({"file_path": "open.txt"}),
            json!({"file_path": "locked/x"}),
            "Edit(locked/**)",
        ),
        (
            "cursor",
            "Read",
            json!({"file_path": "open.txt"}),
            json!({"path": "secret.txt"}),
            "Read(secret.txt)",
        ),
    ] {
        if !good.is_null() {
            let output =
                given(&place, agent, &["--rewrite"], call(&place, agent, tool, good).as_bytes());
            let word = decision(&output).0;
            let expected = if agent == "codex" { "none" } else { "allow" };
            assert_eq!(
                word,
                expected,
                "{agent} {tool}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            );
        }
        if !bad.is_null() {
            let output =
                given(&place, agent, &["--rewrite"], call(&place, agent, tool, bad).as_bytes());
            let (word, reason) = decision(&output);
            assert_eq!(
                word,
                "deny",
                "{agent} {tool}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            );
            assert!(reason.contains(rule), "{agent} {tool}: {reason}");
        }
    }
}

#[test]
fn a_rewritten_command_means_the_same_whatever_its_text() {
    let place = Place::new("quoting");
    let long = format!("printf %s {} | wc -c", "x".repeat(100 << 10));
    for line in [
        "printf '%s|' \"it's\" 'a\"b' a\\'b \"\\$HOME\" \\\\",
        "cat <<'END'\n  $(touch no) `x` 'y'\nEND\necho done",
        "cat <<-END\n\tindented $((1 + 1))\n\tEND",
        "echo one\n\n# a comment with a ' in it\necho two",
        "sleep 0 & wait; echo after",
        "printf '\\303\\251 \u{e9} \u{1f980}'; false || echo $?",
        "echo a \\\n  b; exit 3",
        "f() { echo \"<$*>\"; }; f 'x  y' \"'\" '\"'",
        "! true; echo \"!$?!\"",
        &long,
    ] {
        let frame = call(
            &place,
            "claude",
            "Bash",
            json!({"command": line, "run_in_background": true, "timeout": 1000}),
        );
        let output = given(&place, "claude", &["--rewrite"], frame.as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        let input = &answer["hookSpecificOutput"]["updatedInput"];
        assert_eq!(
            (&input["run_in_background"], &input["timeout"]),
            (&json!(true), &json!(1000)),
            "{line}: {answer}"
        );
        let ran = |line: &str| {
            let plain = place.stockade([""; 0]);
            let mut shell = Command::new("bash");
            shell.args(["-c", line]).current_dir(place.project()).env_clear();
            shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = shell.output().expect("bash");
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        assert_eq!(ran(input["command"].as_str().expect("a command")), ran(line), "{line}");
    }
    assert!(!place.project().join("no").exists());
}

#[test]
fn an_input_that_never_ends_blocks_in_time() {
    let place = Place::new("endless");
    for (agent, file, event) in AGENTS {
        let whole = frame(&place, file, event, "pwd");
        let mut command = place.stockade(["hook", agent, "--deadline", "1s"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("its input");
        // A whole frame, and then nothing: there could be more of it.
        stdin.write_all(whole.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_blocked(agent, &output, "an input that stays open");
        drop(stdin);
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

#[test]
fn settings_of_the_agent_that_are_read_as_ours_do_not_make_the_gate_ask_itself() {
    let place = Place::new("imported");
    place.write("home/.config/stockade/settings.json", r#"{"import": ["claude-code"]}"#);
    place.write("home/.claude/settings.json", r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#);
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    for (command, expected) in [("pwd", "allow"), ("touch made.txt", "deny")] {
        let frame = frame(&place, "hook_claude330", "PreToolUse", command);
        let output = given(&place, "claude", &["--rewrite"], frame.as_bytes());
        let (word, reason) = decision(&output);
        assert_eq!(word, expected, "{reason}{}", text(&output.stderr));
    }
}

#[test]
fn what_an_agents_own_rules_refuse_is_not_hidden_by_the_rewrite() {
    let place = Place::new("own-rules");
    let own = r#"{"permissions": {"deny": ["Bash(mkdir:*)"], "ask": ["Bash(git push:*)"], "allow": ["Bash(rm:*)"]}}"#;
    place.write("home/.claude/settings.json", own);
    let asked = |command: &str, options: &[&str]| {
        let frame = frame(&place, "hook_claude330", "PreToolUse", command);
        decision(&given(&place, "claude", options, frame.as_bytes()))
    };
    assert_eq!(asked("ls", &["--rewrite"]).0, "allow");
    let (word, reason) = asked("ls; mkdir x", &["--rewrite"]);
    assert_eq!(word, "deny", "{reason}");
    assert!(reason.contains("`Bash(mkdir:*)`"), "{reason}");
    assert_eq!(asked("git push", &["--rewrite"]).0, "ask");
    place.write(
        "project/.claude/settings.local.json",
        r#"{"permissions": {"deny": ["Bash(ls:*)"]}}"#,
    );
    assert_eq!(asked("ls", &["--rewrite"]).0, "deny");
    place.write("project/.claude/settings.local.json", "{ broken");
    let frame = frame(&place, "hook_claude330", "PreToolUse", "pwd");
    assert_blocked(
        "claude",
        &given(&place, "claude", &["--rewrite"], frame.as_bytes()),
        "broken settings",
    );
}
