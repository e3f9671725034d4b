//! Ctrl-B at the terminal of a person: a command that runs becomes a background task.

use std::path::Path;

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade, write_to_reader};

/// A command that waits until the test lets it go on.
const GATE: &str = "mkfifo -m 600 gate; echo ready; read line < gate; echo \"$line\"; exit 5";
const CTRL_B: &str = "\u{2}";

fn start(test: &str, place: &Place, program: &Path, arguments: &[&str]) -> Option<Terminal> {
    let terminal = Terminal::start(place, program, arguments);
    if terminal.is_none() {
        skip(test, "the program `script`, which gives a terminal, is not installed");
    }
    terminal
}

fn let_go_on(place: &Place) {
    write_to_reader(&place.project().join("gate"), "late\n");
}

fn tasks(place: &Place, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = place.output([&["tasks"], arguments, &["--json"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

#[test]
fn ctrl_b_moves_a_command_to_the_background_with_all_that_it_wrote() {
    let place = Place::new("tb-key");
    let _gateway = Gateway::start(&place);
    let test = "ctrl_b_moves_a_command_to_the_background";
    let Some(mut terminal) = start(test, &place, stockade(), &["run", GATE]) else { return };
    terminal.wait_for("ready");
    terminal.press(CTRL_B);
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(0), "{screen}");
    let (_, told) = screen.split_once("runs in the background as task ").expect("the task's ID");
    let id = told.split_whitespace().next().expect("an ID").to_owned();
    assert_eq!(tasks(&place, &["show", &id]).1["task"]["state"], "running");
    let_go_on(&place);
    assert_eq!(tasks(&place, &["wait", &id]).0, Some(5));
    let (_, object) = tasks(&place, &["output", &id, "--offset", "0"]);
    assert_eq!(object["output"]["text"], json!("ready\nlate\n"));
}

#[test]
fn without_a_gateway_ctrl_b_says_so_and_the_command_goes_on() {
    let place = Place::new("tb-alone");
    let test = "without_a_gateway_ctrl_b_says_so";
    let Some(mut terminal) = start(test, &place, stockade(), &["run", GATE]) else { return };
    terminal.wait_for("ready");
    terminal.press(CTRL_B);
    terminal.wait_for("stockade: the command cannot go to the background: no gateway is running");
    let_go_on(&place);
    terminal.wait_for("late");
    assert_eq!(terminal.end().0, Some(5));
}

#[test]
fn the_terminal_has_its_own_key_again_afterwards_and_a_typed_line_is_left_for_the_shell() {
    let place = Place::new("tb-restored");
    let _gateway = Gateway::start(&place);
    let line = format!(
        "stty -a | grep -o 'quit = [^;]*'; {} run 'mkfifo -m 600 gate; echo ready; read line < gate'; \
         stty -a | grep -o 'quit = [^;]*'; read typed; echo \"<$typed>\"",
        stockade_tests::stockade_word()
    );
    let test = "the_terminal_has_its_own_key_again_afterwards";
    let Some(mut terminal) = start(test, &place, Path::new("/bin/sh"), &["-c", &line]) else {
        return;
    };
    terminal.wait_for("ready");
    terminal.press("ahead\n");
    let_go_on(&place);
    let (_, screen) = terminal.end();
    assert_eq!(screen.matches("quit = ^\\").count(), 2, "{screen}");
    assert!(screen.contains("<ahead>"), "{screen}");
}
