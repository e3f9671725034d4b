//! Background commands of the agent are tasks of its gateway, and its list of things to do is its own.

use serde_json::{Value, json};
use stockade_model_server::{Form, Server};
use stockade_tests::Place;

use super::{call, result, run, say, script, text};

/// Waits until the command in the background has written all its lines.
const SEES: &str = "until [ -e written ]; do sleep 0.05; done";

/// Returns all that the model was told in its last request.
fn told(server: &Server) -> String {
    server.received().pop().expect("a request").body.to_string()
}

#[test]
fn a_background_command_is_a_task_that_is_read_and_stopped() {
    let place = Place::new("ag-task");
    let command = "echo ready; echo > written; sleep 600.5";
    let background = json!({ "command": command, "run_in_background": true });
    // A wait for its end gives the gateway the time to read.
    let output = json!({ "task_id": "b0001", "block": true, "timeout": 2_000 });
    let server = script(
        Form::Anthropic,
        &[
            &[call("b", "Bash", background)],
            &[call("s", "Bash", json!({ "command": SEES }))],
            &[call("o", "BashOutput", output)],
            &[call("l", "Bash", json!({ "command": "true" }))],
            &[call("k", "KillShell", json!({ "shell_id": "b0001" }))],
            &[call("p", "TaskOutput", json!({ "task_id": "b0001" }))],
            &[call("u", "TaskOutput", json!({ "task_id": "b0009" }))],
            &[say("done")],
        ],
    );
    run(&place, &server, &["-p", "go"]);
    assert!(result(&server, "b").0.contains("b0001"), "{:?}", result(&server, "b"));
    assert!(result(&server, "o").0.contains("running\nready"), "{:?}", result(&server, "o"));
    assert!(result(&server, "p").0.contains("stopped"), "{:?}", result(&server, "p"));
    let (unknown, is_error) = result(&server, "u");
    assert!(is_error && unknown.contains("known ones: b0001"), "{unknown}");
    let listed = text(&place.output(["tasks", "list"]).stdout);
    assert!(listed.contains("stopped") && listed.contains("echo ready"), "{listed}");
}

#[test]
fn a_command_that_the_rules_refuse_is_no_task() {
    let place = Place::new("ag-task-refused");
    place.write(
        "home/.config/stockade/settings.json",
        r#"{"permissions": {"deny": ["Bash(sleep:*)"]}}"#,
    );
    let server = script(
        Form::Anthropic,
        &[
            &[call("b", "Bash", json!({ "command": "sleep 45.6", "run_in_background": true }))],
            &[call("m", "Monitor", json!({ "command": "sleep 45.6", "pattern": "x" }))],
            &[say("done")],
        ],
    );
    run(&place, &server, &["-p", "go"]);
    for id in ["b", "m"] {
        let (refused, is_error) = result(&server, id);
        assert!(is_error && refused.contains("`Bash(sleep:*)`"), "{refused}");
    }
    assert!(!text(&place.output(["tasks", "list"]).stdout).contains("sleep"));
}

#[test]
fn lines_that_are_watched_for_reach_the_model() {
    let place = Place::new("ag-monitor");
    let command =
        "for it in 1 2 3; do echo line $it; echo other $it; done; echo > written; sleep 600.7";
    let wait = json!({ "task_id": "b0001", "block": true, "timeout": 2_000 });
    let server = script(
        Form::Anthropic,
        &[
            &[call("m", "Monitor", json!({ "command": command, "pattern": "^line" }))],
            &[call("e", "Bash", json!({ "command": SEES }))],
            &[call("w", "TaskOutput", wait)],
            &[call("n", "Monitor", json!({ "task_id": "b0001", "pattern": "[" }))],
            &[call("s", "TaskStop", json!({ "task_id": "b0001" }))],
            &[say("done")],
        ],
    );
    run(&place, &server, &["-p", "go"]);
    let told = told(&server);
    for line in ["line 1", "line 2", "line 3"] {
        assert!(told.contains(&format!("Monitor of b0001: {line}")), "{line}: {told}");
    }
    assert!(!told.contains("Monitor of b0001: other"), "{told}");
    let (wrong, is_error) = result(&server, "n");
    assert!(is_error && wrong.contains("invalid filter"), "{wrong}");
}

#[test]
fn items_of_the_task_list_are_made_changed_and_shown() {
    let place = Place::new("ag-list");
    let update = json!({ "taskId": "2", "status": "in_progress", "addBlockedBy": ["1"] });
    let server = script(
        Form::Anthropic,
        &[
            &[
                call("a", "TaskCreate", json!({ "subject": "Fix it", "description": "" })),
                call("b", "TaskCreate", json!({ "subject": "Test it", "description": "all" })),
                call("c", "TaskUpdate", update),
                call("d", "TaskList", json!({})),
                call("e", "TaskUpdate", json!({ "taskId": "1", "status": "finished" })),
            ],
            &[say("done")],
        ],
    );
    run(&place, &server, &["-p", "go"]);
    let shown = "#1 [pending] Fix it\n#2 [in_progress] Test it [blocked by #1]";
    assert_eq!(result(&server, "d"), (shown.to_owned(), false));
    assert!(result(&server, "e").1, "a state that does not exist is taken");
    let _: Value = serde_json::from_str(&told(&server)).expect("JSON");
}
