//! Denied reads that may be why a command failed, where no layer saw the refusal.

use std::path::Path;

use stockade_parser::CommandKind;
use stockade_policy::{Layer, SandboxSettings};
use stockade_spec::{Match, Pattern};

use crate::judge::{Judged, Scene};
use crate::plan::{caches, credentials, place_of};
use crate::protocol::words::one_line;
use crate::violation_help::is_verbatim;

/// Returns a line about a denied read that the text of the command names: it names a path that is denied, or runs
/// a program whose own files are, or starts what is not seen where a project has files that are asked for. The output is
/// not read for that.
pub fn footer(judged: &Judged, scene: &Scene) -> Option<String> {
    let settings = credentials::settings(scene, &judged.facts);
    denied(judged, &settings).or_else(|| unshown(judged, scene, &settings))
}

fn denied(judged: &Judged, settings: &SandboxSettings) -> Option<String> {
    let (path, pattern, origin) = settings.deny_read.iter().find_map(|(pattern, origin)| {
        let path = named(judged, settings, pattern).or_else(|| owned(judged, pattern))?;
        Some((path, pattern, origin))
    })?;
    let (path, place) = (one_line(&path), one_line(&place_of(pattern, origin)));
    // A denial that a person wrote gets no hint about how to lift it.
    let remedy = match origin.layer {
        Layer::Builtin => allowing(pattern),
        Layer::User | Layer::Project | Layer::Local | Layer::Flag | Layer::Policy => String::new(),
    };
    Some(format!(
        "stockade: {path} cannot be read here, by {place}; this may be why the command failed{remedy}"
    ))
}

/// Returns a line about a file that is there in part, or empty.
fn unshown(judged: &Judged, scene: &Scene, settings: &SandboxSettings) -> Option<String> {
    let paths = judged.facts.real_paths.iter();
    let mut real = paths.map(|(written, names)| names.last().unwrap_or(written));
    let found = real.find(|path| credentials::is_copied(path, scene, settings)).cloned();
    let (path, how) = match found {
        Some(path) => (path, "is shown without its secrets here"),
        None => {
            let starts = caches::wanted(judged.tree.as_ref(), &scene.place) != caches::Wanted::None;
            let path =
                starts.then(|| credentials::unseen(scene, settings, &judged.facts.asked))??;
            (path, "is empty here, since it may contain secrets")
        }
    };
    let path = path.display().to_string();
    // A rule that is spelled like such a name would show others as well.
    let remedy = if is_verbatim(&path) { allowing(&path) } else { String::new() };
    let shown = one_line(&path);
    Some(format!("stockade: {shown} {how}; this may be why the command failed{remedy}"))
}

/// Returns the line of the settings that shows a path.
fn allowing(path: &str) -> String {
    let value = serde_json::json!([path]);
    format!("; to allow: sandbox.filesystem.allowRead: {value} (user settings)")
}

/// Returns a path of the text that a rule denies.
fn named(judged: &Judged, settings: &SandboxSettings, pattern: &str) -> Option<String> {
    let is_there = |path: &Path| path.ancestors().any(|it| covers(pattern, it) && exists(it));
    let is_allowed = |path: &Path| settings.allow_read.iter().any(|(it, _)| covers(it, path));
    let mut paths = judged.facts.real_paths.iter();
    let found = paths.find(|(written, real)| {
        let mut all = std::iter::once(*written).chain(real.iter());
        all.any(|path| covers(pattern, path) && is_there(path) && !is_allowed(path))
    })?;
    Some(found.0.display().to_string())
}

/// Returns what a rule denies when it has the name of a program of the text, as `~/.aws` has that of `aws`.
fn owned(judged: &Judged, pattern: &str) -> Option<String> {
    let path = Path::new(pattern);
    let beneath = path.strip_prefix(&judged.facts.home).ok()?;
    let commands = judged.tree.as_ref()?.commands();
    let external = commands.iter().filter(|command| command.kind == CommandKind::External);
    let mut programs = external.filter_map(|command| command.words.first()?.exact());
    let is_owner = |program: &[u8]| {
        let program = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut names = beneath.components().filter_map(|name| name.as_os_str().to_str());
        names.any(|name| name.trim_start_matches('.').as_bytes() == program)
    };
    (programs.any(is_owner) && exists(path)).then(|| pattern.to_owned())
}

fn covers(pattern: &str, path: &Path) -> bool {
    // One that is no pattern was told of when the settings were read.
    Pattern::parse(Path::new(pattern)).is_ok_and(|it| it.matches(path) == Match::Whole)
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
