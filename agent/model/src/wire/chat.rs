//! Chat completions as servers of many makers have them. Source: the reference of `POST /chat/completions`, and the
//! documentation of Ollama, vLLM and llama.cpp for their differences.

use serde_json::{Map, Value, json};

use super::{Decoder, Fault, fault, index, input, object, openai_usage, text};
use crate::event::{Event, Stop};
use crate::message::{Block, Image, Message, Outcome, Request, Role};

pub(super) fn body(request: &Request) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system.join("\n\n")}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut messages),
            Role::Assistant => messages.push(assistant(message)),
        }
    }
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.input});
            json!({"type": "function", "function": function})
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    if let (false, Some(fields)) = (tools.is_empty(), body.as_object_mut()) {
        fields.insert("tools".to_owned(), Value::Array(tools));
    }
    body
}

/// Adds a user message: results of tools are messages of their own, directly after the calls, and have text alone; their
/// images follow with the user's content.
fn user(message: &Message, messages: &mut Vec<Value>) {
    let mut content = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => content.push(json!({"type": "text", "text": text})),
            Block::Image(image) => content.push(picture(image)),
            Block::Outcome(outcome) => {
                messages.push(result(outcome));
                content.extend(outcome.images().map(picture));
            }
            Block::Thinking(_) | Block::Call { .. } => {}
        }
    }
    if !content.is_empty() {
        messages.push(json!({"role": "user", "content": content}));
    }
}

fn result(outcome: &Outcome) -> Value {
    // This form has no mark for a failure, so the text says it.
    let prefix = if outcome.is_error { "Error: " } else { "" };
    json!({"role": "tool", "tool_call_id": outcome.id, "content": format!("{prefix}{}", outcome.text())})
}

fn picture(Image { media_type, base64 }: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{base64}")}})
}

fn assistant(message: &Message) -> Value {
    let mut words = String::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) => words.push_str(text),
            Block::Call { id, name, input } => {
                let arguments = input.as_ref().map_or_else(String::clone, Value::to_string);
                let function = json!({"name": name, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            Block::Thinking(_) | Block::Image(_) | Block::Outcome(_) => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(words));
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message)
}

/// A block of which pieces arrive; its number is its place in the list.
enum Open {
    Text(String),
    Thinking(String),
    Call { slot: usize, id: String, name: String, json: String },
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Reader {
    blocks: Vec<Open>,
    started: bool,
    reason: Option<String>,
    complete: bool,
}

impl Decoder for Reader {
    fn take(&mut self, _name: &str, data: &str) -> Result<Vec<Event>, Fault> {
        if data.trim() == "[DONE]" {
            return self
                .end()
                .ok_or_else(|| Fault::Again("the answer has no finish reason".into()));
        }
        let chunk = Value::Object(object(data)?);
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(fault(error));
        }
        let mut events = Vec::new();
        if !self.started {
            self.started = true;
            let (id, model) = (text(&chunk, "id").to_owned(), text(&chunk, "model").to_owned());
            events.push(Event::Started { id, model });
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        if let Some(choice) = choices.and_then(|choices| choices.first()) {
            if let Some(delta) = choice.get("delta") {
                self.add(delta, &mut events);
            }
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
                self.reason = Some(reason.to_owned());
            }
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            let keys = ["prompt_tokens", "prompt_tokens_details", "completion_tokens"];
            events.push(Event::Used(openai_usage(usage, keys)));
        }
        Ok(events)
    }

    /// Some servers send no `[DONE]`: with a finish reason the answer is complete all the same.
    fn end(&mut self) -> Option<Vec<Event>> {
        if self.complete {
            return Some(Vec::new());
        }
        let reason = self.reason.clone()?;
        self.complete = true;
        let calls = self.blocks.iter().any(|block| matches!(block, Open::Call { .. }));
        let blocks = std::mem::take(&mut self.blocks).into_iter().enumerate();
        let mut events: Vec<Event> =
            blocks.map(|(index, open)| Event::Finished { index, block: whole(open) }).collect();
        events.push(Event::Ended(stop(&reason, calls)));
        Some(events)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Reader {
    fn add(&mut self, delta: &Value, events: &mut Vec<Event>) {
        // Two names for one thing: DeepSeek and vLLM, OpenRouter.
        let thought = [text(delta, "reasoning_content"), text(delta, "reasoning")];
        if let Some(piece) = thought.into_iter().find(|piece| !piece.is_empty()) {
            if !matches!(self.blocks.last(), Some(Open::Thinking(_))) {
                self.blocks.push(Open::Thinking(String::new()));
            }
            let index = self.blocks.len().saturating_sub(1);
            if let Some(Open::Thinking(whole)) = self.blocks.last_mut() {
                whole.push_str(piece);
            }
            events.push(Event::Thinking { index, text: piece.to_owned() });
        }
        let said = [text(delta, "content"), text(delta, "refusal")];
        for piece in said.into_iter().filter(|piece| !piece.is_empty()) {
            if !matches!(self.blocks.last(), Some(Open::Text(_))) {
                self.blocks.push(Open::Text(String::new()));
            }
            let index = self.blocks.len().saturating_sub(1);
            if let Some(Open::Text(whole)) = self.blocks.last_mut() {
                whole.push_str(piece);
            }
            events.push(Event::Text { index, text: piece.to_owned() });
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, events);
        }
    }

    fn call(&mut self, call: &Value, events: &mut Vec<Event>) {
        let (slot, given) = (index(call, "index"), text(call, "id"));
        let function = call.get("function").unwrap_or(&Value::Null);
        let piece = text(function, "arguments");
        // The newest call of this slot goes on, unless another identifier begins: Ollama gives each call the slot 0.
        let place = self.blocks.iter().rposition(|block| match block {
            Open::Call { slot: of, id, .. } => *of == slot && (given.is_empty() || given == id),
            Open::Text(_) | Open::Thinking(_) => false,
        });
        let index = place.unwrap_or_else(|| {
            let index = self.blocks.len();
            let id = if given.is_empty() { format!("call_{index}") } else { given.to_owned() };
            let name = text(function, "name").to_owned();
            events.push(Event::CallStarted { index, id: id.clone(), name: name.clone() });
            self.blocks.push(Open::Call { slot, id, name, json: String::new() });
            index
        });
        if let (Some(Open::Call { json, .. }), false) =
            (self.blocks.get_mut(index), piece.is_empty())
        {
            json.push_str(piece);
            events.push(Event::Input { index, json: piece.to_owned() });
        }
    }
}

fn whole(open: Open) -> Block {
    match open {
        Open::Text(text) => Block::Text(text),
        Open::Thinking(text) => Block::Thinking(json!({"type": "reasoning_text", "text": text})),
        Open::Call { id, name, json, .. } => Block::Call { id, name, input: input(&json) },
    }
}

/// `calls` says whether the answer has calls: some servers end such an answer with `stop`.
fn stop(reason: &str, calls: bool) -> Stop {
    match reason {
        "length" => Stop::OutputLimit,
        "content_filter" => Stop::Declined,
        "stop" | "tool_calls" | "function_call" if calls => Stop::Calls,
        "stop" => Stop::EndTurn,
        other => Stop::Other(other.to_owned()),
    }
}
