//! Links that a text makes: where a path through one leads is known only when the text has run.

use std::path::{Path, PathBuf};

use stockade_parser::{EffectKind, Locality, SimpleCommand};

use crate::facts::Facts;
use crate::knowledge::{LinkMaker, knowledge, listed};
use crate::paths;
use crate::pattern::command::base_name;

use super::critical::is_option;
use super::shell::Shell;

/// A place where a command of the text may put a link.
#[derive(Debug, Clone)]
pub(super) struct Made<'a> {
    by: &'a SimpleCommand,
    /// None: below the working directories.
    place: Option<PathBuf>,
}

/// Returns the places where commands of the text may put links that other commands meet.
pub(super) fn made<'a>(shell: &Shell<'a>, facts: &Facts) -> Vec<Made<'a>> {
    let alone = shell.commands.len() < 2 && shell.writes.is_empty() && shell.reads.is_empty();
    if alone {
        return Vec::new();
    }
    shell.commands.iter().flat_map(|command| places(command, facts)).collect()
}

fn places<'a>(command: &'a SimpleCommand, facts: &Facts) -> Vec<Made<'a>> {
    let Some(row) = row_of(command) else { return Vec::new() };
    let anywhere = Made { by: command, place: None };
    let writes: Vec<_> =
        command.effects.iter().filter(|effect| effect.kind == EffectKind::Write).collect();
    if row.anywhere {
        return vec![anywhere];
    }
    if writes.is_empty() {
        return if command.effects_known { Vec::new() } else { vec![anywhere] };
    }
    let directory = paths::directory(&command.directory, facts);
    // What is read and written under one name is what is moved or linked, not where it goes.
    let is_source = |word: u32| {
        command.effects.iter().any(|other| other.kind == EffectKind::Read && other.word == word)
    };
    let mut found: Vec<Made<'a>> = Vec::new();
    for effect in writes.iter().filter(|effect| !is_source(effect.word)) {
        let object = effect.object(&command.words).and_then(|word| word.exact());
        let written = object.and_then(|bytes| paths::written(bytes, directory.as_deref()));
        let place = written.map(|path| paths::normal(&path));
        found.push(Made { by: command, place });
    }
    if found.is_empty() { vec![anywhere] } else { found }
}

fn row_of(command: &SimpleCommand) -> Option<&'static LinkMaker> {
    let program = base_name(&command.words).or_else(|| command.words.first()?.exact())?;
    knowledge().link_makers.iter().find(|row| {
        let word = |wanted: &&str| command.words.iter().skip(1).any(|word| is_option(word, wanted));
        command.locality == Locality::Here
            && listed(&row.names, program)
            && (row.when.is_empty() || row.when.iter().any(word))
    })
}

/// Says whether a path goes through a place where a command other than `user` is known to put a link.
pub(super) fn goes_through(made: &[Made<'_>], user: Option<&SimpleCommand>, path: &Path) -> bool {
    others(made, user)
        .any(|made| made.place.as_deref().is_some_and(|place| path.starts_with(place)))
}

/// Says whether a place where a command other than `user` is known to put a link lies below a path.
pub(super) fn lies_below(made: &[Made<'_>], user: Option<&SimpleCommand>, path: &Path) -> bool {
    others(made, user)
        .any(|made| made.place.as_deref().is_some_and(|place| place.starts_with(path)))
}

/// Says whether a command other than `user` may put links anywhere below the working directories.
pub(super) fn anywhere(made: &[Made<'_>], user: Option<&SimpleCommand>) -> bool {
    others(made, user).any(|made| made.place.is_none())
}

fn others<'m, 'a>(
    made: &'m [Made<'a>],
    user: Option<&'m SimpleCommand>,
) -> impl Iterator<Item = &'m Made<'a>> {
    made.iter().filter(move |made| !user.is_some_and(|user| std::ptr::eq(user, made.by)))
}
