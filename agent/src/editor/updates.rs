//! Frames of a session as updates of the Agent Client Protocol.

use serde_json::{Value, json};

/// Returns the kind of a tool, as editors show it.
fn kind(tool: &str) -> &'static str {
    match tool {
        "Read" | "LS" | "NotebookRead" => "read",
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => "edit",
        "Glob" | "Grep" => "search",
        "Bash" | "Monitor" | "TaskOutput" | "TaskStop" => "execute",
        "WebFetch" | "WebSearch" | "SandboxNetworkAccess" => "fetch",
        "EnterPlanMode" | "ExitPlanMode" => "switch_mode",
        "TodoWrite" | "TaskCreate" | "TaskGet" | "TaskList" | "TaskUpdate" => "think",
        _ => "other",
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a call of a tool as an editor shows it.
pub(super) fn call(id: &str, tool: &str, input: &Value) -> Value {
    let keys = ["command", "file_path", "notebook_path", "path", "pattern", "host"];
    let about = keys.iter().map(|key| text(input, key)).find(|it| !it.is_empty());
    let title = match about {
        Some(about) if tool == "Bash" => about.to_owned(),
        Some(about) => format!("{tool} {about}"),
        None => tool.to_owned(),
    };
    let path = ["file_path", "notebook_path"].iter().map(|key| text(input, key));
    let locations: Vec<Value> =
        path.filter(|path| path.starts_with('/')).map(|path| json!({ "path": path })).collect();
    json!({ "toolCallId": id, "title": title, "kind": kind(tool), "rawInput": input, "locations": locations })
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

/// Returns the plan that a list of things to do is.
fn plan(input: &Value) -> Value {
    let todos = input.get("todos").and_then(Value::as_array).into_iter().flatten();
    let entries = todos.map(|todo| {
        let priority = match text(todo, "priority") {
            given @ ("high" | "low") => given,
            _ => "medium",
        };
        json!({ "content": text(todo, "content"), "priority": priority, "status": text(todo, "status") })
    });
    json!({ "sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>() })
}

/// Returns the content of a result: the change of a file, or text.
fn content(block: &Value, result: &Value) -> Vec<Value> {
    let old_and_new = match (result.get("newString"), result.get("content")) {
        (Some(new), _) => Some((result.get("oldString").cloned().unwrap_or_default(), new)),
        (None, Some(new)) if result.get("filePath").is_some() => {
            Some((result.get("originalFile").cloned().unwrap_or_default(), new))
        }
        _ => None,
    };
    if let Some((old, new)) = old_and_new.filter(|_| text(result, "filePath").starts_with('/')) {
        return vec![
            json!({ "type": "diff", "path": text(result, "filePath"), "oldText": old, "newText": new }),
        ];
    }
    let plain =
        |words: &str| json!({ "type": "content", "content": { "type": "text", "text": words } });
    match block.get("content") {
        Some(Value::String(words)) => vec![plain(words)],
        Some(Value::Array(blocks)) => {
            blocks.iter().map(|block| plain(text(block, "text"))).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// Returns the updates of one block of a message that is stored, or that just came.
pub(super) fn of_block(block: &Value, by_model: bool, result: &Value) -> Vec<Value> {
    match text(block, "type") {
        "text" if by_model => vec![chunk("agent_message_chunk", text(block, "text"))],
        "text" => vec![chunk("user_message_chunk", text(block, "text"))],
        "tool_use" => {
            let input = block.get("input").cloned().unwrap_or_default();
            let shown = call(text(block, "id"), text(block, "name"), &input);
            let status = json!({ "sessionUpdate": "tool_call", "status": "in_progress" });
            let plan = (text(block, "name") == "TodoWrite").then(|| plan(&input));
            std::iter::once(with(shown, status)).chain(plan).collect()
        }
        "tool_result" => {
            let failed = block.get("is_error") == Some(&Value::Bool(true));
            let status = if failed { "failed" } else { "completed" };
            let update = json!({ "sessionUpdate": "tool_call_update", "status": status,
                "toolCallId": text(block, "tool_use_id"), "content": content(block, result) });
            vec![update]
        }
        _ => Vec::new(),
    }
}

/// Returns the updates of a message.
pub(super) fn of_message(content: &Value, by_model: bool, result: &Value) -> Vec<Value> {
    match content {
        Value::String(words) => {
            of_block(&json!({ "type": "text", "text": words }), by_model, result)
        }
        Value::Array(blocks) => {
            blocks.iter().flat_map(|block| of_block(block, by_model, result)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the updates of a frame.
pub(super) fn of_frame(frame: &Value) -> Vec<Value> {
    let message = frame.get("message").cloned().unwrap_or_default();
    let blocks = message.get("content").cloned().unwrap_or_default();
    match text(frame, "type") {
        "stream_event" => {
            let delta = frame.get("event").and_then(|event| event.get("delta"));
            let delta = delta.cloned().unwrap_or_default();
            match text(&delta, "type") {
                "text_delta" => vec![chunk("agent_message_chunk", text(&delta, "text"))],
                "thinking_delta" => vec![chunk("agent_thought_chunk", text(&delta, "thinking"))],
                _ => Vec::new(),
            }
        }
        "assistant" => {
            // Text came in pieces already, unless it stands for an answer that did not come.
            let is_whole = text(&message, "model") == "<synthetic>";
            let of_call =
                |update: &Value| is_whole || text(update, "sessionUpdate") != "agent_message_chunk";
            of_message(&blocks, true, &Value::Null).into_iter().filter(of_call).collect()
        }
        "user" => {
            let result = frame.get("tool_use_result").cloned().unwrap_or_default();
            let of_result = |update: &Value| text(update, "sessionUpdate") == "tool_call_update";
            of_message(&blocks, false, &result).into_iter().filter(of_result).collect()
        }
        "system" if text(frame, "subtype") == "status" => {
            let mode = text(frame, "permissionMode");
            let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode });
            if mode.is_empty() { Vec::new() } else { vec![update] }
        }
        "system" if text(frame, "subtype") == "informational" => {
            vec![chunk("agent_message_chunk", &format!("\n{}\n", text(frame, "content")))]
        }
        _ => Vec::new(),
    }
}

/// Returns why a turn ended, or the reason of its failure.
pub(super) fn stop(result: &Value, is_cancelled: bool) -> Result<&'static str, String> {
    if is_cancelled {
        return Ok("cancelled");
    }
    match (text(result, "subtype"), text(result, "stop_reason")) {
        ("success", "max_tokens") => Ok("max_tokens"),
        ("success", "refusal") => Ok("refusal"),
        // The words of an endpoint that refused were shown.
        ("success", _) => Ok("end_turn"),
        ("error_max_turns", _) => Ok("max_turn_requests"),
        (subtype, _) => {
            let errors = result.get("errors").and_then(Value::as_array).into_iter().flatten();
            let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
            Err(if errors.is_empty() { subtype.to_owned() } else { errors.join("; ") })
        }
    }
}

/// Returns the content of a prompt in the form of the Messages API.
pub(super) fn prompt(blocks: &Value) -> Result<Value, String> {
    let blocks = blocks.as_array().ok_or("`prompt` is not a list of blocks")?;
    let mut content = Vec::new();
    for block in blocks {
        content.push(match text(block, "type") {
            "text" => json!({ "type": "text", "text": text(block, "text") }),
            "image" => json!({ "type": "image", "source": { "type": "base64",
                "media_type": text(block, "mimeType"), "data": text(block, "data") } }),
            // The agent reads the file by its tools, so that the rules decide.
            "resource_link" => {
                json!({ "type": "text", "text": format!("@{}", text(block, "uri")) })
            }
            "resource" => {
                let resource = block.get("resource").cloned().unwrap_or_default();
                let words = format!(
                    "<resource uri={:?}>\n{}\n</resource>",
                    text(&resource, "uri"),
                    text(&resource, "text")
                );
                json!({ "type": "text", "text": words })
            }
            other => {
                return Err(format!(
                    "a prompt with a block `{}` is not supported",
                    other.escape_debug()
                ));
            }
        });
    }
    Ok(Value::Array(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_results_are_shown_with_kind_place_and_change() {
        let input = json!({ "file_path": "/p/a.rs" });
        let block = json!({ "type": "tool_use", "id": "1", "name": "Edit", "input": input });
        let frame = json!({ "type": "assistant", "message": { "content": [block] } });
        let shown = of_frame(&frame).remove(0);
        assert_eq!((&shown["kind"], &shown["title"]), (&json!("edit"), &json!("Edit /p/a.rs")));
        assert_eq!(shown["locations"], json!([{ "path": "/p/a.rs" }]));
        let block = json!({ "type": "tool_result", "tool_use_id": "1", "content": "done" });
        let result = json!({ "filePath": "/p/a.rs", "oldString": "a", "newString": "b" });
        let frame =
            json!({ "type": "user", "message": { "content": [block] }, "tool_use_result": result });
        let shown = of_frame(&frame).remove(0);
        assert_eq!(
            shown["content"],
            json!([{ "type": "diff", "path": "/p/a.rs", "oldText": "a", "newText": "b" }])
        );
        assert_eq!(shown["status"], "completed");
    }

    #[test]
    fn a_turn_ends_as_editors_know_it() {
        let result = |subtype: &str| json!({ "subtype": subtype, "errors": ["no"] });
        assert_eq!(stop(&result("success"), false), Ok("end_turn"));
        assert_eq!(stop(&result("error_max_turns"), false), Ok("max_turn_requests"));
        assert_eq!(stop(&result("error_during_execution"), true), Ok("cancelled"));
        assert_eq!(stop(&result("error_during_execution"), false), Err("no".into()));
    }
}
