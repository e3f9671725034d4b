//! Sessions and turns of agents: a trace from the caller down to the command, tokens and money, and completion.

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Point;
use serde_json::{Value, json};
use stockade::protocol::types::Context;
use stockade_model_server::{Form, Reply, Server, Turn};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, executable};

use super::receiver::{Receiver, named};
use super::{TRACE, hex, of, send, text};

/// One prompt to an agent whose model gives these answers.
pub fn agent(place: &Place, answers: &[&[Turn]], words: &[&str]) {
    executable("stockade-agent");
    let answers = answers.iter().map(|turns| Reply::answer(Form::Anthropic, turns));
    let server = Server::start(answers).expect("a server");
    let mut command = place.stockade(["agent", "-p", "go"].iter().chain(words));
    command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "sk-of-the-test");
    let output = command.env("TRACEPARENT", TRACE).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn call(name: &str, input: &Value) -> Turn {
    Turn::Call("a".into(), name.into(), input.to_string())
}

/// Name, series and value of the sums whose names begin so.
fn sums(receiver: &Receiver, prefixes: &[&str]) -> Vec<Value> {
    let (_, metrics) = receiver.metrics();
    let mut found = Vec::new();
    for metric in metrics.iter().filter(|it| prefixes.iter().any(|part| it.name.starts_with(part)))
    {
        let Some(Data::Sum(sum)) = metric.data.as_ref() else { continue };
        for point in &sum.data_points {
            let value = match point.value.expect("a value") {
                Point::AsInt(value) => json!(value),
                Point::AsDouble(value) => json!(value),
            };
            found.push(json!([metric.name, named(&point.attributes), value]));
        }
    }
    found
}

/// The sources of completions that came as log records.
fn completions(receiver: &Receiver) -> Vec<Value> {
    let logs = receiver.logs().into_iter().filter(|it| it.event_name == "task.completed");
    logs.map(|it| named(&it.attributes)["source"].clone()).collect()
}

#[test]
fn a_session_is_a_trace_from_its_caller_down_to_the_command() {
    let place = Place::new("te-session");
    let answers: [&[Turn]; 2] =
        [&[call("Bash", &json!({ "command": "echo confidential" }))], &[Turn::Text("done".into())]];
    agent(&place, &answers, &["--model", "claude-sonnet-4-5"]);
    let _gateway = Gateway::start(&place);
    let receiver = Receiver::start();
    assert_eq!(send(&place, &receiver, &[]), "");
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["judge", "run", "call", "turn", "session"]);
    let [session, turn, call, run] = ["session", "turn", "call", "run"].map(|it| of(&spans, it)[0]);
    assert!(spans.iter().all(|it| hex(&it.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let parents = [session, turn, call, run].map(|it| hex(&it.parent_span_id));
    let expected = [&session.span_id, &turn.span_id, &call.span_id].map(|it| hex(it));
    assert_eq!(parents[0], "00f067aa0ba902b7");
    assert_eq!(parents[1..], expected);
    // The caller is another process; the others are known here.
    assert_eq!([session, turn, call, run].map(|it| it.flags), [0x301, 0x101, 0x101, 0x101]);
    for pair in [session, turn, call, run].windows(2) {
        let (outer, inner) = (pair[0], pair[1]);
        assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano, "{}", inner.name);
        assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano, "{}", inner.name);
    }
    let mut said = named(&turn.attributes);
    let id = said["session.id"].take();
    assert_eq!(id, named(&session.attributes)["session.id"]);
    assert_eq!(
        said,
        json!({ "session.id": null, "stockade.session.action": "turn", "stockade.agent": "stockade",
            "stockade.door": "agent", "stockade.turn.outcome": "finished",
            "stockade.tokens.input": 20, "stockade.tokens.cache_write": 0,
            "stockade.tokens.cache_read": 0, "stockade.tokens.output": 10, "stockade.cost": 0.000_21 })
    );
    let tokens = |kind: &str, count: u64| {
        let series = json!({ "stockade.model": "claude-sonnet-4-5", "stockade.token.type": kind });
        json!(["stockade.tokens", series, count])
    };
    let prefixes = [
        "stockade.tokens",
        "stockade.cost",
        "stockade.turns",
        "stockade.sessions",
        "stockade.task.",
    ];
    assert_eq!(
        sums(&receiver, &prefixes),
        [
            json!(["stockade.cost", { "stockade.model": "claude-sonnet-4-5" }, 0.000_21]),
            json!(["stockade.sessions", { "stockade.session.source": "startup" }, 1]),
            json!(["stockade.task.completed", { "source": "end" }, 1]),
            tokens("input", 20),
            tokens("output", 10),
            json!(["stockade.turns", { "stockade.turn.outcome": "finished" }, 1]),
        ]
    );
    assert_eq!(completions(&receiver), [json!("end")]);
    let bodies = receiver.requests();
    let has = |text: &str| {
        bodies.iter().any(|it| it.body.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    assert!(!has("confidential") && !has("done"));
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stderr));
}

#[test]
fn a_result_in_the_form_that_was_asked_for_completes_the_session() {
    let place = Place::new("te-completed");
    let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" } },
        "required": ["count"], "additionalProperties": false });
    let answers: [&[Turn]; 1] = [&[call("StructuredOutput", &json!({ "count": 1 }))]];
    agent(&place, &answers, &["--json-schema", &schema.to_string(), "--output-format", "json"]);
    let _gateway = Gateway::start(&place);
    let receiver = Receiver::start();
    send(&place, &receiver, &[]);
    assert_eq!(completions(&receiver), [json!("agent")]);
    let completed = json!(["stockade.task.completed", { "source": "agent" }, 1]);
    assert_eq!(sums(&receiver, &["stockade.task."]), [completed]);
}

#[test]
fn a_session_whose_agent_is_gone_ends_and_what_is_too_long_is_refused() {
    let place = Place::new("te-gone");
    let gateway = Gateway::start(&place);
    let context = Context {
        session: Some("s-1".into()),
        door: "agent".into(),
        agent: Some("other".into()),
        ..Context::default()
    };
    let cwd = place.project().display().to_string();
    let mut peer = gateway.greet();
    let mut tell = |step: Value| {
        peer.request("progress", json!({ "step": step, "cwd": cwd, "context": context }));
        peer.message().expect("an answer")
    };
    assert_eq!(tell(json!({ "start": { "source": "startup" } }))["result"], Value::Null);
    assert_eq!(tell(json!({ "turn": {} }))["error"], Value::Null);
    let long = tell(json!({ "turn_end": { "outcome": "x".repeat(129), "usage": [] } }));
    let message = "a word, a number or the list of models is too long";
    assert_eq!(long["error"]["message"], message, "{long}");
    drop(peer);
    let receiver = Receiver::start();
    super::check(&place, "echo until it is over");
    for _ in 0..600 {
        send(&place, &receiver, &[]);
        if !completions(&receiver).is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(completions(&receiver), [json!("end")]);
    let spans = receiver.spans();
    let [turn, session] = ["turn", "session"].map(|it| of(&spans, it)[0]);
    assert_eq!(named(&turn.attributes)["stockade.unfinished"], true);
    assert_eq!(named(&session.attributes)["stockade.unfinished"], Value::Null);
    assert_eq!(named(&session.attributes)["stockade.agent"], "other");
}
