//! `stockade shell` where an agent, a program or a person expects a shell.

#[path = "shell/snapshot.rs"]
mod snapshot;

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, root, skip, stockade, stockade_word, until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Status, standard output and standard error.
fn seen(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Makes a link to the executable that is called `name`.
fn link(place: &Place, name: &str) -> PathBuf {
    let link = place.root.join(name);
    symlink(stockade(), &link).expect("a link");
    link
}

/// Returns the shell under the name `bash`, in the project, with the environment of the place.
fn bash(place: &Place, arguments: &[&str]) -> Command {
    let path = place.root.join("bash");
    let path = if path.exists() { path } else { link(place, "bash") };
    let plain = place.stockade([""; 0]);
    let mut command = Command::new(path);
    command.args(arguments).current_dir(place.project()).env_clear().stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command
}

fn run(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    seen(&bash(place, arguments).output().expect("it starts"))
}

fn denying(name: &str) -> Place {
    let place = Place::new(name);
    let settings = r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place
}

#[test]
fn every_form_of_a_text_runs_with_its_status_and_streams() {
    let place = Place::new("forms");
    let line = "echo out; echo err >&2; exit 7";
    let expected = (Some(7), "out\n".to_owned(), "err\n".to_owned());
    for form in [
        &["-c", line][..],
        &["-lc", line],
        &["-l", "-c", line],
        &["-c", "-l", line],
        &["-ic", line],
    ] {
        assert_eq!(run(&place, form), expected, "{form:?}");
    }
    let plain = place.output(["shell", "-c", line]);
    assert_eq!(seen(&plain), expected);
    let positional = run(&place, &["-ec", "echo \"$0 $1\"; false; echo never", "name", "one"]);
    assert_eq!(positional.0, Some(1), "{}", positional.2);
    assert_eq!(positional.1, "name one\n");
    assert_eq!(run(&place, &["-c", "kill -TERM $$"]).0, Some(143));
    assert_eq!(run(&place, &["-c", ""]), (Some(0), String::new(), String::new()));
}

#[test]
fn what_is_denied_does_not_run_in_any_form() {
    let place = denying("denied");
    place.write("script.sh", "touch made.txt\n");
    let script = place.root.join("script.sh");
    for form in [
        &["-c", "touch made.txt"][..],
        &["-lc", "touch made.txt"],
        &["-O", "extglob", "-c", "touch made.txt"],
        &["-c", "touch \"$0\"", "made.txt"],
        &["-c", "bash -c 'touch made.txt'"],
    ] {
        let (status, _, told) = run(&place, form);
        assert_eq!(status, Some(120), "{form:?}: {told}");
        assert!(told.starts_with("stockade: denied `"), "{form:?}: {told}");
        assert!(told.contains("Bash(touch:*)"), "{form:?}: {told}");
    }
    assert!(!place.project().join("made.txt").exists());
    // The acts of a script are not known: unconfined it needs a person, refused by its name it does not run, and confined
    // it does, as if it were started by its path.
    let script = script.display().to_string();
    for (settings, status) in [
        (r#"{"permissions": {"deny": ["Bash(touch:*)"]}, "sandbox": {"enabled": false}}"#, 121),
        (r#"{"permissions": {"deny": ["Bash(script.sh:*)"]}}"#, 120),
    ] {
        place.write("home/.config/stockade/settings.json", settings);
        assert_eq!(run(&place, &[&script]).0, Some(status), "{settings}");
        assert!(!place.project().join("made.txt").exists());
    }
    for settings in [r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#, "{}"] {
        place.write("home/.config/stockade/settings.json", settings);
        assert_eq!(run(&place, &[&script]), (Some(0), String::new(), String::new()));
        let made = place.project().join("made.txt");
        std::fs::remove_file(made).expect("what the script made");
    }
}

#[test]
fn standard_input_is_judged_whole_before_anything_runs() {
    let place = denying("stdin");
    let given = |line: &str| {
        let mut child = bash(&place, &[]);
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("it starts");
        child.stdin.take().expect("its input").write_all(line.as_bytes()).expect("it reads");
        seen(&child.wait_with_output().expect("it ends"))
    };
    assert_eq!(given("echo one\necho two\n"), (Some(0), "one\ntwo\n".into(), String::new()));
    let (status, out, told) = given("echo one\ntouch made.txt\n");
    assert_eq!((status, out.as_str()), (Some(120), ""), "{told}");
    assert_eq!(given(""), (Some(0), String::new(), String::new()));
}

#[test]
fn options_that_are_not_understood_are_refused() {
    let place = Place::new("odd-options");
    for form in [&["-c"][..], &["--dump-strings", "-c", "ls"], &["-Z"]] {
        let (status, out, told) = run(&place, form);
        assert_eq!((status, out.as_str()), (Some(122), ""), "{form:?}");
        assert!(told.starts_with("stockade: "), "{told}");
    }
}

#[test]
fn nothing_of_the_environment_runs_before_the_command_is_judged() {
    let place = denying("environment");
    place.write("start.sh", "echo ran > \"$HOME/ran\"\n");
    let start = place.root.join("start.sh");
    for (line, expected) in [("touch made.txt", 120), ("echo ok", 0)] {
        let mut command = bash(&place, &["-lc", line]);
        command.env("BASH_ENV", &start).env("ENV", &start).env("SHELLOPTS", "xtrace");
        command.env("BASH_FUNC_echo%%", "() { touch made.txt; }").env("STOCKADE", "1");
        let (status, out, told) = seen(&command.output().expect("it starts"));
        assert_eq!(status, Some(expected), "{told}");
        assert_eq!(out, if expected == 0 { "ok\n" } else { "" });
    }
    assert!(!place.home().join("ran").exists() && !place.project().join("made.txt").exists());
}

/// The lines that agents were recorded to give their shell, with another command inside.
fn recorded(agent: &str, command: &str) -> String {
    let file = root().join("tests/fixtures/agents/shell_argv.json");
    let table: Value = serde_json::from_slice(&std::fs::read(file).expect("it")).expect("JSON");
    let mut calls = table[agent].as_array().expect("calls").iter();
    let line = calls.rfind(|call| call["role"] == "command").expect("a command");
    let line = line["argv"].as_array().and_then(|argv| argv.last()?.as_str()).expect("a line");
    let quoted = format!("'{}'", command.replace('\'', r#"'"'"'"#));
    let before = r#"'printf '"'"'REWRITTEN_%s'"'"' OUT'"#;
    line.replace(before, &quoted).replace("printf 'REWRITTEN_%s' OUT", command)
}

#[test]
fn commands_that_a_hook_leaves_for_every_command_run_and_are_judged_with_it() {
    let place = denying("env-file");
    let shopt = "shopt -u extglob 2>/dev/null";
    let line = |before: &str, command: &str| {
        let line = recorded("claude", command);
        assert!(line.contains(shopt), "{line}");
        line.replacen(shopt, &format!("{before} && {shopt}"), 1)
    };
    let before = "export FIRST=one\nexport SECOND='and two'";
    let (status, out, told) = run(&place, &["-c", &line(before, "echo $FIRST $SECOND")]);
    assert_eq!((status, out.as_str()), (Some(0), "one and two\n"), "{told}");
    // The hook of this agent rewrote the command itself.
    let through = format!("{} run --for-agent -- 'echo \"$FIRST\"'", stockade_word());
    let (status, out, told) = run(&place, &["-c", &line(before, &through)]);
    assert_eq!((status, out.as_str()), (Some(0), "one\n"), "{told}");
    for (before, command) in [("touch made.txt", "true"), (before, "touch made.txt")] {
        let (status, _, told) = run(&place, &["-c", &line(before, command)]);
        assert_eq!(status, Some(120), "{told}");
    }
    assert!(!place.project().join("made.txt").exists());
}

#[test]
fn the_command_in_an_agents_wrapping_is_judged_and_not_the_wrapping() {
    let place = denying("wrapping");
    for agent in ["claude", "claude330", "gemini2"] {
        let ran = run(&place, &["-c", &recorded(agent, "printf '%s' \"it's\"; exit 5")]);
        assert_eq!(ran, (Some(5), "it's".into(), String::new()), "{agent}");
        let (status, _, told) = run(&place, &["-c", &recorded(agent, "echo a && touch made.txt")]);
        assert_eq!(status, Some(120), "{agent}: {told}");
        assert!(told.starts_with("stockade: denied `touch made.txt`"), "{agent}: {told}");
        // Text behind the wrapping makes it another text, which is judged as such.
        let more = format!("{}; touch made.txt", recorded(agent, "echo a"));
        let (status, out, told) = run(&place, &["-c", &more]);
        assert_eq!((status, out.as_str()), (Some(120), ""), "{agent}: {told}");
    }
    assert!(!place.project().join("made.txt").exists());
}

#[test]
fn the_file_for_the_last_directory_is_written_after_a_success_alone() {
    let place = Place::new("marker");
    let temporary = place.root.join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    std::fs::create_dir(place.project().join("inner")).expect("a folder");
    let marker = temporary.join("claude-1f2e-cwd");
    let line = |command: &str| {
        recorded("claude", command).replace("/tmp/claude-e3fd-cwd", &marker.display().to_string())
    };
    let run = |command: &str| {
        let mut shell = bash(&place, &["-c", &line(command)]);
        seen(&shell.env("TMPDIR", &temporary).output().expect("it starts"))
    };
    assert_eq!(run("cd inner; false").0, Some(1));
    assert!(!marker.exists());
    assert_eq!(run("cd inner"), (Some(0), String::new(), String::new()));
    let inner = place.project().join("inner").canonicalize().expect("it");
    assert_eq!(std::fs::read_to_string(&marker).expect("it"), format!("{}\n", inner.display()));
    // The command's own trap and exit status stay its own.
    assert_eq!(run("trap 'echo bye' EXIT; cd /").1, "bye\n");
}

/// One program runs unconfined; all else is confined.
fn half_confined(name: &str) -> Place {
    let place = Place::new(name);
    let settings = r#"{"permissions": {"allow": ["Bash(touch ../home/free)", "Bash(bash change.sh)"]}, "sandbox": {"excludedCommands": ["touch:*"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    place
}

/// Starts `command` confined, in the session of [`of_session`].
fn beside(place: &Place, command: &str) -> std::process::Child {
    let mut run = place.stockade(["run", "--no-daemon", "--", command]);
    run.env("STOCKADE_SESSION", "one").stdout(Stdio::piped()).spawn().expect("it starts")
}

/// Runs `command` as an agent's shell does that is to tell where it ended.
fn of_session(place: &Place, command: &str) -> (Option<i32>, String, String) {
    let temporary = place.root.join("temporary");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let marker = temporary.join("claude-1f2e-cwd").display().to_string();
    let line = recorded("claude", command).replace("/tmp/claude-e3fd-cwd", &marker);
    let mut shell = bash(place, &["-c", &line]);
    shell.env("TMPDIR", &temporary).env("STOCKADE_SESSION", "one");
    seen(&shell.output().expect("it starts"))
}

#[test]
fn a_confined_command_of_the_session_writes_nothing_that_an_unconfined_shell_reads() {
    let place = half_confined("start-file");
    place.write(
        "project/change.sh",
        ": > ready\nuntil [ -e stop ]; do for file in /tmp/.[a-z]* /tmp/[a-z]*; do\n\
         [ -f \"$file\" ] && echo 'echo taken > ../home/taken' > \"$file\"; done; done 2> errors\n",
    );
    let changing = beside(&place, "bash change.sh");
    until("it changes files", || place.project().join("ready").exists());
    for _ in 0..12 {
        let ran = of_session(&place, "touch ../home/free");
        assert_eq!(ran.0, Some(0), "{ran:?}");
    }
    place.write("project/stop", "");
    changing.wait_with_output().expect("it ends");
    // The unconfined command can write there, the confined one cannot.
    let made = |name: &str| place.home().join(name).exists();
    assert_eq!((made("free"), made("taken")), (true, false));
}

#[test]
fn a_command_does_not_lead_the_file_for_the_last_directory_elsewhere() {
    let place = Place::new("marker-moved");
    let temporary = place.project().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    let marker = temporary.join("claude-1f2e-cwd").display().to_string();
    let command = "mv temporary away && mkdir elsewhere && ln -s elsewhere temporary";
    let line = recorded("claude", command).replace("/tmp/claude-e3fd-cwd", &marker);
    let mut shell = bash(&place, &["-c", &line]);
    let (status, _, told) = seen(&shell.env("TMPDIR", &temporary).output().expect("it starts"));
    assert!(place.project().join("away").is_dir(), "{told}");
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("claude-1f2e-cwd` cannot be written"), "{told}");
    assert!(!place.project().join("elsewhere/claude-1f2e-cwd").exists(), "{told}");
}

#[test]
fn stockade_in_stockade_asks_nothing_and_hides_nothing() {
    let place = denying("chain");
    let shell = link(&place, "bash");
    let gate = stockade().display();
    // A command as the hook rewrites it, given to the shell: one decision, one record, the command itself.
    let rewritten = format!("'{gate}' 'run' '--for-agent' '--' 'echo once'");
    assert_eq!(run(&place, &["-c", &recorded("claude", &rewritten)]).1, "once\n");
    let tail = place.output(["audit", "tail", "--json", "-n", "10", "--kind", "decision"]);
    let lines: Vec<Value> =
        text(&tail.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].to_string().contains("echo once"), "{lines:?}");
    let denied = format!("'{gate}' 'run' '--for-agent' '--' 'touch made.txt'");
    assert_eq!(run(&place, &["-c", &recorded("claude", &denied)]).0, Some(120));
    // Outside nothing that a text or a variable says makes it one.
    let mut command = bash(&place, &["-c", "STOCKADE=1 exec -a launch bash -c 'touch made.txt'"]);
    assert_ne!(command.env("STOCKADE", "1").output().expect("it starts").status.code(), Some(0));
    assert!(!place.project().join("made.txt").exists());
    place.write("home/.config/stockade/settings.json", "{}");
    // Inside of a confined command it is the plain shell, still confined.
    place.write(
        "project/inner.sh",
        "$SHELL -c 'echo inner; echo x > ~/outside'; \"$GATE\" run 'echo again'\n",
    );
    let mut command = bash(&place, &["-c", "bash inner.sh"]);
    command.env("SHELL", &shell).env("GATE", stockade());
    let (status, out, told) = seen(&command.output().expect("it starts"));
    assert_eq!((status, out.as_str()), (Some(0), "inner\nagain\n"), "{told}");
    assert!(!place.home().join("outside").exists());
}

#[test]
fn a_person_at_a_terminal_gets_the_plain_shell_and_an_agent_none() {
    let place = Place::new("person");
    let shell = link(&place, "bash");
    let test = "a_person_at_a_terminal_gets_the_plain_shell_and_an_agent_none";
    let Some(mut terminal) = Terminal::start(&place, &shell, &["--norc"]) else {
        return skip(test, "the program `script`, which gives a terminal, is not installed");
    };
    terminal.press("echo $((40+2)) > \"$HOME/made\"; exit 3\n");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(3), "{screen}");
    assert_eq!(std::fs::read_to_string(place.home().join("made")).expect("it was written"), "42\n");
    let line = ["CLAUDECODE=1".to_owned(), shell.display().to_string()];
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let Some(terminal) = Terminal::start(&place, "/usr/bin/env".as_ref(), &line) else { return };
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(122), "{screen}");
    assert!(screen.contains("no interactive shell for an agent (`CLAUDECODE` is set)"), "{screen}");
}

#[test]
fn without_a_gateway_that_works_nothing_runs() {
    let place = Place::new("broken");
    place.write("home/.config/stockade/settings.json", "{ not json");
    let (status, out, told) = run(&place, &["-c", "echo ran"]);
    assert_eq!((status, out.as_str()), (Some(122), ""), "{told}");
    assert!(told.starts_with("stockade: "), "{told}");
}

#[test]
fn what_an_agents_person_allowed_is_not_asked_again() {
    let place = Place::new("agreed");
    let careful = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    place.write("home/.config/stockade/settings.json", careful);
    let frame = |command: &str| {
        let frame = serde_json::json!({"session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t"});
        place.write(&format!("frame-{command}.json"), &frame.to_string());
        place.root.join(format!("frame-{command}.json")).display().to_string()
    };
    let (made, other) = (frame("touch made.txt"), frame("touch other.txt"));
    // A process that is the agent to both: it gives the hook a frame, and its shell the command.
    let agent = |steps: &str| {
        place.write(
            "agent.sh",
            &format!("hook() {{ \"$GATE\" hook claude < \"$1\" > ../answer; }}\n{steps}\ntrue\n"),
        );
        let plain = place.stockade([""; 0]);
        let mut command = Command::new("bash");
        command.arg(place.root.join("agent.sh")).current_dir(place.project()).env_clear();
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let shell = place.root.join("bash");
        let shell = if shell.exists() { shell } else { link(&place, "bash") };
        command.env("GATE", stockade()).env("AGENT_SHELL", shell);
        seen(&command.output().expect("bash"))
    };
    let run = "\"$AGENT_SHELL\" -c 'touch made.txt' 2> ../told; echo $?";
    // Without a question before, nobody has said yes.
    assert_eq!(agent(run).1, "121\n");
    let (_, out, told) = agent(&format!("hook '{made}'\n{run}\nrm -f made.txt\n{run}"));
    assert!(
        std::fs::read_to_string(place.root.join("answer")).expect("it").contains("\"ask\""),
        "{told}"
    );
    assert_eq!(out, "0\n121\n", "once, and not a second time: {told}");
    assert!(!place.project().join("made.txt").exists());
    // The agent's next call means that the answer was no.
    assert_eq!(agent(&format!("hook '{made}'\nhook '{other}'\n{run}")).1, "121\n");
    // Another command is another question.
    let another = run.replace("made.txt'", "made.txt made2.txt'");
    assert_eq!(agent(&format!("hook '{made}'\n{another}")).1, "121\n");
    let approval = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "approval"]);
    let approval: Value = serde_json::from_slice(&approval.stdout).expect("one record");
    assert_eq!((&approval["answer"], &approval["channel"]), (&"allow".into(), &"agent".into()));
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn what_one_agent_asks_is_nothing_to_another_of_the_same_parent() {
    let place = Place::new("siblings");
    let careful = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    place.write("home/.config/stockade/settings.json", careful);
    let frame = |name: &str, command: &str| {
        let frame = serde_json::json!({"session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t"});
        place.write(name, &frame.to_string());
    };
    frame("frame", "touch made.txt");
    frame("other", "touch other.txt");
    let shell = "\"$AGENT_SHELL\" -c 'touch made.txt' 2> /dev/null; echo $?";
    // Its hook is given through a shell, as agents do.
    let hook = |file: &str| format!("sh -c '\"$GATE\" hook claude < ../{file} > /dev/null'");
    let first = format!(
        "{}\ntouch ../asked\nwhile ! [ -e ../go ]; do sleep 0.02; done\n{shell}\n",
        hook("frame")
    );
    place.write("first.sh", &first);
    // One program starts both; the second acts while the first one's person still thinks.
    place.write("parent.sh", "bash ../first.sh > ../first &\nwhile ! [ -e ../asked ]; do sleep 0.02; done\nbash ../second.sh\n\
        touch ../go\nwait\n");
    let asks = format!("{}\ntrue\n", hook("other"));
    let gives = format!("{shell}\n");
    // A question of the second takes nothing away. If the second gives the same command, the yes is nobody's.
    for (stays, second, its, the_first_one) in [
        (false, &asks, "", "0\n"),
        (false, &gives, "121\n", "121\n"),
        (true, &asks, "", "0\n"),
        (true, &gives, "121\n", "121\n"),
    ] {
        place.write("second.sh", second);
        let gateway = stays.then(|| Gateway::start(&place));
        let plain = place.stockade([""; 0]);
        let mut parent = Command::new("bash");
        parent.arg("../parent.sh").current_dir(place.project()).env_clear();
        parent.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let shell = place.root.join("bash");
        let shell = if shell.exists() { shell } else { link(&place, "bash") };
        parent.env("GATE", stockade()).env("AGENT_SHELL", shell);
        let (_, out, told) = seen(&parent.output().expect("bash"));
        assert_eq!(out, its, "the second, where a gateway stays: {stays}: {told}");
        let first = std::fs::read_to_string(place.root.join("first")).expect("what it said");
        assert_eq!(first, the_first_one, "the first, where a gateway stays: {stays}: {told}");
        let made = place.project().join("made.txt");
        assert_eq!(made.exists(), first == "0\n");
        for file in ["asked", "go", "project/made.txt"] {
            let _ = std::fs::remove_file(place.root.join(file)); // for the next round
        }
        if let Some(gateway) = gateway {
            gateway.kill();
        }
    }
}

#[test]
fn a_signal_to_the_shell_ends_what_it_runs() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new("signal");
    for (signal, ended) in [("TERM", 143), ("HUP", 143), ("INT", 130)] {
        let mut command = bash(&place, &["-c", "echo begun; sleep 100; echo never"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "begun");
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().expect("kill");
        assert!(sent.success());
        assert_eq!(child.wait().expect("it ends").code(), Some(ended), "{signal}");
        assert!(lines.next().is_none(), "{signal}");
    }
}

#[test]
fn a_line_given_as_one_operand_is_judged_like_a_text() {
    let place = denying("prefix");
    let line = |command: &str| {
        let file = root().join("tests/fixtures/agents/shell_argv.json");
        let table: Value = serde_json::from_slice(&std::fs::read(file).expect("it")).expect("JSON");
        let line = table["claude_pfx"][0]["argv"][1].as_str().expect("a line").to_owned();
        line.replace("'echo MARK_42; pwd'", &format!("'{command}'"))
    };
    assert_eq!(run(&place, &[&line("echo a; exit 4")]), (Some(4), "a\n".into(), String::new()));
    let (status, _, told) = run(&place, &[&line("echo a; touch made.txt")]);
    assert_eq!(status, Some(120), "{told}");
    assert!(told.starts_with("stockade: denied `touch made.txt`"), "{told}");
    assert_eq!(run(&place, &["touch made.txt"]).0, Some(120));
    // The agent's hooks come this way as well, and ours is not judged by itself.
    let mut hook = bash(&place, &[&format!("{} hook claude --rewrite || exit 2", stockade_word())]);
    let (status, out, told) = seen(&hook.output().expect("it starts"));
    assert_eq!((status, out.as_str()), (Some(2), ""), "{told}");
    assert!(told.starts_with("stockade: blocked: the frame is not a JSON object"), "{told}");
    // Only the hook, only as set-up writes it, and never as a text that a model could give: all else is judged.
    let gate = stockade_word();
    for words in [
        &["-c", &format!("{gate} hook claude --rewrite")][..],
        &[&format!("{gate} hook claude --settings /tmp/x")],
        &[&format!("{gate} hook claude; touch made.txt")],
    ] {
        run(&place, words);
        let tail = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "decision"]);
        let last = words.last().expect("a text");
        assert!(text(&tail.stdout).contains(last), "{words:?}: {}", text(&tail.stdout));
    }
    assert!(!place.project().join("made.txt").exists());
    // A script with a blank in its name stays a script.
    place.write("project/a script.sh", "echo script\n");
    place.write("home/.config/stockade/settings.json", "{}");
    assert_eq!(run(&place, &["a script.sh"]).1, "script\n");
}

#[test]
fn at_the_terminal_of_an_agent_nobody_is_asked() {
    let place = Place::new("agents-terminal");
    let careful = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    place.write("home/.config/stockade/settings.json", careful);
    let shell = link(&place, "bash");
    let test = "at_the_terminal_of_an_agent_nobody_is_asked";
    let gate = stockade().to_path_buf();
    for (program, words) in [
        (&shell, &["-c", "touch made.txt"][..]),
        (&gate, &["run", "--for-agent", "--", "touch made.txt"]),
    ] {
        let Some(mut terminal) = Terminal::start(&place, program, words) else {
            return skip(test, "the program `script`, which gives a terminal, is not installed");
        };
        // Keys that a model types into the terminal of its own command are not an answer of a person.
        terminal.press("o\ny\n\n");
        let (status, screen) = terminal.end();
        assert_eq!(status, Some(121), "{screen}");
        assert!(!screen.contains("once"), "{screen}");
    }
    assert!(!place.project().join("made.txt").exists());
    // An allowed command runs there like anywhere.
    place.write("home/.config/stockade/settings.json", "{}");
    let Some(terminal) = Terminal::start(&place, &shell, &["-c", "echo ran; exit 3"]) else {
        return;
    };
    let (status, screen) = terminal.end();
    assert_eq!((status, screen.trim_end()), (Some(3), "ran"));
}

#[test]
fn streams_are_passed_on_as_they_are() {
    let place = Place::new("streams");
    let mut child = bash(&place, &["-c", "cat; printf '\\000\\377\\n'"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(b"\x00\xfe in\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"\x00\xfe in\n\x00\xff\n");
    // A reader that goes away ends what writes, as it ends a command of bash.
    let mut child = bash(&place, &["-c", "yes; exit 3"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141), "{}", text(&output.stderr));
}

#[test]
fn the_longest_time_is_that_of_the_settings() {
    let place = Place::new("longest");
    let limits = |seconds: &str| {
        let settings = format!("{{\"limits\": {{\"maxTimeoutSeconds\": {seconds}}}}}");
        place.write("home/.config/stockade/settings.json", &settings);
    };
    let timed = |limit: &str| {
        let output = place.output(["run", "--timeout", limit, "--", "echo ran"]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, _, told) = timed("700s");
    assert_eq!(status, Some(122), "{told}");
    assert!(
        told.contains("at most 600 seconds") && told.contains("limits.maxTimeoutSeconds"),
        "{told}"
    );
    limits("3600");
    assert_eq!(timed("700s"), (Some(0), "ran\n".into(), String::new()));
    limits("1");
    assert_eq!(run(&place, &["-c", "echo begun; sleep 100; echo never"]).1, "begun\n");
    assert_eq!(run(&place, &["-c", "sleep 100"]).0, Some(124));
    let output = place.output(["run", "--for-agent", "--", "sleep 100"]);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    for wrong in ["0", "-1", "1.5", "\"1h\"", "99999999999"] {
        limits(wrong);
        let (status, _, told) = run(&place, &["-c", "echo ran"]);
        assert_eq!(status, Some(122), "{wrong}: {told}");
        assert!(told.contains("`limits.maxTimeoutSeconds`"), "{wrong}: {told}");
    }
    // A project does not give itself time.
    place.write("home/.config/stockade/settings.json", "{}");
    place.write("project/.stockade/settings.json", "{\"limits\": {\"maxTimeoutSeconds\": 3600}}");
    assert_eq!(timed("700s").0, Some(122));
}
