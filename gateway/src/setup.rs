//! Puts an agent behind the gate, and takes it out again: the few lines in the agent's own files.
//!
//! Where each agent wants what is data, in `policies/agents.jsonc`. A file that is not understood is left alone.

mod files;
mod folders;
pub(crate) mod inspect;
mod link;
pub(crate) mod own_rules;
pub(crate) mod row;
pub(crate) mod unit;

use std::path::{Path, PathBuf};

use stockade_text::json::{Kind as Json, Value};

use crate::json_text;
use crate::protocol::errors::{Code, Failure};
use crate::serve::hook::{Agent, answer};
use folders::Folders;
use row::{What, Written};

/// Sessions that go through the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// All of this user's.
    User,
    /// Those in this project.
    Project,
    /// All of this machine's, by the file of its administrator.
    Managed,
}

/// The folders and the executable that a set-up is about.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Home directory.
    pub home: PathBuf,
    /// Folder of the person's configuration (XDG Base Directory Specification).
    pub configuration: PathBuf,
    /// Root of the project.
    pub project: PathBuf,
    /// This executable, absolute.
    pub executable: PathBuf,
    /// Root of the file system.
    pub system: PathBuf,
    /// Folders of agents that stand elsewhere, as the table names them, and where.
    pub moved: Vec<(String, PathBuf)>,
}

/// One file that is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The file.
    pub path: PathBuf,
    /// Kind of the file.
    pub kind: Kind,
    /// Content now; none when the file is not there.
    pub before: Option<String>,
    /// Content after the change; none when the file will go.
    pub after: Option<String>,
    /// Nothing of set-up is in it yet, so that what it holds is what is kept beside it.
    pub is_first: bool,
    /// Permission bits of a file that is made.
    pub mode: u32,
    /// Steps that are left for the person; may be empty.
    pub after_words: String,
}

/// Kind of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text.
    Text,
    /// A symbolic link; its content is its target.
    Link,
}

/// Returns what putting `agent` behind the gate would change, in the order in which it is to be written.
pub(crate) fn install(
    agent: Agent,
    scope: Scope,
    around: &Surroundings,
) -> Result<Vec<Change>, Failure> {
    let row = row::read(agent)?;
    let lines = Lines::of(agent, around)?;
    elsewhere(agent, &row, around)?;
    let mut changes: Vec<Change> = Vec::new();
    for layer in layers_of(&row, scope) {
        let path = layer.path(agent, scope, around)?;
        let change = change_of(&mut changes, path, &row)?;
        let text = change.after.as_deref();
        change.is_first &= text.is_none_or(|text| is_clean(agent, text, layer, &change.path));
        change.after = Some(match &layer.what {
            What::Own(content) => own(agent, change, content, &lines)?,
            What::Entry { .. } | What::Shell { .. } => {
                let text = text.filter(|text| !text.trim().is_empty()).unwrap_or(&row.empty);
                added(agent, text, layer, &lines).ok_or_else(|| not_understood(&change.path))?
            }
        });
    }
    if layers_of(&row, scope).any(|layer| matches!(layer.what, What::Shell { .. })) {
        // First, so that no settings name a shell that is not there.
        changes.insert(0, link::made(agent, around)?);
    }
    if let Some(last) = changes.last_mut() {
        last.after_words = row.after;
    }
    Ok(changes)
}

/// Refuses where a file that is there makes the agent pass over the one that set-up writes.
fn elsewhere(agent: Agent, row: &row::Row, around: &Surroundings) -> Result<(), Failure> {
    let files = row.off.iter().filter(|(_, path, _)| path.is_empty());
    let mut found = files.map(|(file, _, _)| row::placed(file, around)).filter(|it| it.exists());
    match found.next() {
        None => Ok(()),
        Some(file) => {
            let (name, file) = (agent.name(), file.display());
            Err(Failure::new(
                Code::InvalidRequest,
                format!("{name} reads its hooks from `{file}` alone; nothing was written"),
                format!("move the hooks of `{file}` into the settings file beside it"),
            ))
        }
    }
}

/// Returns what taking `agent` out again would change; nothing when nothing of ours is there.
pub(crate) fn uninstall(
    agent: Agent,
    scope: Scope,
    around: &Surroundings,
) -> Result<Vec<Change>, Failure> {
    let row = row::read(agent)?;
    let mut changes: Vec<Change> = Vec::new();
    for layer in layers_of(&row, scope) {
        let path = layer.path(agent, scope, around)?;
        let change = change_of(&mut changes, path, &row)?;
        // Nothing of ours is in an empty file, which is not JSON.
        let held = change.after.clone().filter(|text| !text.trim().is_empty());
        let Some(text) = held else { continue };
        change.after = match &layer.what {
            What::Own(_) if is_clean(agent, &text, layer, &change.path) => Some(text),
            What::Own(_) => None,
            What::Entry { .. } | What::Shell { .. } => {
                let left = without(agent, &text, layer);
                let left = left.ok_or_else(|| not_understood(&change.path))?;
                if !inspect::commands(agent, layer, Some(&left), &change.path).is_empty() {
                    return Err(mixed(&change.path));
                }
                Some(left)
            }
        };
    }
    for change in &mut changes {
        change.is_first = false;
        restore(agent, &row, scope, around, change)?;
    }
    if layers_of(&row, scope).any(|layer| matches!(layer.what, What::Shell { .. }))
        && !is_named_elsewhere(agent, &row.layers, scope, around)?
    {
        changes.push(link::removed(agent, around)?);
    }
    changes.retain(|change| !change.is_nothing());
    Ok(changes)
}

/// Takes away the folders that set-up made for `agent` and in which nothing lies, after its changes were taken back.
pub(crate) fn left(agent: Agent, scope: Scope, around: &Surroundings) -> Result<(), Failure> {
    let mut folders = Folders::of(around);
    let others = of_others(agent, scope, around)?;
    for layer in layers_of(&row::read(agent)?, scope) {
        folders.leave(&layer.path(agent, scope, around)?, &others);
    }
    let link = link::path(agent, around);
    if link.symlink_metadata().is_err() {
        folders.leave(&link, &others);
    }
    let _ = folders.keep(); // what then stays is a few empty folders, and no part of the gate
    Ok(())
}

/// Returns the layers of the gate that set-up writes in `scope`. A project is asked about in full, so that an agent that
/// reads nothing there is an error; an administrator's file holds what it can hold.
fn layers_of(row: &row::Row, scope: Scope) -> impl Iterator<Item = &Written> {
    let some = row.layers.iter().any(|layer| layer.is_for(scope));
    row.layers.iter().filter(move |layer| scope != Scope::Managed || !some || layer.is_for(scope))
}

/// Returns the files of other agents that hold something of ours: their folders are still needed.
fn of_others(agent: Agent, scope: Scope, around: &Surroundings) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for other in Agent::ALL.into_iter().filter(|other| *other != agent) {
        for layer in row::read(other)?.layers {
            let Ok(path) = layer.path(other, scope, around) else { continue };
            let text = files::read(&path).ok().flatten();
            if text.is_some_and(|text| !is_clean(other, &text, &layer, &path)) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Returns the change of the file at `path`, which begins as no change.
fn change_of<'a>(
    changes: &'a mut Vec<Change>,
    path: PathBuf,
    row: &row::Row,
) -> Result<&'a mut Change, Failure> {
    let index = match changes.iter().position(|change| change.path == path) {
        Some(index) => index,
        None => {
            let before = files::read(&path)?;
            let (after, kind, mode) = (before.clone(), Kind::Text, row.mode);
            let (is_first, after_words) = (true, String::new());
            changes.push(Change { path, kind, before, after, is_first, mode, after_words });
            changes.len() - 1
        }
    };
    changes.get_mut(index).ok_or_else(|| {
        Failure::new(Code::Internal, "a change was lost", "this is a fault of stockade; report it")
    })
}

/// Gives a file back what it held before set-up, to the byte, if nothing else in it has changed since.
fn restore(
    agent: Agent,
    row: &row::Row,
    scope: Scope,
    around: &Surroundings,
    change: &mut Change,
) -> Result<(), Failure> {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(()) };
    if before == after {
        return Ok(());
    }
    let backup = files::backup(&change.path)?;
    let held = backup.clone().filter(|it| !it.trim().is_empty());
    let mut made = Some(held.unwrap_or_else(|| row.empty.clone()));
    for layer in layers_of(row, scope) {
        if layer.path(agent, scope, around)? != change.path {
            continue;
        }
        made = made.and_then(|text| match &layer.what {
            What::Entry { list, .. } => {
                let list = keys(list);
                match json_text::element(before, &list, |value| is_ours(agent, value)) {
                    Some(entry) => json_text::append(&text, &list, &entry),
                    None => Some(text),
                }
            }
            What::Shell { path } => match shell_of(agent, before, path) {
                Some(shell) => json_text::put(&text, &keys(path), &shell),
                None => Some(text),
            },
            What::Own(_) => None,
        });
    }
    if made.as_ref() == Some(before) {
        change.after = backup;
    }
    Ok(())
}

/// Says whether the settings of another scope name the link to our shell.
fn is_named_elsewhere(
    agent: Agent,
    layers: &[Written],
    scope: Scope,
    around: &Surroundings,
) -> Result<bool, Failure> {
    let other = match scope {
        Scope::User => Scope::Project,
        Scope::Project | Scope::Managed => Scope::User,
    };
    for layer in layers {
        let What::Shell { path } = &layer.what else { continue };
        let Ok(file) = layer.path(agent, other, around) else { continue };
        let text = files::read(&file)?.unwrap_or_default();
        if shell_of(agent, &text, path).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `text` with what a layer says.
fn added(agent: Agent, text: &str, layer: &Written, lines: &Lines) -> Option<String> {
    match &layer.what {
        What::Entry { list, entry } => {
            let list = keys(list);
            let without = json_text::remove(text, &list, |value| is_ours(agent, value))?;
            let entry = row::in_json(entry, &lines.command);
            match unchanged(text, &without, &entry) {
                true => Some(text.to_owned()),
                false => json_text::append(&without, &list, &entry),
            }
        }
        What::Shell { path } => {
            let shell = format!("\"{}\"", row::json_inner(&lines.shell));
            let without = match shell_of(agent, text, path) {
                Some(found) if found != shell => json_text::take(text, &keys(path))?,
                Some(_) | None => text.to_owned(),
            };
            json_text::put(&without, &keys(path), &shell)
        }
        What::Own(_) => None,
    }
}

/// Returns `text` without what a layer says.
fn without(agent: Agent, text: &str, layer: &Written) -> Option<String> {
    match &layer.what {
        What::Entry { list, .. } => {
            json_text::remove(text, &keys(list), |value| is_ours(agent, value))
        }
        What::Shell { path } => match shell_of(agent, text, path) {
            Some(_) => json_text::take(text, &keys(path)),
            None => json_text::at_path(text, &[]).map(|_| text.to_owned()),
        },
        What::Own(_) => None,
    }
}

/// Returns the member that names our shell, as JSON text; none when another shell stands there, or none.
fn shell_of(agent: Agent, text: &str, path: &[String]) -> Option<String> {
    let found = json_text::at_path(text, &keys(path))?;
    let shell = found.text()?;
    let ours = shell.ends_with(&link::tail(agent));
    ours.then(|| format!("\"{}\"", row::json_inner(shell)))
}

fn keys(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Texts that set-up writes.
struct Lines {
    command: String,
    gate: String,
    shell: String,
}

impl Lines {
    fn of(agent: Agent, around: &Surroundings) -> Result<Lines, Failure> {
        Ok(Lines {
            command: hook_command(agent, &around.executable)?,
            gate: text_of(&around.executable)?,
            shell: text_of(&link::path(agent, around))?,
        })
    }

    fn filled(&self, content: &str, path: &Path) -> String {
        row::filled(content, path, &self.command, &self.gate)
    }
}

impl Change {
    /// Says whether nothing is to be done.
    pub(crate) fn is_nothing(&self) -> bool {
        self.before == self.after
    }

    /// Writes the file whole or not at all, and keeps what it held before beside it.
    pub(crate) fn apply(&self, around: &Surroundings) -> Result<(), Failure> {
        let mut folders = Folders::of(around);
        let applied = match self.kind {
            Kind::Text => files::apply(self, &mut folders),
            Kind::Link => link::apply(self, &mut folders),
        };
        let _ = folders.keep(); // a folder that is in no list stays, empty, when the agent is taken out
        applied
    }

    /// Returns the change as lines that begin with `-` or `+`, without what stays.
    pub(crate) fn difference(&self) -> String {
        if self.kind == Kind::Link {
            let line = |sign: &str, it: &Option<String>| {
                it.as_ref().map_or_else(String::new, |it| format!("{sign}link to {it}\n"))
            };
            return format!("{}{}", line("-", &self.before), line("+", &self.after));
        }
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
    let rest = if answer::is_rewritten(agent) { " --rewrite" } else { "" };
    // Cline starts a script, which refuses in its own form.
    let refuses = if agent == Agent::Cline { "" } else { stockade_hooks::own::REFUSES };
    Ok(format!("{path} hook {}{rest}{refuses}", agent.name()))
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

/// Says whether a list element is one that set-up wrote, in this or an earlier version: it has a command of ours, and
/// none that is another's.
fn is_ours(agent: Agent, value: &Value) -> bool {
    let mut found = Vec::new();
    commands_of(value, &mut found);
    !found.is_empty() && found.iter().all(|text| is_our_command(agent, text))
}

/// Collects the command lines in an element.
fn commands_of<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match &value.kind {
        Json::Array(elements) => elements.iter().for_each(|element| commands_of(element, found)),
        Json::Object(members) => {
            for member in members {
                match member.value.text() {
                    Some(text) if COMMAND_KEYS.contains(&member.key.as_str()) => found.push(text),
                    Some(_) => {}
                    None => commands_of(&member.value, found),
                }
            }
        }
        Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Members of an entry in which agents look for a command line.
const COMMAND_KEYS: [&str; 2] = ["command", "bash"];

/// Says whether a command line is that of our hook for `agent`.
fn is_our_command(agent: Agent, text: &str) -> bool {
    let hook = format!(" hook {}", agent.name());
    let Some((program, rest)) = text.split_once(&hook) else { return false };
    let name = program.trim_matches('\'').rsplit('/').next().unwrap_or_default();
    (rest.is_empty() || rest.starts_with(' '))
        && (name == "stockade" || inspect::is_this_program(program))
}

/// Says whether nothing of what a layer writes is in `text`.
fn is_clean(agent: Agent, text: &str, layer: &Written, path: &Path) -> bool {
    match &layer.what {
        What::Own(_) | What::Entry { .. } => {
            inspect::commands(agent, layer, Some(text), path).is_empty()
        }
        What::Shell { path } => shell_of(agent, text, path).is_none(),
    }
}

/// Says whether `text` holds exactly the entry already.
fn unchanged(text: &str, without: &str, entry: &str) -> bool {
    text != without && text.contains(entry)
}

/// Returns what a file of our own will hold. What stands there already must be ours as well.
fn own(agent: Agent, change: &Change, content: &str, lines: &Lines) -> Result<String, Failure> {
    let path = &change.path;
    match &change.before {
        Some(before) if inspect::of_own(agent, content, before, path).is_none() => {
            Err(Failure::new(
                Code::InvalidRequest,
                format!("`{}` exists and was not made by stockade", path.display()),
                "move it, or call stockade from it yourself",
            ))
        }
        Some(_) | None => Ok(lines.filled(content, path)),
    }
}

fn mixed(path: &Path) -> Failure {
    Failure::new(
        Code::InvalidRequest,
        format!("your own entry in `{}` calls stockade; nothing was written", path.display()),
        "remove that command from your entry",
    )
}

fn not_understood(path: &Path) -> Failure {
    Failure::new(
        Code::InvalidRequest,
        format!("cannot change the JSON of `{}` safely; nothing was written", path.display()),
        "correct the file (no comments, no duplicate keys, no other shell), or add the lines of the README yourself",
    )
}

#[cfg(test)]
mod tests;
