//! Commands that lose nothing although they act on a critical path.

use std::path::{Path, PathBuf};

use stockade_parser::{SimpleCommand, Word, WordClass};

use crate::confine::sandbox_settings;
use crate::knowledge::{Remover, RemoverOperands, knowledge, listed};
use crate::paths;

use super::context::Context;
use super::critical::{is_option, operands};
use super::search::is_of_the_project;
use super::shell::Shell;
use super::vcs_paths;

/// Says whether nothing is lost by what the command does to an operand.
pub(super) fn is_harmless(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    row: &Remover,
    operand: &Word,
) -> bool {
    let Some(names) = holder(context, command, operand) else { return false };
    is_private(context, &names)
        || (keeps_rights(context, shell, command, row) && is_of_the_project(context, &names))
        || (stays_inside(context, command, row, operand) && is_of_the_project(context, &names))
}

/// Returns the names of a path, or of the directory in which a pattern looks.
fn holder(context: &Context<'_>, command: &SimpleCommand, operand: &Word) -> Option<Vec<PathBuf>> {
    let directory = paths::directory(&command.directory, context.facts);
    let written = match &operand.class {
        WordClass::Exact(bytes) => paths::written(bytes, directory.as_deref())?,
        WordClass::Pattern { .. } => {
            paths::fixed_directory(&paths::shape(operand, directory.as_deref())?)
        }
        WordClass::Unknown { .. } => return None,
    };
    Some(paths::names(&written, context.facts, directory.as_deref()))
}

/// Says whether the path lies where a confined command sees a directory of its own, and nothing of the host is shown.
fn is_private(context: &Context<'_>, names: &[PathBuf]) -> bool {
    let tables = knowledge();
    let private = |name: &PathBuf| tables.private_directories.iter().any(|it| name.starts_with(it));
    if !context.auto_allow || names.is_empty() || !names.iter().all(private) {
        return false;
    }
    let sandbox = sandbox_settings(context.rules, context.facts);
    let facts = context.facts;
    let worked = paths::working_directories(facts, &context.directories);
    let worked = worked.chain([facts.cwd.as_path(), facts.home.as_path()]);
    let written = sandbox.allow_write.iter().map(|(path, _)| Path::new(path));
    let shown = |path: &Path| {
        !path.is_absolute()
            || names.iter().any(|name| {
                let real = paths::names(path, facts, None);
                real.iter().any(|path| path.starts_with(name) || name.starts_with(path))
            })
    };
    !sandbox.files_disabled && !worked.chain(written).any(shown)
}

/// Says whether the first operand is a mode, or an owner, that takes nothing from who has it.
fn keeps_rights(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    row: &Remover,
) -> bool {
    operands(row, command).first().is_some_and(|first| match first.exact() {
        Some(mode) => listed(&row.modes, mode),
        // Only a confined command cannot give its files to others.
        None => {
            let typed = first.span.of(shell.source).iter().filter(|byte| **byte != b'"');
            context.auto_allow && listed(&row.modes, &typed.copied().collect::<Vec<u8>>())
        }
    })
}

/// Says whether what a pattern stands for only moves to another place of the project.
fn stays_inside(
    context: &Context<'_>,
    command: &SimpleCommand,
    row: &Remover,
    operand: &Word,
) -> bool {
    let moves = matches!(row.operands, RemoverOperands::First)
        && matches!(operand.class, WordClass::Pattern { .. })
        && !has_target(row, command);
    let last =
        command.words.last().filter(|word| !word.exact().is_some_and(|it| it.starts_with(b"-")));
    let target = last.filter(|_| moves).filter(|word| word.exact().is_some());
    let names = target.and_then(|word| holder(context, command, word));
    names.is_some_and(|names| {
        paths::is_inside(&names, context.facts, &context.directories)
            && paths::protected(&names, |_| true).is_none()
            && !names.iter().any(|name| vcs_paths::is_near(name))
    })
}

/// Says whether an option names the place to which things are moved.
pub(super) fn has_target(row: &Remover, command: &SimpleCommand) -> bool {
    // A file of the project that is called as an option moves nothing out of what is writable.
    let named = |word: &&Word| !matches!(word.class, WordClass::Pattern { .. });
    let words = || command.words.iter().skip(1).filter(named);
    row.target.iter().any(|option| {
        words().any(|word| {
            let long = |bytes: &[u8]| {
                let name = bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
                name.len() > 2 && name.starts_with(b"--") && option.as_bytes().starts_with(name)
            };
            is_option(word, option) || word.exact().is_some_and(long)
        })
    })
}
