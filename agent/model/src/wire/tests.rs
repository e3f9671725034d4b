//! Bodies in the three wire forms, and streams that scripted servers cannot be trusted to have alike.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Fault, body, decoder};
use crate::endpoint::Provider;
use crate::event::{Event, Stop, Usage};
use crate::message::{Block, Image, Message, Outcome, Request, Role, Tool};

const ALL: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::Compatible];

/// A conversation with everything in it.
fn conversation() -> Request {
    let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
    let call = |id: &str, input| Block::Call { id: id.to_owned(), name: "Bash".to_owned(), input };
    let content = vec![Block::Text("no".to_owned()), Block::Image(image)];
    let outcome = Outcome { id: "c1".to_owned(), content, is_error: true };
    let good = Outcome { id: "c2".to_owned(), content: Vec::new(), is_error: false };
    let thoughts = [
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        json!({"type": "reasoning", "id": "rs", "encrypted_content": "e"}),
    ];
    let mut answer: Vec<Block> = thoughts.map(Block::Thinking).into();
    answer.extend([
        Block::Text("I look".to_owned()),
        call("c1", Ok(json!({"command": "ls"}))),
        call("c2", Err("{".to_owned())),
    ]);
    Request {
        model: "m".to_owned(),
        system: vec!["fixed".to_owned(), "dynamic".to_owned()],
        tools: vec![Tool {
            name: "Bash".to_owned(),
            description: "runs".to_owned(),
            input: json!({"type": "object"}),
        }],
        messages: vec![
            Message::user("go"),
            Message { role: Role::Assistant, blocks: answer },
            Message {
                role: Role::User,
                blocks: vec![
                    Block::Outcome(outcome),
                    Block::Outcome(good),
                    Block::Text("on".to_owned()),
                ],
            },
        ],
        max_output_tokens: 100,
        thinking_tokens: Some(5_000),
        thinking_display: None,
    }
}

#[test]
fn a_conversation_as_anthropic_messages() {
    let cache = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "m", "max_tokens": 100, "stream": true,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": cache}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "c2", "name": "Bash", "input": {"invalid_json": "{"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": [
                    {"type": "text", "text": "no"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ]},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": false, "content": []},
                {"type": "text", "text": "on", "cache_control": cache},
            ]},
        ],
        "system": [{"type": "text", "text": "fixed"}, {"type": "text", "text": "dynamic", "cache_control": cache}],
        "tools": [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}, "cache_control": cache}],
        "thinking": {"type": "enabled", "budget_tokens": 5000},
    });
    assert_eq!(body(Provider::Anthropic, &conversation()), expected);
}

#[test]
fn a_conversation_as_responses() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
    let expected = json!({
        "model": "m", "max_output_tokens": 100, "stream": true, "store": false,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs", "encrypted_content": "e"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
            {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": "{\"command\":\"ls\"}"},
            {"type": "function_call", "call_id": "c2", "name": "Bash", "arguments": "{"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "Error: no"}, image]},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": ""}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "on"}]},
        ],
        "instructions": "fixed\n\ndynamic",
        "tools": [{"type": "function", "name": "Bash", "description": "runs", "parameters": {"type": "object"}, "strict": false}],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    });
    assert_eq!(body(Provider::OpenAi, &conversation()), expected);
}

#[test]
fn a_conversation_as_chat_completions() {
    let function = |arguments: &str| json!({"name": "Bash", "arguments": arguments});
    let expected = json!({
        "model": "m", "max_tokens": 100, "stream": true, "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "fixed\n\ndynamic"},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": "I look", "tool_calls": [
                {"id": "c1", "type": "function", "function": function("{\"command\":\"ls\"}")},
                {"id": "c2", "type": "function", "function": function("{")},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "text", "text": "on"},
            ]},
        ],
        "tools": [{"type": "function", "function": {"name": "Bash", "description": "runs", "parameters": {"type": "object"}}}],
    });
    assert_eq!(body(Provider::Compatible, &conversation()), expected);
}

#[test]
fn an_unchanged_conversation_begins_with_the_same_bytes() {
    for provider in ALL {
        let mut request = conversation();
        let first = body(provider, &request);
        assert_eq!(first.to_string(), body(provider, &request).to_string());
        request.messages.push(Message::user("more"));
        let second = body(provider, &request);
        for part in ["system", "instructions", "tools"] {
            assert_eq!(first.get(part), second.get(part), "{provider:?} {part}");
        }
    }
}

/// Feeds events and the end; returns what was reported.
fn fed(provider: Provider, events: &[Value]) -> Result<Vec<Event>, Fault> {
    let mut reader = decoder(provider);
    let mut reported = Vec::new();
    for event in events {
        let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        reported.extend(reader.take("", &data)?);
    }
    reported.extend(reader.end().ok_or_else(|| Fault::Again("early".to_owned()))?);
    Ok(reported)
}

fn finished(events: &[Event]) -> Vec<Block> {
    let block = |event: &Event| match event {
        Event::Finished { block, .. } => Some(block.clone()),
        _ => None,
    };
    events.iter().filter_map(block).collect()
}

#[test]
fn thinking_comes_back_as_it_was_sent() {
    let events = fed(
        Provider::Anthropic,
        &[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "b"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "xyz"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "blob"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_stop"}),
        ],
    );
    let whole = json!({"type": "thinking", "thinking": "ab", "signature": "xyz"});
    let hidden = json!({"type": "redacted_thinking", "data": "blob"});
    let events = events.expect("a whole answer");
    assert_eq!(finished(&events), [Block::Thinking(whole), Block::Thinking(hidden)]);
}

#[test]
fn events_that_are_not_known_are_kept_and_change_nothing() {
    let odd = json!({"type": "future_event", "x": 1});
    let events = fed(Provider::Anthropic, &[odd.clone(), json!({"type": "message_stop"})]);
    assert_eq!(events, Ok(vec![Event::Unknown { name: String::new(), data: odd }]));
}

#[test]
fn calls_of_servers_that_number_all_of_them_alike_stay_apart() {
    let call = |id: &str, arguments: &str| {
        let function = json!({"name": "Read", "arguments": arguments});
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": id, "function": function}]}}]})
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let events = fed(Provider::Compatible, &[call("a", "{\"n\":1}"), call("b", "{\"n\":2}"), end])
        .expect("whole");
    let block = |id: &str, n: u8| Block::Call {
        id: id.to_owned(),
        name: "Read".to_owned(),
        input: Ok(json!({"n": n})),
    };
    assert_eq!(finished(&events), [block("a", 1), block("b", 2)]);
    // Its `stop` is the end of a turn with calls.
    assert_eq!(events.last(), Some(&Event::Ended(Stop::Calls)));
}

#[test]
fn a_call_without_an_identifier_gets_one() {
    let function = json!({"name": "Read", "arguments": ""});
    let call = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}, "finish_reason": "tool_calls"}]});
    let events = fed(Provider::Compatible, &[call, json!("[DONE]")]).expect("whole");
    let input = Ok(json!({}));
    let expected = Block::Call { id: "call_0".to_owned(), name: "Read".to_owned(), input };
    assert_eq!(finished(&events), [expected]);
}

#[test]
fn cached_input_is_counted_once() {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}});
    let chunk = json!({"choices": [{"delta": {}, "finish_reason": "length"}], "usage": usage});
    let events = fed(Provider::Compatible, &[chunk]).expect("whole");
    let used = Usage { input: 40, cache_write: 0, cache_read: 60, output: 7 };
    assert!(events.contains(&Event::Used(used)), "{events:?}");
    assert_eq!(events.last(), Some(&Event::Ended(Stop::OutputLimit)));
}

#[test]
fn an_error_in_a_stream_passes_or_stays() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "m"}});
    let again = Fault::Again("m".to_owned());
    assert_eq!(fed(Provider::Anthropic, &[error("overloaded_error")]), Err(again.clone()));
    let stays = Fault::Final("invalid_request_error".to_owned(), "m".to_owned());
    assert_eq!(fed(Provider::Anthropic, &[error("invalid_request_error")]), Err(stays));
    let failed = |code: &str| json!({"type": "response.failed", "response": {"error": {"code": code, "message": "m"}}});
    assert_eq!(fed(Provider::OpenAi, &[failed("server_error")]), Err(again.clone()));
    let long = Fault::Final("context_length_exceeded".to_owned(), "m".to_owned());
    assert_eq!(fed(Provider::OpenAi, &[failed("context_length_exceeded")]), Err(long));
    let chat = json!({"error": {"type": "server_error", "message": "m"}});
    assert_eq!(fed(Provider::Compatible, &[chat]), Err(again));
    for provider in ALL {
        assert!(matches!(fed(provider, &[json!("{")]), Err(Fault::Again(_))), "{provider:?}");
        assert!(matches!(fed(provider, &[json!("[1]")]), Err(Fault::Again(_))), "{provider:?}");
    }
}

/// Pieces of streams, with members that are missing or of another type.
fn odd_event() -> impl Strategy<Value = Value> {
    let kinds = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
        "response.function_call_arguments.delta",
        "text_delta",
        "input_json_delta",
        "tool_use",
        "x",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        any::<i64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        proptest::sample::select(kinds.to_vec()).prop_map(Value::from),
        ".{0,3}".prop_map(Value::from),
    ];
    let keys = [
        "type",
        "index",
        "output_index",
        "delta",
        "content_block",
        "message",
        "usage",
        "item",
        "response",
        "choices",
        "tool_calls",
        "function",
        "arguments",
        "id",
        "finish_reason",
        "content",
        "error",
        "text",
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let key = proptest::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_stream_makes_a_reader_panic_or_calls_out_of_nothing(events in proptest::collection::vec(odd_event(), 0..12)) {
        for provider in ALL {
            let mut reader = decoder(provider);
            for event in &events {
                if let Ok(reported) = reader.take("", &event.to_string()) {
                    let started = reported.len() <= 64;
                    prop_assert!(started, "{provider:?} {reported:?}");
                }
            }
            reader.end();
        }
    }
}
