//! The context window: a person sees what fills it, and a long session keeps goal, rules and lists through compactions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stockade_model_server::{Form, Reply, Server, Turn};
use stockade_tests::Place;

use super::{call, result, run, say, script, text};

const ID: &str = "55555555-5555-4555-8555-555555555555";
const MEMORY: &str = "Always write tests first.\nNever push to main.";
const GOAL: &str = "Port the parser. Rule: never touch x.rs.";
/// Steps between two compactions, and compactions.
const STEPS: usize = 100;
const ROUNDS: usize = 5;

#[test]
fn a_person_sees_what_fills_the_window() {
    let place = Place::new("ag-context");
    place.write("project/AGENTS.md", &format!("{MEMORY}\n{}\n", "more ".repeat(400)));
    let server = script(Form::Anthropic, &[]);
    let output = run(&place, &server, &["-p", "/context"]);
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("Context: ") && lines[0].ends_with("%), estimated"), "{shown}");
    let number = |name: &str| -> u64 {
        let line = lines.iter().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
    };
    assert!((500..600).contains(&number("Memory files")), "{shown}");
    assert!(number("System prompt") > 100 && number("Tools") > 1_000, "{shown}");
    assert_eq!(number("Messages"), 0);
    let used = number("Memory files") + number("System prompt") + number("Tools");
    assert_eq!(number("Free"), 200_000 - used);
    assert_eq!(lines[lines.len() - 1], "Room is made from 120000 tokens on.");
    assert_eq!(server.received(), [], "the model is not asked");
}

/// The list of things to do after `done` rounds.
fn todos(done: usize) -> Value {
    let item = |at: usize| {
        let status = if at < done { "completed" } else { "pending" };
        json!({ "content": format!("port part {at}"), "status": status })
    };
    (0..ROUNDS).map(item).collect()
}

/// The script: each round ends with an answer that fills the window, and a summary of it.
fn long() -> Vec<Reply> {
    let answer = |turn: Turn| Reply::answer(Form::Anthropic, &[turn]);
    let mut replies = Vec::new();
    for round in 0..ROUNDS {
        for step in 0..STEPS {
            let id = format!("c{round}-{step}");
            let reply = match step {
                0 => answer(call(&id, "TodoWrite", json!({ "todos": todos(round) }))),
                50 => {
                    answer(call(&id, "Bash", json!({ "command": format!("echo round {round}") })))
                }
                _ => answer(call(&id, "TaskList", json!({}))),
            };
            replies.push(if step == STEPS - 1 { reply.with_input(170_000) } else { reply });
        }
        replies.push(answer(say(&format!("SUMMARY {round}"))));
    }
    replies.push(answer(say("all is ported")));
    replies
}

/// The parts of the one message that stands for a conversation, by title.
fn parts(body: &Value) -> BTreeMap<String, String> {
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1, "{messages:?}");
    let content = messages[0]["content"].as_array().expect("content");
    assert_eq!((&messages[0]["role"], content.len()), (&json!("user"), 1));
    let whole = content[0]["text"].as_str().expect("text");
    let mut parts = whole.split("\n\n# ");
    let first = parts.next().expect("a summary").to_owned();
    let titled = parts.map(|part| part.split_once('\n').expect("a title"));
    std::iter::once(("Summary".to_owned(), first))
        .chain(titled.map(|(title, part)| (title.to_owned(), part.to_owned())))
        .collect()
}

#[test]
fn five_hundred_steps_keep_goal_rules_and_list_through_five_compactions() {
    let place = Place::new("ag-long");
    place.write("project/AGENTS.md", &format!("{MEMORY}\n"));
    let server = Server::start(long()).expect("a server");
    let output = run(&place, &server, &["-p", GOAL, "--session-id", ID]);
    assert_eq!(text(&output.stdout), "all is ported", "{}", text(&output.stderr));
    let received = server.received();
    assert_eq!(received.len(), ROUNDS * (STEPS + 1) + 1);
    for round in 0..ROUNDS {
        // The request behind the summary.
        let body = &received[(round + 1) * (STEPS + 1)].body;
        let parts = parts(body);
        let list = todos(round)
            .as_array()
            .expect("a list")
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>();
        let begins = "This session goes on from a conversation that was too long. Its summary:";
        assert_eq!(parts["Summary"], format!("{begins}\n\nSUMMARY {round}"));
        assert_eq!(parts["Last words of the user"], GOAL);
        assert_eq!(parts["Todo list"], list.join("\n"));
        assert_eq!(parts.len(), 4, "{:?}", parts.keys());
        let results = &parts["Last results of tools (data, cut)"];
        assert!(results.contains(&format!("round {round}\n")), "{results}");
        assert!(!results.contains(&format!("round {}\n", round + 1)), "{results}");
        let system = body["system"].as_array().expect("system").iter();
        let system: Vec<&str> = system.filter_map(|part| part["text"].as_str()).collect();
        assert!(system.iter().any(|part| part.contains(MEMORY)), "{system:?}");
        // The provider's cache stays valid.
        assert_eq!(
            (&body["system"], &body["tools"]),
            (&received[0].body["system"], &received[0].body["tools"])
        );
    }
    // Whoever goes on later has all of it.
    let server = script(Form::Anthropic, &[&[call("z", "TaskList", json!({}))], &[say("more")]]);
    run(&place, &server, &["-p", "is it done?", "--resume", ID]);
    assert!(!result(&server, "z").1);
    let told = server.received()[0].body["messages"].to_string();
    for is_there in [GOAL, "SUMMARY 4", "port part 4", "is it done?"] {
        assert!(told.contains(is_there), "{is_there}: {told}");
    }
}
