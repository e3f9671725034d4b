//! Set-up of one agent, as the table has it.

use std::path::{Path, PathBuf};

use stockade_text::json;
use stockade_text::json::{Dialect, Kind, Value};

use super::{Scope, Surroundings};
use crate::protocol::errors::{Code, Failure};
use crate::serve::hook::{Agent, TABLE};

/// The set-up of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Files, folders (`~/`) and programs of which an installed agent has one.
    pub found: Vec<String>,
    /// Changes to write, one layer of the gate after the other: first the hook.
    pub layers: Vec<Written>,
    /// Content of a JSON file of the agent before anything is put into it.
    pub empty: String,
    /// Permission bits of a file that is made.
    pub mode: u32,
    /// Steps that are left for the person.
    pub after: String,
    /// Members of the agent's settings that put its hooks out of force: file, path, value.
    pub off: Vec<(String, Vec<String>, bool)>,
    /// Settings files of the agent, the strongest first.
    pub merged: Vec<String>,
    /// The list in those files of hooks that do not run.
    pub disabled: Option<Vec<String>>,
    /// Files in TOML whose table `features` can switch hooks off, and the names of the switch.
    pub features: Option<(Vec<String>, Vec<String>)>,
    /// Where the agent keeps that its person trusts a hook.
    pub trust: Option<Trust>,
    /// Frame that the agent sends for a shell command, as JSON text with marks.
    pub frame: String,
}

/// Where an agent keeps that its person trusts a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trust {
    /// The file.
    pub file: String,
    /// Text that follows the path of the hook's file there.
    pub key: String,
    /// The text whose digest is kept, with a mark for the command line.
    pub identity: String,
}

/// One layer of the gate in the files of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    managed: Option<String>,
    user: String,
    project: Option<String>,
    /// The content.
    pub what: What,
}

/// Content that is written into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// An element of a list in a JSON file of the agent.
    Entry {
        /// Path of the list.
        list: Vec<String>,
        /// The element, as JSON text.
        entry: String,
    },
    /// A whole file.
    Own(String),
    /// A member of a JSON file of the agent: the path of its shell.
    Shell {
        /// Path of the member.
        path: Vec<String>,
    },
}

/// Returns the row of `agent`.
pub(super) fn read(agent: Agent) -> Result<Row, Failure> {
    row(agent).map_err(|reason| {
        Failure::new(Code::Internal, format!("invalid table of agents: {reason}"), "")
    })
}

/// Says whether `agent` reads anything that set-up could write for `scope`.
pub(crate) fn has(agent: Agent, scope: Scope) -> Result<bool, Failure> {
    Ok(read(agent)?.layers.iter().any(|layer| layer.is_for(scope)))
}

/// Says whether `agent` is installed for this user: a folder of its own is there, or its program is in one of `folders`.
pub(crate) fn is_installed(
    agent: Agent,
    around: &Surroundings,
    folders: &[PathBuf],
) -> Result<bool, Failure> {
    let found = read(agent)?.found;
    Ok(found.iter().any(|mark| match mark.starts_with("~/") {
        true => placed(mark, around).exists(),
        false => folders.iter().any(|folder| folder.join(mark).is_file()),
    }))
}

fn row(agent: Agent) -> Result<Row, String> {
    let table = json::read(TABLE.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let row = table.get(agent.name()).ok_or("the agent is missing")?;
    let setup = row.get("setup").ok_or("no `setup`")?;
    let text = |key: &str| setup.get(key).and_then(Value::text).map(str::to_owned);
    let lists = match (setup.get("list"), setup.get("lists").and_then(Value::elements)) {
        (Some(list), None) => vec![strings(Some(list))?],
        (None, Some(lists)) => {
            lists.iter().map(|it| strings(Some(it))).collect::<Result<_, _>>()?
        }
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => return Err("either `list` or `lists`".into()),
    };
    let mut layers = Vec::new();
    match (setup.get("entry"), text("content")) {
        (Some(entry), None) if !lists.is_empty() => {
            for list in lists {
                layers.push(written(setup, What::Entry { list, entry: source(entry)? })?);
            }
        }
        (None, Some(content)) if lists.is_empty() => {
            layers.push(written(setup, What::Own(content))?);
        }
        _ => return Err("either `list` and `entry`, or `content`".into()),
    }
    if let Some(shell) = setup.get("shell") {
        layers.push(written(shell, What::Shell { path: strings(shell.get("path"))? })?);
    }
    let mode = match text("mode") {
        Some(digits) => u32::from_str_radix(&digits, 8).map_err(|_| "`mode` is octal digits")?,
        None => 0o644,
    };
    let off = row.get("off").and_then(Value::elements).unwrap_or_default();
    let off = off.iter().map(|it| {
        let file = it.get("file").and_then(Value::text).ok_or("no `file`")?.to_owned();
        match it.get("value").map(|value| &value.kind) {
            Some(Kind::Bool(value)) => Ok((file, strings(it.get("path"))?, *value)),
            Some(_) | None => Err("`value` is true or false".to_owned()),
        }
    });
    let trust = row.get("trust").map(|it| {
        let text = |key: &str| it.get(key).and_then(Value::text).map(str::to_owned);
        Some(Trust { file: text("file")?, key: text("key")?, identity: text("identity")? })
    });
    let list = |value: &Value, key: &str| strings(value.get(key));
    let features = row.get("features").map(|it| Ok((list(it, "files")?, list(it, "names")?)));
    Ok(Row {
        merged: row.get("layers").map_or(Ok(Vec::new()), |it| strings(Some(it)))?,
        disabled: row.get("disabled").map(|it| strings(Some(it))).transpose()?,
        features: features.transpose().map_err(|error: String| error)?,
        found: strings(row.get("found"))?,
        layers,
        empty: text("empty").unwrap_or_else(|| "{}\n".to_owned()),
        mode,
        after: text("after").unwrap_or_default(),
        off: off.collect::<Result<_, String>>()?,
        trust: trust.map(|it| it.ok_or("`trust` has `file`, `key` and `identity`")).transpose()?,
        frame: source(row.get("frame").ok_or("no `frame`")?)?,
    })
}

fn written(value: &Value, what: What) -> Result<Written, String> {
    let text = |key: &str| value.get(key).and_then(Value::text).map(str::to_owned);
    let user = text("user").ok_or("no `user`")?;
    Ok(Written { managed: text("managed"), user, project: text("project"), what })
}

/// Returns the text of a value as it stands in the table.
fn source(value: &Value) -> Result<String, String> {
    let span = value.span.start as usize..value.span.end as usize;
    TABLE.get(span).map(str::to_owned).ok_or_else(|| "a value has no text".to_owned())
}

fn strings(value: Option<&Value>) -> Result<Vec<String>, String> {
    let keys = value.and_then(Value::elements).ok_or("a list is missing")?;
    let keys = keys.iter().map(|key| key.text().map(str::to_owned)).collect::<Option<_>>();
    keys.ok_or_else(|| "the list holds strings".to_owned())
}

/// Returns the variables of the environment that put folders of agents elsewhere, each with its folder.
pub(crate) fn variables() -> Result<Vec<(String, String)>, String> {
    let table = json::read(TABLE.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let rows = table.members().ok_or("the table is not an object")?.iter();
    let moved = rows.filter_map(|row| row.value.get("moved")?.members());
    let pair = |member: &json::Member| match member.value.text() {
        Some(folder) => Ok((member.key.clone(), folder.to_owned())),
        None => Err("`moved` holds names of folders".to_owned()),
    };
    moved.flatten().map(pair).collect()
}

/// Returns the path that the table means: below the home directory or where its folder has moved to, absolute, or in
/// the project.
pub(crate) fn placed(path: &str, around: &Surroundings) -> PathBuf {
    let moved = around.moved.iter().find_map(|(folder, place)| {
        path.strip_prefix(folder.as_str())?.strip_prefix('/').map(|rest| place.join(rest))
    });
    if let Some(path) = moved {
        return path;
    }
    match (path.strip_prefix("~/"), path.strip_prefix('/')) {
        (Some(rest), _) => around.home.join(rest),
        (None, Some(rest)) => around.system.join(rest),
        (None, None) => around.project.join(path),
    }
}

impl Written {
    /// Says whether the agent reads this in `scope`.
    pub(super) fn is_for(&self, scope: Scope) -> bool {
        match scope {
            Scope::User => true,
            Scope::Project => self.project.is_some(),
            Scope::Managed => self.managed.is_some(),
        }
    }

    /// Returns the file that is changed for `scope`.
    pub(super) fn path(
        &self,
        agent: Agent,
        scope: Scope,
        around: &Surroundings,
    ) -> Result<PathBuf, Failure> {
        match scope {
            Scope::User => Ok(placed(&self.user, around)),
            Scope::Managed => {
                self.managed.as_ref().map(|path| placed(path, around)).ok_or_else(|| {
                    Failure::new(
                        Code::InvalidRequest,
                        format!("{} has no administrator file that set-up can write", agent.name()),
                        "use `--scope user`",
                    )
                })
            }
            Scope::Project => {
                self.project.as_ref().map(|path| placed(path, around)).ok_or_else(|| {
                    Failure::new(
                        Code::InvalidRequest,
                        format!("{} reads no hooks from a project", agent.name()),
                        "use `--scope user`",
                    )
                })
            }
        }
    }
}

/// Puts a command line into JSON text in place of the mark.
pub(super) fn in_json(text: &str, command: &str) -> String {
    text.replace("COMMAND", json_inner(command).as_str())
}

/// Puts command line and path into the content of a file of our own, quoted for its kind.
pub(super) fn filled(content: &str, path: &Path, command: &str, gate: &str) -> String {
    let json = path.extension().is_some_and(|extension| extension == "json");
    let command = if json { json_inner(command) } else { command.to_owned() };
    content.replace("COMMAND", &command).replace("= GATE", &format!("= \"{}\"", json_inner(gate)))
}

/// A text as it stands between the quotes of a JSON string, which is one of JavaScript too.
pub(super) fn json_inner(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}
