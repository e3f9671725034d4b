//! What an agent tells its pre-tool hook, read into calls that the gate can judge.
//!
//! Frames as recorded from the agents themselves are in `tests/fixtures/agents/`.

use serde_json::{Map, Value};
use stockade_parser::json::{self, Dialect};

use super::Agent;
use super::table::{AgentRow, ToolRow};

/// Most bytes of one frame.
pub(crate) const LIMIT_BYTES: usize = 16 << 20;

/// What came on standard input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// Calls wait for an answer.
    Calls(Box<Waiting>),
    /// An event at which nothing waits.
    Other,
}

/// Calls that wait for one answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waiting {
    /// Name of the event, as the agent has it.
    pub event: String,
    /// The calls; one answer holds for all.
    pub calls: Vec<Call>,
    /// The tool input as the agent sent it, for a rewrite.
    pub raw_input: Value,
    /// The tool reaches nothing but the agent itself.
    pub inner: bool,
    /// The agent's session.
    pub session: Option<String>,
    /// The agent is in its plan mode: the one mode of an agent that counts, because it only tightens.
    pub plan: bool,
}

/// One call to be judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Our name of the tool.
    pub tool: String,
    /// Its input in our field names.
    pub input: Value,
    /// Working directory.
    pub cwd: String,
}

/// Reads one frame; an error says what is wrong with it, one line without full stop.
pub(crate) fn read(agent: Agent, row: &AgentRow, bytes: &[u8]) -> Result<Frame, String> {
    if bytes.len() > LIMIT_BYTES {
        return Err(format!("the frame is longer than {} MiB", LIMIT_BYTES >> 20));
    }
    // The strict reader first: a key that stands twice could mean one thing here and another to the agent.
    json::read(bytes, Dialect::Strict).map_err(|error| {
        format!("the frame is no JSON object: byte {}: {}", error.at, error.message)
    })?;
    let frame: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("the frame is no JSON object: {error}"))?;
    if !frame.is_object() {
        return Err("the frame is no JSON object".into());
    }
    let event = event(agent, &frame)?;
    if row.others.iter().any(|known| known == event) {
        return Ok(Frame::Other);
    }
    if !row.events.iter().any(|known| known == event) {
        let event = event.escape_debug();
        return Err(format!("the event `{event}` is not known to this version of stockade"));
    }
    let event = event.to_owned();
    let (name, input) = tool(agent, &event, &frame)?;
    let inner = row.inner.contains(&name);
    let cwd = cwd(&frame)?;
    let calls = match row.tools.get(&name) {
        Some(tool) => renamed(tool, &name, &input, &cwd)?,
        None => vec![Call { tool: name, input: input.clone(), cwd }],
    };
    for call in &calls {
        let command = call.input.get("command");
        if call.tool == "Bash" && !command.is_some_and(Value::is_string) {
            return Err("the shell tool has no `command`".into());
        }
    }
    let session = ["session_id", "sessionId", "taskId", "conversation_id"];
    let session = session.iter().find_map(|key| frame.get(key)?.as_str()).map(str::to_owned);
    let plan = text(&frame, "permission_mode") == Some("plan");
    Ok(Frame::Calls(Box::new(Waiting { event, calls, raw_input: input, inner, session, plan })))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// Returns the name of the event. Copilot's tool events carry none: there the fields tell.
fn event(agent: Agent, frame: &Value) -> Result<&str, String> {
    let named = match agent {
        Agent::Cline => text(frame, "hookName"),
        Agent::Copilot => text(frame, "hookName").or_else(|| match frame.get("toolName") {
            Some(_) if frame.get("toolResult").is_some() => Some("postToolUse"),
            Some(_) => Some("preToolUse"),
            None => Some("other"),
        }),
        Agent::Claude | Agent::Codex | Agent::Gemini | Agent::OpenCode | Agent::Cursor => {
            text(frame, "hook_event_name")
        }
    };
    named.ok_or_else(|| "the frame does not name its event".into())
}

fn tool(agent: Agent, event: &str, frame: &Value) -> Result<(String, Value), String> {
    let missing = |what: &str| format!("the frame has no `{what}`");
    let object = |value: Option<&Value>, what: &str| match value {
        Some(value @ Value::Object(_)) => Ok(value.clone()),
        // Older releases of two agents sent the input as JSON text.
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(_) | Err(_) => Err(format!("`{what}` is no object")),
        },
        Some(_) => Err(format!("`{what}` is no object")),
        None => Err(missing(what)),
    };
    let name = |value: Option<&str>, what: &str| {
        value.filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| missing(what))
    };
    match agent {
        Agent::Copilot => Ok((
            name(text(frame, "toolName"), "toolName")?,
            object(frame.get("toolArgs"), "toolArgs")?,
        )),
        Agent::Cline => {
            let call = frame.get("tool_call").ok_or_else(|| missing("tool_call"))?;
            Ok((
                name(text(call, "name"), "tool_call.name")?,
                object(call.get("input"), "tool_call.input")?,
            ))
        }
        Agent::Cursor if event == "beforeShellExecution" => {
            let command = frame.get("command").cloned().ok_or_else(|| missing("command"))?;
            Ok(("Shell".into(), Value::Object(Map::from_iter([("command".to_owned(), command)]))))
        }
        Agent::Cursor if event == "beforeReadFile" => {
            let path = frame.get("file_path").cloned().ok_or_else(|| missing("file_path"))?;
            Ok(("Read".into(), Value::Object(Map::from_iter([("file_path".to_owned(), path)]))))
        }
        Agent::Claude | Agent::Codex | Agent::Gemini | Agent::OpenCode | Agent::Cursor => Ok((
            name(text(frame, "tool_name"), "tool_name")?,
            object(frame.get("tool_input"), "tool_input")?,
        )),
    }
}

fn cwd(frame: &Value) -> Result<String, String> {
    let first = |key: &str| frame.get(key)?.as_array()?.first()?.as_str();
    let cwd =
        text(frame, "cwd").or_else(|| first("workspaceRoots")).or_else(|| first("workspace_roots"));
    match cwd {
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        Some(_) => Err("the working directory is not absolute".into()),
        None => Err("the frame has no working directory".into()),
    }
}

/// Gives a tool and its fields our names; an element of a list field becomes a call of its own.
fn renamed(tool: &ToolRow, name: &str, input: &Value, cwd: &str) -> Result<Vec<Call>, String> {
    let Some(list) = &tool.each else {
        return Ok(vec![one(tool, input, cwd)?]);
    };
    let elements = input.get(list).and_then(Value::as_array);
    let elements = elements.ok_or_else(|| format!("`{name}` has no list `{list}`"))?;
    elements.iter().map(|element| one(tool, element, cwd)).collect()
}

fn one(tool: &ToolRow, input: &Value, cwd: &str) -> Result<Call, String> {
    let mut ours = Map::new();
    for (our, their) in &tool.fields {
        let value = if their.is_empty() { element(input)? } else { input.get(their).cloned() };
        if let Some(value) = value {
            ours.insert(our.clone(), value);
        }
    }
    let folder = ours.remove("cwd");
    let cwd = match folder {
        None | Some(Value::Null) => cwd.to_owned(),
        Some(Value::String(path)) if path.starts_with('/') => path,
        Some(Value::String(path)) => format!("{cwd}/{path}"),
        Some(_) => return Err("the working directory of the call is no string".into()),
    };
    Ok(Call { tool: tool.canonical.clone(), input: Value::Object(ours), cwd })
}

/// An element of a list: text, or an object with a path.
fn element(value: &Value) -> Result<Option<Value>, String> {
    match value {
        Value::String(_) => Ok(Some(value.clone())),
        Value::Object(object) => match object.get("path") {
            Some(path @ Value::String(_)) => Ok(Some(path.clone())),
            Some(_) | None => Err("an element of the call is not understood".into()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err("an element of the call is not understood".into())
        }
    }
}
