//! Whether the gate is in force for an agent, as far as its files tell: the hook, its program, what could put it
//! out of force, and the second layer.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use stockade_parser::json::{Kind as Json, Value};

use super::row::{self, Row, What, Written};
use super::{Scope, Surroundings, files, is_ours, keys, link, shell_of};
use crate::json_text;
use crate::protocol::errors::Failure;
use crate::serve::hook::Agent;
use crate::serve::shell::{inside, wrapping};

/// How a finding is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// The gate does not hold here.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What to do; may be empty.
    pub help: String,
}

impl Finding {
    /// Returns a finding that is as it should be.
    pub(crate) fn good(name: &'static str, detail: impl Into<String>) -> Finding {
        Finding { name, state: State::Good, detail: detail.into(), help: String::new() }
    }

    /// Returns a finding that breaks the gate.
    pub(crate) fn bad(
        name: &'static str,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        Finding { name, state: State::Bad, detail: detail.into(), help: help.into() }
    }

    /// Returns a finding that is worth knowing.
    pub(crate) fn note(name: &'static str, detail: impl Into<String>) -> Finding {
        Finding { name, state: State::Note, detail: detail.into(), help: String::new() }
    }
}

/// What the files of an agent tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspected {
    /// The findings, in the order in which people read them.
    pub findings: Vec<Finding>,
    /// The command lines of the hooks that are ours.
    pub commands: Vec<String>,
    /// What the agent sends for a shell command, with marks.
    pub frame: String,
}

/// Looks at the files of `agent`.
pub(crate) fn inspect(agent: Agent, around: &Surroundings) -> Result<Inspected, Failure> {
    let row = row::read(agent)?;
    let mut found = Inspected { frame: row.frame.clone(), ..Inspected::default() };
    let again = format!("`stockade setup {}`", agent.name());
    for layer in &row.layers {
        if matches!(layer.what, What::Shell { .. }) {
            continue;
        }
        for scope in [Scope::User, Scope::Project] {
            let Ok(path) = layer.path(agent, scope, around) else { continue };
            let lines = files::read(&path).map(|text| commands(agent, layer, text, &path));
            let shown = path.display();
            match lines {
                Err(failure) => found.findings.push(Finding::bad("hook", failure.message, &again)),
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => {
                    found.findings.push(Finding::good("hook", format!("stands in {shown}")));
                    found.findings.extend(trust(&row, &path, around));
                    found.commands.extend(lines);
                }
            }
        }
    }
    if found.commands.is_empty() {
        found.findings.push(Finding::bad("hook", "no settings of this agent name it", &again));
    }
    found.findings.extend(found.commands.iter().flat_map(|line| program(agent, line)));
    found.findings.extend(in_force(&row, around));
    found.findings.push(second_layer(agent, &row, around));
    Ok(found)
}

/// Returns the command lines of our hook in the text of a settings file.
fn commands(agent: Agent, layer: &Written, text: Option<String>, path: &Path) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    match &layer.what {
        What::Entry { list, .. } => {
            let elements = json_text::at_path(&text, &keys(list));
            let elements = elements.as_ref().and_then(Value::elements).unwrap_or_default();
            elements.iter().flat_map(|element| lines(agent, element)).collect()
        }
        What::Own(content) => of_own(agent, content, &text, path).into_iter().collect(),
        What::Shell { .. } => Vec::new(),
    }
}

fn lines(agent: Agent, value: &Value) -> Vec<String> {
    match &value.kind {
        Json::String(text) if is_ours(agent, value) => vec![text.clone()],
        Json::Array(elements) => elements.iter().flat_map(|it| lines(agent, it)).collect(),
        Json::Object(members) => members.iter().flat_map(|it| lines(agent, &it.value)).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

/// Returns the command line in a file of our own, if all around it is as set-up writes it.
fn of_own(agent: Agent, content: &str, text: &str, path: &Path) -> Option<String> {
    let unquoted = |text: &str| serde_json::from_str::<String>(text).ok();
    if let Some((head, tail)) = content.split_once("COMMAND") {
        let line = text.strip_prefix(head)?.strip_suffix(tail)?;
        let json = path.extension().is_some_and(|extension| extension == "json");
        return if json { unquoted(&format!("\"{line}\"")) } else { Some(line.to_owned()) };
    }
    // The plugin starts the program itself.
    let (head, tail) = content.split_once("= GATE")?;
    let gate = unquoted(text.strip_prefix(head)?.strip_suffix(tail)?.strip_prefix("= ")?)?;
    Some(format!("'{}' hook {} --rewrite", gate.replace('\'', r#"'"'"'"#), agent.name()))
}

/// Says whether the program of a hook's command line is there, may be run, and is this one.
fn program(agent: Agent, line: &str) -> Vec<Finding> {
    let name = "program";
    let help = format!("`stockade setup {}` writes the path of this executable", agent.name());
    let bad = |detail: String| vec![Finding::bad(name, detail, help.clone())];
    let Some((program, rest)) = wrapping::word(line) else {
        return bad(format!("`{line}` does not begin with a program"));
    };
    let path = Path::new(&program);
    let shown = path.display();
    if !path.is_absolute() {
        return bad(format!(
            "`{shown}` is no absolute path: which program it is depends on the agent"
        ));
    }
    let Ok(metadata) = path.metadata() else { return bad(format!("`{shown}` is not there")) };
    if !metadata.is_file() || rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_err() {
        return bad(format!("`{shown}` cannot be executed by this user"));
    }
    if !rest.starts_with(&format!(" hook {}", agent.name())) {
        return bad(format!("`{line}` does not run the hook of this agent"));
    }
    let same = inside::is_this_executable(path)
        || (digest(path).is_some() && digest(path) == digest(Path::new("/proc/self/exe")));
    let mut found = match same {
        true => vec![Finding::good(name, format!("`{shown}` is this executable"))],
        false => bad(format!("`{shown}` is another executable than this one")),
    };
    let own = rustix::process::geteuid().as_raw();
    let open = metadata.permissions().mode() & 0o022 != 0 || ![0, own].contains(&metadata.uid());
    if open {
        let detail = format!("`{shown}` can be changed by other users");
        found.push(Finding::bad(name, detail, format!("`chmod go-w {shown}`, as its owner")));
    }
    found
}

fn digest(path: &Path) -> Option<Vec<u8>> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut digest = Sha256::new();
    std::io::copy(&mut file, &mut digest).ok()?;
    Some(digest.finalize().to_vec())
}

/// Says whether a person's trust in the hook is on record, where the agent wants that.
fn trust(row: &Row, hooks: &Path, around: &Surroundings) -> Option<Finding> {
    let (file, key) = row.trust.as_ref()?;
    let path = row::placed(file, around);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mark = format!("{}{key}", hooks.display());
    let section = text.split_once(&mark).map(|(_, rest)| rest.split("\n[").next().unwrap_or(rest));
    let shown = path.display();
    Some(match section.is_some_and(|section| section.contains("trusted_hash")) {
        true => Finding::good("trust", format!("a trusted hash for this hook is in {shown}")),
        false => Finding::bad(
            "trust",
            format!("no trusted hash for this hook is in {shown}: the agent does not run it"),
            "start the agent once and trust the hook",
        ),
    })
}

/// Says whether a setting of the agent puts its hooks out of force.
fn in_force(row: &Row, around: &Surroundings) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, path, value) in &row.off {
        let place = row::placed(file, around);
        let Ok(Some(text)) = files::read(&place) else { continue };
        let member = json_text::at_path(&text, &keys(path));
        if member.is_some_and(|member| member.kind == Json::Bool(*value)) {
            let (name, shown) = (path.join("."), place.display());
            let detail = format!("`{name}` in {shown} puts hooks out of force");
            found.push(Finding::bad("in force", detail, format!("take `{name}` out")));
        }
    }
    if found.is_empty() {
        found.push(Finding::good(
            "in force",
            "no setting of this agent puts its hooks out of force",
        ));
    }
    found
}

/// Says whether the agent's shell is ours as well.
fn second_layer(agent: Agent, row: &Row, around: &Surroundings) -> Finding {
    let name = "second layer";
    let help = format!("`stockade setup {}`", agent.name());
    let layer = row.layers.iter().find_map(|layer| match &layer.what {
        What::Shell { path } => Some((layer, path)),
        What::Entry { .. } | What::Own(_) => None,
    });
    let Some((layer, path)) = layer else {
        return Finding::note(name, "none: this agent lets no setting choose its shell");
    };
    for scope in [Scope::User, Scope::Project] {
        let Ok(file) = layer.path(agent, scope, around) else { continue };
        let Ok(Some(text)) = files::read(&file) else { continue };
        if shell_of(agent, &text, path).is_none() {
            continue;
        }
        let link = link::path(agent, around);
        let shown = link.display();
        return match inside::is_this_executable(&link) {
            true => Finding::good(name, format!("the shell `{shown}` is this executable")),
            false => {
                Finding::bad(name, format!("the shell `{shown}` is not this executable"), help)
            }
        };
    }
    Finding::bad(
        name,
        "the agent's shell is not ours: the loss of the hook is the loss of the gate",
        help,
    )
}
