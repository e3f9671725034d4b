//! `stockade acp` with the official package of the Agent Client Protocol, unmodified. It is installed from its registry; where
//! that is not reached, the tests say so.

use std::path::PathBuf;
use std::process::Command;
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
    let server =
        script(&[&[call("a", "Bash", json!({ "command": "sleep 44.375" }))], &[say("after")]]);
    let Some(seen) = seen("an_editor_cancels_and_goes_on", &["cancels"], &place, &server) else {
        return;
    };
    let stops: Vec<&Value> = seen.iter().filter(|it| it[0] == "stop").collect();
    assert_eq!(stops, [&json!(["stop", "cancelled"]), &json!(["stop", "end_turn"])], "{seen:?}");
    let left = Command::new("pgrep").args(["-f", "sleep 44.375"]).output().expect("pgrep");
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
    begin.env("ANTHROPIC_BASE_URL", first.url()).env("ANTHROPIC_API_KEY", "sk-test");
    assert!(begin.output().expect("the agent starts").status.success());
    let server = script(&[&[say("more")]]);
    let Some(seen) = seen(test, &["loads", id], &place, &server) else { return };
    let expected = [
        json!(["version", 1, "stockade"]),
        json!(["listed", true]),
        json!(["user_message_chunk", "blue words"]),
        json!(["agent_message_chunk", "blue answermore"]),
        json!(["stop", "end_turn"]),
        json!(["left", 0]),
        json!(["gone", -32002]),
    ];
    assert_eq!(seen, expected);
    assert!(server.received()[0].body.to_string().contains("blue answer"));
}
