//! The agent on a project, with a scripted model: what it does there, what it may not, and what it says.

use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply, Server, Turn};
use stockade_tests::{Place, executable, write_program};

#[path = "agent/claims.rs"]
mod claims;
#[path = "agent/compaction.rs"]
mod compaction;
#[path = "agent/confined.rs"]
mod confined;
#[path = "agent/context.rs"]
mod context;
#[path = "agent/control.rs"]
mod control;
#[path = "agent/faults.rs"]
mod faults;
#[path = "agent/flags.rs"]
mod flags;
#[path = "agent/hooks.rs"]
mod hooks;
#[path = "agent/host.rs"]
mod host;
#[path = "agent/leftovers.rs"]
mod leftovers;
#[path = "agent/proxy.rs"]
mod proxy;
#[path = "agent/requests.rs"]
mod requests;
#[path = "agent/resume.rs"]
mod resume;
#[path = "agent/rewind.rs"]
mod rewind;
#[path = "agent/rpc.rs"]
mod rpc;
#[path = "agent/rpc_settings.rs"]
mod rpc_settings;
#[path = "agent/rpc_strange.rs"]
mod rpc_strange;
#[path = "agent/sessions.rs"]
mod sessions;
#[path = "agent/sql.rs"]
mod sql;
#[path = "agent/tasks.rs"]
mod tasks;

const SECRET: &str = "sk-secret-of-the-test";

fn say(text: &str) -> Turn {
    Turn::Text(text.into())
}

fn call(id: &str, name: &str, input: Value) -> Turn {
    Turn::Call(id.into(), name.into(), input.to_string())
}

fn script(form: Form, answers: &[&[Turn]]) -> Server {
    Server::start(answers.iter().map(|turns| Reply::answer(form, turns))).expect("a server")
}

/// Returns `stockade agent` with these arguments and this model.
fn agent(place: &Place, server: &Server, form: Form, arguments: &[&str]) -> Command {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| drop(executable("stockade-agent")));
    let mut command = place.stockade(["agent"].iter().chain(arguments));
    match form {
        Form::Anthropic => {
            command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", SECRET);
        }
        Form::Responses | Form::Chat => {
            let provider = if form == Form::Chat { "compatible" } else { "openai" };
            command.args(["--provider", provider, "--model", "scripted"]);
            command.env("OPENAI_BASE_URL", server.url()).env("OPENAI_API_KEY", SECRET);
        }
    }
    command.env("STOCKADE_MODEL_TRIES", "1");
    command
}

fn run(place: &Place, server: &Server, arguments: &[&str]) -> Output {
    agent(place, server, Form::Anthropic, arguments).output().expect("the agent starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn frames(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a frame")).collect()
}

/// Results of calls that the model was given, by identity, from all requests in Anthropic's form.
fn result(server: &Server, id: &str) -> (String, bool) {
    let last = server.received().pop().expect("a request");
    let messages = last.body["messages"].as_array().cloned().unwrap_or_default();
    let blocks =
        messages.iter().flat_map(|it| it["content"].as_array().cloned().unwrap_or_default());
    let found = blocks
        .into_iter()
        .find(|it| it["tool_use_id"] == id)
        .unwrap_or_else(|| panic!("no result {id}"));
    let texts: Vec<&str> = found["content"]
        .as_array()
        .expect("content")
        .iter()
        .filter_map(|it| it["text"].as_str())
        .collect();
    (texts.join("\n"), found["is_error"] == true)
}

#[test]
fn a_failing_test_is_fixed_in_all_three_wire_forms() {
    for form in [Form::Anthropic, Form::Responses, Form::Chat] {
        let place = Place::new("ag-fix");
        place.write("project/add.sh", "echo $(($1 - $2))\n");
        place.write(
            "project/test.sh",
            "[ \"$(sh add.sh 2 3)\" = 5 ] && echo passed || { echo failed; exit 1; }\n",
        );
        let path = "add.sh";
        let server = script(
            form,
            &[
                &[say("I run the test."), call("a", "Bash", json!({ "command": "sh test.sh" }))],
                &[
                    call("b", "Grep", json!({ "pattern": "echo", "glob": "*.sh" })),
                    call("c", "Read", json!({ "file_path": path })),
                ],
                &[call(
                    "d",
                    "Edit",
                    json!({ "file_path": path, "old_string": "$1 - $2", "new_string": "$1 + $2" }),
                )],
                &[call("e", "Bash", json!({ "command": "sh test.sh" }))],
                &[say("The test passes now.")],
            ],
        );
        let output = agent(
            &place,
            &server,
            form,
            &["-p", "fix the failing test", "--permission-mode", "acceptEdits"],
        )
        .output()
        .expect("the agent starts");
        assert_eq!(text(&output.stderr), "", "{form:?}");
        assert_eq!(
            (text(&output.stdout), output.status.code()),
            ("The test passes now.".into(), Some(0)),
            "{form:?}"
        );
        let fixed = std::fs::read_to_string(place.project().join(path)).expect("the file");
        assert_eq!(fixed, "echo $(($1 + $2))\n");
        let requests = server.received();
        assert_eq!(requests.len(), 5);
        let told: Vec<String> = requests.iter().map(|it| it.body.to_string()).collect();
        assert!(
            told[1].contains("Exit code 1") && told[1].contains("failed"),
            "{form:?} {}",
            told[1]
        );
        assert!(told[4].contains("passed"), "{form:?}");
        // The log has every call as a decision of the gate.
        let log = text(&place.output(["audit", "tail", "-n", "40"]).stdout);
        for tool in ["sh test.sh", "Grep", "Read", "Edit"] {
            assert!(log.contains(tool), "{tool} is not in {log}");
        }
    }
}

#[test]
fn output_is_text_one_object_or_frames() {
    let place = Place::new("ag-output");
    let server = || script(Form::Anthropic, &[&[say("hello")]]);
    let json = run(&place, &server(), &["-p", "hi", "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&json.stdout).expect("one object");
    assert_eq!(
        (&result["subtype"], &result["result"], &result["num_turns"]),
        (&json!("success"), &json!("hello"), &json!(1))
    );
    assert_eq!(result["usage"]["input_tokens"], 10);
    let stream = run(
        &place,
        &server(),
        &["-p", "hi", "--output-format", "stream-json", "--include-partial-messages"],
    );
    let frames = frames(&stream);
    let kinds: Vec<String> = frames
        .iter()
        .map(|it| {
            it["subtype"]
                .as_str()
                .or(it["event"]["type"].as_str())
                .or(it["type"].as_str())
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "init",
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "assistant",
            "success",
        ]
    );
    assert!(
        frames
            .iter()
            .all(|it| it["session_id"] == frames[0]["session_id"] && it["uuid"].is_string())
    );
}

#[test]
fn an_edit_without_a_yes_changes_nothing() {
    let place = Place::new("ag-ask");
    place.write("project/a.txt", "one\n");
    let server = script(
        Form::Anthropic,
        &[
            &[call("r", "Read", json!({ "file_path": "a.txt" }))],
            &[call(
                "e",
                "Edit",
                json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" }),
            )],
            &[say("I may not.")],
        ],
    );
    let output = run(&place, &server, &["-p", "go", "--output-format", "json"]);
    let (told, is_error) = result(&server, "e");
    assert!(is_error && told.contains("needs a person's yes"), "{told}");
    assert_eq!(std::fs::read_to_string(place.project().join("a.txt")).expect("the file"), "one\n");
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let denial = json!([{ "tool_name": "Edit", "tool_use_id": "e",
        "tool_input": { "file_path": "a.txt", "old_string": "one", "new_string": "two" } }]);
    assert_eq!(result["permission_denials"], denial);
}

#[test]
fn a_refusal_names_rule_file_and_line() {
    let place = Place::new("ag-deny");
    place.write(
        "home/.config/stockade/settings.json",
        "{\"permissions\": {\n\"deny\": [\"Read(secret/**)\", \"Bash(id:*)\"]}}",
    );
    place.write("project/secret/key", "hidden\n");
    std::os::unix::fs::symlink("secret/key", place.project().join("link")).expect("a link");
    let server = script(
        Form::Anthropic,
        &[
            &[
                call("a", "Bash", json!({ "command": "id -u" })),
                call("b", "Read", json!({ "file_path": "secret/key" })),
                call("c", "Read", json!({ "file_path": "link" })),
                call("d", "Grep", json!({ "pattern": "hidden", "output_mode": "content" })),
            ],
            &[say("no")],
        ],
    );
    run(&place, &server, &["-p", "go"]);
    let (told, _) = result(&server, "a");
    assert!(told.contains("`Bash(id:*)`") && told.contains("settings.json:2"), "{told}");
    for id in ["b", "c"] {
        let (told, is_error) = result(&server, id);
        assert!(is_error && told.contains("`Read(secret/**)`"), "{told}");
    }
    let (told, _) = result(&server, "d");
    assert!(!told.contains("hidden"), "{told}");
}

#[test]
fn the_key_reaches_no_command() {
    let place = Place::new("ag-key");
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": "env" }))], &[say("done")]],
    );
    let output = run(&place, &server, &["-p", "go", "--output-format", "stream-json"]);
    let (told, is_error) = result(&server, "a");
    assert!(!is_error && told.contains("PATH="), "{told}");
    assert!(!told.contains(SECRET) && !text(&output.stdout).contains(SECRET));
    assert_eq!(server.received()[0].header("x-api-key"), Some(SECRET));
}

#[test]
fn limits_and_refused_keys_end_with_an_error() {
    let place = Place::new("ag-limits");
    let again = [call("a", "Bash", json!({ "command": "true" }))];
    let server = script(Form::Anthropic, &[&again, &again, &again]);
    let output = run(&place, &server, &["-p", "go", "--max-turns", "2", "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&result["subtype"], output.status.code()), (&json!("error_max_turns"), Some(1)));
    let server = Server::start([Reply::error(401, "invalid x-api-key")]).expect("a server");
    let output = run(&place, &server, &["-p", "go", "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(
        (&result["subtype"], &result["is_error"], &result["api_error_status"]),
        (&json!("success"), &json!(true), &json!(401))
    );
    assert_eq!(output.status.code(), Some(1));
    let server = script(Form::Anthropic, &[&again, &again]);
    let budget = ["-p", "go", "--max-budget-usd", "0.00001", "--output-format", "json"];
    let output = run(&place, &server, &budget);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(result["subtype"], "error_max_budget_usd");
}

#[test]
fn an_interrupt_ends_the_whole_tree_of_a_command() {
    let place = Place::new("ag-interrupt");
    // No other run of the tests has such a command.
    let nap = format!("sleep 45.25{:07}", std::process::id());
    let command = format!("echo begun > begun; {nap}; echo late > late");
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": command }))], &[say("no")]],
    );
    let mut child =
        agent(&place, &server, Form::Anthropic, &["-p", "go", "--output-format", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
    let begun = Instant::now();
    while !place.project().join("begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the command does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let then = Instant::now();
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    assert!(then.elapsed() < Duration::from_secs(30), "{:?}", then.elapsed());
    let left = Command::new("pgrep").args(["-f", &nap]).output().expect("pgrep");
    assert_eq!(text(&left.stdout), "");
    assert!(!place.project().join("late").exists());
}

#[test]
fn a_session_goes_on_and_a_fork_leaves_it_as_it_was() {
    let place = Place::new("ag-resume");
    let first = run(
        &place,
        &script(Form::Anthropic, &[&[say("one")]]),
        &["-p", "first words", "--output-format", "json"],
    );
    let first: Value = serde_json::from_slice(&first.stdout).expect("one object");
    let id = first["session_id"].as_str().expect("an identity");
    let server = script(Form::Anthropic, &[&[say("two")]]);
    let second = run(
        &place,
        &server,
        &["-p", "more", "--resume", id, "--fork-session", "--output-format", "json"],
    );
    let second: Value = serde_json::from_slice(&second.stdout).expect("one object");
    assert_ne!(second["session_id"], first["session_id"]);
    let messages = &server.received()[0].body["messages"];
    assert!(
        messages[0].to_string().contains("first words") && messages[1].to_string().contains("one")
    );
    let server = script(Form::Anthropic, &[&[say("three")]]);
    run(&place, &server, &["-p", "again", "--resume", id]);
    let messages = server.received()[0].body["messages"].to_string();
    assert!(messages.contains("first words") && !messages.contains("more"), "{messages}");
    let unknown =
        run(&place, &server, &["-p", "x", "--resume", "11111111-1111-4111-8111-111111111111"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("No conversation found"), "{}", text(&unknown.stderr));
}

#[test]
fn a_structured_result_fits_its_schema() {
    let place = Place::new("ag-schema");
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }).to_string();
    let output = |value: Value| [call("s", "StructuredOutput", value)];
    let (wrong, right) = (output(json!({ "n": "x" })), output(json!({ "n": 3 })));
    let server = script(Form::Anthropic, &[&wrong, &right]);
    let done =
        run(&place, &server, &["-p", "go", "--json-schema", &schema, "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&done.stdout).expect("one object");
    assert_eq!((&result["structured_output"], done.status.code()), (&json!({ "n": 3 }), Some(0)));
    let server = script(Form::Anthropic, &[&wrong, &wrong, &wrong, &right]);
    let done =
        run(&place, &server, &["-p", "go", "--json-schema", &schema, "--output-format", "json"]);
    let result: Value = serde_json::from_slice(&done.stdout).expect("one object");
    assert_eq!(
        (&result["subtype"], done.status.code()),
        (&json!("error_max_structured_output_retries"), Some(1))
    );
}

#[test]
fn hooks_of_the_settings_hear_file_tools() {
    let place = Place::new("ag-hook");
    let path = place.root.join("hook.sh");
    write_program(
        &path,
        "#!/bin/sh\ncat > \"$(dirname \"$0\")/heard.json\"\necho 'not this one' >&2\nexit 2\n",
    );
    let hooks = json!({ "PreToolUse": [{ "matcher": "Write", "hooks": [{ "type": "command", "command": stockade_tests::word(&path) }] }] });
    place.write("home/.config/stockade/settings.json", &json!({ "hooks": hooks }).to_string());
    let server = script(
        Form::Anthropic,
        &[&[call("w", "Write", json!({ "file_path": "new.txt", "content": "x" }))], &[say("no")]],
    );
    run(&place, &server, &["-p", "go", "--permission-mode", "acceptEdits"]);
    let (told, is_error) = result(&server, "w");
    assert!(is_error && told.contains("not this one"), "{told}");
    assert!(!place.project().join("new.txt").exists());
    let heard = std::fs::read(place.root.join("heard.json")).expect("the hook ran");
    let heard: Value = serde_json::from_slice(&heard).expect("a frame");
    assert_eq!((&heard["tool_name"], &heard["tool_use_id"]), (&json!("Write"), &json!("w")));
}

#[test]
fn a_session_begins_and_ends_for_hooks_of_the_settings() {
    let place = Place::new("ag-session");
    let path = place.root.join("hook.sh");
    write_program(
        &path,
        "#!/bin/sh\nhere=$(dirname \"$0\")\necho \"$1\" >> \"$here/events\"\necho 'the build is broken today'\n",
    );
    let hook = |event: &str| json!([{ "hooks": [{ "type": "command", "command": format!("{} {event}", stockade_tests::word(&path)) }] }]);
    let hooks = json!({ "SessionStart": hook("start"), "SessionEnd": hook("end") });
    place.write("home/.config/stockade/settings.json", &json!({ "hooks": hooks }).to_string());
    let server = script(Form::Anthropic, &[&[say("ok")]]);
    run(&place, &server, &["-p", "go"]);
    let events = std::fs::read_to_string(place.root.join("events")).expect("the hooks ran");
    assert_eq!(events, "start\nend\n");
    let first = server.received()[0].body["messages"][0].to_string();
    assert!(first.contains("the build is broken today"), "{first}");
}

#[test]
fn what_is_missing_is_told_in_one_line() {
    let place = Place::new("ag-missing");
    drop(executable("stockade-agent"));
    let none = place.stockade(["agent", "-p", "hi"]).output().expect("the agent starts");
    assert!(text(&none.stderr).contains("no model is set up"), "{}", text(&none.stderr));
    let terminal = place.stockade(["agent"]).output().expect("the agent starts");
    assert_eq!(terminal.status.code(), Some(2));
    let alone = place.root.join("stockade");
    stockade_tests::copy_program(stockade_tests::stockade(), &alone);
    let alone = Command::new(alone).args(["agent", "-p", "hi"]).output().expect("it starts");
    assert!(
        text(&alone.stderr).contains("`cargo install --locked --path agent`"),
        "{}",
        text(&alone.stderr)
    );
}
