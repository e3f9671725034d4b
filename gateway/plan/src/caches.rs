//! Caches in the home directory that a command may change for itself alone, by the programs that stand in it.
//!
//! Knowledge about programs is data, in `policies/caches.jsonc`. A command without such a program costs nothing here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_parser::{CommandKind, CommandTree, Locality, SimpleCommand, Word};
use stockade_programs::tables::{Table, view};
use stockade_spec::Cache;
use stockade_text::json::view::{Members, View};

use super::Rules;
use super::protected::protect;
use crate::temporary::Temporary;
use stockade_base::place::Place;
use stockade_scene::scene::Scene;

/// Where a command has its own cache in the place of one that is not there.
const OWN: &str = "/tmp";

/// Caches that a command gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// None.
    #[default]
    None,
    /// The caches of these rows of the table.
    Rows(BTreeSet<usize>),
    /// All caches: the command starts programs that are not seen.
    All,
}

/// Names a cache in the temporary directory.
pub(super) type Variable = (&'static str, String);

/// Caches for a command, and variables that name others in the place of missing ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Found {
    /// Real paths of directories.
    paths: Vec<PathBuf>,
    variables: Vec<Variable>,
}

/// Caches of some programs.
#[derive(Debug)]
struct Row {
    programs: Vec<&'static str>,
    caches: Vec<&'static str>,
    instead: Vec<(&'static str, &'static str)>,
}

#[derive(Debug, Default)]
struct Rest {
    moved: Vec<(&'static str, &'static str)>,
    runners: Vec<&'static str>,
    shells: Vec<&'static str>,
    never: Vec<&'static str>,
    rows: Vec<Row>,
}

fn known() -> &'static Rest {
    // A table that cannot be read gives nobody anything; a test reads it.
    static KNOWN: LazyLock<Rest> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Rest> {
    let table = view(Table::Caches).members()?;
    let texts = |members: &Members<'static>, key: &str| members.get(key).and_then(View::texts);
    let pairs = |value: View<'static>| {
        value.members()?.iter().map(|(name, folder)| Some((name, folder.text()?))).collect()
    };
    let row = |row: View<'static>| {
        let row = row.members()?;
        let instead = row.get("instead").map_or_else(|| Some(Vec::new()), pairs)?;
        Some(Row { programs: texts(&row, "programs")?, caches: texts(&row, "caches")?, instead })
    };
    Some(Rest {
        moved: pairs(table.get("moved")?)?,
        runners: texts(&table, "runners")?,
        shells: texts(&table, "shells")?,
        never: texts(&table, "never")?,
        rows: table.get("rows")?.elements()?.into_iter().map(row).collect::<Option<_>>()?,
    })
}

/// Returns whose caches a command gets.
pub fn wanted(tree: Option<&CommandTree>, place: &Place) -> Wanted {
    let Some(tree) = tree else { return Wanted::None };
    if !tree.opaque_spans().is_empty() {
        return Wanted::All;
    }
    let mut rows = BTreeSet::new();
    for command in tree.commands() {
        match of_command(command, place) {
            Wanted::None => {}
            Wanted::Rows(more) => rows.extend(more),
            Wanted::All => return Wanted::All,
        }
    }
    if rows.is_empty() { Wanted::None } else { Wanted::Rows(rows) }
}

fn of_command(command: &SimpleCommand, place: &Place) -> Wanted {
    let is_started = match command.kind {
        CommandKind::External | CommandKind::Builtin => command.locality == Locality::Here,
        CommandKind::Function | CommandKind::AssignmentOnly => false,
    };
    let Some(word) = command.words.first().filter(|_| is_started) else { return Wanted::None };
    // Whatever cannot be told here may be anything.
    let Some(text) = word.exact().and_then(|word| std::str::from_utf8(word).ok()) else {
        return Wanted::All;
    };
    let name = text.rsplit('/').next().unwrap_or(text);
    let rows = &known().rows;
    let names = |programs: &[&str]| programs.iter().any(|program| fits(program, name, command));
    let numbered = rows.iter().enumerate().filter(|(_, row)| names(&row.programs));
    let found: BTreeSet<usize> = numbered.map(|row| row.0).collect();
    let is_given = |word: &Word| word.exact().is_some_and(is_text_option);
    let is_unseen = known().shells.contains(&name) && !command.words.iter().skip(1).any(is_given);
    if names(&known().runners) || is_unseen {
        return Wanted::All;
    }
    // A script of the project.
    let is_relative = text.contains('/') && !text.starts_with('/');
    if found.is_empty() && (is_relative || Path::new(text).starts_with(&place.project)) {
        return Wanted::All;
    }
    if found.is_empty() { Wanted::None } else { Wanted::Rows(found) }
}

/// Says whether a shell is given its text behind this option.
fn is_text_option(word: &[u8]) -> bool {
    word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'c')
}

/// Says whether `program` of the table is `name`: it may end in `*`, and a word may have to stand behind.
fn fits(program: &str, name: &str, command: &SimpleCommand) -> bool {
    let (program, behind) = match program.split_once(' ') {
        Some((program, behind)) => (program, Some(behind)),
        None => (program, None),
    };
    let is_program = match program.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => program == name,
    };
    let stands = |behind: &str| {
        // One that is not known may be it.
        command
            .words
            .iter()
            .skip(1)
            .any(|word| word.exact().is_none_or(|it| it == behind.as_bytes()))
    };
    is_program && behind.is_none_or(stands)
}

/// Makes places for what a command changes in the caches of `wanted`, and returns these and its variables.
pub(super) fn give(
    wanted: &Wanted,
    scene: &Scene,
    temporary: &mut Temporary,
    state: &Path,
    session: Option<&str>,
) -> io::Result<(Vec<Cache>, Vec<Variable>)> {
    let Found { paths, variables } = find(wanted, &scene.place, &scene.environment.variables);
    let caches = match paths.is_empty() {
        true => Vec::new(),
        false => temporary.store(&paths, state, session)?,
    };
    Ok((caches, variables))
}

/// Finds the caches of `wanted` and the variables that name one in the place of one that is not there.
fn find(wanted: &Wanted, place: &Place, variables: &BTreeMap<String, String>) -> Found {
    let rows = known().rows.iter().enumerate().filter(|(number, _)| match wanted {
        Wanted::None => false,
        Wanted::Rows(rows) => rows.contains(number),
        Wanted::All => true,
    });
    let mut found = Found::default();
    for (_, row) in rows {
        for cache in &row.caches {
            let (path, is_moved) = folder(cache, place, variables);
            found.paths.extend(usable(&path, is_moved, place));
        }
        for (variable, folder_of) in &row.instead {
            let is_set = variables.contains_key(*variable);
            if !is_set && folder(folder_of, place, variables).0.symlink_metadata().is_err() {
                found.variables.push((variable, format!("{OWN}/{folder_of}")));
            }
        }
    }
    found.variables.sort();
    found.variables.dedup();
    found.paths.sort();
    // One that lies in another one changes with it.
    found.paths.dedup_by(|inner, outer| inner.starts_with(outer));
    found
}

/// Returns where a folder of the home directory is, and whether a variable says so.
fn folder(name: &str, place: &Place, variables: &BTreeMap<String, String>) -> (PathBuf, bool) {
    let holding = known().moved.iter().filter_map(|(variable, moved)| {
        let rest = Path::new(name).strip_prefix(moved).ok()?;
        let value = variables.get(*variable).filter(|value| value.starts_with('/'))?;
        Some((moved.len(), Path::new(value), rest))
    });
    match holding.max_by_key(|it| it.0) {
        Some((_, value, rest)) if rest.as_os_str().is_empty() => (value.to_path_buf(), true),
        Some((_, value, rest)) => (value.join(rest), true),
        None => (place.home.join(name), false),
    }
}

/// Returns the real path of a cache, if that is a directory of the caller where nothing else is known to lie.
fn usable(path: &Path, is_moved: bool, place: &Place) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let metadata = real.symlink_metadata().ok()?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    if real == *path && !is_moved {
        return Some(real);
    }
    // A variable or a link chose the place, and who set it is not known.
    let holds =
        [&place.home, &place.project, &place.cwd].into_iter().any(|it| it.starts_with(&real));
    let mut never = known().never.iter().map(|name| place.home.join(name));
    let is_other = never.any(|it| real.starts_with(&it) || it.starts_with(&real));
    let mut rules = Rules::default();
    protect(&mut rules, &real, &[]);
    let is_free = !holds && !is_other && rules.all.is_empty();
    is_free.then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_says_what_the_parser_is_told() {
        let table = read().unwrap();
        let named = table.rows.iter().flat_map(|row| row.instead.iter().map(|it| it.0));
        assert_eq!(named.collect::<BTreeSet<_>>(), stockade_shell::environment::CACHES.into());
        // Where a variable names a folder in another place, it is the one that is known to move it.
        for (variable, folder) in table.rows.iter().flat_map(|row| &row.instead) {
            assert!(table.moved.contains(&(variable, folder)), "{variable}");
        }
    }

    #[test]
    fn no_cache_holds_or_lies_in_what_is_never_one() {
        let table = read().unwrap();
        let never: Vec<&Path> = table.never.iter().map(Path::new).collect();
        for cache in table.rows.iter().flat_map(|row| &row.caches).map(Path::new) {
            assert!(cache.is_relative());
            let other = never.iter().find(|it| cache.starts_with(it) || it.starts_with(cache));
            assert_eq!(other, None, "{}", cache.display());
        }
    }
}
