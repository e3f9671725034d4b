//! Tools that the agent does itself, and those of the host's servers. Each takes the right to run.

use std::time::Duration;

use serde_json::{Value, json};
use stockade_files::visible;
use stockade_model::{Block, Image};

use crate::catalogue::{Kind, Tool};
use crate::database;
use crate::decided::Granted;
use crate::door::Door;
use crate::host::{Host, Note};
use crate::stages::Ran;
use crate::tasks::Watch;

/// How long TaskOutput waits when it names no limit.
const WAIT: Duration = Duration::from_secs(30);
/// Version of the Model Context Protocol that is spoken with servers of the host.
const MCP: &str = "2025-11-25";
/// Most characters of a server's result.
const CHARACTERS: usize = 100_000;

fn ran(text: impl Into<String>, result: Value) -> Ran {
    Ran { content: vec![Block::Text(text.into())], is_error: false, result, ends: None }
}

fn failed(message: impl Into<String>) -> Ran {
    let message = message.into();
    Ran {
        content: vec![Block::Text(message.clone())],
        is_error: true,
        result: json!(format!("Error: {message}")),
        ends: None,
    }
}

pub(crate) async fn run(door: &Door, kind: &Kind, granted: &Granted) -> Ran {
    if let Kind::Mcp { server, tool, .. } = kind {
        return call(door, (server, tool), granted).await;
    }
    let input = granted.input();
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    match granted.name() {
        "TodoWrite" => {
            let todos = input.get("todos").cloned().unwrap_or_default();
            let before = door.session.set_todos(todos.clone());
            ran("The list is updated.", json!({ "oldTodos": before, "newTodos": todos }))
        }
        "EnterPlanMode" => match door.session.set_mode("plan") {
            Ok(()) => {
                door.host.note(Note::Mode("plan".into()));
                ran(
                    "Plan mode is on: nothing can be changed. Show the plan with ExitPlanMode.",
                    json!({}),
                )
            }
            Err(error) => failed(error),
        },
        "ExitPlanMode" => {
            let mode = door.session.leave_plan();
            door.host.note(Note::Mode(mode.clone()));
            let plan = text("plan").unwrap_or_default();
            ran(
                format!("The plan is accepted. The mode is `{mode}` now; begin."),
                json!({ "plan": plan, "isAgent": false }),
            )
        }
        "AskUserQuestion" => answered(input),
        "StructuredOutput" => {
            door.session.set_structured(Some(input.clone()));
            ran("The result is complete.", input.clone())
        }
        "TaskOutput" => output(door, input).await,
        "TaskStop" => match text("task_id").or_else(|| text("shell_id")) {
            Some(id) => match door.tasks.stop(id).await {
                Ok(()) => ran(
                    format!("The background command {id} was stopped."),
                    json!({ "task_id": id }),
                ),
                Err(error) => failed(error),
            },
            None => failed("`task_id` is missing."),
        },
        "Monitor" => watch(door, granted).await,
        "sql" => match database::ask(door.database.as_deref(), input).await {
            Ok((shown, table)) => ran(visible(&shown), table),
            Err(error) => failed(error),
        },
        tool @ ("TaskCreate" | "TaskGet" | "TaskList" | "TaskUpdate") => {
            listed(door, tool, input).await
        }
        other => failed(format!("`{other}` is not done by the agent")),
    }
}

/// Tells what the person answered to questions.
fn answered(input: &Value) -> Ran {
    match input.get("answers").filter(|it| it.as_object().is_some_and(|it| !it.is_empty())) {
        Some(answers) => ran(
            format!("The person answered: {}", visible(&answers.to_string())),
            json!({ "questions": input.get("questions"), "answers": answers }),
        ),
        None => failed("Nobody answered. Decide yourself, and say what you assumed."),
    }
}

/// Shows what a background command wrote since the last call.
async fn output(door: &Door, input: &Value) -> Ran {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let Some(id) = text("task_id") else { return failed("`task_id` is missing.") };
    let blocks = input.get("block").and_then(Value::as_bool).unwrap_or_default();
    let limit = input.get("timeout").and_then(Value::as_u64).map_or(WAIT, Duration::from_millis);
    match door.tasks.output(id, text("filter"), blocks.then_some(limit)).await {
        Ok((output, state)) => {
            let shown = if output.is_empty() { "(nothing new)" } else { &output };
            ran(
                format!("State: {state}\n{shown}"),
                json!({ "task_id": id, "status": state, "output": output }),
            )
        }
        Err(error) => failed(error),
    }
}

/// Does a call of a tool of the task list. Hooks may keep an item from coming onto the list, or from being done.
async fn listed(door: &Door, tool: &str, input: &Value) -> Ran {
    let (told, result, list) = match door.session.list(tool, input) {
        Ok(done) => done,
        Err(error) => return failed(error),
    };
    let completes = input.get("status").and_then(Value::as_str) == Some("completed");
    let (event, id) = match tool {
        "TaskCreate" => ("TaskCreated", result.pointer("/task/id")),
        "TaskUpdate" if completes => ("TaskCompleted", input.get("taskId")),
        _ => ("", None),
    };
    if let Some(item) = id.and_then(Value::as_str).and_then(|id| list.item(id)) {
        let more = json!({ "task_id": item.id, "task_subject": item.subject, "task_description": item.description });
        if let Some(reason) = door.event(event, "", more).await.stops() {
            return failed(format!("A hook kept the list as it was: {reason}"));
        }
    }
    door.session.set_list(list);
    ran(told, result)
}

/// Watches a background command that runs already.
async fn watch(door: &Door, granted: &Granted) -> Ran {
    let Some(name) = granted.input().get("task_id").and_then(Value::as_str) else {
        return failed("`command` or `task_id` is missing.");
    };
    let watch = Watch::of(granted.input(), granted.call_id(), false);
    match door.tasks.watch(name, watch).await {
        Ok(()) => ran(format!("The lines of {name} are watched."), json!({ "taskId": name })),
        Err(error) => failed(error),
    }
}

/// Calls a tool of a server of the host.
async fn call(door: &Door, (server, tool): (&str, &str), granted: &Granted) -> Ran {
    let params = json!({ "name": tool, "arguments": granted.input() });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let reply = match door.host.mcp(server, request).await {
        Ok(reply) => reply,
        Err(error) => return failed(format!("The server `{server}` did not answer: {error}")),
    };
    if let Some(error) = reply.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
        return failed(format!(
            "The server `{server}` answered with an error: {}",
            visible(message)
        ));
    }
    let Some(result) = reply.get("result").filter(|it| it.is_object()) else {
        return failed(format!(
            "The server `{server}` answered with neither a result nor an error."
        ));
    };
    let items = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let content: Vec<Block> = items.iter().filter_map(block).collect();
    let content =
        if content.is_empty() { vec![Block::Text("(no content)".into())] } else { content };
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    Ran { content, is_error, result: Value::Array(items), ends: None }
}

fn block(item: &Value) -> Option<Block> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    match text("type")? {
        "text" => {
            let text: String = text("text")?.chars().take(CHARACTERS).collect();
            Some(Block::Text(visible(&text)))
        }
        "image" => Some(Block::Image(Image {
            media_type: text("mimeType")?.into(),
            base64: text("data")?.into(),
        })),
        _ => Some(Block::Text(visible(
            &item.to_string().chars().take(CHARACTERS).collect::<String>(),
        ))),
    }
}

/// Greets a server of the host and returns its tools.
///
/// # Errors
///
/// The server does not answer, or with something else.
pub async fn server_tools(host: &dyn Host, server: &str) -> Result<Vec<Tool>, String> {
    let info = json!({ "name": "stockade", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": MCP, "capabilities": {}, "clientInfo": info });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    result(host.mcp(server, hello).await?)?;
    host.mcp(server, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let listed = result(host.mcp(server, list).await?)?;
    let tools = listed.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(tools.iter().filter_map(|tool| described(server, tool)).collect())
}

fn result(reply: Value) -> Result<Value, String> {
    match reply.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(reply
            .get("error")
            .map_or_else(|| "the reply has no result".into(), Value::to_string)),
    }
}

fn described(server: &str, tool: &Value) -> Option<Tool> {
    let name = tool.get("name").and_then(Value::as_str)?;
    let hint =
        |key: &str| tool.get("annotations").and_then(|it| it.get(key)).and_then(Value::as_bool);
    Some(Tool {
        name: format!("mcp__{server}__{name}"),
        description: tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
        kind: Kind::Mcp {
            server: server.to_owned(),
            tool: name.to_owned(),
            reads: hint("readOnlyHint") == Some(true),
        },
    })
}
