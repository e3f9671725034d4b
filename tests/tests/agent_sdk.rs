//! The official Agent SDK packages, unmodified, on `stockade-agent`. They are installed from their registries; where those
//! are not reached, the tests say so.

#[path = "agent_sdk/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
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

/// The folder of the packages: beside the executables, kept from run to run.
fn folder() -> PathBuf {
    stockade().parent().expect("a folder").join("sdk")
}

fn done(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr)
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns a Python with the package.
fn python() -> &'static Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let folder = folder().join("python");
        let python = folder.join("bin/python");
        if done(Command::new(&python).args(["-c", "import claude_agent_sdk"])).is_err() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            done(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "claude-agent-sdk",
            ]))?;
        }
        Ok(python)
    })
}

/// Returns the module of the npm package.
fn module() -> &'static Result<PathBuf, String> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MODULE.get_or_init(|| {
        let folder = folder().join("npm");
        let module = folder.join("node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs");
        if !module.exists() {
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let install = [
                "install",
                "--no-audit",
                "--no-fund",
                "--omit=optional",
                "@anthropic-ai/claude-agent-sdk",
            ];
            done(Command::new("npm").args(install).arg("--prefix").arg(&folder))?;
        }
        Ok(module)
    })
}

fn agent() -> PathBuf {
    let agent = executable("stockade-agent");
    assert!(stockade().exists());
    agent
}

fn output(place: &Place, server: &Server, mut command: Command) -> Output {
    command.current_dir(place.project()).env_clear();
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.home())
        .env("LANG", "C.UTF-8");
    command
        .env("XDG_STATE_HOME", place.root.join("state"))
        .env("XDG_RUNTIME_DIR", place.root.join("runtime"));
    command
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("STOCKADE_MODEL_TRIES", "1");
    command.output().expect("it starts")
}

/// Runs a part of the Python script and returns what it saw; none where the package cannot be had.
fn seen(test: &str, what: &str, place: &Place, server: &Server) -> Option<Vec<Value>> {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            skip(test, &format!("claude-agent-sdk cannot be installed: {reason}"));
            return None;
        }
    };
    let mut command = Command::new(python);
    command.arg(root().join("tests/fixtures/sdk.py")).arg(agent()).arg(what);
    Some(read(&output(place, server, command)))
}

fn read(output: &Output) -> Vec<Value> {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{stdout}\n{stderr}"))
}

fn write(id: &str, content: &str) -> Turn {
    call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": content }))
}

fn file(place: &Place, name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(&place.project()).join(name)).ok()
}

fn success() -> Value {
    json!(["result", "success", false, null])
}

#[test]
fn python_queries_and_streams() {
    let place = Place::new("sdk-plain");
    let server = script(&[&[say("hello")], &[say("hello")]]);
    let Some(plain) = seen("python_queries_and_streams", "plain", &place, &server) else { return };
    assert_eq!(plain, [json!(["text", "hello"]), success()]);
    let Some(partial) = seen("python_queries_and_streams", "partial", &place, &server) else {
        return;
    };
    assert_eq!(partial[0], json!(["event", "message_start"]));
    assert!(
        partial.contains(&json!(["event", "content_block_delta"]))
            && partial.contains(&json!(["event", "message_stop"]))
    );
}

#[test]
fn python_answers_questions_with_another_input() {
    let place = Place::new("sdk-asked");
    let server = script(&[&[write("a", "yes")], &[write("b", "no")], &[say("done")]]);
    let Some(seen) = seen("python_answers_questions_with_another_input", "asked", &place, &server)
    else {
        return;
    };
    assert_eq!(
        seen,
        [
            json!(["asked", "Write", "a"]),
            json!(["asked", "Write", "b"]),
            json!(["text", "done"]),
            success()
        ]
    );
    assert_eq!([file(&place, "a.txt"), file(&place, "b.txt")], [Some("changed".into()), None]);
}

#[test]
fn python_hooks_refuse_calls() {
    let place = Place::new("sdk-hooked");
    let server = script(&[&[write("a", "x")], &[say("done")]]);
    let Some(seen) = seen("python_hooks_refuse_calls", "hooked", &place, &server) else { return };
    assert_eq!(seen, [json!(["hook", "Write", "a"]), json!(["text", "done"]), success()]);
    assert_eq!(file(&place, "a.txt"), None);
    assert!(server.received()[1].body.to_string().contains("NO_7"));
}

#[test]
fn python_serves_tools() {
    let place = Place::new("sdk-server");
    let server =
        script(&[&[call("a", "mcp__calc__add", json!({ "a": 2, "b": 3 }))], &[say("done")]]);
    let Some(seen) = seen("python_serves_tools", "server", &place, &server) else { return };
    assert_eq!(seen, [json!(["text", "done"]), success()]);
    assert!(
        server.received()[1].body.to_string().contains("SUM=5"),
        "{}",
        server.received()[1].body
    );
}

#[test]
fn python_interrupts_and_goes_on() {
    let place = Place::new("sdk-interrupted");
    let server =
        script(&[&[call("a", "Bash", json!({ "command": "sleep 40.125" }))], &[say("after")]]);
    let Some(seen) = seen("python_interrupts_and_goes_on", "interrupted", &place, &server) else {
        return;
    };
    assert!(seen.contains(&json!(["interrupted", true])), "{seen:?}");
    assert!(seen.contains(&json!(["result", "error_during_execution", true, null])), "{seen:?}");
    assert_eq!(seen.last(), Some(&success()), "{seen:?}");
}

#[test]
fn python_sets_mode_and_model_and_gets_structured_output() {
    let place = Place::new("sdk-modes");
    let server = script(&[
        &[write("a", "x")],
        &[say("done")],
        &[call("s", "StructuredOutput", json!({ "n": 3 }))],
    ]);
    let test = "python_sets_mode_and_model_and_gets_structured_output";
    let Some(modes) = seen(test, "modes", &place, &server) else { return };
    assert_eq!(modes, [json!(["info", "default"]), json!(["text", "done"]), success()]);
    assert_eq!(file(&place, "a.txt"), Some("x".into()));
    assert_eq!(server.received()[0].body["model"], "claude-haiku-4-5");
    let Some(schema) = seen(test, "schema", &place, &server) else { return };
    assert_eq!(schema, [json!(["result", "success", false, { "n": 3 }])]);
}

/// A message as the script shows it.
fn said(kind: &str, content: impl Into<Value>) -> Value {
    json!([kind, content.into()])
}

#[test]
fn python_lists_reads_names_copies_and_removes_sessions() {
    let place = Place::new("sdk-readers");
    let server = script(&[
        &[write("a", "x"), write("b", "y")],
        &[say("done")],
        &[say("more")],
        &[say("of the copy")],
        &[say("last")],
    ]);
    let test = "python_lists_reads_names_copies_and_removes_sessions";
    let Some(seen) = seen(test, "readers", &place, &server) else { return };
    let of_both = [
        said("user", "blue words"),
        said("assistant", json!(["tool_use", "tool_use"])),
        said("user", json!(["tool_result"])),
        said("user", json!(["tool_result"])),
        said("assistant", json!(["done"])),
    ];
    let with = |more: &[(&str, &str)]| {
        let more = more
            .iter()
            .flat_map(|(words, answer)| [said("user", *words), said("assistant", json!([answer]))]);
        Value::Array(of_both.iter().cloned().chain(more).collect())
    };
    let went_on = ("green words", "more");
    assert_eq!(
        seen,
        [
            json!(["listed", [[true, "blue words"]]]),
            json!(["messages", with(&[])]),
            json!(["info", "The Task", "The Task", "blue", true]),
            json!(["goes on", true]),
            json!(["messages", with(&[went_on])]),
            json!(["copy goes on", true]),
            json!(["copy", with(&[("red words", "of the copy")])]),
            json!(["original", 7]),
            json!(["names", ["Copy", "The Task"]]),
            json!(["left", [true]]),
            json!(["again", with(&[went_on, ("last words", "last")])]),
        ]
    );
    let asked = server.received();
    let of_the_copy = asked[3].body["messages"].to_string();
    assert!(of_the_copy.contains("blue words") && !of_the_copy.contains("green words"));
}

/// Answers of the scripts about a session in a store of the host: the same with both packages.
fn of_a_store() -> [Value; 6] {
    let with = |more: &[(&str, &str)]| {
        let first = [
            said("user", "blue words"),
            said("assistant", json!(["tool_use"])),
            said("user", json!(["tool_result"])),
            said("assistant", json!(["done"])),
        ];
        let more = more
            .iter()
            .flat_map(|(words, answer)| [said("user", *words), said("assistant", json!([answer]))]);
        Value::Array(first.into_iter().chain(more).collect())
    };
    [
        json!(["listed", [[true, "blue words"]]]),
        json!(["messages", with(&[])]),
        json!(["as on disk", true]),
        json!(["copy", true, with(&[("red words", "of the copy")])]),
        json!(["goes on", true]),
        json!(["messages", with(&[("green words", "elsewhere")])]),
    ]
}

#[test]
fn python_keeps_sessions_in_a_store_of_its_own_and_goes_on_elsewhere() {
    let place = Place::new("sdk-stored");
    let server =
        script(&[&[write("a", "x")], &[say("done")], &[say("of the copy")], &[say("elsewhere")]]);
    let test = "python_keeps_sessions_in_a_store_of_its_own_and_goes_on_elsewhere";
    let Some(seen) = seen(test, "stored", &place, &server) else { return };
    assert_eq!(seen, of_a_store());
    let told = server.received()[3].body["messages"].to_string();
    assert!(told.contains("blue words") && !told.contains("red words"), "{told}");
}

/// Runs a part of the script for the npm package and returns what it saw; none where the package cannot be had.
fn seen_by_npm(test: &str, what: &str, place: &Place, server: &Server) -> Option<Vec<Value>> {
    let module = match module() {
        Ok(module) => module,
        Err(reason) => {
            skip(test, &format!("the package cannot be installed: {reason}"));
            return None;
        }
    };
    let mut command = Command::new("node");
    command.arg(root().join("tests/fixtures/sdk.mjs")).arg(agent()).arg(module).arg(what);
    Some(read(&output(place, server, command)))
}

#[test]
fn the_npm_package_runs_on_it() {
    let place = Place::new("sdk-npm");
    let server = script(&[&[write("a", "x")], &[say("done")]]);
    let Some(seen) = seen_by_npm("the_npm_package_runs_on_it", "asked", &place, &server) else {
        return;
    };
    assert_eq!(
        seen,
        [json!(["asked", "Write"]), json!(["text", "done"]), json!(["result", "success", false])]
    );
    assert_eq!(file(&place, "a.txt"), Some("changed".into()));
}

/// A model that changes `a.txt` in two turns, and makes `new.txt` in the second one.
fn changes(place: &Place) -> Server {
    place.write("project/a.txt", "zero");
    let edit = |id: &str, old: &str, new: &str| {
        call(id, "Edit", json!({ "file_path": "a.txt", "old_string": old, "new_string": new }))
    };
    script(&[
        &[call("r", "Read", json!({ "file_path": "a.txt" }))],
        &[edit("e", "zero", "one")],
        &[say("first")],
        &[edit("f", "one", "two"), write("new", "new")],
        &[say("second")],
    ])
}

#[test]
fn python_takes_files_back_to_a_message() {
    let place = Place::new("sdk-rewound");
    let server = changes(&place);
    let test = "python_takes_files_back_to_a_message";
    let Some(seen) = seen(test, "rewound", &place, &server) else { return };
    assert_eq!(
        seen,
        [
            json!(["messages", 2, 2, false]),
            json!(["changed", ["two", "new"]]),
            json!(["refused", true]),
            json!(["second", ["one", null]]),
            json!(["first", ["zero", null]]),
        ]
    );
}

#[test]
fn npm_takes_files_back_to_a_message_and_only_looks_in_a_dry_run() {
    let place = Place::new("sdk-npm-rewound");
    let server = changes(&place);
    let test = "npm_takes_files_back_to_a_message_and_only_looks_in_a_dry_run";
    let Some(seen) = seen_by_npm(test, "rewound", &place, &server) else { return };
    let both = ["a.txt", "new.txt"];
    assert_eq!(
        seen,
        [
            json!(["changed", ["two", "new"]]),
            json!(["would", true, both, ["two", "new"]]),
            json!(["none", false]),
            json!(["second", true, both, ["one", null]]),
            json!(["first", ["zero", null]]),
        ]
    );
}

#[test]
fn npm_keeps_sessions_in_a_store_of_its_own_and_goes_on_elsewhere() {
    let place = Place::new("sdk-npm-stored");
    let server =
        script(&[&[write("a", "x")], &[say("done")], &[say("of the copy")], &[say("elsewhere")]]);
    let test = "npm_keeps_sessions_in_a_store_of_its_own_and_goes_on_elsewhere";
    let Some(seen) = seen_by_npm(test, "stored", &place, &server) else { return };
    assert_eq!(seen, of_a_store());
    let told = server.received()[3].body["messages"].to_string();
    assert!(told.contains("blue words") && !told.contains("red words"), "{told}");
}
