//! Puts an agent behind the gate, and takes it out again: the few lines in the agent's own files.
//!
//! Where each agent wants what is data, in `policies/agents.jsonc`. A file that is not understood is left alone.

mod files;
mod row;

use std::path::{Path, PathBuf};

use stockade_parser::json::{Kind, Value};

use crate::json_text;
use crate::protocol::errors::{Code, Failure};
use crate::serve::hook::Agent;
use row::What;

/// A settings file that is not there yet.
const EMPTY: &str = "{}\n";

/// Whose sessions go through the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// All of this user's.
    User,
    /// Those in this project.
    Project,
}

/// The folders and the executable that a set-up is about.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Home directory.
    pub home: PathBuf,
    /// Root of the project.
    pub project: PathBuf,
    /// This executable, absolute.
    pub executable: PathBuf,
}

/// One file that is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The file.
    pub path: PathBuf,
    /// What it holds now; none when it is not there.
    pub before: Option<String>,
    /// What it will hold; none when it will go.
    pub after: Option<String>,
    /// Permission bits of a file that is made.
    pub mode: u32,
    /// What is left for the person to do; may be empty.
    pub after_words: String,
}

/// Returns what putting `agent` behind the gate would change.
pub(crate) fn install(
    agent: Agent,
    scope: Scope,
    around: &Surroundings,
) -> Result<Change, Failure> {
    let row = row::read(agent)?;
    let path = row.path(agent, scope, around)?;
    let before = files::read(&path)?;
    let command = hook_command(agent, &around.executable)?;
    let gate = text_of(&around.executable)?;
    let after = match &row.what {
        What::Own(content) => {
            own(&path, before.as_deref(), &row::filled(content, &path, &command, &gate))?
        }
        What::Entry { list, entry } => {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let text = before.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or(EMPTY);
            let without = json_text::remove(text, &list, |value| is_ours(agent, value));
            let entry = row::in_json(entry, &command);
            let made = without.and_then(|without| match unchanged(text, &without, &entry) {
                true => Some(text.to_owned()),
                false => json_text::append(&without, &list, &entry),
            });
            made.ok_or_else(|| not_understood(&path))?
        }
    };
    Ok(Change { path, before, after: Some(after), mode: row.mode, after_words: row.after })
}

/// Returns what taking `agent` out again would change; none when nothing of ours is there.
pub(crate) fn uninstall(
    agent: Agent,
    scope: Scope,
    around: &Surroundings,
) -> Result<Option<Change>, Failure> {
    let row = row::read(agent)?;
    let path = row.path(agent, scope, around)?;
    let Some(before) = files::read(&path)? else { return Ok(None) };
    let after = match &row.what {
        What::Own(_) if files::is_ours(&before) => None,
        What::Own(_) => return Ok(None),
        What::Entry { list, .. } => {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let without = json_text::remove(&before, &list, |value| is_ours(agent, value));
            let without = without.ok_or_else(|| not_understood(&path))?;
            if without == before {
                return Ok(None);
            }
            // Nothing else changed since set-up: the file gets back what it held, to the byte.
            let backup = files::backup(&path)?;
            let kept = backup.as_deref().unwrap_or(EMPTY);
            let entry = json_text::element(&before, &list, |value| is_ours(agent, value));
            let made = entry.and_then(|entry| json_text::append(kept, &list, &entry));
            match made.as_deref() == Some(before.as_str()) {
                true => backup,
                false => Some(without),
            }
        }
    };
    let mode = row.mode;
    Ok(Some(Change { path, before: Some(before), after, mode, after_words: String::new() }))
}

impl Change {
    /// Says whether nothing is to be done.
    pub(crate) fn is_nothing(&self) -> bool {
        self.before == self.after
    }

    /// Writes the file whole or not at all, and keeps what it held before beside it.
    pub(crate) fn apply(&self) -> Result<(), Failure> {
        files::apply(self)
    }

    /// Returns the change as lines that begin with `-` or `+`, without what stays.
    pub(crate) fn difference(&self) -> String {
        let lines = |text: &Option<String>| -> Vec<String> {
            text.as_deref().unwrap_or_default().lines().map(str::to_owned).collect()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let same = |pair: &(&String, &String)| pair.0 == pair.1;
        let head = before.iter().zip(&after).take_while(same).count();
        let shorter = before.len().min(after.len()) - head;
        let tail =
            before.iter().rev().zip(after.iter().rev()).take(shorter).take_while(same).count();
        let middle = |lines: &[String], sign: &str| -> String {
            let lines = lines.get(head..lines.len() - tail).unwrap_or_default();
            lines.iter().map(|line| format!("{sign}{line}\n")).collect()
        };
        format!("{}{}", middle(&before, "-"), middle(&after, "+"))
    }
}

/// The command line of the hook.
fn hook_command(agent: Agent, executable: &Path) -> Result<String, Failure> {
    let path = text_of(executable)?;
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    let path = if plain { path } else { format!("'{}'", path.replace('\'', r#"'"'"'"#)) };
    let rewrite = if agent == Agent::Cline { "" } else { " --rewrite" };
    Ok(format!("{path} hook {}{rewrite}", agent.name()))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(
            Code::NotUtf8,
            "the path of this executable is not UTF-8",
            "install it elsewhere",
        )
    })
}

/// Says whether a list element is one that set-up wrote, in this or an earlier version.
fn is_ours(agent: Agent, value: &Value) -> bool {
    match &value.kind {
        Kind::String(text) => {
            let hook = format!(" hook {}", agent.name());
            let Some((program, rest)) = text.split_once(&hook) else { return false };
            let name = program.trim_matches('\'').rsplit('/').next().unwrap_or_default();
            name == "stockade" && (rest.is_empty() || rest.starts_with(' '))
        }
        Kind::Array(elements) => elements.iter().any(|element| is_ours(agent, element)),
        Kind::Object(members) => members.iter().any(|member| is_ours(agent, &member.value)),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) => false,
    }
}

/// Says whether `text` holds exactly the entry already.
fn unchanged(text: &str, without: &str, entry: &str) -> bool {
    text != without && text.contains(entry)
}

fn own(path: &Path, before: Option<&str>, content: &str) -> Result<String, Failure> {
    match before {
        Some(before) if !files::is_ours(before) => Err(Failure::new(
            Code::InvalidRequest,
            format!("`{}` is there and is not from stockade", path.display()),
            "move it away, or call stockade from it yourself",
        )),
        Some(_) | None => Ok(content.to_owned()),
    }
}

fn not_understood(path: &Path) -> Failure {
    Failure::new(
        Code::InvalidRequest,
        format!("`{}` is no JSON that can be changed safely; nothing was written", path.display()),
        "mend the file, or put the lines of the README there yourself",
    )
}

#[cfg(test)]
mod tests;
