//! Whether the gate is in force for an agent, as far as its files tell: the hook, its program, what could put it
//! out of force, and the second layer.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

mod merged;

use sha2::{Digest as _, Sha256};
use stockade_text::json::Value;

use super::row::{self, Row, What, Written};
use super::{Scope, Surroundings, commands_of, files, is_our_command, keys, link, shell_of};
use crate::json_text;
use crate::protocol::errors::Failure;
use crate::serve::hook::Agent;
use stockade_base::hex;

/// Scopes in which a hook can be in force.
const SCOPES: [Scope; 3] = [Scope::Managed, Scope::Project, Scope::User];

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
    /// Name of the thing that was looked at.
    pub name: &'static str,
    /// State of that thing.
    pub state: State,
    /// Details of the state.
    pub detail: String,
    /// Remedy; may be empty.
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

/// Findings in the files of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspected {
    /// The findings, in the order in which people read them.
    pub findings: Vec<Finding>,
    /// The command lines of the hooks that are ours.
    pub commands: Vec<String>,
    /// Frame that the agent sends for a shell command, with marks.
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
        for scope in SCOPES {
            let Ok(path) = layer.path(agent, scope, around) else { continue };
            let text = files::read(&path);
            let lines = text.map(|text| commands(agent, layer, text.as_deref(), &path));
            let shown = path.display();
            match lines {
                Err(failure) => found.findings.push(Finding::bad("hook", failure.message, &again)),
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => {
                    found.findings.push(Finding::good("hook", format!("is in {shown}")));
                    found.findings.extend(trust(&row, &path, &lines, around));
                    found.commands.extend(lines);
                }
            }
        }
    }
    found.findings.extend(incomplete(agent, &row, around, &again));
    if found.commands.is_empty() {
        found.findings.push(Finding::bad("hook", "no settings of this agent contain it", &again));
    }
    found.findings.extend(found.commands.iter().flat_map(|line| program(agent, line)));
    found.findings.extend(merged::narrowed(agent, &row, around, &again));
    found.findings.extend(merged::switched_off(agent, &row, around, &found.commands));
    found.findings.push(second_layer(agent, &row, around));
    Ok(found)
}

/// Says where our hook is registered for some of the events of an agent that has several, and not for the others.
fn incomplete(agent: Agent, row: &Row, around: &Surroundings, help: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for scope in SCOPES {
        let (mut there, mut missing) = (false, Vec::new());
        for layer in &row.layers {
            let What::Entry { list, .. } = &layer.what else { continue };
            let Ok(path) = layer.path(agent, scope, around) else { continue };
            let text = files::read(&path).ok().flatten();
            match commands(agent, layer, text.as_deref(), &path).is_empty() {
                true => missing.push(list.join(".")),
                false => there = true,
            }
        }
        if there && !missing.is_empty() {
            let detail = format!("the hook is missing at `{}`", missing.join("`, `"));
            found.push(Finding::bad("hook", detail, help));
        }
    }
    found
}

/// Returns the command lines of our hook in the text of a settings file.
pub(super) fn commands(
    agent: Agent,
    layer: &Written,
    text: Option<&str>,
    path: &Path,
) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    match &layer.what {
        What::Entry { list, .. } => {
            let elements = json_text::at_path(text, &keys(list));
            let elements = elements.as_ref().and_then(Value::elements).unwrap_or_default();
            let mut found = Vec::new();
            elements.iter().for_each(|element| commands_of(element, &mut found));
            let ours = found.into_iter().filter(|line| is_our_command(agent, line));
            ours.map(str::to_owned).collect()
        }
        What::Own(content) => of_own(agent, content, text, path).into_iter().collect(),
        What::Shell { .. } => Vec::new(),
    }
}

/// Returns the command line in a file of our own, if all around it is as set-up writes it.
pub(super) fn of_own(agent: Agent, content: &str, text: &str, path: &Path) -> Option<String> {
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
    let Some((program, rest)) = stockade_base::quoted::word(line) else {
        return bad(format!("`{line}` does not begin with a program"));
    };
    let path = Path::new(&program);
    let shown = path.display();
    if !path.is_absolute() {
        return bad(format!("`{shown}` is not an absolute path, so the agent chooses the program"));
    }
    let Ok(metadata) = path.metadata() else { return bad(format!("`{shown}` does not exist")) };
    if !metadata.is_file() || rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_err() {
        return bad(format!("`{shown}` cannot be executed by this user"));
    }
    if !rest.starts_with(&format!(" hook {}", agent.name())) {
        return bad(format!("`{line}` does not run the hook of this agent"));
    }
    let mut found = match is_this_file(path) {
        true => vec![Finding::good(name, format!("`{shown}` is this executable"))],
        false => bad(format!("`{shown}` is another executable than this one")),
    };
    let own = rustix::process::geteuid().as_raw();
    let strange = |metadata: &Metadata| ![0, own].contains(&metadata.uid());
    if metadata.permissions().mode() & 0o022 != 0 || strange(&metadata) {
        let detail = format!("`{shown}` can be changed by other users");
        found.push(Finding::bad(name, detail, format!("`chmod go-w {shown}`, as its owner")));
    }
    // A user who may rename in a folder above may put another program there.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let open = real.ancestors().skip(1).find(|folder| {
        folder.metadata().map_or(true, |found| {
            let mode = found.permissions().mode();
            strange(&found) || (mode & 0o002 != 0 && mode & 0o1000 == 0)
        })
    });
    if let Some(folder) = open {
        let detail = format!("other users can put another program into `{}`", folder.display());
        found.push(Finding::bad(name, detail, "keep it in a directory that only you can write"));
    }
    found
}

/// Says whether the word names this program, which may go by any name: the file that runs, one of that name, or a copy.
pub(super) fn is_this_program(text: &str) -> bool {
    let Some((program, "")) = stockade_base::quoted::word(text) else { return false };
    let path = Path::new(&program);
    let own = std::env::current_exe().unwrap_or_default();
    let has_its_name = path.file_name().is_some_and(|name| own.file_name() == Some(name));
    has_its_name || is_this_file(path)
}

/// Says whether a file is this executable, or a copy of it.
fn is_this_file(path: &Path) -> bool {
    stockade_base::executable::is_this_executable(path)
        || (digest(path).is_some() && digest(path) == digest(Path::new("/proc/self/exe")))
}

fn digest(path: &Path) -> Option<Vec<u8>> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut digest = Sha256::new();
    std::io::copy(&mut file, &mut digest).ok()?;
    Some(digest.finalize().to_vec())
}

/// Says whether a person's trust in the hook is on record, where the agent wants that.
fn trust(row: &Row, hooks: &Path, lines: &[String], around: &Surroundings) -> Option<Finding> {
    let trust = row.trust.as_ref()?;
    let path = row::placed(&trust.file, around);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mark = format!("{}{}", hooks.display(), trust.key);
    let sections = text.split(mark.as_str()).skip(1);
    let sections: Vec<&str> =
        sections.map(|rest| rest.split("\n[").next().unwrap_or(rest)).collect();
    let has = |section: &str, member: &str| {
        section
            .lines()
            .any(|line| line.split('#').next().unwrap_or(line).replace(' ', "") == member)
    };
    let shown = path.display();
    let bad = |detail: String| {
        Some(Finding::bad("trust", detail, "start the agent once and trust the hook"))
    };
    let hash = |line: &String| {
        let text = row::in_json(&trust.identity, line);
        format!("trusted_hash=\"sha256:{}\"", hex(&Sha256::digest(text.as_bytes())))
    };
    let expected: Vec<String> = lines.iter().map(hash).collect();
    let trusted = |section: &&&str| expected.iter().any(|hash| has(section, hash));
    match sections.iter().find(trusted) {
        Some(section) if has(section, "enabled=false") => {
            bad(format!("the hook is disabled in {shown}"))
        }
        Some(_) => {
            Some(Finding::good("trust", format!("the trusted hash of this hook is in {shown}")))
        }
        None if sections.iter().any(|section| section.contains("trusted_hash")) => bad(format!(
            "the trusted hash in {shown} differs from the hook's: the agent does not run it"
        )),
        None => {
            bad(format!("no trusted hash for this hook is in {shown}: the agent does not run it"))
        }
    }
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
    let files = match row.merged.is_empty() {
        false => row.merged.iter().map(|file| row::placed(file, around)).collect(),
        true => SCOPES.iter().filter_map(|it| layer.path(agent, *it, around).ok()).collect(),
    };
    let files: Vec<PathBuf> = files;
    for file in files {
        let Ok(Some(text)) = files::read(&file) else { continue };
        let Some(found) = json_text::at_path(&text, &keys(path)) else { continue };
        let shown = file.display();
        if shell_of(agent, &text, path).is_none() {
            let other = found.text().unwrap_or("another value").to_owned();
            let detail = format!("`{}` in {shown} is `{other}`, not our shell", path.join("."));
            return Finding::bad(name, detail, format!("remove `{}` there", path.join(".")));
        }
        let link = link::path(agent, around);
        let shown = link.display();
        return match stockade_base::executable::is_this_executable(&link) {
            true => {
                let file = file.display();
                Finding::good(name, format!("the shell `{shown}` of {file} is this executable"))
            }
            false => {
                Finding::bad(name, format!("the shell `{shown}` is not this executable"), help)
            }
        };
    }
    Finding::bad(
        name,
        "the agent's shell is not stockade, so nothing judges commands if the hook is lost",
        help,
    )
}
