//! What a command that failed may have met without a layer that sees it: reads that are denied.

use std::path::Path;

use stockade_parser::CommandKind;
use stockade_policy::{Origin, Rules, SandboxSettings};
use stockade_sandbox::{Match, Pattern};

use crate::judge::Judged;
use crate::plan::place_of;
use crate::protocol::words::one_line;

/// Returns a line about a denied read that the text of the command speaks of: it names a path that is denied, or runs
/// a program whose own files are. The output is not read for that.
pub(crate) fn footer(judged: &Judged, rules: &Rules) -> Option<String> {
    let settings = stockade_policy::sandbox_settings(rules, &judged.facts);
    let (path, rule) = settings.deny_read.iter().find_map(|rule| {
        let path = named(judged, &settings, rule).or_else(|| owned(judged, rule))?;
        Some((path, rule))
    })?;
    let (pattern, origin) = rule;
    let (path, place) = (one_line(&path), one_line(&place_of(pattern, origin)));
    Some(format!(
        "stockade: {path} cannot be read here, by {place}; no layer sees whether that is why the command failed"
    ))
}

/// Returns a path of the text that `rule` denies.
fn named(
    judged: &Judged,
    settings: &SandboxSettings,
    (pattern, _): &(String, Origin),
) -> Option<String> {
    let is_there = |path: &Path| path.ancestors().any(|it| covers(pattern, it) && exists(it));
    let is_allowed = |path: &Path| settings.allow_read.iter().any(|(it, _)| covers(it, path));
    let mut paths = judged.facts.real_paths.iter();
    let found = paths.find(|(written, real)| {
        let mut all = std::iter::once(*written).chain(real.iter());
        all.any(|path| covers(pattern, path) && is_there(path) && !is_allowed(path))
    })?;
    Some(found.0.display().to_string())
}

/// Returns what `rule` denies when it has the name of a program of the text, as `~/.aws` has that of `aws`.
fn owned(judged: &Judged, (pattern, _): &(String, Origin)) -> Option<String> {
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
    (programs.any(is_owner) && exists(path)).then(|| pattern.clone())
}

fn covers(pattern: &str, path: &Path) -> bool {
    // One that is no pattern was told of when the settings were read.
    Pattern::parse(Path::new(pattern)).is_ok_and(|it| it.matches(path) == Match::Whole)
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
