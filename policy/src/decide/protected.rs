//! Questions about protected paths: `policies/paths/protected.jsonc`.

use std::path::{Path, PathBuf};

use stockade_parser::SimpleCommand;

use crate::confine::sandbox_settings;
use crate::knowledge::{ProtectedName, protected_names};
use crate::paths;

use super::context::Context;
use super::part::{Draft, Own};

/// The setting that makes one path writable for good.
const SETTING: &str = "/sandbox/filesystem/allowWrite";

/// Returns the question about writing a path that is protected, or that the sandbox keeps unwritable as such. What the
/// sandbox keeps in the root alone is opened by a yes, and needs none where a setting opened it.
pub(super) fn unwritable(
    context: &Context<'_>,
    draft: &mut Draft,
    names: &[PathBuf],
) -> Option<Own> {
    let confined = context.tool == "Bash" && context.is_confined();
    let guarded = || {
        let name = paths::guarded(names, context.facts, &context.directories);
        name.filter(|_| confined).map(of_protected)
    };
    let is_top = |directory: &Path| is_top(context, directory);
    let kept = paths::kept_at_top(names, is_top).filter(|_| confined);
    let Some(path) = kept else { return question(context, names).or_else(guarded) };
    if is_opened(context, path) {
        return None;
    }
    draft.opens.push(path.clone());
    question(context, names).or_else(guarded).map(|own| at_top(own, path))
}

/// Returns the question about a protected path.
pub(super) fn question(context: &Context<'_>, names: &[PathBuf]) -> Option<Own> {
    // Outside of the sandbox nothing writes down who changed what, so those names are asked about anywhere.
    let counts_everywhere = context.tool == "Bash" && !context.is_confined();
    let is_top = |directory: &Path| counts_everywhere || is_top(context, directory);
    paths::protected(names, is_top).map(of_protected)
}

/// Asks about a command that is known to write a protected path of the root without naming it.
pub(super) fn add_unnamed(context: &Context<'_>, draft: &mut Draft, command: &SimpleCommand) {
    let writes = |name: &&ProtectedName| name.by.iter().any(|by| begins_with(command, by));
    for name in protected_names().iter().filter(writes) {
        let plain = name.segments.iter().take_while(|part| !part.contains('*'));
        let path = context.facts.project.join(plain.collect::<PathBuf>());
        let confined = context.is_confined();
        if confined && is_opened(context, &path) {
            continue;
        }
        let own = of_protected(name);
        draft.own = draft.own.take().or_else(|| Some(at_top(own, &path)));
        draft.opens.extend(Some(path).filter(|_| confined));
    }
}

/// Says whether `command` is this program with these words one after another.
fn begins_with(command: &SimpleCommand, by: &[&str]) -> bool {
    let mut words = command.words.iter().map(|word| word.exact().unwrap_or_default());
    let (Some(program), Some((first, rest))) = (words.next(), by.split_first()) else {
        return false;
    };
    let base = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let words: Vec<&[u8]> = words.collect();
    (program == first.as_bytes() || base == first.as_bytes())
        && words
            .windows(rest.len().max(1))
            .any(|words| words.iter().zip(rest).all(|(word, wanted)| *word == wanted.as_bytes()))
}

/// Says whether a writable directory may begin at `directory`.
pub(super) fn is_top(context: &Context<'_>, directory: &Path) -> bool {
    let facts = context.facts;
    let mut roots = facts.roots.iter().chain(&facts.additional_directories);
    facts.project == directory
        || roots.any(|root| root == directory)
        || context.directories.iter().any(|root| root == directory)
}

/// Says whether a setting names exactly this path, or a protected directory that it lies in.
pub(super) fn is_opened(context: &Context<'_>, path: &Path) -> bool {
    let sandbox = sandbox_settings(context.rules, context.facts);
    sandbox.allow_write.iter().any(|(opened, origin)| {
        let is_narrow = || {
            let opened = &[PathBuf::from(opened)];
            paths::kept_at_top(opened, |directory| is_top(context, directory)).is_some()
        };
        origin.pointer.starts_with(SETTING) && path.starts_with(opened) && is_narrow()
    })
}

fn at_top(own: Own, path: &Path) -> Own {
    let reason = format!(
        "{}; to allow: sandbox.filesystem.allowWrite: [{}] (user settings)",
        own.reason,
        quoted(path)
    );
    Own { reason, ..own }
}

/// Returns a path as one string of settings: a quote in a name, which a commit or an archive may bring, does not end it.
pub(super) fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().escape_debug())
}

fn of_protected(name: &ProtectedName) -> Own {
    let reason = format!("`{}` is a protected path", name.segments.join("/"));
    Own { code: "protected_path", reason, protected: true }
}
