//! Protected files that a command writes without naming them: git when it goes to another version (`policies/paths/git.jsonc`,
//! `brings`), and what unpacks an archive. The sandbox would refuse these files one by one and leave half of a version, so a
//! person is asked before the run.

mod git;
#[cfg(test)]
mod tests;
mod unpack;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stockade_parser::{CommandKind, SimpleCommand};

use crate::facts::{Bringing, Facts};
use crate::knowledge::Unwritable;
use crate::paths;

use super::context::Context;
use super::part::{Draft, Own};
use super::protected;
use super::shell::Shell;

/// Paths that a question shows.
const SHOWN: usize = 5;

/// Returns what commands of the text may write without naming it.
pub(crate) fn brought_by_shell(shell: &Shell<'_>, facts: &Facts) -> BTreeSet<Bringing> {
    shell.commands.iter().flat_map(|command| of(command, facts)).collect()
}

/// Returns what a command may write without naming it, as far as its words tell.
fn of(command: &SimpleCommand, facts: &Facts) -> Vec<Bringing> {
    let directory = paths::directory(&command.directory, facts);
    let Some(directory) = directory.filter(|_| command.kind == CommandKind::External) else {
        return Vec::new();
    };
    let found = git::of(command, &directory).or_else(|| unpack::of(command, &directory));
    found.unwrap_or_default()
}

/// Asks about a command that would write protected files which the sandbox keeps as they are.
pub(super) fn add(context: &Context<'_>, draft: &mut Draft, command: &SimpleCommand) {
    if !context.is_confined() || context.facts.brought.is_empty() {
        return;
    }
    let brought = of(command, context.facts).into_iter();
    let brought = brought.filter_map(|it| context.facts.brought.get(&it)).flatten();
    let (mut opened, mut refused) = (Vec::new(), Vec::new());
    for path in brought.collect::<BTreeSet<_>>() {
        let is_top = |directory: &Path| protected::is_top(context, directory);
        if paths::kept_at_top(std::slice::from_ref(path), is_top).is_some() {
            if !protected::is_opened(context, path) {
                opened.push(path.clone());
            }
        } else if is_refused(context, path) {
            refused.push(path.clone());
        }
    }
    let reason = match (opened.as_slice(), refused.as_slice()) {
        ([], []) => return,
        (opened, []) => format!(
            "it would write {}, protected in the root of the project; to allow: sandbox.filesystem.allowWrite: {} (user settings)",
            listed(opened),
            settings(opened)
        ),
        (_, refused) => format!(
            "it would write {}, which no sandboxed command can: the rest would be written without it",
            listed(refused)
        ),
    };
    let own = Own { code: "protected_path", reason, protected: true };
    draft.own = draft.own.take().or(Some(own));
    draft.opens.extend(opened);
}

/// Says whether the sandbox keeps a path unwritable whatever a person says.
fn is_refused(context: &Context<'_>, path: &Path) -> bool {
    let found = crate::protected_part_in(&context.facts.project, path);
    found.is_some_and(|(part, name)| {
        let below = path.strip_prefix(&part).ok().and_then(|it| it.iter().next());
        let is_ordinary = below.is_some_and(|it| name.except.iter().any(|except| it == *except));
        name.kernel == Unwritable::Everywhere && !is_ordinary
    })
}

fn listed(paths: &[PathBuf]) -> String {
    let mut shown: Vec<String> =
        paths.iter().take(SHOWN).map(|path| format!("`{}`", path.display())).collect();
    if let Some(more) = paths.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

fn settings(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|path| protected::quoted(path)).collect();
    format!("[{}]", all.join(", "))
}
