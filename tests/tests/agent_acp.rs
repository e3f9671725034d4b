//! `stockade acp` with the official packages of the Agent Client Protocol, unmodified, and with the example clients of one of
//! them. They are installed from their registries; where those are not reached, the tests say so.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply, Server, Turn};
use stockade_tests::{Place, executable, root, skip, stockade};

fn call(id: &str, name: &str, input: Value) -> Turn {
    Turn::Call(id.into(), name.into(), input.to_string())
}

fn say(text: &str) -> Turn {
    Turn::Text(text.into())
}

fn script(answers: &[&[Turn]]) -> Server {
    Server::start(answers.iter().map(|turns| Reply::answer(Form::Anthropic, turns)))
        .expect("a server")
}

/// Returns the module of the package: beside the executables, kept from run to run.
fn module() -> &'static Result<PathBuf, String> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MODULE.get_or_init(|| {
        let folder = stockade().parent().expect("a folder").join("sdk/acp");
        let module = folder.join("node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js");
        if !module.exists() {
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "@agentclientprotocol/sdk"]);
            let output = npm.arg("--prefix").arg(&folder).output();
            let output = output.map_err(|error| error.to_string())?;
            if !output.status.success() || !module.exists() {
                let told = String::from_utf8_lossy(&output.stderr);
                return Err(told.lines().next_back().unwrap_or("npm failed").to_owned());
            }
        }
        Ok(module)
    })
}

/// Runs a step of the script and returns what it saw; none where the package cannot be had.
fn seen(test: &str, step: &[&str], place: &Place, server: &Server) -> Option<Vec<Value>> {
    let module = match module() {
        Ok(module) => module,
        Err(reason) => {
            skip(test, &format!("@agentclientprotocol/sdk cannot be installed: {reason}"));
            return None;
        }
    };
    drop(executable("stockade-agent"));
    let mut command = Command::new("node");
    command.arg(root().join("tests/fixtures/acp.mjs")).arg(module).arg(stockade());
    command.arg(place.project()).args(step).current_dir(place.project()).env_clear();
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.home())
        .env("LANG", "C.UTF-8")
        .env("XDG_STATE_HOME", place.root.join("state"))
        .env("XDG_RUNTIME_DIR", place.root.join("runtime"))
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("STOCKADE_MODEL_TRIES", "1");
    let output = command.output().expect("node starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = stdout.lines().next_back().unwrap_or_default();
    Some(serde_json::from_str(last).unwrap_or_else(|_| panic!("{stdout}\n{stderr}")))
}

fn write(id: &str, content: &str) -> Turn {
    call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": content }))
}

fn file(place: &Place, name: &str) -> Option<String> {
    std::fs::read_to_string(place.project().join(name)).ok()
}

#[test]
fn an_editor_is_asked_sees_calls_and_plan_and_sets_mode_and_model() {
    let place = Place::new("acp-asks");
    let todos = json!({ "todos": [{ "content": "one thing", "status": "pending" }] });
    let server = script(&[
        &[write("a", "yes")],
        &[write("b", "no")],
        &[say("done")],
        &[call("t", "TodoWrite", todos), write("c", "free")],
        &[say("finished")],
    ]);
    let test = "an_editor_is_asked_sees_calls_and_plan_and_sets_mode_and_model";
    let Some(seen) = seen(test, &["asks"], &place, &server) else { return };
    let asked = json!(["asked", "edit", ["allow_once", "allow_always", "reject_once"]]);
    assert_eq!(&seen[..2], [json!(["version", 1, "stockade"]), json!(["mode", "default"])]);
    assert_eq!(seen.iter().filter(|it| **it == asked).count(), 2, "{seen:?}");
    for there in [
        json!(["tool_call", "edit", "in_progress"]),
        json!(["tool_call_update", "failed", "content"]),
        json!(["agent_message_chunk", "done"]),
        json!(["plan", ["one thing"]]),
        json!(["current_mode_update", "acceptEdits"]),
        json!(["model", "haiku"]),
        json!(["agent_message_chunk", "finished"]),
    ] {
        assert!(seen.contains(&there), "{there}: {seen:?}");
    }
    assert_eq!(seen.last(), Some(&json!(["stop", "end_turn"])));
    let found = ["a.txt", "b.txt", "c.txt"].map(|name| file(&place, name));
    assert_eq!(found, [Some("yes".into()), None, Some("free".into())]);
    let model = server.received().pop().expect("a request").body["model"].clone();
    assert!(model.as_str().is_some_and(|it| it.contains("haiku")), "{model}");
}

#[test]
fn an_editor_cancels_and_goes_on() {
    let place = Place::new("acp-cancels");
    // No other run of the tests has such a command.
    let nap = format!("sleep 44.375{:07}", std::process::id());
    let server = script(&[&[call("a", "Bash", json!({ "command": nap }))], &[say("after")]]);
    let Some(seen) = seen("an_editor_cancels_and_goes_on", &["cancels"], &place, &server) else {
        return;
    };
    let stops: Vec<&Value> = seen.iter().filter(|it| it[0] == "stop").collect();
    assert_eq!(stops, [&json!(["stop", "cancelled"]), &json!(["stop", "end_turn"])], "{seen:?}");
    let left = Command::new("pgrep").args(["-f", &nap]).output().expect("pgrep");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn an_editor_lists_loads_closes_and_deletes_sessions() {
    let place = Place::new("acp-loads");
    let test = "an_editor_lists_loads_closes_and_deletes_sessions";
    let id = "88888888-8888-4888-8888-888888888888";
    let first = script(&[&[say("blue answer")]]);
    drop(executable("stockade-agent"));
    let mut begin = place.stockade(["agent", "-p", "blue words", "--session-id", id]);
    // The session stays in a mode that allows less, and the editor shows that one.
    begin.args(["--permission-mode", "plan"]);
    begin.env("ANTHROPIC_BASE_URL", first.url()).env("ANTHROPIC_API_KEY", "sk-test");
    assert!(begin.output().expect("the agent starts").status.success());
    let server = script(&[&[say("more")]]);
    let Some(seen) = seen(test, &["loads", id], &place, &server) else { return };
    let expected = [
        json!(["version", 1, "stockade"]),
        json!(["listed", true]),
        json!(["user_message_chunk", "blue words"]),
        json!(["agent_message_chunk", "blue answer"]),
        json!(["mode", "plan"]),
        json!(["agent_message_chunk", "more"]),
        json!(["stop", "end_turn"]),
        json!(["left", 0]),
        json!(["gone", -32002]),
    ];
    assert_eq!(seen, expected);
    assert!(server.received()[0].body.to_string().contains("blue answer"));
}

#[test]
fn questions_of_the_model_are_a_form_where_the_editor_has_forms() {
    let options = json!([{ "label": "red", "description": "warm" }, { "label": "blue" }]);
    let questions = json!({ "questions": [{ "question": "Which one?", "header": "Color", "options": options }] });
    let turns = [[call("a", "AskUserQuestion", questions)], [say("thanks")]];
    let turns: Vec<&[Turn]> = turns.iter().map(|it| it.as_slice()).collect();
    let test = "questions_of_the_model_are_a_form_where_the_editor_has_forms";
    let told = |server: &Server| server.received()[1].body["messages"].to_string();
    let place = Place::new("acp-elicits");
    let server = script(&turns);
    let Some(seen) = seen(test, &["elicits"], &place, &server) else { return };
    let form = json!(["form", "form", "Which one?", ["q1", "q1_other"], ["red", "blue"]]);
    assert!(seen.contains(&form), "{seen:?}");
    assert!(!seen.iter().any(|it| it[0] == "asked"), "{seen:?}");
    // The client handles messages beside the end of the turn.
    assert!(seen.contains(&json!(["stop", "end_turn"])), "{seen:?}");
    let told_back = told(&server);
    assert!(told_back.contains(r#"{\"Which one?\":\"blue\"}"#), "{told_back}");
    // One without forms is asked whether the questions may be put, as for every call.
    let (place, server) = (Place::new("acp-elicits-not"), script(&turns));
    let Some(seen) = self::seen(test, &["asks"], &place, &server) else { return };
    assert!(seen.iter().any(|it| it[0] == "asked"), "{seen:?}");
    assert!(!seen.iter().any(|it| it[0] == "form"), "{seen:?}");
}

#[test]
fn an_editor_forks_a_session() {
    let place = Place::new("acp-forks");
    let server = script(&[&[say("blue answer")], &[say("done")]]);
    let Some(seen) = seen("an_editor_forks_a_session", &["forks"], &place, &server) else { return };
    for there in [json!(["copy", true]), json!(["listed", 2])] {
        assert!(seen.contains(&there), "{there}: {seen:?}");
    }
    let sent = server.received()[1].body["messages"].to_string();
    assert!(sent.contains("blue answer") && sent.contains("in the copy"), "{sent}");
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(told.lines().next_back().unwrap_or("it failed").to_owned())
        }
    }
}

/// Returns a Python with the package, and the folder of the examples that its source has.
fn examples() -> &'static Result<(PathBuf, PathBuf), String> {
    static EXAMPLES: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        const NAME: &str = "agent-client-protocol";
        let folder = stockade().parent().expect("a folder").join("sdk/acp-python");
        let (python, examples) = (folder.join("bin/python"), folder.join("source/examples"));
        if done(Command::new(&python).args(["-c", "import acp"])).is_err() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            done(Command::new(&python).args(["-m", "pip", "install", "--quiet", NAME]))?;
        }
        if !examples.join("client.py").exists() {
            let source = folder.join("source");
            std::fs::create_dir_all(&source).map_err(|error| error.to_string())?;
            let mut download = Command::new(&python);
            download.args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                NAME,
            ]);
            done(download.arg("-d").arg(&source))?;
            let unpack = "for it in *.tar.gz; do tar --strip-components=1 -xzf $it; done";
            done(Command::new("sh").args(["-c", unpack]).current_dir(&source))?;
        }
        Ok((python, examples))
    })
}

/// Runs an example of the Python package with these arguments, and types `keys`; none where the package cannot be had.
fn example(
    (test, name): (&str, &str),
    arguments: &[&str],
    keys: &str,
    (place, server): (&Place, &Server),
) -> Option<Output> {
    let (python, examples) = match examples() {
        Ok(found) => found,
        Err(reason) => {
            skip(test, &format!("agent-client-protocol cannot be installed: {reason}"));
            return None;
        }
    };
    drop(executable("stockade-agent"));
    let mut command = Command::new(python);
    command.arg(examples.join(name)).args(arguments).current_dir(place.project()).env_clear();
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.home())
        .env("LANG", "C.UTF-8")
        .env("XDG_STATE_HOME", place.root.join("state"))
        .env("XDG_RUNTIME_DIR", place.root.join("runtime"))
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("STOCKADE_MODEL_TRIES", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python starts");
    child.stdin.take().expect("its input").write_all(keys.as_bytes()).expect("it reads");
    Some(child.wait_with_output().expect("it ends"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_example_client_talks_and_what_it_cannot_answer_is_a_no() {
    let place = Place::new("acp-example");
    let server = script(&[&[say("hello")], &[write("a", "x")], &[say("not written")]]);
    let test = "the_example_client_talks_and_what_it_cannot_answer_is_a_no";
    let program = stockade().to_string_lossy().into_owned();
    let arguments = [program.as_str(), "acp"];
    let Some(output) =
        example((test, "client.py"), &arguments, "hi\nwrite it\n", (&place, &server))
    else {
        return;
    };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    // Text comes in pieces.
    let said: String = stdout.lines().filter_map(|line| line.split("| Agent: ").nth(1)).collect();
    assert_eq!(said, "hellonot written", "{stdout}\n{stderr}");
    // The example has no answer to `session/request_permission`.
    assert_eq!(file(&place, "a.txt"), None);
    assert_eq!(server.received().len(), 3);
}

#[test]
fn the_example_of_a_known_agent_drives_it_and_a_person_answers() {
    let place = Place::new("acp-example-asks");
    let server = script(&[&[write("a", "yes")], &[write("b", "no")], &[say("finished")]]);
    let test = "the_example_of_a_known_agent_drives_it_and_a_person_answers";
    // The example starts its agent with `--acp`.
    let program = place.root.join("agent");
    let line = format!("#!/bin/sh\nexec '{}' acp\n", stockade().display());
    std::fs::write(&program, line).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(Path::new(&program), mode).expect("a mode");
    let program = program.to_string_lossy().into_owned();
    let arguments = ["--gemini", program.as_str(), "--prompt", "write both", "--debug"];
    // The first option allows once, the third one rejects.
    let Some(output) = example((test, "gemini.py"), &arguments, "1\n3\n", (&place, &server)) else {
        return;
    };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    for there in ["(protocol v1)", "1. Allow", "(allow_once)", "3. ", "(reject_once)"] {
        assert!(stdout.contains(there), "{there}: {stdout}\n{stderr}");
    }
    assert!(stdout.replace('\n', "").contains("finished"), "{stdout}\n{stderr}");
    let found = ["a.txt", "b.txt"].map(|name| file(&place, name));
    assert_eq!(found, [Some("yes".into()), None], "{stdout}\n{stderr}");
    // The client offers its files and terminals, and none of them is used.
    assert!(!stdout.contains("[Client]"), "{stdout}");
}
