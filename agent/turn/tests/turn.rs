//! The loop against a scripted model.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_model::{
    Block, Client, Endpoint, Ledger, Message, Outcome, Prices, Provider, Request, Retries, Role,
    Tool,
};
use stockade_model_server::{Form, Reply, Server, Turn as Said};
use stockade_turn::{
    Call, Done, End, Finished, Hands, Interrupt, Limits, Step, Turn, finish, interrupt,
};

struct Fake {
    tools: Vec<Tool>,
    ran: Mutex<Vec<Call>>,
    /// Calls that are never finished.
    hangs: bool,
    keeps: Mutex<u32>,
    stops: bool,
    barrier: Option<tokio::sync::Barrier>,
}

fn fake() -> Fake {
    let tool = |name: &str| Tool {
        name: name.into(),
        description: "x".into(),
        input: json!({ "type": "object" }),
    };
    Fake {
        tools: vec![tool("echo"), tool("write")],
        ran: Mutex::default(),
        hangs: false,
        keeps: Mutex::new(0),
        stops: false,
        barrier: None,
    }
}

impl Hands for Fake {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn is_concurrent(&self, call: &Call) -> bool {
        call.name == "echo"
    }

    async fn run(&self, call: Call) -> Done {
        self.ran.lock().unwrap().push(call.clone());
        if self.hangs {
            std::future::pending::<()>().await;
        }
        if let Some(barrier) = &self.barrier {
            barrier.wait().await;
        }
        let text = call.input.to_string();
        let outcome = Outcome {
            id: call.id,
            content: vec![Block::Text(text)],
            is_error: call.input["fail"] == true,
        };
        Done { outcome, result: Value::Null, ends: self.stops.then(|| "enough".into()) }
    }

    async fn between(&self) -> Vec<Block> {
        Vec::new()
    }

    async fn finished(&self, _: &str) -> Option<String> {
        let mut keeps = self.keeps.lock().unwrap();
        *keeps = keeps.checked_sub(1)?;
        Some("go on".into())
    }
}

fn call(id: &str, name: &str, input: &str) -> Said {
    Said::Call(id.into(), name.into(), input.into())
}

fn says(turns: &[Said]) -> Reply {
    Reply::answer(Form::Anthropic, turns)
}

struct Ran {
    end: End,
    asked: u64,
    messages: Vec<Message>,
    steps: Vec<Step>,
    server: Server,
}

fn prices(_: &str) -> Prices {
    Prices { input: 1_000.0, output: 0.0, ..Prices::default() }
}

async fn run(script: Vec<Reply>, hands: &Fake, limits: Limits, interrupt: &Interrupt) -> Ran {
    let server = Server::start(script).expect("a server");
    let endpoint = Endpoint::new(Provider::Anthropic, server.url());
    let retries = Retries { tries: 2, first: Duration::from_millis(1), ..Retries::default() };
    let client = Client::new(endpoint, retries).expect("a client");
    let request = Request {
        model: "first".into(),
        system: Vec::new(),
        tools: Vec::new(),
        messages: Vec::new(),
        max_output_tokens: 100,
        thinking_tokens: None,
        thinking_display: None,
    };
    let turn = Turn { client: &client, request, fallback: Some("second".into()), limits, prices };
    let (mut messages, mut steps) = (vec![Message::user("go")], Vec::new());
    let mut ledger = Ledger::default();
    let (end, asked) = turn
        .run(&mut messages, hands, (&mut ledger, interrupt), &mut |step| steps.push(step))
        .await;
    Ran { end, asked, messages, steps, server }
}

/// Every call has one result, in the message after it, in order.
fn is_valid(messages: &[Message]) {
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<&String> = message
            .blocks
            .iter()
            .filter_map(|it| if let Block::Call { id, .. } = it { Some(id) } else { None })
            .collect();
        if calls.is_empty() {
            continue;
        }
        let next = messages.get(at + 1).expect("results");
        assert_eq!(next.role, Role::User);
        let results: Vec<&String> = next
            .blocks
            .iter()
            .filter_map(|it| if let Block::Outcome(it) = it { Some(&it.id) } else { None })
            .collect();
        assert_eq!(results, calls);
    }
}

#[tokio::test]
async fn calls_are_done_and_their_results_go_back() {
    let script = vec![
        says(&[Said::Text("let me see".into()), call("a", "write", "{\"x\":1}")]),
        says(&[Said::Text("done".into())]),
    ];
    let hands = fake();
    let ran = run(script, &hands, Limits::default(), &interrupt().1).await;
    assert!(matches!(&ran.end, End::Finished { text, .. } if text == "done"), "{:?}", ran.end);
    assert_eq!(ran.asked, 2);
    is_valid(&ran.messages);
    let second = &ran.server.received()[1].body["messages"];
    assert_eq!(second[2]["content"][0]["tool_use_id"], "a");
    assert_eq!(second[2]["content"][0]["content"][0]["text"], "{\"x\":1}");
}

#[tokio::test]
async fn calls_that_change_nothing_run_together() {
    let script = vec![says(&[call("a", "echo", "{}"), call("b", "echo", "{}")]), says(&[])];
    // Neither call ends before the other has begun.
    let hands = Fake { barrier: Some(tokio::sync::Barrier::new(2)), ..fake() };
    let ran = run(script, &hands, Limits::default(), &interrupt().1).await;
    assert!(matches!(ran.end, End::Finished { .. }));
    is_valid(&ran.messages);
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_and_five_in_a_row_end_the_turn() {
    let wrong = || says(&[call("a", "nothing", "{}")]);
    let hands = fake();
    let ran =
        run((0..9).map(|_| wrong()).collect(), &hands, Limits::default(), &interrupt().1).await;
    assert!(
        matches!(&ran.end, End::Wrong(reason) if reason.contains("5 invalid")),
        "{:?}",
        ran.end
    );
    assert_eq!(ran.asked, 5);
    assert!(hands.ran.lock().unwrap().is_empty());
    is_valid(&ran.messages);
    let no_json = vec![says(&[call("a", "echo", "{\"x\":")]), says(&[])];
    let ran = run(no_json, &fake(), Limits::default(), &interrupt().1).await;
    let Block::Outcome(outcome) = &ran.messages[2].blocks[0] else { panic!("no result") };
    assert!(matches!(&outcome.content[0], Block::Text(it) if it.contains("not a JSON object")));
    let failing = (0..9).map(|_| says(&[call("a", "echo", "{\"fail\":true}")])).collect();
    let ran = run(failing, &fake(), Limits::default(), &interrupt().1).await;
    assert!(matches!(&ran.end, End::Wrong(reason) if reason.contains("failing call")));
}

#[tokio::test]
async fn limits_end_a_turn() {
    let calls = || (0..9).map(|_| says(&[call("a", "echo", "{}")])).collect();
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let ran = run(calls(), &fake(), limits, &interrupt().1).await;
    assert!(matches!(ran.end, End::Turns) && ran.asked == 2);
    is_valid(&ran.messages);
    // Each answer has 10 input tokens: a cent.
    let limits = Limits { dollars: Some(0.025), ..Limits::default() };
    let ran = run(calls(), &fake(), limits, &interrupt().1).await;
    assert!(matches!(ran.end, End::Budget) && ran.asked == 3);
}

#[tokio::test]
async fn the_fallback_model_is_asked_when_the_first_does_not_answer() {
    let script = vec![
        Reply::error(529, "busy"),
        Reply::error(529, "busy"),
        says(&[Said::Text("hi".into())]),
    ];
    let ran = run(script, &fake(), Limits::default(), &interrupt().1).await;
    assert!(matches!(ran.end, End::Finished { .. }));
    let models: Vec<Value> =
        ran.server.received().iter().map(|it| it.body["model"].clone()).collect();
    assert_eq!(models, [json!("first"), json!("first"), json!("second")]);
    assert!(ran.steps.contains(&Step::FellBack { from: "first".into(), to: "second".into() }));
}

#[tokio::test]
async fn an_interrupt_gives_each_call_a_result() {
    let script = vec![says(&[call("a", "write", "{}"), call("b", "write", "{}")])];
    let hands = Fake { hangs: true, ..fake() };
    let (stop, given) = interrupt();
    let running = run(script, &hands, Limits::default(), &given);
    let stopping = async {
        let end = Instant::now() + Duration::from_secs(60);
        while hands.ran.lock().unwrap().is_empty() {
            assert!(Instant::now() < end, "no call is made");
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.interrupt();
    };
    let (ran, ()) = tokio::join!(running, stopping);
    assert!(matches!(ran.end, End::Interrupted { in_tools: true }));
    assert_eq!(hands.ran.lock().unwrap().len(), 1);
    is_valid(&ran.messages);
    let last = ran.messages.last().expect("a message");
    assert_eq!(
        last.blocks.last(),
        Some(&Block::Text("[Request interrupted by user for tool use]".into()))
    );
}

#[tokio::test]
async fn a_finished_turn_is_kept_going_at_most_eight_times() {
    let hands = Fake { keeps: Mutex::new(100), ..fake() };
    let script = (0..20).map(|_| says(&[Said::Text("done".into())])).collect();
    let ran = run(script, &hands, Limits::default(), &interrupt().1).await;
    assert!(matches!(ran.end, End::Finished { .. }));
    assert_eq!(ran.asked, 9);
}

#[tokio::test]
async fn a_call_can_end_the_turn() {
    let script = vec![says(&[call("a", "write", "{}"), call("a", "write", "{}")])];
    let hands = Fake { stops: true, ..fake() };
    let ran = run(script, &hands, Limits::default(), &interrupt().1).await;
    assert!(matches!(&ran.end, End::Ended(reason) if reason == "enough"));
    assert_eq!(hands.ran.lock().unwrap().len(), 1);
    is_valid(&ran.messages);
}

#[tokio::test]
async fn calls_without_a_result_are_done_once_and_others_are_left() {
    let calls = ["a", "b", "c"].map(|id| Block::Call {
        id: id.into(),
        name: "write".into(),
        input: Ok(json!({ "id": id })),
    });
    let answer = Message { role: Role::Assistant, blocks: calls.to_vec() };
    let outcome = Outcome { id: "b".into(), content: vec![], is_error: false };
    let result = Message { role: Role::User, blocks: vec![Block::Outcome(outcome)] };
    let hands = fake();
    let (_stop, given) = interrupt();
    let mut told = Vec::new();
    let mut report = |done: &Done| told.push(done.outcome.id.clone());
    let mut messages = vec![Message::user("go"), answer.clone(), result];
    let finished = finish(&mut messages, &hands, &given, &mut report).await;
    let names = vec!["write".to_owned(), "write".to_owned()];
    assert_eq!(finished, Finished { names, ends: None });
    let results = |message: &Message| -> Vec<String> {
        let id = |it: &Block| match it {
            Block::Outcome(it) => it.id.clone(),
            other => panic!("{other:?}"),
        };
        message.blocks.iter().map(id).collect()
    };
    assert_eq!(
        (messages.len(), results(&messages[2])),
        (3, vec!["b".into(), "a".into(), "c".into()])
    );
    // Once is enough.
    assert_eq!(finish(&mut messages, &hands, &given, &mut report).await, Finished::default());
    // A message of a person after an answer settles its calls; an answer without any result is done whole.
    let mut dealt = vec![answer.clone(), Message::user("stop that")];
    assert_eq!(finish(&mut dealt, &hands, &given, &mut report).await, Finished::default());
    let mut broken = vec![Message::user("go"), answer];
    assert_eq!(finish(&mut broken, &hands, &given, &mut report).await.names.len(), 3);
    assert_eq!(results(&broken[2]), ["a", "b", "c"]);
    assert_eq!(told, ["a", "c", "a", "b", "c"]);
}
