//! Names that agents have for their tools: the rows of `policies/agents.jsonc`.

use std::collections::BTreeMap;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::View;
use stockade_text::json::{Member, Value};

/// The table as it ships.
pub(crate) const TEXT: &str = include_str!("../../../../policies/agents.jsonc");

const UNREADABLE: &str = "cannot read the table of agents";

/// Row of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentRow {
    /// The fields that name the event; a frame has one of them.
    pub named: Vec<String>,
    /// Events whose frames carry no name, and the fields of their frames; the first one must be present.
    pub unnamed: BTreeMap<String, Vec<String>>,
    /// Names of events at which a call waits for an answer.
    pub events: Vec<String>,
    /// Names of events at which nothing waits.
    pub others: Vec<String>,
    /// Tools that reach nothing but the agent itself.
    pub inner: Vec<String>,
    /// Tools that reach nothing but the agent while this field is absent or empty.
    pub inner_without: BTreeMap<String, String>,
    /// Its tools have our names, those of tools that are not listed too.
    pub has_our_names: bool,
    /// Names of events that it only tells of, and ours.
    pub told: BTreeMap<String, String>,
    /// Options of the hook's line about the streams of a command.
    pub streams: Vec<String>,
    /// Its tools by their name there.
    pub tools: BTreeMap<String, ToolRow>,
}

/// Row of one tool of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRow {
    /// Our name of the tool.
    pub canonical: String,
    /// How one call of the agent's becomes calls of ours.
    pub split: Split,
    /// Our field name and the names that the agent has for it; an empty one is an element itself. Without any, all
    /// names are ours.
    pub fields: Vec<(String, Vec<String>)>,
    /// Fields besides these that hold no path and no command.
    pub besides: Vec<String>,
}

/// How one call of an agent becomes calls of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Split {
    /// The call is one of ours.
    No,
    /// Each element of a list field is one.
    Each(String),
    /// Each file that the patch in a field names is one.
    Patch(String),
    /// Each address in the text of a field is one.
    Addresses(String),
}

/// Returns the row of agent `name`; an error says what is wrong with the table.
pub(crate) fn row(name: &str) -> Result<AgentRow, String> {
    let table = view(Table::Agents).members().ok_or(UNREADABLE)?;
    let row = table.get(name).ok_or_else(|| format!("unknown agent `{name}`"))?;
    let row = row.value().ok_or(UNREADABLE)?;
    let named = strings(row.get("named"))?;
    let mut unnamed = BTreeMap::new();
    for member in row.get("unnamed").and_then(Value::members).unwrap_or_default() {
        unnamed.insert(member.key.clone(), strings(Some(&member.value))?);
    }
    let inner_without = names(row.get("inner_without"))?;
    let events = strings(row.get("events"))?;
    let others = strings(row.get("others"))?;
    let inner = strings(row.get("inner"))?;
    let mut tools = BTreeMap::new();
    for member in row.get("tools").and_then(Value::members).ok_or("`tools` is missing")? {
        tools.insert(member.key.clone(), tool(&member.value)?);
    }
    let told = names(row.get("told"))?;
    let streams = row.get("streams").map_or(Ok(Vec::new()), |list| strings(Some(list)))?;
    let has_our_names = row.get("names").and_then(Value::text) == Some("ours");
    Ok(AgentRow {
        named,
        unnamed,
        events,
        others,
        inner,
        inner_without,
        has_our_names,
        told,
        streams,
        tools,
    })
}

/// Returns an object of strings; an absent one is empty.
fn names(value: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let members = value.and_then(Value::members).unwrap_or_default().iter();
    let pair = |member: &Member| Some((member.key.clone(), member.value.text()?.to_owned()));
    members.map(pair).collect::<Option<_>>().ok_or_else(|| "a string is expected".to_owned())
}

fn tool(value: &Value) -> Result<ToolRow, String> {
    let text = |key: &str| value.get(key).and_then(Value::text).map(str::to_owned);
    let split = match (text("each"), text("patch"), text("addresses")) {
        (None, None, None) => Split::No,
        (Some(field), None, None) => Split::Each(field),
        (None, Some(field), None) => Split::Patch(field),
        (None, None, Some(field)) => Split::Addresses(field),
        (_, _, _) => return Err("`each`, `patch` and `addresses` exclude one another".into()),
    };
    let mut fields = Vec::new();
    for member in value.get("fields").and_then(Value::members).unwrap_or_default() {
        let theirs = match member.value.text() {
            Some(name) => vec![name.to_owned()],
            None => strings(Some(&member.value))?,
        };
        fields.push((member.key.clone(), theirs));
    }
    let besides = value.get("besides").map(|list| strings(Some(list))).transpose()?;
    let canonical = text("as").ok_or("`as` is missing")?;
    Ok(ToolRow { canonical, split, fields, besides: besides.unwrap_or_default() })
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
    let table = view(Table::Agents).members().ok_or(UNREADABLE)?;
    let mut marks = Vec::new();
    for (_, row) in table.iter() {
        let shell = row.members().ok_or(UNREADABLE)?.get("shell").and_then(View::members);
        if let Some(listed) = shell.and_then(|shell| shell.get("marks")) {
            marks.extend(listed.texts().ok_or(UNREADABLE)?.into_iter().map(str::to_owned));
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use stockade_text::json::{Dialect, read};

    use super::*;

    /// Returns the files in a project that set an agent up or switch its hooks off.
    fn project_files(row: &Value) -> Vec<String> {
        let setup = row.get("setup");
        let shell = setup.and_then(|setup| setup.get("shell"));
        let of_setup = [setup, shell].into_iter().flatten().filter_map(|it| it.get("project"));
        let off = row.get("off").and_then(Value::elements).unwrap_or_default();
        let files = of_setup.chain(off.iter().filter_map(|it| it.get("file")));
        let in_project = |file: &&str| !file.starts_with(['~', '/']);
        files.filter_map(Value::text).filter(in_project).map(str::to_owned).collect()
    }

    #[test]
    fn every_file_of_a_project_that_sets_an_agent_up_is_protected() {
        let table = read(TEXT.as_bytes(), Dialect::Commented).unwrap();
        let files: Vec<String> =
            table.members().unwrap().iter().flat_map(|row| project_files(&row.value)).collect();
        assert!(files.len() >= 6, "{files:?}");
        for file in files {
            let parts: Vec<&str> = file.split('/').collect();
            let is_protected = stockade_policy::protected_names().iter().any(|name| {
                name.kernel == stockade_policy::Unwritable::Everywhere
                    && !name.root
                    && parts.iter().zip(&name.segments).all(|(a, b)| a == b)
                    && parts.len() >= name.segments.len()
            });
            assert!(is_protected, "{file}");
        }
    }
}
