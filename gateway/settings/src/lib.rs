//! Finds and reads the layers of settings, fresh for every call. A file that is there but cannot be used
//! refuses the call: it may have held what forbids it.
//!
//! May read the file system. Writes marks of the state alone: of trusted files, of projects, and of where commands may write.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod approvers;
pub mod bounds;
mod file;
pub mod host;
pub mod limits;
pub mod plugin;
pub mod roots;
pub mod trust;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};
use stockade_policy::{Layer, LoadedSettings, Problem, Rules, SettingsText, Severity};
use stockade_text::json;

use stockade_base::hex;
use stockade_base::place::{Place, imported_directory, user_directory};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::Context;

/// Where to look for settings.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Directory of the managed settings.
    pub managed: &'a Path,
    /// The only user who may own managed settings.
    pub managed_owner: u32,
    /// Our state, for the marks of trusted files.
    pub state: &'a Path,
    /// Where the call happens.
    pub place: &'a Place,
    /// Where commands may write, or might before.
    pub regions: &'a [PathBuf],
    /// Context of the call.
    pub context: &'a Context,
}

/// The settings of one call, as they were read for it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The merged rules.
    pub rules: Rules,
    /// Warnings about the files, one line each.
    pub warnings: Vec<String>,
    /// Digest over layer, name, trust and content of every text, in order.
    pub sha256: String,
    /// The texts, in order.
    pub texts: Vec<SettingsText>,
}

/// Most sets of texts whose rules are kept.
const MOST_MERGED: usize = 4;
/// Longest set of texts whose rules are kept, in bytes.
const LONGEST_MERGED: usize = 1 << 20;

/// Reads all layers; blocks on the file system.
pub fn read(sources: &Sources<'_>) -> Result<Arc<Snapshot>, Failure> {
    merge(collect(sources)?)
}

/// Merges settings texts. What comes of them depends on nothing else, so that of the last few sets is kept: a gateway
/// that serves reads the files for every call, and finds the same in most.
pub fn merge(texts: Vec<SettingsText>) -> Result<Arc<Snapshot>, Failure> {
    static MERGED: Mutex<VecDeque<Arc<Snapshot>>> = Mutex::new(VecDeque::new());
    let known = || {
        let merged = MERGED.lock().ok()?;
        merged.iter().find(|known| known.texts == texts).cloned()
    };
    if let Some(known) = known() {
        return Ok(known);
    }
    let snapshot = Arc::new(merge_anew(texts)?);
    let length: usize = snapshot.texts.iter().map(|text| text.text.len()).sum();
    if let Ok(mut merged) = MERGED.lock()
        && length <= LONGEST_MERGED
    {
        merged.truncate(MOST_MERGED - 1);
        merged.push_front(Arc::clone(&snapshot));
    }
    Ok(snapshot)
}

fn merge_anew(texts: Vec<SettingsText>) -> Result<Snapshot, Failure> {
    let LoadedSettings { rules, problems } = stockade_policy::load(&texts);
    if let Some(problem) = problems.iter().find(|problem| problem.severity == Severity::Refusal) {
        let message = format!("settings are rejected: {}", sentence(problem));
        return Err(Failure::new(Code::SettingsRejected, message, problem.help.clone()));
    }
    let misplaced = stockade_policy::misplaced(&rules);
    let warnings = warnings(problems.iter().chain(&misplaced));
    let sha256 = digest(&texts);
    Ok(Snapshot { rules, warnings, sha256, texts })
}

/// Beginning of the line about a file that is not trusted, behind the name of the file.
pub const UNTRUSTED: &str = " is not trusted, so ";

/// Returns one line for each problem, and one for each file whose entries wait for trust.
fn warnings<'a>(problems: impl Iterator<Item = &'a Problem>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut waiting: Vec<(&Path, usize)> = Vec::new();
    for problem in problems.filter(|problem| !is_foreign(problem)) {
        if !waits(problem) {
            lines.push(warning(problem));
            continue;
        }
        let file = problem.origin.file.as_path();
        match waiting.iter_mut().find(|(known, _)| *known == file) {
            Some((_, count)) => *count += 1,
            None => waiting.push((file, 1)),
        }
    }
    lines.extend(waiting.iter().map(|(file, count)| untrusted(file, *count)));
    lines
}

fn untrusted(file: &Path, count: usize) -> String {
    let entries =
        if count == 1 { "one entry is".to_owned() } else { format!("{count} entries are") };
    format!(
        "{}{UNTRUSTED}{entries} ignored; run `stockade policy trust` to review it",
        file.display()
    )
}

/// Says whether an entry is ignored because nobody trusts its file.
pub fn waits(problem: &Problem) -> bool {
    problem.waits_for_trust()
}

/// Says whether a key of another product's file is one that only that product knows.
pub fn is_foreign(problem: &Problem) -> bool {
    let imported = |part: std::path::Component<'_>| {
        part.as_os_str() == ".claude" || part.as_os_str() == "claude-code"
    };
    problem.severity == Severity::Warning
        && problem.origin.file.components().any(imported)
        && problem.is_unknown_key()
}

fn warning(problem: &Problem) -> String {
    match problem.help.is_empty() {
        true => sentence(problem),
        false => format!("{}; {}", sentence(problem), problem.help),
    }
}

fn sentence(problem: &Problem) -> String {
    let origin = &problem.origin;
    let place = format!("{}:{}:{}", origin.file.display(), origin.line, origin.column);
    match problem.text.is_empty() {
        true => format!("{place}: {}", problem.message),
        false => format!("{place}: {}: `{}`", problem.message, visible(&problem.text)),
    }
}

/// Returns the text with what could deceive a reader written out; quotes stay.
fn visible(text: &str) -> String {
    let shown = |character: char| match character {
        '"' | '\'' => character.to_string(),
        other => other.escape_debug().to_string(),
    };
    text.chars().map(shown).collect()
}

fn digest(texts: &[SettingsText]) -> String {
    let mut whole = Sha256::new();
    for text in texts {
        let content = hex(&Sha256::digest(&text.text));
        let line = serde_json::json!([text.layer.name(), text.file, text.trusted, content]);
        whole.update(line.to_string());
        whole.update("\n");
    }
    hex(&whole.finalize())
}

/// Finds the settings texts of all layers, weakest first; blocks on the file system.
pub fn collect(sources: &Sources<'_>) -> Result<Vec<SettingsText>, Failure> {
    let policy = managed(sources, sources.managed)?;
    let user = match counts(sources.context, "user") {
        true => own(sources, &user_directory(sources.context, sources.place))?,
        false => None,
    };
    let mut texts = profile(sources, user.iter().chain(&policy))?;
    let import = |text: &SettingsText| imports(&text.text);
    let import = !sources.context.import.is_empty()
        || policy.iter().any(import)
        || user.as_ref().is_some_and(import);
    texts.extend(user);
    if import && counts(sources.context, "user") {
        texts.extend(own(sources, &imported_directory(sources.context, sources.place))?);
    }
    let folders: &[&str] = if import { &[".stockade", ".claude"] } else { &[".stockade"] };
    for (layer, source, name) in [
        (Layer::Project, "project", "settings.json"),
        (Layer::Local, "local", "settings.local.json"),
    ] {
        for folder in folders {
            if counts(sources.context, source) {
                texts.extend(outer(sources, layer, &Path::new(folder).join(name))?);
                texts.extend(shared(sources, layer, &Path::new(folder).join(name))?);
            }
        }
    }
    texts.extend(flags(sources)?);
    texts.extend(host::texts(&sources.context.managed, sources.place.anchor())?);
    texts.extend(policy);
    if import {
        texts.extend(managed(sources, Path::new("/etc/claude-code"))?);
    }
    Ok(texts)
}

fn counts(context: &Context, source: &str) -> bool {
    context.setting_sources.as_ref().is_none_or(|sources| sources.iter().any(|s| s == source))
}

/// Returns the built-in settings, and those of the profile that the call names, or else the setting `profile` of the user
/// or of the managed files.
fn profile<'t>(
    sources: &Sources<'_>,
    texts: impl Iterator<Item = &'t SettingsText>,
) -> Result<Vec<SettingsText>, Failure> {
    let default =
        made(Layer::Builtin, "<default>", stockade_policy::DEFAULT_SETTINGS, Path::new("/"));
    let set = texts.filter_map(|text| profile_of(&text.text)).last();
    let Some(name) = sources.context.profile.clone().or(set) else { return Ok(vec![default]) };
    let built_in = stockade_policy::PROFILES.iter().find(|(known, _)| *known == name);
    if let Some((known, text)) = built_in {
        let file = format!("<profile {known}>");
        return Ok(vec![default, made(Layer::Builtin, &file, text, Path::new("/"))]);
    }
    let names: Vec<&str> = stockade_policy::PROFILES.iter().map(|(known, _)| *known).collect();
    let help = format!("use one of {}, or the path of a settings file", names.join(", "));
    if !name.contains('/') {
        let message = format!("unknown profile `{}`", name.escape_debug());
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let cwd = sources.place.anchor();
    let path = match name.strip_prefix("~/") {
        Some(rest) => sources.place.home.join(rest),
        None => cwd.join(&name),
    };
    let Some(text) = file::read(&path, file::Links::Follow)? else {
        let message = format!("the profile `{}` does not exist", path.display());
        return Err(Failure::new(Code::SettingsUnreadable, message, help));
    };
    bounds::check_settings(&path, sources.regions)?;
    let anchor = path.parent().unwrap_or(cwd).to_path_buf();
    let (layer, trusted, above) = (Layer::Builtin, true, false);
    Ok(vec![default, SettingsText { layer, file: path, text, anchor, trusted, above }])
}

/// Returns the setting `profile` of a text.
fn profile_of(text: &[u8]) -> Option<String> {
    let value = json::read(text, json::Dialect::Commented).ok()?;
    value.get("profile")?.text().map(str::to_owned)
}

fn made(layer: Layer, name: &str, text: &str, anchor: &Path) -> SettingsText {
    let (file, text) = (name.into(), text.as_bytes().to_vec());
    SettingsText { layer, file, text, anchor: anchor.into(), trusted: true, above: false }
}

/// Reads the user's file in `directory`.
fn own(sources: &Sources<'_>, directory: &Path) -> Result<Option<SettingsText>, Failure> {
    let path = directory.join("settings.json");
    let text = match file::read(&path, file::Links::Follow)? {
        Some(text) => text,
        None => return Ok(None),
    };
    bounds::check_settings(&path, sources.regions)?;
    let anchor = directory.to_path_buf();
    Ok(Some(SettingsText {
        layer: Layer::User,
        file: path,
        text,
        anchor,
        trusted: true,
        above: false,
    }))
}

/// Reads a file that lies in the project.
fn shared(
    sources: &Sources<'_>,
    layer: Layer,
    name: &Path,
) -> Result<Option<SettingsText>, Failure> {
    let project = &sources.place.project;
    let path = project.join(name);
    let folder = path.parent().unwrap_or(project);
    if file::is_missing(folder) {
        return Ok(None);
    }
    file::check_folder(folder)?;
    let Some(text) = file::read(&path, file::Links::Refuse)? else { return Ok(None) };
    // Nothing in the project tells who wrote the file: commands write there too, the repository's own index included.
    let trusted = trust::is_trusted(sources.state, &path, &text);
    Ok(Some(SettingsText {
        layer,
        file: path,
        text,
        anchor: project.clone(),
        trusted,
        above: false,
    }))
}

/// Reads the files `name` above the project, of which what tightens counts, from the home directory or the root of the file system down.
fn outer(sources: &Sources<'_>, layer: Layer, name: &Path) -> Result<Vec<SettingsText>, Failure> {
    let (project, home) = (&sources.place.project, &sources.place.home);
    // The home directory itself holds the user's own files of the product that is read beside ours.
    let is_user = |above: &Path| above == home && !name.starts_with(".stockade");
    let is_beyond = |above: &Path| project.starts_with(home) && !above.starts_with(home);
    let mut texts = Vec::new();
    for above in project.ancestors().skip(1) {
        let path = above.join(name);
        let folder = path.parent().unwrap_or(above);
        if is_beyond(above) || is_user(above) || file::is_missing(folder) {
            continue;
        }
        if roots::is_anybodys(above, folder) {
            continue;
        }
        file::check_folder(folder)?;
        let Some(text) = file::read(&path, file::Links::Refuse)? else { continue };
        // Its hooks go on guarding what lies below, if somebody trusted them.
        let trusted = trust::is_trusted(sources.state, &path, &text);
        let anchor = above.to_path_buf();
        texts.push(SettingsText { layer, file: path, text, anchor, trusted, above: true });
    }
    texts.reverse();
    Ok(texts)
}

/// Reads managed files: each, and every directory above, belongs to the owner alone.
fn managed(sources: &Sources<'_>, directory: &Path) -> Result<Vec<SettingsText>, Failure> {
    let mut files = vec![directory.join("managed-settings.json")];
    files.extend(file::drop_ins(&directory.join("managed-settings.d"))?);
    let mut texts = Vec::new();
    for path in files {
        let Some(text) = file::read(&path, file::Links::Refuse)? else { continue };
        file::check_owner(&path, sources.managed_owner)?;
        let anchor = directory.to_path_buf();
        texts.push(SettingsText {
            layer: Layer::Policy,
            file: path,
            text,
            anchor,
            trusted: true,
            above: false,
        });
    }
    Ok(texts)
}

/// Says whether a settings text asks for the files of the product that is read beside ours.
fn imports(text: &[u8]) -> bool {
    let Ok(value) = json::read(text, json::Dialect::Commented) else { return false };
    let names = value.get("import").and_then(json::Value::elements).unwrap_or_default();
    names.iter().any(|name| name.text() == Some("claude-code"))
}

/// Returns the texts of the flag layer: files and texts given with the call, then its options.
fn flags(sources: &Sources<'_>) -> Result<Vec<SettingsText>, Failure> {
    let cwd = sources.place.anchor();
    let mut texts = Vec::new();
    for given in &sources.context.settings {
        if given.trim_start().starts_with('{') {
            texts.push(made(Layer::Flag, "<--settings>", given, cwd));
            continue;
        }
        let path = cwd.join(given);
        let Some(text) = file::read(&path, file::Links::Follow)? else {
            let message = format!("the settings file `{}` does not exist", path.display());
            let help = "specify an existing file, or JSON that begins with `{`";
            return Err(Failure::new(Code::SettingsUnreadable, message, help));
        };
        bounds::check_settings(&path, sources.regions)?;
        let anchor = path.parent().unwrap_or(cwd).to_path_buf();
        texts.push(SettingsText {
            layer: Layer::Flag,
            file: path,
            text,
            anchor,
            trusted: true,
            above: false,
        });
    }
    for directory in &sources.context.plugins {
        texts.extend(plugin::hooks(sources, Path::new(directory))?);
    }
    for (name, list, rules) in [
        ("<--allowed-tools>", "allow", &sources.context.allowed_tools),
        ("<--disallowed-tools>", "deny", &sources.context.disallowed_tools),
    ] {
        if !rules.is_empty() {
            let text = serde_json::json!({ "permissions": { list: rules } }).to_string();
            texts.push(made(Layer::Flag, name, &text, cwd));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests;
