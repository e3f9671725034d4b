//! The configuration of an agent as the agent merges it: which file's word holds in this directory.

use std::path::{Path, PathBuf};

use stockade_text::json::{Kind as Json, Value};

use super::super::row::{self, Row, What};
use super::super::{Surroundings, commands_of, files, is_our_command, keys};
use super::{Finding, SCOPES, Scope};
use crate::json_text;
use crate::serve::hook::Agent;

/// Matchers under which a hook is called for every tool.
const EVERY: [&str; 3] = ["", "*", ".*"];

/// Says where our hook is called for some tools only, and which file's hook is in force.
pub(super) fn narrowed(agent: Agent, row: &Row, around: &Surroundings, help: &str) -> Vec<Finding> {
    let (mut found, mut whole) = (Vec::new(), Vec::new());
    for scope in SCOPES {
        for layer in &row.layers {
            let Ok(path) = layer.path(agent, scope, around) else { continue };
            let Ok(Some(text)) = files::read(&path) else { continue };
            match &layer.what {
                What::Entry { list, .. } => {
                    let narrow = matchers(agent, &text, &keys(list));
                    whole.extend(narrow.iter().any(Option::is_none).then(|| path.clone()));
                    found.extend(narrow.into_iter().flatten().map(|it| (path.clone(), it)));
                }
                What::Own(content) => {
                    whole.extend(super::of_own(agent, content, &text, &path).map(|_| path.clone()));
                }
                What::Shell { .. } => {}
            }
        }
    }
    whole.dedup();
    let bad = |(path, matcher): (PathBuf, String)| {
        let detail = format!("the hook in {} is called for `{matcher}` alone", path.display());
        match whole.is_empty() {
            true => Finding::bad("hook", detail, help),
            false => Finding::note("hook", detail),
        }
    };
    let mut findings: Vec<Finding> = found.into_iter().map(bad).collect();
    if !whole.is_empty() {
        let files: Vec<String> = whole.iter().map(|path| path.display().to_string()).collect();
        let (project, files) = (around.project.display(), files.join(", "));
        findings
            .push(Finding::good("layer", format!("in {project} the hook of {files} is in force")));
    }
    findings
}

/// Returns the matcher of each entry with a command of ours; none where it is called for every tool.
fn matchers(agent: Agent, text: &str, list: &[&str]) -> Vec<Option<String>> {
    let entries = json_text::at_path(text, list);
    let entries = entries.as_ref().and_then(Value::elements).unwrap_or_default();
    let is_ours = |entry: &&Value| {
        let mut commands = Vec::new();
        commands_of(entry, &mut commands);
        commands.iter().any(|line| is_our_command(agent, line))
    };
    let narrow = |entry: &Value| match entry.get("matcher").map(|it| (it.text(), &it.kind)) {
        None | Some((None, Json::Null)) => None,
        Some((Some(matcher), _)) if EVERY.contains(&matcher) => None,
        Some((Some(matcher), _)) => Some(matcher.to_owned()),
        Some((None, _)) => Some("a value that is not a string".to_owned()),
    };
    entries.iter().filter(is_ours).map(narrow).collect()
}

/// Says whether a setting of the agent disables its hooks. What a person or a project says does not reach the
/// hook of an administrator's file.
pub(super) fn switched_off(
    agent: Agent,
    row: &Row,
    around: &Surroundings,
    commands: &[String],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, path, value) in &row.off {
        let place = row::placed(file, around);
        if path.is_empty() && place.exists() {
            let shown = place.display();
            let detail = format!("the agent reads its hooks from {shown} alone");
            found.push((place.clone(), detail, format!("move the hooks of {shown}")));
            continue;
        }
        let Ok(Some(text)) = files::read(&place) else { continue };
        let member = json_text::at_path(&text, &keys(path));
        if member.is_some_and(|member| member.kind == Json::Bool(*value)) {
            let (name, shown) = (path.join("."), place.display());
            let detail = format!("`{name}` in {shown} disables hooks");
            found.push((place.clone(), detail, format!("remove `{name}`")));
        }
    }
    found.extend(by_name(row, around, commands));
    found.extend(by_feature(row, around));
    let is_managed = row.layers.iter().any(|layer| {
        let path = layer.path(agent, Scope::Managed, around).ok();
        let text = path.as_ref().and_then(|path| files::read(path).ok().flatten());
        path.is_some_and(|path| !super::commands(agent, layer, text.as_deref(), &path).is_empty())
    });
    let managed = |path: &Path| path.starts_with(around.system.join("etc"));
    let own = |path: &Path, detail: &str| managed(path) && detail.contains("allowManagedHooksOnly");
    let mut findings = Vec::new();
    for (path, detail, help) in found {
        findings.push(match is_managed && (!managed(&path) || own(&path, &detail)) {
            true => Finding::note("in force", format!("{detail}, but not the administrator's")),
            false => Finding::bad("in force", detail, help),
        });
    }
    if findings.is_empty() {
        let detail = "no setting of this agent disables its hooks";
        findings.push(Finding::good("in force", detail));
    }
    findings
}

/// A file, what it does, and what to do about it.
type Off = (PathBuf, String, String);

/// Finds our hook in the agent's list of hooks that do not run.
fn by_name(row: &Row, around: &Surroundings, commands: &[String]) -> Vec<Off> {
    let Some(path) = &row.disabled else { return Vec::new() };
    let mut found = Vec::new();
    for file in &row.merged {
        let place = row::placed(file, around);
        let Ok(Some(text)) = files::read(&place) else { continue };
        let list = json_text::at_path(&text, &keys(path));
        let names = list.as_ref().and_then(Value::elements).unwrap_or_default();
        let ours = |name: &&Value| {
            name.text().is_some_and(|it| it == "*" || commands.iter().any(|line| line == it))
        };
        if names.iter().any(|name| ours(&name)) {
            let (name, shown) = (path.join("."), place.display());
            let detail = format!("`{name}` in {shown} disables our hook");
            found.push((place.clone(), detail, format!("remove our hook from `{name}`")));
        }
    }
    found
}

/// Finds a table `features` in TOML that switches hooks off. Forms that this reader does not know leave hooks on.
fn by_feature(row: &Row, around: &Surroundings) -> Vec<Off> {
    let Some((files, names)) = &row.features else { return Vec::new() };
    let mut found = Vec::new();
    for file in files {
        let place = row::placed(file, around);
        let text = std::fs::read_to_string(&place).unwrap_or_default();
        let mut table = String::new();
        for line in text.lines() {
            let line: String =
                line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                table = name.replace(['"', '\''], "");
                continue;
            }
            let line = line.replace(['"', '\''], "");
            let inline = line.strip_prefix("features={").map(|it| it.replace('}', ","));
            let off = names.iter().find(|name| {
                let member = format!("{name}=false");
                (table == "features" && line == member)
                    || line == format!("features.{member}")
                    || inline.as_ref().is_some_and(|it| it.split(',').any(|part| part == member))
            });
            if let Some(name) = off {
                let shown = place.display();
                let detail = format!("`features.{name}` in {shown} disables hooks");
                found.push((place.clone(), detail, format!("remove `{name} = false`")));
            }
        }
    }
    found
}
