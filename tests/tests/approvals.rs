//! Questions that wait for an answer from elsewhere, where nobody can be asked at the call.

#[path = "approvals/web.rs"]
mod web;
#[path = "approvals/webhook.rs"]
mod webhook;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, copy_program, stockade};

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

/// A place in which all is asked about that is not only read, so that a rule is offered, and questions wait for long.
fn asking(name: &str) -> Place {
    let place = Place::new(name);
    let settings = json!({ "sandbox": { "autoAllowBashIfSandboxed": false }, "approvals": { "waitSeconds": 600 } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    place
}

/// Starts a command at which nobody can be asked, as an agent of its own does.
fn start(place: &Place, line: &str) -> Child {
    start_with(place, &["run", "--", line])
}

fn start_with(place: &Place, words: &[&str]) -> Child {
    let mut command = place.stockade(words);
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
    // An answer serves once.
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
    assert!(stderr.contains("the program that asks cannot answer question `"), "{stderr}");
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

/// Starts a command of an agent, answers its question with these words, and returns its output.
fn answered(place: &Place, line: &str, words: &[&str]) -> Output {
    let running = start(place, line);
    let id = until_one(place)["id"].as_str().expect("an identity").to_owned();
    let all: Vec<&str> = [&["approvals", words[0], &id], &words[1..]].concat();
    let told = place.output(&all);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    ended(running)
}

/// Asserts that a call is asked about; the answer is no.
fn is_asked(place: &Place, words: &[&str]) {
    let running = start_with(place, words);
    let id = until_one(place)["id"].as_str().expect("an identity").to_owned();
    assert_eq!(place.output(["approvals", "deny", &id]).status.code(), Some(0));
    let output = ended(running);
    assert_eq!(output.status.code(), Some(120), "{words:?}: {}", text(&output.stderr));
}

fn grants(place: &Place) -> Vec<Value> {
    let output = place.output(["grants", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    object["grants"].as_array().expect("a list").clone()
}

#[test]
fn what_is_allowed_for_minutes_is_not_asked_again_until_it_is_revoked() {
    let place = asking("ap-minutes");
    let _gateway = Gateway::start(&place);
    let output = answered(&place, "touch made", &["allow", "--minutes", "30"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("is allowed for 30 minutes"), "{}", text(&output.stderr));
    let [grant] = &grants(&place)[..] else { panic!("one grant") };
    assert_eq!(grant["rule"], "Bash(touch made)");
    assert_eq!(ended(start(&place, "touch made")).status.code(), Some(0));
    // The grant is for calls in this directory, without a session, that the rule matches, and for nothing else.
    place.write("project/below/file", "");
    is_asked(&place, &["run", "--", "touch other"]);
    is_asked(&place, &["run", "--", "cd / && touch made"]);
    is_asked(&place, &["run", "--session", "s", "--", "touch made"]);
    is_asked(&place, &["run", "--cwd", "below", "--", "touch made"]);
    let listed = text(&place.output(["grants"]).stdout);
    let id = grant["id"].as_str().expect("an identity");
    assert!(listed.lines().any(|it| it.starts_with(id) && it.contains("touch made")), "{listed}");
    let revoked = place.output(["grants", "revoke", id]);
    assert_eq!(text(&revoked.stderr), "stockade: revoked `Bash(touch made)`\n");
    assert!(grants(&place).is_empty());
    is_asked(&place, &["run", "--", "touch made"]);
    assert_eq!(place.output(["grants", "revoke", id]).status.code(), Some(122));
    let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    for action in ["made", "revoked"] {
        let action = format!("\"action\":\"{action}\"");
        assert!(log.lines().any(|line| line.contains("\"grant\"") && line.contains(&action)));
    }
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

#[test]
fn what_is_allowed_for_a_number_of_calls_serves_that_many_even_at_once() {
    let place = asking("ap-uses");
    let gateway = Gateway::start(&place);
    assert_eq!(answered(&place, "touch made", &["allow", "--uses", "3"]).status.code(), Some(0));
    assert_eq!(grants(&place)[0]["uses_left"], 2);
    // Calls that do not need it use nothing.
    assert_eq!(place.output(["run", "--", "echo touch made"]).status.code(), Some(0));
    let at_once: Vec<Child> = (0..5).map(|_| start(&place, "touch made")).collect();
    let end = Instant::now() + Duration::from_secs(60);
    while waiting(&place).len() < 3 {
        assert!(Instant::now() < end, "three are asked about");
        std::thread::yield_now();
    }
    for view in waiting(&place) {
        let id = view["id"].as_str().expect("an identity");
        assert_eq!(place.output(["approvals", "deny", id]).status.code(), Some(0));
    }
    let mut codes: Vec<Option<i32>> =
        at_once.into_iter().map(|it| ended(it).status.code()).collect();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(0), Some(120), Some(120), Some(120)]);
    assert!(grants(&place).is_empty());
    let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    assert_eq!(log.matches("\"action\":\"used_up\"").count(), 1);
    // A gateway takes its grants along.
    answered(&place, "touch made", &["allow", "--minutes", "30"]);
    gateway.kill();
    let _gateway = Gateway::start(&place);
    assert!(grants(&place).is_empty());
    is_asked(&place, &["run", "--", "touch made"]);
}

#[test]
fn what_is_allowed_for_a_session_ends_with_it_and_serves_no_later_one_of_its_name() {
    let place = asking("ap-session");
    let _gateway = Gateway::start(&place);
    let of_session = |line: &str| start_with(&place, &["run", "--session", "s", "--", line]);
    let running = of_session("touch made");
    let id = until_one(&place)["id"].as_str().expect("an identity").to_owned();
    assert_eq!(place.output(["approvals", "allow", &id, "--for-session"]).status.code(), Some(0));
    assert_eq!(ended(running).status.code(), Some(0));
    assert_eq!(ended(of_session("touch made")).status.code(), Some(0));
    assert_eq!(grants(&place).len(), 1);
    assert_eq!(place.output(["sessions", "close", "s"]).status.code(), Some(0));
    assert!(grants(&place).is_empty());
    is_asked(&place, &["run", "--session", "s", "--", "touch made"]);
    // A call without a session cannot be answered for one.
    let running = start(&place, "touch made");
    let id = until_one(&place)["id"].as_str().expect("an identity").to_owned();
    let refused = place.output(["approvals", "allow", &id, "--for-session"]);
    assert_eq!(refused.status.code(), Some(122));
    assert!(text(&refused.stderr).contains("belongs to no session"), "{}", text(&refused.stderr));
    assert_eq!(place.output(["approvals", "deny", &id]).status.code(), Some(0));
    ended(running);
}

#[test]
fn grants_end_when_the_gateway_stops_or_leaves_its_place() {
    let place = asking("ap-stops");
    let revoked = |count: usize| {
        let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl"));
        let log = log.expect("the log");
        assert_eq!(log.matches("\"action\":\"revoked\"").count(), count, "{log}");
    };
    let gateway = Gateway::start(&place);
    answered(&place, "touch made", &["allow", "--minutes", "30"]);
    revoked(0);
    assert_eq!(gateway.end(), Some(0));
    revoked(1);
    // A connection that stays open to a gateway that another one follows.
    let copy = place.root.join("own-stockade");
    copy_program(stockade(), &copy);
    let plain = place.stockade(["serve"]);
    let mut serve = Command::new(&copy);
    serve.args(plain.get_args()).current_dir(place.project()).env_clear().stdin(Stdio::null());
    serve.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let former = Gateway::start_with(&place, serve);
    let mut peer = former.greet();
    let environment = json!([["HOME", place.home()], ["PATH", "/usr/bin:/bin"]]);
    let context = json!({"settings": [], "allowed_tools": [], "disallowed_tools": [], "import": [],
        "additional_directories": [], "environment": environment, "door": "run", "interactive": true,
        "session": "s"});
    let request = json!({"command": {"shell": "touch made"}, "cwd": place.project(), "background": false,
        "pty": false, "unsandboxed": false, "stdin": false, "context": context});
    peer.request("run", request.clone());
    let question = peer.question();
    peer.answer(&question, "session");
    assert_eq!(peer.outcome(), "ran");
    peer.request("run", request.clone());
    assert_eq!(peer.outcome(), "ran", "it is allowed for the session");
    let newer = place.root.join("newer");
    copy_program(stockade(), &newer);
    std::fs::rename(&newer, &copy).expect("the new executable takes the place of the old one");
    let socket = place.root.join("runtime/stockade/gateway.sock");
    let end = Instant::now() + Duration::from_secs(60);
    while socket.exists() {
        assert!(Instant::now() < end, "the former gateway keeps its place");
        std::thread::yield_now();
    }
    revoked(2);
    for _ in 0..2 {
        peer.request("run", request.clone());
        let question = peer.question();
        peer.answer(&question, "session");
        assert_eq!(peer.outcome(), "ran");
    }
    drop(peer);
    assert_eq!(former.ended(), Some(0));
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

#[test]
fn a_no_tells_why_and_an_answer_to_another_question_is_refused() {
    let place = place("ap-why", 600);
    let gateway = Gateway::start(&place);
    let running = start(&place, "touch made");
    let view = until_one(&place);
    let id = view["id"].as_str().expect("an identity");
    let mut peer = gateway.greet();
    peer.request("approval", json!({ "act": "allow", "id": id, "digest": "0".repeat(64) }));
    let answer = peer.message().expect("an answer");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("is not the one that was shown"), "{answer}");
    for lasts in [json!({ "for": { "minutes": 0 } }), json!({ "for": { "uses": 1 } })] {
        peer.request("approval", json!({ "act": "allow", "id": id, "lasts": lasts }));
        assert!(peer.message().expect("an answer")["error"].is_object(), "{lasts}");
    }
    let two_lines = place.output(["approvals", "deny", id, "--why", "one\ntwo"]);
    assert_eq!(two_lines.status.code(), Some(122));
    let denied = place.output(["approvals", "deny", id, "--why", "use the makefile"]);
    assert_eq!(denied.status.code(), Some(0));
    let output = ended(running);
    assert_eq!(output.status.code(), Some(120));
    assert!(text(&output.stderr).contains("use the makefile"), "{}", text(&output.stderr));
}
