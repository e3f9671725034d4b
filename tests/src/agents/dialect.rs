//! The four forms in which agents talk to models, as far as a scripted model needs them.

use serde_json::{Value, json};

use super::TERMINAL;
use super::endpoint::{SUBTASK, Script};

/// A form of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `POST /v1/messages`, as Claude Code speaks.
    Messages,
    /// `POST …/responses`, as Codex speaks.
    Responses,
    /// `POST …/chat/completions`, as OpenCode speaks to a provider of its own.
    Chat,
    /// `POST …:generateContent` and `:streamGenerateContent`, as Gemini CLI speaks.
    Generate,
}

/// The next step of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A call of a tool.
    Call(String, Value),
    /// Words, which end the turn.
    Words(String),
}

/// The results of tools that a request carries, as text.
pub fn results(request: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in parts(request) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_result = kind == "tool_result"
            || kind.ends_with("_call_output")
            || part.get("functionResponse").is_some()
            || part.get("role").is_some_and(|role| role == "tool");
        if is_result {
            found.push(part.to_string());
        }
    }
    found
}

/// The messages of a request and the parts of their contents, in order.
fn parts(request: &Value) -> Vec<&Value> {
    let lists =
        ["messages", "input", "contents"].iter().filter_map(|key| request.get(key)?.as_array());
    let mut found = Vec::new();
    for message in lists.flatten() {
        found.push(message);
        for key in ["content", "parts"] {
            found.extend(message.get(key).and_then(Value::as_array).into_iter().flatten());
        }
    }
    found
}

/// Says whether a person's words in a request hold `word`.
fn asked_with(request: &Value, word: &str) -> bool {
    let lists =
        ["messages", "input", "contents"].iter().filter_map(|key| request.get(key)?.as_array());
    let mut people =
        lists.flatten().filter(|message| message.get("role").is_some_and(|it| it == "user"));
    people.any(|message| match message.get("content").or_else(|| message.get("parts")) {
        Some(Value::String(text)) => text.contains(word),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .any(|text| text.contains(word)),
        Some(_) | None => false,
    })
}

/// The names of the tools that a request offers.
fn tools(request: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for tool in request.get("tools").and_then(Value::as_array).into_iter().flatten() {
        // Gemini's declarations, and a namespace of tools as Codex sends it.
        let inner =
            ["functionDeclarations", "tools"].iter().find_map(|key| tool.get(key)?.as_array());
        let single = [tool.get("function").unwrap_or(tool)];
        for one in inner.into_iter().flatten().chain(single) {
            names.extend(one.get("name").and_then(Value::as_str).map(str::to_owned));
        }
    }
    names
}

impl Dialect {
    /// Returns the dialect of requests to `path`.
    pub fn of(path: &str) -> Option<Dialect> {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/messages") {
            Some(Dialect::Messages)
        } else if path.ends_with("/responses") {
            Some(Dialect::Responses)
        } else if path.ends_with("/chat/completions") {
            Some(Dialect::Chat)
        } else if path.ends_with("enerateContent") {
            Some(Dialect::Generate)
        } else {
            None
        }
    }

    /// Says whether the answer is to come as events.
    pub fn is_streamed(self, path: &str, request: &Value) -> bool {
        match self {
            Dialect::Generate => path.contains("streamGenerateContent"),
            Dialect::Messages | Dialect::Responses | Dialect::Chat => {
                request.get("stream").and_then(Value::as_bool).unwrap_or(false)
            }
        }
    }

    /// Returns the next step of the script in this conversation.
    pub fn step(self, request: &Value, script: &Script) -> Step {
        let offered = tools(request);
        let shell =
            ["Bash", "exec_command", "shell_command", "run_shell_command", "bash", "run_commands"];
        let shell = shell.iter().find(|name| offered.iter().any(|it| it == *name));
        let Some(shell) = shell else {
            return Step::Words("{\"next_speaker\":\"user\",\"reasoning\":\"\"}".into());
        };
        let sub = asked_with(request, SUBTASK);
        let commands = if sub { &script.sub_commands } else { &script.commands };
        let done = results(request).len();
        if let Some(command) = commands.get(done) {
            let mut input = match *shell {
                "exec_command" => json!({ "cmd": command, "tty": command == TERMINAL }),
                "run_commands" => json!({ "commands": [command] }),
                _ => json!({ "command": command }),
            };
            if *shell == "bash" {
                input["description"] = json!("a step");
            }
            return Step::Call((*shell).to_owned(), input);
        }
        let starts = !sub && !script.sub_commands.is_empty();
        match (starts.then(|| delegate(&offered)).flatten(), done - commands.len()) {
            (Some(call), 0) => call,
            // Codex starts a sub-agent and waits for it with another call.
            (Some(Step::Call(name, _)), 1) if name == "spawn_agent" => wait(request),
            (_, _) => Step::Words("done".into()),
        }
    }

    /// Returns the answer that says `step`.
    pub fn say(self, step: &Step, streamed: bool) -> String {
        match self {
            Dialect::Messages => messages(step, streamed),
            Dialect::Responses => responses(step),
            Dialect::Chat => chat(step, streamed),
            Dialect::Generate => generate(step, streamed),
        }
    }
}

/// The call that starts a sub-agent with the tools of this agent.
fn delegate(offered: &[String]) -> Option<Step> {
    let prompt = format!("{SUBTASK}: do the steps");
    let call = |name: &str, input: Value| Some(Step::Call(name.to_owned(), input));
    let has = |name: &str| offered.iter().any(|it| it == name);
    if has("Agent") || has("Task") {
        let name = if has("Agent") { "Agent" } else { "Task" };
        return call(
            name,
            json!({"description": "steps", "prompt": prompt, "subagent_type": "general-purpose"}),
        );
    }
    if has("task") && has("read_bash") {
        return call(
            "task",
            json!({"name": "steps", "description": "steps", "prompt": prompt,
                "agent_type": "general-purpose", "mode": "sync"}),
        );
    }
    if has("task") {
        return call(
            "task",
            json!({"description": "steps", "prompt": prompt, "subagent_type": "general"}),
        );
    }
    if has("spawn_agent") {
        return call("spawn_agent", json!({"message": prompt}));
    }
    if has("invoke_agent") {
        return call("invoke_agent", json!({"agent_name": "generalist", "prompt": prompt}));
    }
    None
}

fn wait(request: &Value) -> Step {
    let results = results(request);
    let text = results.last().map(String::as_str).unwrap_or_default();
    // The answer of `spawn_agent` holds the identity of the new agent, as JSON within JSON.
    let marks = text.replace('\\', "");
    let id = marks.split("agent_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let targets: Vec<&str> = id.into_iter().collect();
    Step::Call("wait_agent".into(), json!({"targets": targets, "timeout_ms": 60_000}))
}

/// Server-sent events with a name each.
fn events(list: &[Value]) -> String {
    let one = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"))
    };
    list.iter().map(one).collect()
}

fn messages(step: &Step, streamed: bool) -> String {
    let (block, delta, reason) = match step {
        Step::Call(name, input) => (
            json!({"type": "tool_use", "id": fresh("toolu"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
        Step::Words(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
            "end_turn",
        ),
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = |content: Value, reason: Value| {
        json!({"id": fresh("msg"), "type": "message", "role": "assistant", "model": "mock-1",
            "content": content, "stop_reason": reason, "stop_sequence": null, "usage": usage})
    };
    if !streamed {
        let whole = match step {
            Step::Call(name, input) => {
                json!({"type": "tool_use", "id": fresh("toolu"), "name": name, "input": input})
            }
            Step::Words(text) => json!({"type": "text", "text": text}),
        };
        return message(json!([whole]), json!(reason)).to_string();
    }
    events(&[
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
        json!({"type": "message_stop"}),
    ])
}

fn responses(step: &Step) -> String {
    let item = match step {
        Step::Call(name, input) => {
            let mut item = json!({"type": "function_call", "id": fresh("fc"), "call_id": fresh("call"),
                "name": name, "arguments": input.to_string()});
            if name.ends_with("_agent") {
                item["namespace"] = json!("multi_agent_v1");
            }
            item
        }
        Step::Words(text) => json!({"type": "message", "id": fresh("msg"), "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}),
    };
    let id = fresh("resp");
    let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2});
    events(&[
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "output": [item], "usage": usage}}),
    ])
}

fn chat(step: &Step, streamed: bool) -> String {
    let (message, reason) = match step {
        Step::Call(name, input) => (
            json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": fresh("call"),
                "type": "function", "function": {"name": name, "arguments": input.to_string()}}]}),
            "tool_calls",
        ),
        Step::Words(text) => (json!({"role": "assistant", "content": text}), "stop"),
    };
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let id = fresh("chatcmpl");
    if !streamed {
        return json!({"id": id, "object": "chat.completion", "created": 1, "model": "mock-1", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        .to_string();
    }
    let chunk = |delta: Value, reason: Value| {
        json!({"id": id, "object": "chat.completion.chunk", "created": 1, "model": "mock-1", "usage": usage,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        chunk(message, Value::Null),
        chunk(json!({}), json!(reason))
    )
}

fn generate(step: &Step, streamed: bool) -> String {
    let part = match step {
        Step::Call(name, input) => {
            json!({"functionCall": {"id": fresh("call"), "name": name, "args": input}})
        }
        Step::Words(text) => json!({"text": text}),
    };
    let answer = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "mock-1"
    });
    if streamed { format!("data: {answer}\n\n") } else { answer.to_string() }
}

/// An identity that no other answer has.
fn fresh(kind: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    format!("{kind}_{:08}", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}
