//! What goes wrong with a background task has one clear answer.

use std::io::Write as _;

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn start(place: &Place, line: &str) -> String {
    let started = place.output(["run", "--quiet", "--background", "--", line]);
    assert!(started.status.success(), "{}", text(&started.stderr));
    text(&started.stdout).trim().to_owned()
}

fn tasks(place: &Place, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = place.output([&["tasks"], arguments, &["--json"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

/// What `stockade tasks` says of a failure, in its first line.
fn told(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let output = place.output([&["tasks"], arguments].concat());
    (output.status.code(), text(&output.stderr).lines().next().unwrap_or_default().to_owned())
}

#[test]
fn an_unknown_id_has_the_same_answer_for_every_subcommand() {
    let place = Place::new("tf-unknown");
    let _gateway = Gateway::start(&place);
    for act in ["show", "output", "wait", "follow", "attach", "open", "stop"] {
        for name in ["nothing", "", "..", "../../etc", "\u{1b}[2J"] {
            let (status, line) = told(&place, &[act, name]);
            let shown = name.escape_debug();
            assert_eq!(
                (status, line),
                (Some(122), format!("stockade: no task `{shown}`")),
                "{act}"
            );
        }
    }
}

#[test]
fn an_expression_that_explodes_is_refused_and_one_that_backtracks_elsewhere_is_linear() {
    let place = Place::new("tf-expression");
    let _gateway = Gateway::start(&place);
    let id = start(&place, "printf '%05000d\\nx\\n' 0");
    tasks(&place, &["wait", &id]);
    let exploding = "((a{100}){100}){100}";
    for act in ["output", "follow"] {
        let (status, line) = told(&place, &[act, &id, "--filter", exploding]);
        assert_eq!(status, Some(122), "{line}");
        assert!(line.starts_with(&format!("stockade: invalid filter `{exploding}`: ")), "{line}");
    }
    let read = place.output(["tasks", "output", &id, "--filter", "^(0*)*x$"]);
    assert_eq!(text(&read.stdout), "x\n");
}

#[test]
fn a_command_that_closes_its_streams_goes_on_until_it_ends() {
    let place = Place::new("tf-closes");
    let _gateway = Gateway::start(&place);
    let line = "mkfifo -m 600 gate; echo last; exec >&- 2>&-; : > closed; read line < gate; exit 4";
    let id = start(&place, line);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !place.project().join("closed").exists() && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    let (_, object) = tasks(&place, &["show", &id]);
    assert_eq!(object["task"]["state"], "running");
    let mut gate = std::fs::File::options().write(true).open(place.project().join("gate"));
    writeln!(gate.as_mut().expect("the gate"), "on").expect("the task reads");
    assert_eq!(tasks(&place, &["wait", &id]).0, Some(4));
    let (_, object) = tasks(&place, &["output", &id]);
    assert_eq!(object["output"]["text"], json!("last\n"));
    // The same in the foreground.
    let output =
        place.output(["run", "--quiet", "--", "echo last; exec >&- 2>&-; sleep 0.1; exit 4"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), "last\n".to_owned()));
}
