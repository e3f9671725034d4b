//! Definitions of agents, of which `--agent` makes one the agent of the session: its prompt, its tools, its model.
//!
//! A definition narrows a session and never widens it. What it wants and cannot have is told; hooks of a definition may
//! guard something, so that it is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::flags::Flags;
use crate::regular;

/// Longest file with a definition, in bytes.
const LONGEST: u64 = 1 << 20;
/// Folders of definitions: of the user in the home directory, and of a project.
const OF_USER: [&str; 2] = [".claude/agents", ".config/stockade/agents"];
const OF_PROJECT: [&str; 2] = [".claude/agents", ".stockade/agents"];
/// Modes that allow no more than any other.
const NARROW: [&str; 2] = ["plan", "dontAsk"];
/// Members that say nothing about what an agent of a session does.
const SILENT: [&str; 5] = ["name", "description", "color", "background", "isolation"];

/// Definitions by name.
pub(crate) type Definitions = BTreeMap<String, Value>;

/// An agent that a session is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) prompt: String,
    /// Tools that it sees; none means all.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) withheld: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) most_turns: Option<u64>,
    /// Members without effect.
    pub(crate) unheard: Vec<String>,
}

impl Definition {
    /// Reads a definition.
    fn of(value: &Value) -> Result<Definition, String> {
        let members = value.as_object().ok_or("it is not an object")?;
        let mut found = Definition::default();
        for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            let text = || value.as_str().map(str::to_owned).ok_or(format!("`{key}` is not a text"));
            match key.as_str() {
                "prompt" => found.prompt = text()?,
                "tools" => found.tools = Some(names(key, value)?).filter(|it| *it != ["*"]),
                "disallowedTools" => found.withheld = names(key, value)?,
                "model" => found.model = Some(text()?).filter(|it| it != "inherit"),
                "effort" => found.effort = Some(text()?),
                "permissionMode" => {
                    let mode = text()?;
                    match NARROW.contains(&mode.as_str()) {
                        true => found.mode = Some(mode),
                        false if mode == "default" => {}
                        false => found.unheard.push(key.clone()),
                    }
                }
                "maxTurns" => {
                    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                    found.most_turns = Some(number.ok_or("`maxTurns` is not a number")?);
                }
                "hooks" => {
                    return Err(
                        "it has hooks, which would not run; put them into the settings".into()
                    );
                }
                key if SILENT.contains(&key) => {}
                key => found.unheard.push(key.escape_debug().to_string()),
            }
        }
        match found.prompt.trim().is_empty() {
            true => Err("it has no prompt".into()),
            false => Ok(found),
        }
    }

    /// Says whether it sees a tool.
    pub(crate) fn sees(&self, tool: &str) -> bool {
        let is = |name: &String| {
            name == tool
                || (name.starts_with("mcp__")
                    && tool
                        .strip_prefix(name.trim_end_matches('*'))
                        .is_some_and(|rest| name.ends_with("__*") || rest.starts_with("__")))
        };
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(is))
            && !self.withheld.iter().any(is)
    }

    /// Has the options of a session follow it. What a person gave as an option goes first.
    pub(crate) fn apply(&self, flags: &mut Flags) {
        flags.max_turns = flags.max_turns.or(self.most_turns);
        flags.effort = flags.effort.take().or_else(|| self.effort.clone());
    }
}

/// Returns the names of tools in a list or a text with commas. One with a specifier would be seen with all that it can do.
fn names(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let all: Vec<String> = match value {
        Value::String(text) => text.split(',').map(|it| it.trim().to_owned()).collect(),
        Value::Array(list) => {
            let texts = list.iter().map(|it| it.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or(format!("`{key}` is not a list of names"))?
        }
        _ => return Err(format!("`{key}` is not a list of names")),
    };
    let all: Vec<String> = all.into_iter().filter(|it| !it.is_empty()).collect();
    match all.iter().find(|it| it.contains('(')) {
        Some(rule) => {
            Err(format!("`{}` in `{key}` is not a name; make it a rule", rule.escape_debug()))
        }
        None => Ok(all),
    }
}

/// Returns the agent of a session: the one that is named, of `first` or else of `then`.
///
/// # Errors
///
/// There is none of this name, or it cannot be used.
pub(crate) fn choose(
    name: Option<&str>,
    (first, then): (&Definitions, &Definitions),
) -> Result<Option<Definition>, String> {
    let Some(name) = name else { return Ok(None) };
    let shown = name.escape_debug();
    let Some(value) = first.get(name).or_else(|| then.get(name)) else {
        let known: Vec<&str> = first.keys().chain(then.keys()).map(String::as_str).collect();
        let known = match known.is_empty() {
            true => "none is defined".to_owned(),
            false => format!("defined are {}", known.join(", ")),
        };
        return Err(format!("there is no agent `{shown}`; {known}"));
    };
    Definition::of(value)
        .map(Some)
        .map_err(|reason| format!("the agent `{shown}` cannot be used: {reason}"))
}

/// Reads `--agents` or the member of `initialize`.
pub(crate) fn given(value: &Value) -> Result<Definitions, String> {
    match value {
        Value::Null => Ok(Definitions::new()),
        Value::Object(members) => Ok(members.clone().into_iter().collect()),
        _ => Err("the agents are not a JSON object".into()),
    }
}

/// Reads the definitions that a session may name: those of the option first, then those of files.
pub(crate) fn read(
    flags: &Flags,
    cwd: &Path,
    plugins: &[(String, PathBuf)],
) -> anyhow::Result<Definitions> {
    let text = flags.agents.as_deref().unwrap_or("null");
    let value: Value = serde_json::from_str(text)
        .map_err(|error| anyhow::anyhow!("`--agents` is not JSON: {error}"))?;
    let mut all = given(&value).map_err(|error| anyhow::anyhow!(error))?;
    if flags.agent.is_none() {
        return Ok(all);
    }
    let sources = flags.sources();
    let counts = |name: &str| sources.as_ref().is_none_or(|it| it.iter().any(|it| it == name));
    let mut found = Definitions::new();
    for (name, root) in plugins {
        for (agent, value) in of_folder(&root.join("agents")) {
            found.insert(format!("{name}:{agent}"), value);
        }
    }
    // A command may have written those of a project: they take the place of none of the user's.
    if counts("project") {
        let above: Vec<&Path> = above(cwd).collect();
        for (folder, name) in above.iter().rev().flat_map(|it| OF_PROJECT.map(|name| (it, name))) {
            found.extend(of_folder(&folder.join(name)));
        }
    }
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|_| counts("user")) {
        // A person's own folder may be a link.
        let folders = OF_USER.iter().filter_map(|it| home.join(it).canonicalize().ok());
        folders.for_each(|folder| found.extend(of_folder(&folder)));
    }
    for (name, value) in found {
        all.entry(name).or_insert(value);
    }
    Ok(all)
}

/// Returns the directories of a project, from the inner one to the root of the repository.
fn above(cwd: &Path) -> impl Iterator<Item = &Path> {
    let has_root = cwd.ancestors().any(|it| it.join(".git").exists());
    let mut over = false;
    cwd.ancestors().take_while(move |folder| {
        let take = !over;
        over |= !has_root || folder.join(".git").exists();
        take
    })
}

/// Reads the definitions in a folder. Whoever writes a project must not choose what else is read: no link is followed.
fn of_folder(folder: &Path) -> Definitions {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_symlink());
    if is_link(folder) || folder.parent().is_some_and(is_link) {
        return Definitions::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "md"));
    files.sort();
    files.iter().filter_map(|file| document(&regular::text(file, LONGEST)?)).collect()
}

/// Reads a definition in Markdown: members between two lines of dashes, then the prompt. Returns it with its name.
fn document(text: &str) -> Option<(String, Value)> {
    let text = text.replace("\r\n", "\n");
    let (front, prompt) = text.strip_prefix("---\n")?.split_once("\n---")?;
    let prompt = prompt.split_once('\n').map_or("", |(_, rest)| rest);
    let mut members = Map::new();
    let mut last = String::new();
    for line in front.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let item = line.trim_start().strip_prefix("- ").map(unquoted);
        match (line.starts_with(char::is_whitespace), item, line.split_once(':')) {
            (_, Some(item), _) => match members.entry(last.clone()).or_insert(Value::Null) {
                Value::Array(list) => list.push(item.into()),
                empty @ Value::Null => *empty = json!([item]),
                _ => {}
            },
            // A member of a member, which only is there.
            (true, None, _) if !line.trim().is_empty() => {
                members.insert(last.clone(), json!({}));
            }
            (false, None, Some((key, value))) => {
                key.trim().clone_into(&mut last);
                members.insert(last.clone(), scalar(value.trim()));
            }
            (_, None, _) => {}
        }
    }
    let name = members.get("name").and_then(Value::as_str).map(str::to_owned)?;
    members.insert("prompt".into(), prompt.trim().into());
    Some((name, members.into()))
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\''].iter().find_map(|it| text.strip_prefix(*it)?.strip_suffix(*it));
    inner.unwrap_or(text).to_owned()
}

fn scalar(text: &str) -> Value {
    match text.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(list) => list.split(',').map(unquoted).filter(|it| !it.is_empty()).collect(),
        None if text.is_empty() => Value::Null,
        None => unquoted(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_narrows_and_says_what_it_does_not_get() {
        let value = json!({ "description": "d", "prompt": "p", "tools": ["Read", "mcp__calc"], "model": "opus",
            "disallowedTools": "Bash", "permissionMode": "bypassPermissions", "skills": ["x"], "maxTurns": 3 });
        let found = Definition::of(&value).unwrap();
        assert_eq!(found.unheard, ["permissionMode", "skills"]);
        assert_eq!((found.mode.clone(), found.most_turns), (None, Some(3)));
        let seen = ["Read", "Bash", "Edit", "mcp__calc__add", "mcp__calculator__add"];
        assert_eq!(seen.map(|tool| found.sees(tool)), [true, false, false, true, false]);
        for (bad, told) in [
            (json!({ "prompt": " " }), "it has no prompt"),
            (
                json!({ "prompt": "p", "hooks": {} }),
                "it has hooks, which would not run; put them into the settings",
            ),
            (
                json!({ "prompt": "p", "tools": ["Bash(ls:*)"] }),
                "`Bash(ls:*)` in `tools` is not a name; make it a rule",
            ),
            (json!("p"), "it is not an object"),
        ] {
            assert_eq!(Definition::of(&bad).unwrap_err(), told);
        }
    }

    #[test]
    fn a_document_has_members_lists_and_a_prompt() {
        let text = "---\nname: \"one\"\ntools: [Read, 'Grep']\n# not this\nskills:\n  - a\n  - b\nhooks:\n  Stop: x\nmodel:\n---\nBe one.\n\nAnd kind.\n";
        let (name, value) = document(text).unwrap();
        assert_eq!(name, "one");
        let expected = json!({ "name": "one", "tools": ["Read", "Grep"], "skills": ["a", "b"], "hooks": {},
            "model": null, "prompt": "Be one.\n\nAnd kind." });
        assert_eq!(value, expected);
        assert_eq!(document("no front matter"), None);
    }
}
