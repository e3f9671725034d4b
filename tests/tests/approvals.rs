//! Questions that wait for an answer from elsewhere, where nobody can be asked at the call.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A place in which `touch` is asked about, and questions wait for so many seconds.
fn place(name: &str, seconds: u64) -> Place {
    let place = Place::new(name);
    let settings = json!({ "permissions": { "ask": ["Bash(touch:*)"] }, "approvals": { "waitSeconds": seconds } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    place
}

/// Starts a command at which nobody can be asked, as an agent of its own does.
fn start(place: &Place, line: &str) -> Child {
    let mut command = place.stockade(["run", "--", line]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The agent is a program of its own: else this test would be the one that asks, and may not answer.
    let mut agent = Command::new("setsid");
    agent.arg("--wait").arg("perl").args(["-e", "system(@ARGV); exit($? >> 8)"]);
    agent.arg(command.get_program()).args(command.get_args());
    agent.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    agent.current_dir(place.project()).stdin(Stdio::null());
    agent.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn waiting(place: &Place) -> Vec<Value> {
    let output = place.output(["approvals", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    object["approvals"].as_array().expect("a list").clone()
}

fn until_one(place: &Place) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = waiting(place).pop() {
            return found;
        }
        assert!(Instant::now() < end, "no question waits");
        std::thread::yield_now();
    }
}

fn ended(child: Child) -> Output {
    child.wait_with_output().expect("its end")
}

#[test]
fn a_question_waits_and_a_yes_from_elsewhere_runs_what_was_asked() {
    let place = place("ap-yes", 600);
    let _gateway = Gateway::start(&place);
    let running = start(&place, "touch made");
    let question = until_one(&place);
    let id = question["id"].as_str().expect("an identity");
    let asked = (&question["question"]["command"], &question["door"]);
    assert_eq!(asked, (&json!("touch made"), &json!("run")));
    let shown = text(&place.output(["approvals", "show", id]).stdout);
    assert!(
        shown.contains("touch made") && shown.contains(&format!("approvals allow {id}")),
        "{shown}"
    );
    let listed = text(&place.output(["approvals"]).stdout);
    assert!(
        listed.lines().any(|line| line.starts_with(id) && line.ends_with("touch made")),
        "{listed}"
    );
    assert!(!place.project().join("made").exists());
    let allowed = place.output(["approvals", "allow", id]);
    assert_eq!(text(&allowed.stderr), "stockade: allowed touch made\n");
    let output = ended(running);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(place.project().join("made").exists());
    // It serves once.
    let again = place.output(["approvals", "allow", id]);
    assert_eq!(again.status.code(), Some(122));
    assert!(text(&again.stderr).starts_with(&format!("stockade: no open question `{id}`\n")));
    // The record says that a person said yes, and where.
    let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    let approval = log.lines().find(|line| line.contains("\"channel\":\"approvals\""));
    assert!(approval.expect("a record").contains("\"answer\":\"allow\""), "{approval:?}");
}

#[test]
fn a_no_no_answer_and_a_change_meanwhile_run_nothing() {
    let long = place("ap-no", 600);
    let _gateway = Gateway::start(&long);
    let running = start(&long, "touch made");
    let id = until_one(&long)["id"].as_str().expect("an identity").to_owned();
    assert_eq!(long.output(["approvals", "deny", &id]).status.code(), Some(0));
    assert_eq!(ended(running).status.code(), Some(120));
    // The settings change while the question waits.
    let running = start(&long, "touch made");
    let id = until_one(&long)["id"].as_str().expect("an identity").to_owned();
    long.write("project/.stockade/settings.json", r#"{"permissions":{"deny":["Bash(touch:*)"]}}"#);
    assert_eq!(long.output(["approvals", "allow", &id]).status.code(), Some(0));
    let output = ended(running);
    assert_eq!(output.status.code(), Some(120), "{}", text(&output.stderr));
    assert!(!long.project().join("made").exists());
    // Nobody answers.
    let short = place("ap-none", 1);
    let _gateway = Gateway::start(&short);
    let output = ended(start(&short, "touch made"));
    assert_eq!(output.status.code(), Some(121), "{}", text(&output.stderr));
    assert!(waiting(&short).is_empty() && !short.project().join("made").exists());
}

#[test]
fn neither_the_program_that_asks_nor_a_sandboxed_command_answers() {
    let place = place("ap-self", 600);
    let _gateway = Gateway::start(&place);
    // The agent asks, and another process of it tries to answer.
    let line = r#"
        "$0" run -- "touch made" & asking=$!
        for try in $(seq 100); do
            id=$("$0" approvals --json | grep -o '"id":"[0-9a-f]*"' | cut -d'"' -f4)
            [ -z "$id" ] || break
        done
        "$0" approvals allow "$id"; echo "status $?"
        kill $asking"#;
    let command = place.stockade([""; 0]);
    let program = command.get_program().to_owned();
    let mut agent = Command::new("perl");
    agent.args(["-e", "system('bash', @ARGV)", "--"]);
    let script = place.root.join("agent.sh");
    std::fs::write(&script, line).expect("a script");
    agent.arg("-c").arg(line).arg(&program);
    agent.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output =
        agent.current_dir(place.project()).stdin(Stdio::null()).output().expect("it starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(stdout, "status 122\n", "{stderr}");
    assert!(stderr.contains("the program that asks may not answer question `"), "{stderr}");
    assert!(!place.project().join("made").exists());
    let place = Place::new("ap-inside");
    let _gateway = Gateway::start(&place);
    let inside = format!("'{}' approvals 2>&1 || true", stockade_tests::stockade().display());
    let told = text(&place.output(["run", "--", &inside]).stdout);
    assert!(
        told.starts_with("stockade: a sandboxed command cannot see or answer questions"),
        "{told}"
    );
}
