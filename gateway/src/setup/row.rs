//! What the table says about the set-up of one agent.

use std::path::{Path, PathBuf};

use stockade_parser::json::{self, Dialect, Value};

use super::{Scope, Surroundings};
use crate::protocol::errors::{Code, Failure};
use crate::serve::hook::{Agent, TABLE};

/// The set-up of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    user: String,
    project: Option<String>,
    /// What is written.
    pub what: What,
    /// Permission bits of a file that is made.
    pub mode: u32,
    /// What is left for the person to do.
    pub after: String,
}

/// What is written into a file.
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
}

/// Returns the row of `agent`.
pub(super) fn read(agent: Agent) -> Result<Row, Failure> {
    row(agent).map_err(|reason| {
        Failure::new(Code::Internal, format!("the table of agents is broken: {reason}"), "")
    })
}

fn row(agent: Agent) -> Result<Row, String> {
    let table = json::read(TABLE.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let row = table.get(agent.name()).and_then(|row| row.get("setup")).ok_or("no `setup`")?;
    let text = |key: &str| row.get(key).and_then(Value::text).map(str::to_owned);
    let what = match (row.get("list"), row.get("entry"), text("content")) {
        (Some(list), Some(entry), None) => {
            let keys = list.elements().ok_or("`list` is no list")?;
            let keys = keys.iter().map(|key| key.text().map(str::to_owned)).collect::<Option<_>>();
            let span = entry.span.start as usize..entry.span.end as usize;
            let entry = TABLE.get(span).ok_or("`entry` has no text")?;
            What::Entry { list: keys.ok_or("`list` holds strings")?, entry: entry.to_owned() }
        }
        (None, None, Some(content)) => What::Own(content),
        _ => return Err("either `list` and `entry`, or `content`".into()),
    };
    let mode = match text("mode") {
        Some(digits) => u32::from_str_radix(&digits, 8).map_err(|_| "`mode` is octal digits")?,
        None => 0o644,
    };
    let after = text("after").unwrap_or_default();
    Ok(Row { user: text("user").ok_or("no `user`")?, project: text("project"), what, mode, after })
}

impl Row {
    /// Returns the file that is changed for `scope`.
    pub(super) fn path(
        &self,
        agent: Agent,
        scope: Scope,
        around: &Surroundings,
    ) -> Result<PathBuf, Failure> {
        match scope {
            Scope::User => Ok(match self.user.strip_prefix("~/") {
                Some(rest) => around.home.join(rest),
                None => PathBuf::from(&self.user),
            }),
            Scope::Project => {
                self.project.as_ref().map(|path| around.project.join(path)).ok_or_else(|| {
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
fn json_inner(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}
