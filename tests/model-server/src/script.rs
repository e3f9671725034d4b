//! Replies of the scripted model.

use serde_json::{Value, json};

/// A wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    Responses,
    /// Chat completions.
    Chat,
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Text.
    Text(String),
    /// Call of a tool: identifier, name, text of its input.
    Call(String, String, String),
}

/// One step of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Closes the connection at once.
    Break,
    /// Sends nothing more until the client goes.
    Hang,
}

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Steps to send, in order.
    pub steps: Vec<Step>,
}

impl Reply {
    /// Returns an error response with a message and without further headers.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Reply {
        let body = json!({"type": "error", "error": {"type": "scripted", "message": message}});
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Reply { status, headers, steps: vec![Step::Send(body.to_string().into_bytes())] }
    }

    /// Returns a response with these server-sent events.
    #[must_use]
    pub fn events(events: &[Value]) -> Reply {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        let steps = events.iter().map(|event| Step::Send(sent(event).into_bytes())).collect();
        Reply { status: 200, headers, steps }
    }

    /// Returns a whole answer. It uses 10 input and 5 output tokens; every text and input comes in two pieces.
    #[must_use]
    pub fn answer(form: Form, turns: &[Turn]) -> Reply {
        let calls = turns.iter().any(|turn| matches!(turn, Turn::Call(..)));
        match form {
            Form::Anthropic => Reply::events(&anthropic(turns, calls)),
            Form::Responses => Reply::events(&responses(turns)),
            Form::Chat => {
                let mut reply = Reply::events(&chat(turns, calls));
                reply.steps.push(Step::Send(b"data: [DONE]\n\n".to_vec()));
                reply
            }
        }
    }

    /// Says that an answer in Anthropic's form used so many input tokens.
    #[must_use]
    pub fn with_input(mut self, tokens: u64) -> Reply {
        for step in &mut self.steps {
            if let Step::Send(bytes) = step {
                let text = String::from_utf8_lossy(bytes);
                let input = format!("\"input_tokens\":{tokens},\"cache_creation");
                *bytes = text.replace("\"input_tokens\":10,\"cache_creation", &input).into_bytes();
            }
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the first `count` steps and ends with `step`.
    #[must_use]
    pub fn cut(mut self, count: usize, step: Step) -> Reply {
        self.steps.truncate(count);
        self.steps.push(step);
        self
    }
}

/// Returns the text of one event; `[DONE]` and the like are strings.
fn sent(event: &Value) -> String {
    match event.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    }
}

/// Splits a text in two, at a character.
fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn anthropic(turns: &[Turn], calls: bool) -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [], "usage": usage});
    let mut events =
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (index, turn) in turns.iter().enumerate() {
        let (block, kind, key, text) = match turn {
            Turn::Text(text) => (json!({"type": "text", "text": ""}), "text_delta", "text", text),
            Turn::Call(id, name, input) => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                (block, "input_json_delta", "partial_json", input)
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for piece in halves(text) {
            let delta = json!({"type": kind, key: piece});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if calls { "tool_use" } else { "end_turn" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn responses(turns: &[Turn]) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "scripted", "status": "in_progress"}}),
    ];
    for (index, turn) in turns.iter().enumerate() {
        let (added, kind, text, done) = match turn {
            Turn::Text(text) => (
                json!({"type": "message", "content": []}),
                "response.output_text.delta",
                text,
                json!({"type": "message", "content": [{"type": "output_text", "text": text}]}),
            ),
            Turn::Call(id, name, input) => (
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": ""}),
                "response.function_call_arguments.delta",
                input,
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": input}),
            ),
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": added}),
        );
        for piece in halves(text) {
            events.push(json!({"type": kind, "output_index": index, "delta": piece}));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": done}),
        );
    }
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5});
    events.push(json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "usage": usage}}));
    events
}

fn chat(turns: &[Turn], calls: bool) -> Vec<Value> {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": "chat_1", "model": "scripted", "choices": [choice]})
    };
    let mut events = vec![chunk(json!({"role": "assistant"}), Value::Null)];
    let mut slot = 0;
    for turn in turns {
        match turn {
            Turn::Text(text) => {
                let pieces =
                    halves(text).map(|piece| chunk(json!({"content": piece}), Value::Null));
                events.extend(pieces);
            }
            Turn::Call(id, name, input) => {
                let [first, second] = halves(input);
                let begun = json!({"index": slot, "id": id, "type": "function", "function": {"name": name, "arguments": first}});
                let rest = json!({"index": slot, "function": {"arguments": second}});
                events.push(chunk(json!({"tool_calls": [begun]}), Value::Null));
                events.push(chunk(json!({"tool_calls": [rest]}), Value::Null));
                slot += 1;
            }
        }
    }
    events.push(chunk(json!({}), json!(if calls { "tool_calls" } else { "stop" })));
    let usage = json!({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 5});
    events.push(json!({"id": "chat_1", "model": "scripted", "choices": [], "usage": usage}));
    events
}
