//! The sessions of agents: what a hook rewrote names the session of its frame, and what a model writes names none.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, stockade};

use super::{Background, NOBODY, Session, as_root_and_user, command, free_port, text};

/// How the frame of an agent says that a command waits.
fn frame(agent: &str, session: Option<&str>, line: &str, place: &Place) -> Value {
    let (event, tool) = match agent {
        "gemini" => ("BeforeTool", "run_shell_command"),
        "cursor" => ("preToolUse", "Shell"),
        "opencode" => ("PreToolUse", "bash"),
        _ => ("PreToolUse", "Bash"),
    };
    let (cwd, input) = (place.project(), json!({"command": line}));
    let mut frame = match agent {
        "copilot" => json!({"cwd": cwd, "toolName": "bash", "toolArgs": input}),
        _ => json!({"cwd": cwd, "hook_event_name": event, "tool_name": tool, "tool_input": input}),
    };
    let key = match agent {
        "copilot" => "sessionId",
        "cursor" => "conversation_id",
        _ => "session_id",
    };
    if let Some(session) = session {
        frame[key] = session.into();
    }
    frame
}

/// The agent, which is this process: it asks the hook, and does with its answer what agents do.
struct Agent<'a> {
    name: &'a str,
    session: Option<&'a str>,
    of: &'a Session,
}

impl Agent<'_> {
    fn hook(&self, frame: &Value) -> Output {
        let mut hook = command(&self.of.place, self.of.uid, &["hook", self.name, "--rewrite"]);
        hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut hook = hook.spawn().expect("the hook");
        hook.stdin.take().unwrap().write_all(frame.to_string().as_bytes()).unwrap();
        hook.wait_with_output().expect("its answer")
    }

    /// Returns the command that the hook puts in the place of `line`.
    fn rewritten(&self, line: &str) -> String {
        let output = self.hook(&frame(self.name, self.session, line, &self.of.place));
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let inputs = [
            "/hookSpecificOutput/updatedInput",
            "/hookSpecificOutput/tool_input",
            "/modifiedArgs",
            "/updated_input",
        ];
        let mut found = inputs.iter().filter_map(|path| answer.pointer(path));
        let input = found.next().unwrap_or_else(|| panic!("{answer}"));
        input["command"].as_str().expect("a command").to_owned()
    }

    /// `program -c line`, as the agent starts it.
    fn shell(&self, program: &str, line: &str) -> Command {
        self.of.program(&[program, "-c", line])
    }

    /// Returns the output of a command that goes through the hook, and then to the agent's own shell.
    fn said(&self, line: &str) -> String {
        said(self.shell("sh", &self.rewritten(line)))
    }

    fn background(&self, line: &str) -> Background {
        Background::of(self.shell("sh", &self.rewritten(line)))
    }
}

fn said(mut command: Command) -> String {
    let output = command.output().expect("it starts");
    text(&output.stdout) + &text(&output.stderr)
}

impl Session {
    /// Another program than stockade, as the user of the session.
    fn program(&self, words: &[&str]) -> Command {
        let plain = command(&self.place, self.uid, &[]);
        let mut command = match self.uid {
            Some(uid) => {
                let id = uid.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
                command
            }
            None => Command::new("env"),
        };
        command.args(words).env_clear();
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.current_dir(self.place.project()).stdin(Stdio::null());
        command
    }

    /// The path of the executable that serves the session.
    fn gate(&self) -> String {
        let gate = match self.uid {
            Some(_) => self.place.root.join("stockade"),
            None => stockade().to_path_buf(),
        };
        gate.display().to_string()
    }

    /// The agent's shell that is stockade.
    fn own_shell(&self) -> String {
        let link = self.place.root.join("bash");
        if !link.exists() {
            std::os::unix::fs::symlink(self.gate(), &link).expect("a link");
        }
        link.display().to_string()
    }

    /// Front door and session of the newest decisions about this command, the oldest first.
    fn recorded(&self, line: &str) -> Vec<(Value, Value)> {
        let arguments = ["audit", "search", "--json", "--kind", "decision", "--command", line];
        let found = command(&self.place, self.uid, &arguments).output().expect("the log");
        let record = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        let of =
            |record: Value| (record["agent"]["door"].clone(), record["agent"]["session"].clone());
        text(&found.stdout).lines().map(record).map(of).collect()
    }
}

#[test]
fn a_server_of_an_agents_session_is_there_for_its_next_command() {
    as_root_and_user("session-agent", |session| {
        for name in ["claude", "codex", "gemini", "copilot", "opencode", "cursor"] {
            let agent = |session_name| Agent { name, session: session_name, of: session };
            let (one, two) = (agent(Some("5d1c-one")), agent(Some("5d1c-two")));
            let (port, _held) = free_port();
            let ask = format!("perl client.pl 127.0.0.1:{port}");
            let server = one.background(&format!("perl server.pl {port}"));
            assert_eq!(server.first, "ready", "{name}");
            assert_eq!(one.said(&ask), "served\n", "{name}");
            assert_eq!(two.said(&ask), NOBODY, "{name}: another session");
            assert_eq!(agent(None).said(&ask), NOBODY, "{name}: no session");
            assert_eq!(
                agent(Some("a b")).said(&ask),
                NOBODY,
                "{name}: a name that no line carries"
            );
            assert_eq!(one.said(&ask), "served\n", "{name}: none of them ended it");
            assert_eq!(server.end(), "", "{name}");
            // A search for what ran in the session finds the hook's decision and that of the run.
            let of = |door: &str, session: Value| (json!(door), session);
            let both = |session: Value| [of("hook", session.clone()), of("run", session)];
            let none = [of("hook", Value::Null), of("run", Value::Null)];
            let odd = [of("hook", json!("a b")), of("run", Value::Null)];
            let (one, two) = (json!("5d1c-one"), json!("5d1c-two"));
            let expected = [both(one.clone()), both(two), none, odd, both(one)].concat();
            // The newest: an agent before may have had the same port.
            let found = session.recorded(&ask);
            let newest = found.get(found.len().saturating_sub(expected.len())..);
            assert_eq!(newest, Some(expected.as_slice()), "{name}");
        }
    });
}

#[test]
fn the_agents_shell_believes_the_hook_and_not_the_text() {
    as_root_and_user("session-shell", |session| {
        let agent = |name| Agent { name: "claude", session: Some(name), of: session };
        let (one, two) = (agent("5d1c-one"), agent("5d1c-two"));
        let shell = session.own_shell();
        let (port, _held) = free_port();
        let ask = format!("perl client.pl 127.0.0.1:{port}");
        let server =
            Background::of(one.shell(&shell, &one.rewritten(&format!("perl server.pl {port}"))));
        assert_eq!(server.first, "ready");
        let line = one.rewritten(&ask);
        assert_eq!(said(one.shell(&shell, &line)), "served\n");
        assert_eq!(said(two.shell(&shell, &two.rewritten(&ask))), NOBODY, "another session");

        // The same line from a process that is not the agent.
        let stranger = "sh -c '\"$0\" -c \"$1\"; true' \"$@\"; true";
        let words = ["sh", "-c", stranger, "sh", &shell, &line];
        assert_eq!(said(session.program(&words)), NOBODY, "another agent");
        // A line that the model wrote, for a command and a session of which no hook spoke together.
        let gate = session.gate();
        let written = |name: &str, command: &str| {
            format!("'{gate}' 'run' '--for-agent' '--session' '{name}' '--' '{command}'")
        };
        assert_eq!(written("5d1c-one", &ask), line, "it is what a hook would write");
        let other = format!("{ask} 2>&1");
        assert_eq!(said(one.shell(&shell, &written("5d1c-one", &other))), NOBODY);
        assert_eq!(session.recorded(&other), [(json!("shell"), Value::Null)]);
        // Nor does a hook name one for a command that it asks a person about; with their yes it runs as it is.
        let asked = format!("{ask} x");
        let rule = json!({"permissions": {"ask": [format!("Bash({asked})")]}});
        session.place.write("home/.config/stockade/settings.json", &rule.to_string());
        let answer =
            text(&one.hook(&frame("claude", Some("5d1c-one"), &asked, &session.place)).stdout);
        assert!(answer.contains("\"ask\""), "{answer}");
        let refused = said(one.shell(&shell, &written("5d1c-one", &asked)));
        assert!(refused.starts_with("stockade: needs a person: "), "no hook wrote it: {refused}");
        // Given to the hook, the model's line is text like any, and runs in the session of the hook.
        let through = two.rewritten(&written("5d1c-one", &ask));
        for program in ["sh", &shell] {
            assert_eq!(said(two.shell(program, &through)), NOBODY, "{program}");
        }
        assert_eq!(said(one.shell(&shell, &line)), "served\n");
        assert_eq!(server.end(), "");
    });
}

#[test]
fn a_hook_asks_about_a_text_that_names_a_session() {
    let place = Place::new("session-text");
    let plain = "stockade run -- perl client.pl";
    let named = ["stockade run:*", "stockade:*", "perl:*", "env:*", plain];
    let allowed = named.map(|rule| format!("Bash({rule})"));
    let settings = json!({"permissions": {"allow": allowed}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let decided = |line: &str| {
        // Without `--rewrite`: the agent runs it itself, and unconfined.
        let mut hook = place.stockade(["hook", "claude"]);
        let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the hook");
        let frame = frame("claude", Some("s"), line, &place).to_string();
        hook.stdin.take().unwrap().write_all(frame.as_bytes()).unwrap();
        let output = hook.wait_with_output().expect("its answer");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["hookSpecificOutput"]["permissionDecision"].as_str().expect("it").to_owned()
    };
    assert_eq!(decided(plain), "allow", "it names none");
    for line in [
        "stockade run --session other -- perl client.pl",
        "stockade run --for-agent --session other -- perl client.pl",
        "stockade --session other run -- perl client.pl",
        "STOCKADE_SESSION=other stockade run -- perl client.pl",
        "export STOCKADE_SESSION=other; stockade run -- perl client.pl",
        "env STOCKADE_SESSION=other stockade run -- perl client.pl",
    ] {
        assert_eq!(decided(line), "ask", "{line}");
    }
}

#[test]
fn the_session_of_an_agent_begins_and_ends_with_its_hook_alone() {
    let place = Place::new("session-once");
    let seen = place.root.join("seen");
    let hook = json!([{"hooks": [{"type": "command", "command": format!("cat >> {0}; echo >> {0}", seen.display())}]}]);
    let settings = json!({"hooks": {"SessionStart": hook, "SessionEnd": hook}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let gateway = Gateway::start(&place);
    let session = Session { place, uid: None, gateway: Some(gateway) };
    let agent = Agent { name: "claude", session: Some("5d1c"), of: &session };
    let events = || -> Vec<(Value, Value)> {
        let told = std::fs::read_to_string(&seen).unwrap_or_default();
        let frame = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        let event = |frame: Value| (frame["hook_event_name"].clone(), frame["session_id"].clone());
        told.lines().filter(|line| !line.is_empty()).map(frame).map(event).collect()
    };
    let of = |event: &str| (json!(event), json!("5d1c"));
    let line = agent.rewritten("echo ran");
    assert_eq!(events(), [of("SessionStart")]);
    for program in ["sh", &session.own_shell()] {
        for _ in 0..2 {
            assert_eq!(said(agent.shell(program, &line)), "ran\n");
        }
    }
    assert_eq!(events(), [of("SessionStart")], "no run begins or ends it");
    let told = json!({"hook_event_name": "SessionEnd", "session_id": "5d1c", "cwd": session.place.project(), "reason": "other"});
    assert!(agent.hook(&told).status.success());
    assert_eq!(events(), [of("SessionStart"), of("SessionEnd")]);
    // One that comes late does not begin it again.
    assert_eq!(said(agent.shell("sh", &line)), "ran\n");
    let Session { place: _place, gateway, .. } = session;
    assert_eq!(gateway.and_then(Gateway::end), Some(0));
    assert_eq!(events(), [of("SessionStart"), of("SessionEnd")]);
}

#[test]
fn without_a_gateway_a_run_has_the_temporary_directory_and_the_record_of_its_session_alone() {
    let place = Place::new("session-alone");
    let mut session = Session { place, uid: None, gateway: None };
    let line = "ls -A /tmp; touch /tmp/left";
    let both = |session: &Session, program: &str| {
        let agent = Agent { name: "claude", session: Some("5d1c"), of: session };
        let line = agent.rewritten(line);
        [said(agent.shell(program, &line)), said(agent.shell(program, &line))]
    };
    assert_eq!(both(&session, "sh"), ["", "left\n"]);
    assert_eq!(both(&session, &session.own_shell()), ["", ""]);
    let of = |door: &str, name: Value| (json!(door), name);
    let (hook, run) = (of("hook", json!("5d1c")), of("run", json!("5d1c")));
    // Nobody keeps what the hook named, so what stands in the text is not believed.
    let shell = of("shell", Value::Null);
    let expected = [&hook, &run, &run, &hook, &shell, &shell].map(Clone::clone);
    assert_eq!(session.recorded(line), expected);
    session.gateway = Some(Gateway::start(&session.place));
    assert_eq!(both(&session, "sh"), ["left\n", "left\n"]);
}
