//! Patterns that stand for files: a symbolic link among those is judged as what it leads to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stockade_parser::{EffectKind, SimpleCommand, Word, WordClass};

use crate::Decision;
use crate::facts::{Expanded, Facts};
use crate::paths;
use crate::pattern::path::{Shape, ShapeSegment};

use super::context::Context;
use super::files::{self, Access};
use super::operands::opens_operands;
use super::part::{Certainty, Draft};
use super::shell::Shell;

/// Returns the patterns of the text that may stand for files which a command opens.
pub(crate) fn patterns_of_shell(shell: &Shell<'_>, facts: &Facts) -> BTreeSet<Shape> {
    let mut found = BTreeSet::new();
    for command in shell.commands {
        let directory = paths::directory(&command.directory, facts);
        let words = opened(command);
        found.extend(words.into_iter().filter_map(|word| wild(word, directory.as_deref())));
    }
    for target in shell.writes.iter().chain(shell.reads) {
        let command = target.command.and_then(|index| shell.commands.get(index as usize));
        let directory =
            command.map_or(Some(facts.cwd.clone()), |it| paths::directory(&it.directory, facts));
        found.extend(wild(&target.word, directory.as_deref()));
    }
    found
}

/// Returns the words of a command that name files.
fn opened(command: &SimpleCommand) -> Vec<&Word> {
    if opens_operands(command).is_some() {
        return command.words.iter().skip(1).collect();
    }
    let effects = command.effects.iter();
    let touched = effects.filter(|it| matches!(it.kind, EffectKind::Read | EffectKind::Write));
    touched.filter_map(|effect| effect.object(&command.words)).collect()
}

/// Returns what is known about the path of a word, if a pattern is all that is not.
fn wild(word: &Word, directory: Option<&Path>) -> Option<Shape> {
    let is_pattern = matches!(word.class, WordClass::Pattern { .. });
    let shape = is_pattern.then(|| paths::shape(word, directory)).flatten()?;
    (!shape.open && is_wild(&shape)).then_some(shape)
}

fn is_wild(shape: &Shape) -> bool {
    shape.segments.iter().any(|segment| matches!(segment, ShapeSegment::Glob(_)))
}

/// Adds the rules about what links lead to that a word stands for.
pub(super) fn add(
    context: &Context<'_>,
    draft: &mut Draft,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) {
    let Some(shape) = wild(word, directory).filter(|_| !context.is_confined()) else { return };
    match context.facts.expanded.get(&shape) {
        Some(Expanded::Links(links)) => {
            for names in links {
                for effect in [Decision::Deny, Decision::Ask] {
                    draft.add(files::hits(context, effect, access, names));
                }
            }
        }
        Some(Expanded::TooMany) | None => {
            draft.add(files::possible_hits(context, access, None, Certainty::Later));
        }
    }
}

/// Returns every name of what links lead to that a word stands for.
pub(super) fn links<'a>(
    context: &Context<'a>,
    word: &Word,
    directory: Option<&Path>,
) -> impl Iterator<Item = &'a PathBuf> {
    let found = wild(word, directory).and_then(|shape| context.facts.expanded.get(&shape));
    let links = match found {
        Some(Expanded::Links(links)) => links.as_slice(),
        Some(Expanded::TooMany) | None => &[],
    };
    links.iter().flatten()
}

/// Says whether what a shape stands for lies inside the working directories, where its fixed beginning does.
pub(super) fn is_inside(context: &Context<'_>, shape: &Shape) -> bool {
    match context.facts.expanded.get(shape) {
        Some(Expanded::Links(links)) => {
            links.iter().all(|names| paths::is_inside(names, context.facts, &context.directories))
        }
        Some(Expanded::TooMany) | None => !is_wild(shape),
    }
}
