//! Links that a text makes: where a path through one leads is known only when the text has run.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
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
struct Made<'a> {
    by: &'a SimpleCommand,
    /// None: below the working directories.
    place: Option<PathBuf>,
}

/// Returns the places where commands of the text may put links that other commands meet.
pub(super) fn made<'a>(shell: &Shell<'a>, facts: &Facts) -> Links<'a> {
    let mut links = Links::default();
    let alone = shell.commands.len() < 2 && shell.writes.is_empty() && shell.reads.is_empty();
    if alone {
        return links;
    }
    for made in shell.commands.iter().flat_map(|command| places(command, facts)) {
        links.add(made);
    }
    links
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
    // A word that is both read and written names the source of a move or link, not its destination.
    let read = command.effects.iter().filter(|other| other.kind == EffectKind::Read);
    let sources: HashSet<u32> = read.map(|other| other.word).collect();
    let mut found: Vec<Made<'a>> = Vec::new();
    for effect in writes.iter().filter(|effect| !sources.contains(&effect.word)) {
        let object = effect.object(&command.words).and_then(|word| word.exact());
        let written = object.and_then(|bytes| paths::written(bytes, directory.as_deref()));
        let place = written.map(|path| stockade_rules::normal(&path));
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

/// Where commands of a text may put links, by the names in their paths.
#[derive(Debug, Default)]
pub(super) struct Links<'a> {
    /// The first is the root directory.
    nodes: Vec<Node<'a>>,
    /// Those that may put links anywhere below the working directories.
    anywhere: Makers<'a>,
}

/// A directory or file at or above a link.
#[derive(Debug, Default)]
struct Node<'a> {
    below: HashMap<OsString, usize>,
    /// Those that put a link right here.
    here: Makers<'a>,
    /// Those that put a link here or further down.
    all: Makers<'a>,
}

/// Commands that make a link, as far as it must be known whether there is one besides a given one.
#[derive(Debug, Default)]
enum Makers<'a> {
    #[default]
    None,
    One(&'a SimpleCommand),
    Several,
}

impl<'a> Makers<'a> {
    fn add(&mut self, by: &'a SimpleCommand) {
        *self = match self {
            Makers::None => Makers::One(by),
            Makers::One(one) if std::ptr::eq(*one, by) => Makers::One(by),
            Makers::One(_) | Makers::Several => Makers::Several,
        };
    }

    fn others(&self, user: Option<&SimpleCommand>) -> bool {
        match self {
            Makers::None => false,
            Makers::One(one) => !user.is_some_and(|user| std::ptr::eq(user, *one)),
            Makers::Several => true,
        }
    }
}

impl<'a> Links<'a> {
    /// Says whether the text makes no links that matter.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && matches!(self.anywhere, Makers::None)
    }

    fn add(&mut self, made: Made<'a>) {
        let Some(place) = made.place else {
            self.anywhere.add(made.by);
            return;
        };
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for name in place.iter().skip(1) {
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { return };
            node.all.add(made.by);
            at = match node.below.get(name) {
                Some(next) => *next,
                None => {
                    node.below.insert(name.to_owned(), fresh);
                    self.nodes.push(Node::default());
                    fresh
                }
            };
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.all.add(made.by);
            node.here.add(made.by);
        }
    }

    /// Returns the nodes at and above a path, the root first; complete when the last is the path's own.
    fn walk(&self, path: &Path) -> impl Iterator<Item = Option<&Node<'a>>> {
        let mut names = path.iter().skip(1);
        let next = move |node: &Option<&Node<'a>>| {
            let name = names.next()?;
            #[cfg(test)]
            super::bounds::steps::count();
            let next = (*node)?.below.get(name).and_then(|place| self.nodes.get(*place));
            Some(next)
        };
        std::iter::successors(Some(self.nodes.first()), next)
    }

    /// Says whether a path goes through a place where a command other than `user` is known to put a link.
    pub fn goes_through(&self, user: Option<&SimpleCommand>, path: &Path) -> bool {
        let known = self.walk(path).map_while(|node| node);
        known.into_iter().any(|node| node.here.others(user))
    }

    /// Says whether a place where a command other than `user` is known to put a link lies below a path.
    pub fn lies_below(&self, user: Option<&SimpleCommand>, path: &Path) -> bool {
        self.walk(path).last().flatten().is_some_and(|node| node.all.others(user))
    }

    /// Says whether a command other than `user` may put links anywhere below the working directories.
    pub fn anywhere(&self, user: Option<&SimpleCommand>) -> bool {
        self.anywhere.others(user)
    }
}

#[cfg(test)]
mod tests;
