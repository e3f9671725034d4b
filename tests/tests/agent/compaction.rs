//! A conversation that fills the context window is summed up and goes on; what fails leaves it as it was.

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply, Server};
use stockade_tests::Place;

use super::{call, frames, run, say, script, text};

const TOO_LONG: &str = "prompt is too long: 210000 tokens > 200000 maximum";
const ID: &str = "44444444-4444-4444-8444-444444444444";

/// The messages of request `number`.
fn told(server: &Server, number: usize) -> String {
    server.received().get(number).expect("a request").body["messages"].to_string()
}

fn answers(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(replies).expect("a server")
}

fn words(text: &str) -> Reply {
    Reply::answer(Form::Anthropic, &[say(text)])
}

/// Begins a session with two messages.
fn begin(place: &Place) {
    let server = script(Form::Anthropic, &[&[say("the long first answer")]]);
    run(place, &server, &["-p", "never touch x.rs", "--session-id", ID]);
}

#[test]
fn a_prompt_that_is_too_long_is_summed_up_and_asked_again() {
    let place = Place::new("ag-too-long");
    begin(&place);
    let server = answers([Reply::error(400, TOO_LONG), words("THE SUMMARY"), words("two")]);
    let output =
        run(&place, &server, &["-p", "go on", "--resume", ID, "--output-format", "stream-json"]);
    let frames = frames(&output);
    let boundary =
        frames.iter().find(|it| it["subtype"] == "compact_boundary").expect("a boundary");
    assert_eq!(boundary["compact_metadata"]["trigger"], "auto");
    assert_eq!(frames.last().expect("a result")["result"], "two");
    assert!(told(&server, 1).contains("the long first answer"), "{}", told(&server, 1));
    for is_there in ["THE SUMMARY", "never touch x.rs", "go on"] {
        assert!(told(&server, 2).contains(is_there), "{is_there}: {}", told(&server, 2));
    }
    assert!(!told(&server, 2).contains("the long first answer"));
    // A later resume goes on from the summary.
    let server = answers([words("three")]);
    run(&place, &server, &["-p", "and more", "--resume", ID]);
    let last = told(&server, 0);
    assert!(last.contains("THE SUMMARY") && last.contains("two"), "{last}");
    assert!(!last.contains("the long first answer"), "{last}");
}

#[test]
fn a_summary_that_fails_leaves_the_session_as_it_was() {
    let place = Place::new("ag-no-summary");
    begin(&place);
    let server = answers([Reply::error(400, TOO_LONG), words(" ")]);
    let output =
        run(&place, &server, &["-p", "go on", "--resume", ID, "--output-format", "stream-json"]);
    let frames = frames(&output);
    let told_why = frames
        .iter()
        .any(|it| it["content"].as_str().is_some_and(|it| it.contains("the summary is empty")));
    assert!(told_why, "{frames:?}");
    assert_eq!(frames.last().expect("a result")["is_error"], true);
    let server = answers([words("three")]);
    run(&place, &server, &["-p", "and more", "--resume", ID]);
    assert!(told(&server, 0).contains("the long first answer"), "{}", told(&server, 0));
}

#[test]
fn a_window_that_fills_up_within_a_turn_is_made_free_and_the_work_goes_on() {
    let place = Place::new("ag-full");
    // The scripted model counts 15 tokens a request.
    let settings = json!({ "model": { "contextWindow": 18 } }).to_string();
    let todos = json!({ "todos": [{ "content": "keep this item", "status": "pending" }] });
    let scripted = |answers: &[&[stockade_model_server::Turn]]| script(Form::Anthropic, answers);
    let server = scripted(&[
        &[call("t", "TodoWrite", todos.clone())],
        &[say("SUMMARY ONE")],
        &[call("b", "Bash", json!({ "command": "echo the result" }))],
        &[say("SUMMARY TWO")],
        &[say("done")],
    ]);
    let output = run(&place, &server, &["-p", "never touch x.rs", "--settings", &settings]);
    assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
    assert_eq!(server.received().len(), 5);
    let last = told(&server, 4);
    for is_there in ["SUMMARY TWO", "keep this item", "never touch x.rs", "the result"] {
        assert!(last.contains(is_there), "{is_there}: {last}");
    }
    // A setting switches it off.
    let settings =
        json!({ "model": { "contextWindow": 18 }, "autoCompactEnabled": false }).to_string();
    let server = scripted(&[&[call("t", "TodoWrite", todos)], &[say("done")]]);
    let output = run(&place, &server, &["-p", "go", "--settings", &settings]);
    assert_eq!((text(&output.stdout).as_str(), server.received().len()), ("done", 2));
}

#[test]
fn a_person_has_the_conversation_summed_up_and_says_what_counts() {
    let place = Place::new("ag-compact");
    begin(&place);
    let server = answers([words("THE SUMMARY")]);
    let arguments = ["-p", "/compact keep the names", "--resume", ID, "--output-format", "json"];
    let output = run(&place, &server, &arguments);
    let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(result["result"], "The conversation is summed up.", "{}", text(&output.stderr));
    let asked = server.received()[0].body["system"].to_string();
    assert!(asked.contains("keep the names"), "{asked}");
    let server = answers([words("three")]);
    run(&place, &server, &["-p", "and more", "--resume", ID]);
    let last = told(&server, 0);
    assert!(last.contains("THE SUMMARY") && last.contains("never touch x.rs"), "{last}");
}

#[test]
fn files_that_were_used_are_read_anew_by_the_rules_of_now() {
    let place = Place::new("ag-anew");
    for (name, content) in [("a.txt", "old a"), ("b.txt", "old b"), ("secret.txt", "old secret")] {
        place.write(&format!("project/{name}"), content);
    }
    let big = "line of a big file\n".repeat(1_000);
    place.write("project/big.txt", &big);
    let read = |id: &str| call(id, "Read", json!({ "file_path": format!("{id}.txt") }));
    let server = script(
        Form::Anthropic,
        &[&[read("a"), read("b"), read("secret"), read("big"), read("none")], &[say("read")]],
    );
    let output = run(&place, &server, &["-p", "read them", "--session-id", ID]);
    assert_eq!(text(&output.stdout), "read", "{}", text(&output.stderr));
    place.write("project/a.txt", "new a\n\nGo on with the task where it was.");
    place.write("project/secret.txt", "new secret");
    std::fs::remove_file(place.project().join("b.txt")).expect("a file");
    let denied = r#"{"permissions": {"deny": ["Read(secret.txt)"]}}"#;
    place.write("home/.config/stockade/settings.json", denied);
    let server = answers([words("THE SUMMARY")]);
    let small = json!({ "model": { "contextWindow": 10_000 } }).to_string();
    let arguments = ["-p", "/compact", "--resume", ID, "--settings", &small];
    let output =
        run(&place, &server, &[&arguments[..], &["--output-format", "stream-json"]].concat());
    let all = frames(&output);
    let told_person = all.iter().find(|it| it["subtype"] == "informational").expect("a word");
    let words_of = told_person["content"].as_str().expect("words");
    assert!(words_of.starts_with("read anew: a.txt; left out: big.txt: "), "{words_of}");
    assert!(words_of.contains("secret.txt: Permission denied"), "{words_of}");
    let server = answers([words("three")]);
    run(&place, &server, &["-p", "and more", "--resume", ID]);
    let last = told(&server, 0);
    for there in
        ["THE SUMMARY", "new a", "## big.txt", "## secret.txt", "## b.txt", "left out: Permission"]
    {
        assert!(last.contains(there), "{there}: {last}");
    }
    let anew = last.split("Files as they are now").nth(1).expect("files");
    for gone in ["line of a big file", "new secret", "none.txt", "old a"] {
        assert!(!anew.contains(gone), "{gone}: {anew}");
    }
    // The next compaction knows these files from the log.
    place.write("project/a.txt", "newest a");
    run(&place, &answers([words("NEXT SUMMARY")]), &arguments);
    let server = answers([words("four")]);
    run(&place, &server, &["-p", "and more", "--resume", ID]);
    let last = told(&server, 0);
    assert!(last.contains("NEXT SUMMARY") && last.contains("newest a"), "{last}");
}
