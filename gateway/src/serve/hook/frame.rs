//! Input of an agent's pre-tool hook, read into calls that the gate can judge.
//!
//! Frames as recorded from the agents themselves are in `tests/fixtures/agents/`.

use serde_json::{Map, Value};
use stockade_text::json;
use stockade_text::json::Dialect;

use super::table::{self, AgentRow, Split, ToolRow};
use super::{Agent, tools};

/// Most bytes of one frame.
pub(crate) const LIMIT_BYTES: usize = 16 << 20;

/// Frame that came on standard input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// Calls wait for an answer.
    Calls(Box<Waiting>),
    /// Something happened at which hooks may run.
    Told(Box<Told>),
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
    /// The row of the tool; none when its names are ours.
    pub tool: Option<ToolRow>,
    /// Options of the line that takes a command's place, about its streams.
    pub streams: Vec<String>,
    /// The agent's name for the call.
    pub call_id: Option<String>,
    /// The agent's session.
    pub session: Option<String>,
    /// Where the session works; a call may name another directory for itself.
    pub directory: String,
    /// The agent is in its plan mode: the one mode of an agent that counts, because it only tightens.
    pub plan: bool,
}

/// Something that happened at the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// Name of the event, as the agent has it.
    pub event: String,
    /// Our name of it.
    pub ours: String,
    /// The call that it is about: the source or reason in place of the tool, when it is about none.
    pub call: Call,
    /// Further input for hooks.
    pub further: Value,
    /// The agent's session.
    pub session: Option<String>,
    /// Where the session works.
    pub directory: String,
    /// The agent's name for the call.
    pub call_id: Option<String>,
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

/// Reads one frame that came to the hook of `agent`, which runs in the directory `here`. Returns the agent that sent it:
/// VS Code reads the hook files of two other agents, and its frames and answers are its own.
pub(crate) fn read_from(agent: Agent, bytes: &[u8], here: &str) -> (Agent, Result<Frame, String>) {
    let frame = match object(bytes) {
        Ok(frame) => frame,
        Err(error) => return (agent, Err(error)),
    };
    let rows =
        table::row(agent.name()).and_then(|row| Ok((row, table::row(Agent::VsCode.name())?)));
    match rows {
        Err(error) => (agent, Err(error)),
        Ok((row, code)) if is_of_code(agent, &row, &code, &frame) => {
            (Agent::VsCode, read_object(Agent::VsCode, &code, &frame, here))
        }
        Ok((row, _)) => (agent, read_object(agent, &row, &frame, here)),
    }
}

/// Says whether VS Code sent a frame to the hook of another agent: it names the event in its own way, or a tool that only
/// VS Code has.
fn is_of_code(agent: Agent, row: &AgentRow, code: &AgentRow, frame: &Value) -> bool {
    let names_event = |field: &str| frame.get(field).is_some_and(Value::is_string);
    let tool = text(frame, "tool_name").unwrap_or_default();
    match agent {
        Agent::Claude | Agent::Copilot => {
            let own = row.tools.contains_key(tool);
            let theirs = code.tools.contains_key(tool);
            !own && (names_event("hookEventName") || (names_event("hook_event_name") && theirs))
        }
        Agent::Codex
        | Agent::Gemini
        | Agent::OpenCode
        | Agent::Cline
        | Agent::Cursor
        | Agent::Antigravity
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen
        | Agent::Windsurf => false,
    }
}

/// Reads one frame; an error says what is wrong with it, one line without full stop.
#[cfg(test)]
pub(crate) fn read(agent: Agent, row: &AgentRow, bytes: &[u8]) -> Result<Frame, String> {
    read_object(agent, row, &object(bytes)?, "/p")
}

/// Reads one JSON object and nothing else.
fn object(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > LIMIT_BYTES {
        return Err(format!("the frame is longer than {} MiB", LIMIT_BYTES >> 20));
    }
    // The strict reader first: a key that stands twice could mean one thing here and another to the agent.
    json::read(bytes, Dialect::Strict).map_err(|error| {
        format!("the frame is not a JSON object: byte {}: {}", error.at, error.message)
    })?;
    let frame: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("the frame is not a JSON object: {error}"))?;
    if frame.is_object() { Ok(frame) } else { Err("the frame is not a JSON object".into()) }
}

fn read_object(agent: Agent, row: &AgentRow, frame: &Value, here: &str) -> Result<Frame, String> {
    let event = event(agent, row, frame)?;
    if let Some(ours) = row.told.get(event) {
        return told(agent, row, event, ours, frame).map(|told| Frame::Told(Box::new(told)));
    }
    if row.others.iter().any(|known| known == event) {
        return Ok(Frame::Other);
    }
    if !row.events.iter().any(|known| known == event) {
        let event = event.escape_debug();
        return Err(format!("unknown event `{event}`"));
    }
    let event = event.to_owned();
    let (name, input) = tool(agent, &event, frame)?;
    let inner = is_inner(row, &name, &input);
    let info = frame.get("tool_info").filter(|_| agent == Agent::Windsurf);
    let cwd = if agent == Agent::Windsurf && info.is_none_or(|call| call.get("cwd").is_none()) {
        // Its frames about files name no directory; the hook runs in that of the workspace.
        here.to_owned()
    } else {
        cwd(info.unwrap_or(frame))?
    };
    let calls = tools::calls(row, &name, &input, &cwd)?;
    for call in &calls {
        let command = call.input.get("command");
        if call.tool == "Bash" && !command.is_some_and(Value::is_string) {
            return Err("the shell tool has no `command`".into());
        }
    }
    let plan = text(frame, "permission_mode") == Some("plan");
    let (session, call_id) = (session(frame), call_id(frame));
    let tool = row.tools.get(&name).cloned();
    let (raw_input, directory) = (input, cwd);
    let streams = row.streams.clone();
    Ok(Frame::Calls(Box::new(Waiting {
        event,
        calls,
        raw_input,
        inner,
        tool,
        streams,
        call_id,
        session,
        directory,
        plan,
    })))
}

/// Reads a frame that tells of something.
fn told(
    agent: Agent,
    row: &AgentRow,
    event: &str,
    ours: &str,
    frame: &Value,
) -> Result<Told, String> {
    let cwd = cwd(frame)?;
    let directory = cwd.clone();
    let result = frame.get("tool_result").unwrap_or(frame);
    let call = match ours {
        "SessionStart" | "SessionEnd" => {
            let subject = text(frame, "source").or_else(|| text(frame, "reason"));
            let tool = subject.unwrap_or("other").to_owned();
            Call { tool, input: Value::Null, cwd }
        }
        _ => {
            let (name, input) = match agent {
                Agent::Cline => (
                    text(result, "name").unwrap_or_default().to_owned(),
                    result.get("input").cloned().unwrap_or_default(),
                ),
                Agent::Claude
                | Agent::Codex
                | Agent::Gemini
                | Agent::Copilot
                | Agent::OpenCode
                | Agent::Cursor
                | Agent::Antigravity
                | Agent::VsCode
                | Agent::Droid
                | Agent::Qwen
                | Agent::Windsurf => tool(agent, event, frame)?,
            };
            // Nothing waits here: a call that is not understood is told as it came.
            match tools::calls(row, &name, &input, &cwd).as_deref() {
                Ok([one]) => one.clone(),
                Ok(_) | Err(_) => {
                    let ours = row.tools.get(&name).map(|tool| tool.canonical.clone());
                    Call { tool: ours.unwrap_or(name), input, cwd }
                }
            }
        }
    };
    let mut further = Map::new();
    for key in ["tool_response", "duration_ms", "error", "is_interrupt", "model", "agent_type"] {
        if let Some(value) = frame.get(key) {
            further.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(reason) = frame.get("reason").filter(|_| ours == "PermissionDenied") {
        further.insert("reason".to_owned(), reason.clone());
    }
    if let Some(response) =
        frame.get("toolResult").or_else(|| frame.get("tool_result")?.get("output"))
    {
        further.insert("tool_response".to_owned(), response.clone());
    }
    let (event, ours) = (event.to_owned(), ours.to_owned());
    let (session, call_id) = (session(frame), call_id(frame));
    let further = Value::Object(further);
    Ok(Told { event, ours, call, further, session, directory, call_id })
}

fn session(frame: &Value) -> Option<String> {
    let keys =
        ["session_id", "sessionId", "taskId", "conversation_id", "conversationId", "trajectory_id"];
    keys.iter().find_map(|key| frame.get(key)?.as_str()).map(str::to_owned)
}

fn call_id(frame: &Value) -> Option<String> {
    let id = text(frame, "tool_use_id");
    let id = id.or_else(|| frame.get("tool_call").and_then(|call| text(call, "id")));
    id.or_else(|| frame.get("tool_result").and_then(|call| text(call, "id"))).map(str::to_owned)
}

/// Returns the agent's whole input with what is new in ours put back into its own fields.
pub(crate) fn given_back(waiting: &Waiting, new: &Value) -> Result<Value, String> {
    let Some(tool) = &waiting.tool else { return Ok(new.clone()) };
    let foreign =
        || "a hook changed the input in a way that this agent's tool does not know".to_owned();
    let ([call], Split::No, Some(members)) =
        (waiting.calls.as_slice(), &tool.split, new.as_object())
    else {
        return Err(foreign());
    };
    if tool.fields.is_empty() {
        return Ok(new.clone());
    }
    let known = |key: &String| tool.fields.iter().any(|(ours, _)| ours == key && ours != "cwd");
    if members.iter().any(|(key, value)| call.input.get(key) != Some(value) && !known(key)) {
        return Err(foreign());
    }
    let mut raw = waiting.raw_input.clone();
    let object = raw.as_object_mut().ok_or_else(foreign)?;
    for (ours, theirs) in tool.fields.iter().filter(|(ours, _)| ours != "cwd") {
        let present = theirs.iter().find(|name| object.contains_key(*name));
        let name = present.or(theirs.first()).ok_or_else(foreign)?;
        match new.get(ours) {
            Some(value) => object.insert(name.clone(), value.clone()),
            None => object.remove(name),
        };
    }
    Ok(raw)
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// Says whether a call reaches nothing but the agent itself.
fn is_inner(row: &AgentRow, name: &str, input: &Value) -> bool {
    let is_empty = |field: &String| match input.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    row.inner.iter().any(|inner| inner == name) || row.inner_without.get(name).is_some_and(is_empty)
}

/// Fields in which agents name their event. In a frame of one agent, a field of another one could name a second event.
const EVENT_FIELDS: [&str; 6] = [
    "hook_event_name",
    "hookEventName",
    "hookName",
    "hook_name",
    "event_name",
    "agent_action_name",
];

/// Fields of a frame without a tool, whatever its event.
const COMMON_FIELDS: [&str; 3] = ["sessionId", "timestamp", "cwd"];

/// Returns the name of the event.
fn event<'a>(agent: Agent, row: &'a AgentRow, frame: &'a Value) -> Result<&'a str, String> {
    let is_named = |field: &&&str| frame.get(**field).is_some();
    let foreign = |field: &&&str| !row.named.iter().any(|named| named == **field);
    if let Some(field) = EVENT_FIELDS.iter().filter(is_named).find(foreign) {
        return Err(format!("the frame names its event in `{field}`, as another agent does"));
    }
    let mut named = row.named.iter().filter_map(|field| Some((field, frame.get(field)?)));
    match (named.next(), named.next()) {
        (Some((_, Value::String(name))), None) => Ok(name),
        (Some((field, _)), None) => Err(format!("`{field}` is not a string")),
        (_, Some(_)) => Err("the frame names its event twice".into()),
        // Its frames name no event. One that tells of a call that ended has an error, or no call.
        (None, None) if agent == Agent::Antigravity => match frame.get("error") {
            None => Ok("PreToolUse"),
            Some(_) => Err("the frame reports a call that has ended".into()),
        },
        (None, None) if row.unnamed.is_empty() => Err("the frame does not name its event".into()),
        (None, None) => unnamed(row, frame),
    }
}

/// Returns the event of a frame that carries no name: its fields must be exactly those of one event.
fn unnamed<'a>(row: &'a AgentRow, frame: &Value) -> Result<&'a str, String> {
    if frame.get("toolName").is_some() {
        return match frame.get("toolResult") {
            None => Ok("preToolUse"),
            Some(Value::Object(_)) => Ok("postToolUse"),
            Some(_) => Err("`toolResult` is not an object".into()),
        };
    }
    let members = frame.as_object().ok_or("the frame is not a JSON object")?;
    let fits = |fields: &[String]| {
        let known = |key: &String| COMMON_FIELDS.contains(&key.as_str()) || fields.contains(key);
        let first = fields.first().is_some_and(|field| members.contains_key(field));
        first && members.keys().all(known)
    };
    let mut fitting = row.unnamed.iter().filter(|(_, fields)| fits(fields));
    match (fitting.next(), fitting.next()) {
        (Some((event, _)), None) => Ok(event),
        (_, _) => Err("the frame does not name its event".into()),
    }
}

fn missing(what: &str) -> String {
    format!("the frame has no `{what}`")
}

/// Returns the name that a frame has as `what`.
fn named(value: Option<&str>, what: &str) -> Result<String, String> {
    value.filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| missing(what))
}

/// Returns the object that a frame has as `what`.
fn object_as(value: Option<&Value>, what: &str) -> Result<Value, String> {
    match value {
        Some(value @ Value::Object(_)) => Ok(value.clone()),
        // Older releases of two agents sent the input as JSON text.
        Some(Value::String(text)) => {
            json::read(text.as_bytes(), Dialect::Strict)
                .map_err(|error| format!("`{what}` is not a JSON object: {}", error.message))?;
            match serde_json::from_str(text) {
                Ok(value @ Value::Object(_)) => Ok(value),
                Ok(_) | Err(_) => Err(format!("`{what}` is not an object")),
            }
        }
        Some(_) => Err(format!("`{what}` is not an object")),
        None => Err(missing(what)),
    }
}

fn tool(agent: Agent, event: &str, frame: &Value) -> Result<(String, Value), String> {
    match agent {
        Agent::Copilot if event == "permissionRequest" => Ok((
            named(text(frame, "toolName"), "toolName")?,
            object_as(frame.get("toolInput"), "toolInput")?,
        )),
        Agent::Copilot => Ok((
            named(text(frame, "toolName"), "toolName")?,
            object_as(frame.get("toolArgs"), "toolArgs")?,
        )),
        Agent::Cline => {
            let call = frame.get("tool_call").ok_or_else(|| missing("tool_call"))?;
            Ok((
                named(text(call, "name"), "tool_call.name")?,
                object_as(call.get("input"), "tool_call.input")?,
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
        Agent::Antigravity => {
            let call = frame.get("toolCall").ok_or_else(|| missing("toolCall"))?;
            Ok((
                named(text(call, "name"), "toolCall.name")?,
                object_as(call.get("args"), "toolCall.args")?,
            ))
        }
        Agent::Windsurf => {
            let call = object_as(frame.get("tool_info"), "tool_info")?;
            match event {
                "pre_mcp_tool_use" => {
                    let part = |key: &str| named(text(&call, key), key);
                    let (server, tool) = (part("mcp_server_name")?, part("mcp_tool_name")?);
                    let arguments =
                        object_as(call.get("mcp_tool_arguments"), "mcp_tool_arguments")?;
                    Ok((format!("mcp__{server}__{tool}"), arguments))
                }
                _ => Ok((event.to_owned(), call)),
            }
        }
        Agent::Claude
        | Agent::Codex
        | Agent::Gemini
        | Agent::OpenCode
        | Agent::Cursor
        | Agent::VsCode
        | Agent::Droid
        | Agent::Qwen => {
            let name = named(text(frame, "tool_name"), "tool_name")?;
            let name = of_server(agent, event, frame, name)?;
            Ok((name, object_as(frame.get("tool_input"), "tool_input")?))
        }
    }
}

/// Gives a tool of an MCP server the name that rules have for it, where the agent says of which server it is.
fn of_server(agent: Agent, event: &str, frame: &Value, name: String) -> Result<String, String> {
    match (agent, frame.get("mcp_context")) {
        (Agent::Gemini, None | Some(Value::Null)) => Ok(name),
        (Agent::Gemini, Some(server)) => {
            match (text(server, "server_name"), text(server, "tool_name")) {
                (Some(server), Some(tool)) => Ok(format!("mcp__{server}__{tool}")),
                (_, _) => Err("`mcp_context` does not name server and tool".into()),
            }
        }
        // This one does not name the server.
        (Agent::Cursor, _) => match (name.strip_prefix("MCP:"), event) {
            (Some(tool), _) => Ok(format!("mcp__cursor__{tool}")),
            (None, "beforeMCPExecution") => Ok(format!("mcp__cursor__{name}")),
            (None, _) => Ok(name),
        },
        (
            Agent::Claude
            | Agent::Codex
            | Agent::Copilot
            | Agent::OpenCode
            | Agent::Cline
            | Agent::Antigravity
            | Agent::VsCode
            | Agent::Droid
            | Agent::Qwen
            | Agent::Windsurf,
            _,
        ) => Ok(name),
    }
}

fn cwd(frame: &Value) -> Result<String, String> {
    let first = |key: &str| frame.get(key)?.as_array()?.first()?.as_str();
    let named = match frame.get("cwd") {
        None | Some(Value::Null) => None,
        Some(Value::String(path)) => Some(path.as_str()),
        Some(_) => return Err("the working directory is not a string".into()),
    };
    let lists = ["workspaceRoots", "workspace_roots", "workspacePaths"];
    let cwd = named.or_else(|| lists.iter().find_map(|key| first(key)));
    match cwd {
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        Some(_) => Err("the working directory is not absolute".into()),
        None => Err("the frame has no working directory".into()),
    }
}
