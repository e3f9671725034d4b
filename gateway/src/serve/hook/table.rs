//! What agents call their tools: the rows of `policies/agents.jsonc`.

use std::collections::BTreeMap;

use stockade_parser::json::{self, Dialect, Value};

/// The table as it ships.
pub(crate) const TEXT: &str = include_str!("../../../../policies/agents.jsonc");

/// What is known about one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentRow {
    /// Names of events at which a call waits for an answer.
    pub events: Vec<String>,
    /// Names of events at which nothing waits.
    pub others: Vec<String>,
    /// Tools that reach nothing but the agent itself.
    pub inner: Vec<String>,
    /// Names of events that it only tells of, and ours.
    pub told: BTreeMap<String, String>,
    /// Its tools by their name there.
    pub tools: BTreeMap<String, ToolRow>,
}

/// What is known about one tool of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRow {
    /// Our name of the tool.
    pub canonical: String,
    /// A list field whose elements are calls of their own.
    pub each: Option<String>,
    /// Our field name and the agent's; an empty one is the element of `each` itself.
    pub fields: Vec<(String, String)>,
}

/// Returns the row of agent `name`; an error says what is wrong with the table.
pub(crate) fn row(name: &str) -> Result<AgentRow, String> {
    let table = json::read(TEXT.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let row = table.get(name).ok_or_else(|| format!("no agent is called `{name}`"))?;
    let events = strings(row.get("events"))?;
    let others = strings(row.get("others"))?;
    let inner = strings(row.get("inner"))?;
    let mut tools = BTreeMap::new();
    for member in row.get("tools").and_then(Value::members).ok_or("`tools` is missing")? {
        tools.insert(member.key.clone(), tool(&member.value)?);
    }
    let mut told = BTreeMap::new();
    for member in row.get("told").and_then(Value::members).unwrap_or_default() {
        let ours = member.value.text().ok_or("the name of an event is a string")?;
        told.insert(member.key.clone(), ours.to_owned());
    }
    Ok(AgentRow { events, others, inner, told, tools })
}

fn tool(value: &Value) -> Result<ToolRow, String> {
    let canonical = value.get("as").and_then(Value::text).ok_or("`as` is missing")?.to_owned();
    let each = value.get("each").and_then(Value::text).map(str::to_owned);
    let mut fields = Vec::new();
    for member in value.get("fields").and_then(Value::members).ok_or("`fields` is missing")? {
        let theirs = member.value.text().ok_or("a field name is a string")?;
        fields.push((member.key.clone(), theirs.to_owned()));
    }
    Ok(ToolRow { canonical, each, fields })
}

fn strings(value: Option<&Value>) -> Result<Vec<String>, String> {
    let elements = value.and_then(Value::elements).ok_or("a list is missing")?;
    elements
        .iter()
        .map(|it| it.text().map(str::to_owned).ok_or_else(|| "a string is expected".to_owned()))
        .collect()
}

/// Returns the variables that agents set for what they start.
pub(crate) fn marks() -> Result<Vec<String>, String> {
    let table = json::read(TEXT.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let mut marks = Vec::new();
    for row in table.members().ok_or("the table is no object")? {
        let listed = row.value.get("shell").and_then(|shell| shell.get("marks"));
        if listed.is_some() {
            marks.extend(strings(listed)?);
        }
    }
    Ok(marks)
}
