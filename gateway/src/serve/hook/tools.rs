//! Gives the calls of agents our names for tools and fields. One call of an agent can be several of ours.
//!
//! An unknown field that could carry a path or a command blocks: a text, a list or an object in a field that no row of
//! the table names.

use serde_json::{Map, Value};

use super::frame::Call;
use super::table::{AgentRow, Split, ToolRow};

/// Returns the calls that the call of tool `name` is; an error says what is not understood in it.
pub(super) fn calls(
    row: &AgentRow,
    name: &str,
    input: &Value,
    cwd: &str,
) -> Result<Vec<Call>, String> {
    let Some(tool) = row.tools.get(name) else {
        // The effect of this tool is unknown, so it must not be taken for our tool of the same name.
        let is_inner = row.inner.iter().any(|inner| inner == name);
        if !row.has_our_names && !is_inner && stockade_policy::is_known_tool(name) {
            return Err(format!("unknown tool `{name}` of this agent"));
        }
        return Ok(vec![Call { tool: name.into(), input: input.clone(), cwd: cwd.into() }]);
    };
    let call = |input: Value| Call { tool: tool.canonical.clone(), input, cwd: cwd.to_owned() };
    let field = |key: &str, value: &str| {
        Value::Object(Map::from_iter([(key.to_owned(), Value::from(value))]))
    };
    match &tool.split {
        Split::No => Ok(vec![one(tool, name, input, cwd)?]),
        Split::Each(list) => {
            only_known(name, input, |key| key == list || tool.besides.iter().any(|it| it == key))?;
            let elements = match input.get(list) {
                Some(Value::Array(elements)) => elements.as_slice(),
                Some(one @ Value::String(_)) => std::slice::from_ref(one),
                Some(_) | None => return Err(format!("`{name}` has no list `{list}`")),
            };
            elements.iter().map(|element| one(tool, name, element, cwd)).collect()
        }
        Split::Patch(key) => {
            let paths = patched(text_of(tool, name, input, key)?)?;
            Ok(paths.into_iter().map(|path| call(field("file_path", path))).collect())
        }
        Split::Addresses(key) => {
            let found = addresses(text_of(tool, name, input, key)?)?;
            Ok(found.into_iter().map(|url| call(field("url", url))).collect())
        }
    }
}

/// Returns the text of the one field that counts.
fn text_of<'a>(tool: &ToolRow, name: &str, input: &'a Value, key: &str) -> Result<&'a str, String> {
    only_known(name, input, |found| found == key || tool.besides.iter().any(|it| it == found))?;
    input.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{name}` has no text `{key}`"))
}

fn one(tool: &ToolRow, name: &str, input: &Value, cwd: &str) -> Result<Call, String> {
    let named = |key: &str| tool.fields.iter().any(|(_, theirs)| theirs.iter().any(|it| it == key));
    only_known(name, input, |key| named(key) || tool.besides.iter().any(|it| it == key))?;
    if tool.fields.is_empty() {
        return Ok(Call { tool: tool.canonical.clone(), input: input.clone(), cwd: cwd.into() });
    }
    if !(input.is_object() || (input.is_string() && named(""))) {
        return Err(format!("invalid element of `{name}`"));
    }
    let mut ours = Map::new();
    for (our, theirs) in &tool.fields {
        let mut found = theirs.iter().filter_map(|key| match key.is_empty() {
            true => Some(input).filter(|it| it.is_string()),
            false => input.get(key).filter(|it| !it.is_null()),
        });
        let value = found.next();
        if found.next().is_some() {
            return Err(format!("`{name}` has its `{our}` twice"));
        }
        if let Some(value) = value {
            ours.insert(our.clone(), value.clone());
        }
    }
    let folder = ours.remove("cwd");
    let cwd = match folder {
        None | Some(Value::Null) => cwd.to_owned(),
        Some(Value::String(path)) if path.starts_with('/') => path,
        Some(Value::String(path)) => format!("{cwd}/{path}"),
        Some(_) => return Err("the working directory of the call is not a string".into()),
    };
    Ok(Call { tool: tool.canonical.clone(), input: Value::Object(ours), cwd })
}

/// Refuses a field that is not known and could carry a path or a command.
fn only_known(name: &str, input: &Value, known: impl Fn(&str) -> bool) -> Result<(), String> {
    let carries = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    let mut members = input.as_object().into_iter().flatten();
    match members.find(|(key, value)| carries(value) && !known(key)) {
        Some((key, _)) => {
            let key = key.escape_debug();
            Err(format!("unknown field `{key}` of `{name}`"))
        }
        None => Ok(()),
    }
}

/// Marks of a patch behind which a path stands, and those behind which none does.
const PATHS: [&str; 4] =
    ["*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "];
const PLAIN: [&str; 3] = ["*** Begin Patch", "*** End Patch", "*** End of File"];

/// Returns the paths that a patch in the form of `apply_patch` names. Its readers differ in which blanks they
/// pass over, so every line that one of them could take for a mark is one.
fn patched(patch: &str) -> Result<Vec<&str>, String> {
    let mut paths = Vec::new();
    for line in patch.split(['\n', '\r']).map(str::trim) {
        if !line.starts_with("***") || PLAIN.contains(&line) {
            continue;
        }
        let path = PATHS.iter().find_map(|mark| line.strip_prefix(mark));
        let plain =
            |path: &&str| !path.starts_with(char::is_whitespace) && !path.contains([':', '\0']);
        match path.filter(plain).filter(|path| !path.is_empty()) {
            Some(path) => paths.push(path),
            None => {
                return Err(format!("invalid line `{}` in the patch", line.escape_debug()));
            }
        }
    }
    if paths.is_empty() { Err("the patch names no file".into()) } else { Ok(paths) }
}

/// Returns the addresses in a text: the words that hold `://`, which must be plain ones for the web.
fn addresses(text: &str) -> Result<Vec<&str>, String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == '\u{feff}') {
        if !word.contains("://") {
            continue;
        }
        let lower = word.to_ascii_lowercase();
        let web = lower.starts_with("http://") || lower.starts_with("https://");
        if !web || !word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(format!("invalid address `{}`", word.escape_debug()));
        }
        found.push(word);
    }
    if found.is_empty() { Err("the text names no address".into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests;
