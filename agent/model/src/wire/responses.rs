//! `OpenAI` Responses with server-sent events. Source: the provider's reference of `POST /responses`.

use serde_json::{Value, json};

use super::{Decoder, Fault, fault, index, input, object, openai_usage, text};
use crate::event::{Event, Stop};
use crate::message::{Block, Image, Message, Outcome, Request, Role};

pub(super) fn body(request: &Request) -> Value {
    let items: Vec<Value> = request.messages.iter().flat_map(items).collect();
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.input, "strict": false,
            })
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "max_output_tokens": request.max_output_tokens,
        "stream": true,
        "store": false,
        "input": items,
    });
    if let Some(fields) = body.as_object_mut() {
        if !request.system.is_empty() {
            fields.insert("instructions".to_owned(), json!(request.system.join("\n\n")));
        }
        if !tools.is_empty() {
            fields.insert("tools".to_owned(), Value::Array(tools));
        }
        if let Some(tokens) = request.thinking_tokens {
            fields.insert(
                "reasoning".to_owned(),
                json!({"effort": effort(tokens), "summary": "auto"}),
            );
            // Nothing is stored there, so the thinking travels with the conversation.
            fields.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        }
    }
    body
}

/// Returns the level that is nearest to a number of tokens.
fn effort(tokens: u64) -> &'static str {
    match tokens {
        0..4_096 => "low",
        4_096..16_384 => "medium",
        16_384.. => "high",
    }
}

/// Returns the items of one message: calls, results and thinking are items of their own, in their order.
fn items(message: &Message) -> Vec<Value> {
    let (role, kind) = match message.role {
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    let mut items: Vec<Value> = Vec::new();
    let mut content: Vec<Value> = Vec::new();
    let flush = |content: &mut Vec<Value>, items: &mut Vec<Value>| {
        if !content.is_empty() {
            let content = std::mem::take(content);
            items.push(json!({"type": "message", "role": role, "content": content}));
        }
    };
    for block in &message.blocks {
        let item = match block {
            Block::Text(text) if text.is_empty() => continue,
            Block::Text(text) => {
                content.push(json!({"type": kind, "text": text}));
                continue;
            }
            Block::Image(image) => {
                content.push(picture(image));
                continue;
            }
            Block::Thinking(value) if text(value, "type") == "reasoning" => value.clone(),
            Block::Thinking(_) => continue,
            Block::Call { id, name, input } => {
                let arguments = input.as_ref().map_or_else(String::clone, Value::to_string);
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            }
            Block::Outcome(outcome) => result(outcome),
        };
        flush(&mut content, &mut items);
        items.push(item);
    }
    flush(&mut content, &mut items);
    items
}

fn result(outcome: &Outcome) -> Value {
    // This form has no mark for a failure, so the text says it.
    let prefix = if outcome.is_error { "Error: " } else { "" };
    let mut output =
        vec![json!({"type": "input_text", "text": format!("{prefix}{}", outcome.text())})];
    output.extend(outcome.images().map(picture));
    json!({"type": "function_call_output", "call_id": outcome.id, "output": output})
}

fn picture(Image { media_type, base64 }: &Image) -> Value {
    json!({"type": "input_image", "image_url": format!("data:{media_type};base64,{base64}")})
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Reader {
    calls: bool,
    complete: bool,
}

impl Decoder for Reader {
    fn take(&mut self, name: &str, data: &str) -> Result<Vec<Event>, Fault> {
        let data = Value::Object(object(data)?);
        let empty = Value::Null;
        let at = |key: &str| data.get(key).unwrap_or(&empty);
        let place = index(&data, "output_index");
        let piece = || text(&data, "delta").to_owned();
        Ok(match text(&data, "type") {
            "response.created" => {
                let response = at("response");
                let (id, model) =
                    (text(response, "id").to_owned(), text(response, "model").to_owned());
                vec![Event::Started { id, model }]
            }
            "response.output_item.added" => match text(at("item"), "type") {
                "function_call" => {
                    let item = at("item");
                    let id = text(item, "call_id").to_owned();
                    vec![Event::CallStarted {
                        index: place,
                        id,
                        name: text(item, "name").to_owned(),
                    }]
                }
                _ => Vec::new(),
            },
            "response.output_text.delta" | "response.refusal.delta" => {
                vec![Event::Text { index: place, text: piece() }]
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                vec![Event::Thinking { index: place, text: piece() }]
            }
            "response.function_call_arguments.delta" => {
                vec![Event::Input { index: place, json: piece() }]
            }
            "response.output_item.done" => self.finish(place, at("item")),
            "response.completed" | "response.incomplete" => self.close(at("response")),
            "response.failed" => return Err(fault(at("response").get("error").unwrap_or(&empty))),
            "error" => return Err(fault(data.get("error").unwrap_or(&data))),
            "response.in_progress"
            | "response.queued"
            | "response.content_part.added"
            | "response.content_part.done"
            | "response.output_text.done"
            | "response.refusal.done"
            | "response.function_call_arguments.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_text.done" => Vec::new(),
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
    fn finish(&mut self, index: usize, item: &Value) -> Vec<Event> {
        let block = match text(item, "type") {
            "message" => {
                let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
                Block::Text(
                    parts.flat_map(|part| [text(part, "text"), text(part, "refusal")]).collect(),
                )
            }
            "reasoning" => Block::Thinking(item.clone()),
            "function_call" => {
                self.calls = true;
                let (id, name) = (text(item, "call_id").to_owned(), text(item, "name").to_owned());
                Block::Call { id, name, input: input(text(item, "arguments")) }
            }
            kind => return vec![Event::Unknown { name: kind.to_owned(), data: item.clone() }],
        };
        vec![Event::Finished { index, block }]
    }

    fn close(&mut self, response: &Value) -> Vec<Event> {
        self.complete = true;
        let mut events = Vec::new();
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            let keys = ["input_tokens", "input_tokens_details", "output_tokens"];
            events.push(Event::Used(openai_usage(usage, keys)));
        }
        let reason =
            response.get("incomplete_details").map_or("", |details| text(details, "reason"));
        events.push(Event::Ended(match reason {
            "" if self.calls => Stop::Calls,
            "" => Stop::EndTurn,
            "max_output_tokens" => Stop::OutputLimit,
            "content_filter" => Stop::Declined,
            other => Stop::Other(other.to_owned()),
        }));
        events
    }
}
