//! A client and a scripted model, over HTTP.
#![allow(clippy::expect_used)]

use std::time::Duration;

use serde_json::json;
use stockade_model::{
    Block, Client, Endpoint, Error, Event, Key, Message, Provider, Refusal, Request, Retries, Stop,
    Usage,
};
use stockade_model_server::{Form, Reply, Server, Step, Turn};

const ALL: [(Provider, Form, &str); 3] = [
    (Provider::Anthropic, Form::Anthropic, "/v1/messages"),
    (Provider::OpenAi, Form::Responses, "/responses"),
    (Provider::Compatible, Form::Chat, "/chat/completions"),
];

fn request() -> Request {
    Request {
        model: "scripted".to_owned(),
        system: Vec::new(),
        tools: Vec::new(),
        messages: vec![Message::user("go")],
        max_output_tokens: 100,
        thinking_tokens: None,
        thinking_display: None,
    }
}

/// Tries three times without waits.
fn quick() -> Retries {
    Retries { tries: 3, first: Duration::ZERO, ..Retries::default() }
}

fn text(text: &str) -> Turn {
    Turn::Text(text.to_owned())
}

fn call(id: &str, input: &str) -> Turn {
    Turn::Call(id.to_owned(), "Bash".to_owned(), input.to_owned())
}

/// Asks once; returns the answer and the events.
fn ask(endpoint: Endpoint) -> (Result<stockade_model::Answer, Error>, Vec<Event>) {
    let client = Client::new(endpoint, quick()).expect("valid settings");
    let mut events = Vec::new();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let answer = runtime.block_on(client.ask(&request(), &mut |event| events.push(event)));
    (answer, events)
}

fn endpoint(provider: Provider, server: &Server) -> Endpoint {
    Endpoint::new(provider, server.url())
}

/// The retries among events: number of the try, HTTP status, reason.
fn retries(events: &[Event]) -> Vec<(u32, Option<u16>, String)> {
    let retry = |event: &Event| match event {
        Event::Retry { attempt, status, reason, .. } => Some((*attempt, *status, reason.clone())),
        _ => None,
    };
    events.iter().filter_map(retry).collect()
}

#[test]
fn an_answer_is_the_same_in_every_wire_form() {
    for (provider, form, path) in ALL {
        let turns = [text("héllo"), call("c1", "{\"command\":\"ls\"}"), call("c2", "{\"x\":")];
        let server = Server::start([Reply::answer(form, &turns)]).expect("a server");
        let mut endpoint = endpoint(provider, &server);
        endpoint.key = Some(Key::new("k"));
        endpoint.headers = vec![("x-extra".to_owned(), "1".to_owned())];
        let (answer, events) = ask(endpoint);
        let answer = answer.expect("an answer");
        let block =
            |id: &str, input| Block::Call { id: id.to_owned(), name: "Bash".to_owned(), input };
        let expected = [
            Block::Text("héllo".to_owned()),
            block("c1", Ok(json!({"command": "ls"}))),
            block("c2", Err("{\"x\":".to_owned())),
        ];
        assert_eq!(answer.message.blocks, expected, "{provider:?}");
        assert_eq!(answer.stop, Stop::Calls, "{provider:?}");
        assert_eq!(
            answer.usage,
            Usage { input: 10, output: 5, ..Usage::default() },
            "{provider:?}"
        );
        assert_eq!(answer.model, "scripted");
        let pieces: String = events
            .iter()
            .map(|event| match event {
                Event::Text { index: 0, text } => text.as_str(),
                _ => "",
            })
            .collect();
        assert_eq!(pieces, "héllo", "{provider:?}");
        let received = server.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].path, path);
        assert_eq!(received[0].header("x-extra"), Some("1"));
        assert_eq!(received[0].header("x-client-request-id").map(str::len), Some(32));
        let key = match provider {
            Provider::Anthropic => ("x-api-key", "k"),
            Provider::OpenAi | Provider::Compatible => ("authorization", "Bearer k"),
        };
        assert_eq!(received[0].header(key.0), Some(key.1));
    }
}

#[test]
fn overload_and_limits_are_tried_again_and_told() {
    for (provider, form, _) in ALL {
        let server = Server::start([
            Reply::error(529, "overloaded"),
            Reply::error(429, "slow down").with_header("retry-after-ms", "1"),
            Reply::answer(form, &[text("ok")]),
        ]);
        let server = server.expect("a server");
        let (answer, events) = ask(endpoint(provider, &server));
        assert_eq!(answer.expect("an answer").message.blocks, [Block::Text("ok".to_owned())]);
        let expected = [
            (2, Some(529), "HTTP 529: overloaded".to_owned()),
            (3, Some(429), "HTTP 429: slow down".to_owned()),
        ];
        assert_eq!(retries(&events), expected, "{provider:?}");
        let asked = events.iter().find_map(|event| match event {
            Event::Retry { attempt: 3, delay, .. } => Some(*delay),
            _ => None,
        });
        assert_eq!(asked, Some(Duration::from_millis(1)));
        // Each try is a request of its own.
        let ids: std::collections::BTreeSet<_> = server
            .received()
            .iter()
            .map(|it| it.header("x-client-request-id").unwrap_or_default().to_owned())
            .collect();
        assert_eq!(ids.len(), 3);
    }
}

#[test]
fn the_last_failure_is_the_error() {
    let server = Server::start((0..3).map(|_| Reply::error(500, "broken"))).expect("a server");
    let (answer, events) = ask(endpoint(Provider::Anthropic, &server));
    let error = answer.expect_err("no answer");
    let last = server.received()[2].header("x-client-request-id").unwrap_or_default().to_owned();
    assert_eq!(
        error.to_string(),
        format!("no answer after 3 tries: HTTP 500: broken (request {last})")
    );
    assert_eq!(retries(&events).len(), 2);
}

#[test]
fn a_stream_that_breaks_before_a_call_is_complete_is_asked_for_again() {
    for (provider, form, _) in ALL {
        let whole = Reply::answer(form, &[text("hello"), call("c1", "{\"a\":1}")]);
        for cut in 0..3 {
            for step in [Step::Break, Step::Send(b"data: {\n\n".to_vec())] {
                let server =
                    Server::start([whole.clone().cut(cut, step), whole.clone()]).expect("a server");
                let (answer, events) = ask(endpoint(provider, &server));
                let answer = answer.expect("an answer");
                assert_eq!(answer.message.blocks.len(), 2, "{provider:?} {cut}");
                assert_eq!(retries(&events).len(), 1, "{provider:?} {cut} {events:?}");
            }
        }
    }
}

#[test]
fn a_stream_that_breaks_after_a_complete_call_is_not_asked_for_again() {
    for (provider, form) in
        [(Provider::Anthropic, Form::Anthropic), (Provider::OpenAi, Form::Responses)]
    {
        let turns = [call("c1", "{\"a\":1}"), call("c2", "{\"b\":2}")];
        let whole = Reply::answer(form, &turns);
        let end = |step: &Step| {
            matches!(step, Step::Send(bytes) if {
                let text = String::from_utf8_lossy(bytes);
                text.contains("content_block_stop") || text.contains("output_item.done")
            })
        };
        let first = whole.steps.iter().position(end).expect("the end of a block");
        // In the middle of the second call.
        let server = Server::start([whole.cut(first + 3, Step::Break)]).expect("a server");
        let (answer, events) = ask(endpoint(provider, &server));
        let answer = answer.expect("an answer");
        let input = Ok(json!({"a": 1}));
        let kept = Block::Call { id: "c1".to_owned(), name: "Bash".to_owned(), input };
        assert_eq!(
            (answer.message.blocks, answer.stop),
            (vec![kept], Stop::Broken),
            "{provider:?}"
        );
        assert_eq!(retries(&events), []);
    }
}

#[test]
fn a_response_that_is_not_an_event_stream_is_an_error() {
    let mut reply = Reply::error(200, "a page");
    reply.headers = vec![("content-type".to_owned(), "text/html\u{7f}".to_owned())];
    let server = Server::start([reply]).expect("a server");
    assert!(ask(endpoint(Provider::Anthropic, &server)).0.is_err());
    let moved = Reply {
        status: 307,
        headers: vec![("location".to_owned(), "/elsewhere".to_owned())],
        steps: Vec::new(),
    };
    let server = Server::start([moved]).expect("a server");
    assert!(matches!(
        ask(endpoint(Provider::Anthropic, &server)).0,
        Err(Error::Refused { status: 307, .. })
    ));
    assert_eq!(server.received().len(), 1, "a redirect is not followed");
}

#[test]
fn settings_that_make_no_request_are_told() {
    let told = |endpoint: Endpoint| match Client::new(endpoint, quick()) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    let mut endpoint = Endpoint::new(Provider::Anthropic, "http://127.0.0.1:1");
    endpoint.headers = vec![("x y".to_owned(), "1".to_owned())];
    assert_eq!(told(endpoint), "invalid model settings: the name of header `x y` is invalid");
    let mut endpoint = Endpoint::new(Provider::Anthropic, "http://127.0.0.1:1");
    endpoint.key = Some(Key::new("a\nb"));
    assert_eq!(
        told(endpoint),
        "invalid model settings: the value of header `x-api-key` is invalid"
    );
    let (answer, _) = ask(Endpoint::new(Provider::Anthropic, "not an address"));
    assert!(matches!(answer, Err(Error::Settings(_))), "{answer:?}");
}

#[test]
fn errors_that_stay_are_not_tried_again() {
    let replies = [
        (401, "invalid x-api-key", Refusal::Key),
        (403, "this key may not use the model", Refusal::Key),
        (404, "model: none", Refusal::NotFound),
        (400, "prompt is too long: 9 tokens > 8 maximum", Refusal::TooLong),
        (400, "This model's maximum context length is 8 tokens.", Refusal::TooLong),
        (400, "Your credit balance is too low", Refusal::Credit),
    ];
    for (provider, _, _) in ALL {
        for (status, message, expected) in replies {
            let server = Server::start([Reply::error(status, message)]).expect("a server");
            let (answer, events) = ask(endpoint(provider, &server));
            match answer {
                Err(Error::Refused { refusal, status: told, message: said, request }) => {
                    assert_eq!((refusal, told, said.as_str()), (expected, status, message));
                    assert_eq!(
                        server.received()[0].header("x-client-request-id"),
                        Some(request.as_str())
                    );
                }
                other => panic!("{other:?}"),
            }
            assert_eq!((server.received().len(), events), (1, Vec::new()), "{provider:?}");
        }
    }
}

#[test]
fn a_wait_beyond_patience_is_an_error() {
    for (provider, _, _) in ALL {
        for told in [429, 529] {
            let reply = Reply::error(told, "later").with_header("retry-after", "86400");
            let server = Server::start([reply]).expect("a server");
            match ask(endpoint(provider, &server)).0 {
                Err(Error::Wait { wait, status, .. }) => {
                    assert_eq!((wait, status), (Duration::from_secs(86400), told));
                }
                other => panic!("{provider:?}: {other:?}"),
            }
            assert_eq!(server.received().len(), 1, "{provider:?}");
        }
    }
}

#[test]
fn a_silent_stream_is_broken() {
    let breaks = |(provider, form, _): (Provider, Form, &str)| {
        let whole = Reply::answer(form, &[text("hello")]);
        let last = whole.steps.len().saturating_sub(2).min(3);
        let server = Server::start([whole.clone().cut(last, Step::Hang), whole]).expect("a server");
        let mut endpoint = endpoint(provider, &server);
        endpoint.silence = Duration::from_secs(2);
        let (answer, events) = ask(endpoint);
        assert_eq!(answer.expect("an answer").message.blocks, [Block::Text("hello".to_owned())]);
        assert_eq!(retries(&events).len(), 1, "{provider:?}");
        assert!(retries(&events)[0].2.contains("no data for"), "{events:?}");
    };
    // Each waits for the silence, so they do it at once.
    std::thread::scope(|scope| {
        for each in ALL {
            scope.spawn(move || breaks(each));
        }
    });
}

#[test]
fn a_stream_that_says_everything_twice_gives_one_answer_in_every_form() {
    for (provider, form, _) in ALL {
        let mut reply = Reply::answer(form, &[call("c1", "{\"a\":1}")]);
        let again = reply.steps.clone();
        reply.steps.extend(again);
        let server = Server::start([reply]).expect("a server");
        let (answer, events) = ask(endpoint(provider, &server));
        let input = Ok(json!({"a": 1}));
        let once = Block::Call { id: "c1".to_owned(), name: "Bash".to_owned(), input };
        assert_eq!(answer.expect("an answer").message.blocks, [once], "{provider:?}");
        assert_eq!(retries(&events), [], "{provider:?}");
    }
}
