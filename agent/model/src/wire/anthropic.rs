//! Anthropic Messages with server-sent events. Source: the provider's reference of `POST /v1/messages`, version
//! 2023-06-01.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Decoder, Fault, fault, index, input, number, object, text};
use crate::event::{Event, Stop, Usage};
use crate::message::{Block, Image, Message, Request, Role};

/// User messages at the end of the conversation that end in a cache breakpoint. With the tools and the system prompt
/// that makes four, the most that the provider accepts.
const CACHED_TURNS: usize = 2;

pub(super) fn body(request: &Request) -> Value {
    let mut system: Vec<Value> =
        request.system.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input}))
        .collect();
    let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
    for part in [system.last_mut(), tools.last_mut()].into_iter().flatten() {
        mark(part);
    }
    let turns = messages.iter_mut().rev().filter(|message| text(message, "role") == "user");
    for turn in turns.take(CACHED_TURNS) {
        let blocks = turn.get_mut("content").and_then(Value::as_array_mut);
        if let Some(last) = blocks.and_then(|blocks| blocks.last_mut()) {
            mark(last);
        }
    }
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "stream": true,
        "messages": messages,
    });
    if let Some(fields) = body.as_object_mut() {
        for (name, list) in [("system", system), ("tools", tools)] {
            if !list.is_empty() {
                fields.insert(name.to_owned(), Value::Array(list));
            }
        }
        if let Some(tokens) = request.thinking_tokens {
            let mut thinking = json!({"type": "enabled", "budget_tokens": tokens});
            if let (Some(display), Some(thinking)) =
                (&request.thinking_display, thinking.as_object_mut())
            {
                thinking.insert("display".to_owned(), json!(display));
            }
            fields.insert("thinking".to_owned(), thinking);
        }
    }
    body
}

/// Marks a part as the end of a prefix that the provider keeps.
fn mark(part: &mut Value) {
    if let Some(fields) = part.as_object_mut() {
        fields.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    json!({"role": role, "content": message.blocks.iter().filter_map(block).collect::<Vec<_>>()})
}

/// Returns the wire form of a block; `None` for empty text and for the thinking of another provider, which the endpoint
/// would reject.
fn block(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text(text) if text.is_empty() => return None,
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Image(image) => picture(image),
        Block::Thinking(value) => match text(value, "type") {
            "thinking" | "redacted_thinking" => value.clone(),
            _ => return None,
        },
        Block::Call { id, name, input } => {
            let input = input.clone().unwrap_or_else(|text| json!({"invalid_json": text}));
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        Block::Outcome(outcome) => {
            let content: Vec<Value> = outcome.content.iter().filter_map(self::block).collect();
            let (id, is_error) = (&outcome.id, outcome.is_error);
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error})
        }
    })
}

fn picture(Image { media_type, base64 }: &Image) -> Value {
    let source = json!({"type": "base64", "media_type": media_type, "data": base64});
    json!({"type": "image", "source": source})
}

/// A block of which pieces arrive.
enum Open {
    Text(String),
    /// The object as it began, and the text that was added to it.
    Thinking(Value),
    Call {
        id: String,
        name: String,
        json: String,
    },
    Unknown,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Reader {
    open: BTreeMap<usize, Open>,
    used: Usage,
    complete: bool,
}

impl Decoder for Reader {
    fn take(&mut self, name: &str, data: &str) -> Result<Vec<Event>, Fault> {
        let data = Value::Object(object(data)?);
        let empty = Value::Null;
        let at = |key: &str| data.get(key).unwrap_or(&empty);
        Ok(match text(&data, "type") {
            "ping" => Vec::new(),
            "error" => return Err(fault(at("error"))),
            "message_start" => {
                let message = at("message");
                let (id, model) =
                    (text(message, "id").to_owned(), text(message, "model").to_owned());
                self.count(message.get("usage"));
                vec![Event::Started { id, model }, Event::Used(self.used)]
            }
            "content_block_start" => self.start(index(&data, "index"), at("content_block")),
            "content_block_delta" => self.add(index(&data, "index"), at("delta")),
            "content_block_stop" => self.stop(index(&data, "index")),
            "message_delta" => {
                self.count(data.get("usage"));
                let mut events = vec![Event::Used(self.used)];
                let reason = text(at("delta"), "stop_reason");
                events.extend((!reason.is_empty()).then(|| Event::Ended(stop(reason))));
                events
            }
            "message_stop" => {
                self.complete = true;
                Vec::new()
            }
            _ => vec![Event::Unknown { name: name.to_owned(), data }],
        })
    }

    fn end(&mut self) -> Option<Vec<Event>> {
        self.complete.then(Vec::new)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Reader {
    /// Takes totals; those that are missing stay as they are.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        for (key, total) in [
            ("input_tokens", &mut self.used.input),
            ("cache_creation_input_tokens", &mut self.used.cache_write),
            ("cache_read_input_tokens", &mut self.used.cache_read),
            ("output_tokens", &mut self.used.output),
        ] {
            if usage.get(key).is_some_and(Value::is_u64) {
                *total = number(usage, key);
            }
        }
    }

    fn start(&mut self, index: usize, block: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        let open = match text(block, "type") {
            "text" => Open::Text(text(block, "text").to_owned()),
            "thinking" | "redacted_thinking" => Open::Thinking(block.clone()),
            "tool_use" => {
                let (id, name) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                events.push(Event::CallStarted { index, id: id.clone(), name: name.clone() });
                // Endpoints that do not send pieces have the whole input here.
                let whole =
                    block.get("input").filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
                Open::Call { id, name, json: whole.map(Value::to_string).unwrap_or_default() }
            }
            kind => {
                events.push(Event::Unknown { name: kind.to_owned(), data: block.clone() });
                Open::Unknown
            }
        };
        self.open.insert(index, open);
        events
    }

    fn add(&mut self, index: usize, delta: &Value) -> Vec<Event> {
        let unknown =
            || vec![Event::Unknown { name: text(delta, "type").to_owned(), data: delta.clone() }];
        match (self.open.get_mut(&index), text(delta, "type")) {
            (Some(Open::Text(whole)), "text_delta") => {
                let piece = text(delta, "text");
                whole.push_str(piece);
                vec![Event::Text { index, text: piece.to_owned() }]
            }
            (Some(Open::Thinking(whole)), "thinking_delta") => {
                let piece = text(delta, "thinking");
                append(whole, "thinking", piece);
                vec![Event::Thinking { index, text: piece.to_owned() }]
            }
            (Some(Open::Thinking(whole)), "signature_delta") => {
                append(whole, "signature", text(delta, "signature"));
                Vec::new()
            }
            (Some(Open::Call { json, .. }), "input_json_delta") => {
                let piece = text(delta, "partial_json");
                json.push_str(piece);
                vec![Event::Input { index, json: piece.to_owned() }]
            }
            _ => unknown(),
        }
    }

    fn stop(&mut self, index: usize) -> Vec<Event> {
        let block = match self.open.remove(&index) {
            Some(Open::Text(text)) => Block::Text(text),
            Some(Open::Thinking(value)) => Block::Thinking(value),
            Some(Open::Call { id, name, json }) => Block::Call { id, name, input: input(&json) },
            Some(Open::Unknown) | None => return Vec::new(),
        };
        vec![Event::Finished { index, block }]
    }
}

/// Adds a piece to the text at `key` of an object.
fn append(object: &mut Value, key: &str, piece: &str) {
    let whole = [text(object, key), piece].concat();
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), Value::String(whole));
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "stop_sequence" => Stop::EndTurn,
        "tool_use" => Stop::Calls,
        "max_tokens" => Stop::OutputLimit,
        "model_context_window_exceeded" => Stop::ContextLimit,
        "refusal" => Stop::Declined,
        other => Stop::Other(other.to_owned()),
    }
}
