//! Programs that look for files and remove what they find: which of them, as far as the words tell.

use std::path::{Path, PathBuf};

use stockade_parser::{SimpleCommand, Stdin, Word};

use crate::knowledge::{Remover, RemoverOperands, Search, knowledge, listed};
use crate::paths;
use crate::pattern::command::base_name;

use super::context::Context;
use super::critical::{self, shown};
use super::shell::Shell;
use super::{places, vcs_paths, xargs_like};

/// Returns what a search removes that is critical, when it removes what it finds.
pub(super) fn finding(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    row: &Remover,
    search: &Search,
) -> Option<String> {
    let removes = critical::applies(row, command)
        || starts_remover(shell, command)
        || fed(shell, search, command).is_some_and(|feeder| starts_remover(shell, feeder));
    if !removes {
        return None;
    }
    let directories = places::directories(shell, context.facts, command);
    let found = match fed(shell, search, command) {
        Some(feeder) if xargs_like::brings_any_word(shell, search, feeder) => Found::Anything,
        Some(_) | None => wanted(context, search, command),
    };
    let here = Word::literal(command.span, b".".as_slice());
    let starts = match parted(search, &command.words).starts {
        [] => std::slice::from_ref(&here),
        starts => starts,
    };
    for start in starts {
        let meant = places::meant(shell, start);
        let places = match meant.word.exact() {
            Some(bytes) => {
                let mut places = directories.clone();
                places.extend(meant.of_project.then(|| Some(context.facts.project.clone())));
                let one = |place: &Option<PathBuf>| {
                    let directory = place.as_deref();
                    let written = paths::written(bytes, directory)?;
                    Some(paths::names(&written, context.facts, directory))
                };
                places.iter().map(one).collect::<Option<Vec<_>>>()
            }
            None => None,
        };
        if let Some(places) = places {
            let held = places.iter().find(|names| paths::protected(names, |_| true).is_some());
            match (&found, held) {
                (Found::Ordinary, _) => continue,
                (Found::Named | Found::Anything, Some(names)) => {
                    return names.first().map(|it| shown(it));
                }
                (Found::Named, None)
                    if places.iter().all(|names| is_of_the_project(context, names)) =>
                {
                    continue;
                }
                (Found::Named | Found::Anything, None) => {}
            }
        }
        if let Some(what) = critical::critical(context, shell, command, row, start) {
            return Some(what);
        }
    }
    None
}

/// Says whether a program of the table runs for what is found.
fn starts_remover(shell: &Shell<'_>, command: &SimpleCommand) -> bool {
    started_removers(shell, command).next().is_some()
}

/// Returns the programs of the table that a command starts.
pub(super) fn started_removers<'a>(
    shell: &Shell<'a>,
    command: &SimpleCommand,
) -> impl Iterator<Item = &'a SimpleCommand> {
    let commands = shell.commands;
    let started = move |inner: &&SimpleCommand| {
        inner.via.iter().any(|via| {
            let outer = commands.get(via.command as usize);
            outer.is_some_and(|outer| std::ptr::eq(outer, command))
        })
    };
    commands.iter().filter(started).filter(|inner| {
        let program = program_of(inner);
        let removes = |row: &&Remover| {
            row.search.is_none()
                && !matches!(row.operands, RemoverOperands::Devices | RemoverOperands::Assigned(_))
                && program.is_some_and(|program| listed(&row.names, program))
                && critical::applies(row, inner)
        };
        knowledge().removers.iter().any(|row| removes(&row))
    })
}

/// Returns the command that starts another one with what a search prints, right behind it in a pipeline.
fn fed<'a>(
    shell: &Shell<'a>,
    search: &Search,
    command: &SimpleCommand,
) -> Option<&'a SimpleCommand> {
    let place = shell.commands.iter().position(|known| std::ptr::eq(known, command))?;
    let next = shell.commands.get(place + 1).filter(|next| next.stdin == Stdin::Pipe)?;
    program_of(next).is_some_and(|program| listed(&search.feeds, program)).then_some(next)
}

pub(super) fn program_of(command: &SimpleCommand) -> Option<&[u8]> {
    base_name(&command.words).or_else(|| command.words.first()?.exact())
}

/// Says whether a search that removes what it finds starts the command: its places are judged, not `{}`.
pub(super) fn is_started(shell: &Shell<'_>, command: &SimpleCommand) -> bool {
    command.via.iter().any(|via| {
        let outer = shell.commands.get(via.command as usize);
        let program = outer.and_then(program_of);
        let searches = |row: &Remover| {
            row.search.is_some() && program.is_some_and(|program| listed(&row.names, program))
        };
        knowledge().removers.iter().any(searches)
    })
}

/// The words of a search, by what they are for.
struct Words<'a> {
    /// Options in front of the places where it begins.
    leading: &'a [Word],
    starts: &'a [Word],
    expression: &'a [Word],
}

fn parted<'a>(search: &Search, words: &'a [Word]) -> Words<'a> {
    let words = words.get(1..).unwrap_or_default();
    let is_leading = |word: &Word| word.exact().is_some_and(|it| listed(&search.leading, it));
    let is_test = |word: &Word| {
        word.exact().is_some_and(|it| {
            (it.starts_with(b"-") && it.len() > 1) || matches!(it, b"(" | b"!" | b",")
        })
    };
    let end = words.iter().position(|word| !is_leading(word)).unwrap_or(words.len());
    let (leading, rest) = words.split_at(end);
    let end = rest.iter().position(is_test).unwrap_or(rest.len());
    let (starts, expression) = rest.split_at(end);
    Words { leading, starts, expression }
}

/// Results of a search, as far as its words tell.
enum Found {
    /// Whatever there is.
    Anything,
    /// Files with a name that nothing critical has.
    Named,
    /// Files that nobody misses, wherever they are.
    Ordinary,
}

/// Reads the words behind the places where a search begins.
fn wanted(context: &Context<'_>, search: &Search, command: &SimpleCommand) -> Found {
    let Words { leading, expression, .. } = parted(search, &command.words);
    let mut words = leading.iter().chain(expression);
    let mut found = Found::Anything;
    while let Some(word) = words.next() {
        let Some(test) = word.exact() else { return Found::Anything };
        if listed(&search.negations, test) {
            let taken_back = words.next().and_then(Word::exact).is_some_and(|test| {
                [&search.names, &search.paths, &search.valued].iter().any(|it| listed(it, test))
            });
            if !taken_back || words.next().is_none_or(|value| value.exact().is_none()) {
                return Found::Anything;
            }
        } else if listed(&search.names, test) || listed(&search.paths, test) {
            let value = words.next().and_then(Word::exact);
            let Some(value) = value.and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
                return Found::Anything;
            };
            let by_path = listed(&search.paths, test);
            found = match found {
                Found::Ordinary => Found::Ordinary,
                _ if !by_path && vcs_paths::finds_ordinary(value) => Found::Ordinary,
                Found::Named => Found::Named,
                Found::Anything if by_path && is_own_path(context, value) => Found::Named,
                Found::Anything if !by_path && is_own_name(context, value) => Found::Named,
                Found::Anything => Found::Anything,
            };
        } else if listed(&search.valued, test) {
            if words.next().is_none_or(|value| value.exact().is_none()) {
                return Found::Anything;
            }
        } else if listed(&search.commands, test) {
            // Tests in front of an action bound it, those behind it do not.
            if matches!(found, Found::Anything) {
                return Found::Anything;
            }
            let mut before = None;
            for word in words.by_ref() {
                match word.exact() {
                    // A word that could end the command could bring anything behind it.
                    None if word.may_equal(b";") => return Found::Anything,
                    Some(b";") => break,
                    Some(b"+") if before == Some(b"{}".as_slice()) => break,
                    other => before = other,
                }
            }
        } else if !listed(&search.plain, test)
            || (matches!(found, Found::Anything) && is_action(command, word))
        {
            return Found::Anything;
        }
    }
    found
}

/// Says whether the word makes the program remove what it finds.
fn is_action(command: &SimpleCommand, word: &Word) -> bool {
    let program = program_of(command).unwrap_or_default();
    let rows = knowledge().removers.iter().filter(|row| listed(&row.names, program));
    rows.flat_map(|row| &row.when).any(|wanted| word.exact() == Some(wanted.as_bytes()))
}

/// Says whether a pattern for names finds nothing critical.
fn is_own_name(context: &Context<'_>, pattern: &str) -> bool {
    let mut critical = critical_names(context);
    critical.push(".".to_owned());
    !vcs_paths::may_find_kept(pattern)
        && !critical.iter().any(|name| vcs_paths::may_find(pattern, name))
}

/// Says whether a pattern for paths has a segment that nothing critical has.
fn is_own_path(context: &Context<'_>, pattern: &str) -> bool {
    let critical = critical_names(context);
    let mut own = false;
    for segment in pattern.split('/').filter(|it| !it.contains(['*', '?']) && !it.is_empty()) {
        if segment == "." {
            continue;
        }
        if segment == ".." || vcs_paths::may_find_kept(segment) {
            return false;
        }
        own |= !critical.iter().any(|name| vcs_paths::may_find(segment, name));
    }
    own
}

/// Returns the names on the way to the directories that are worked in.
pub(super) fn critical_names(context: &Context<'_>) -> Vec<String> {
    let facts = context.facts;
    let roots = paths::working_directories(facts, &context.directories);
    let roots = roots.chain([facts.home.as_path(), facts.cwd.as_path()]);
    let names = roots.flat_map(|root| root.iter().skip(1));
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Says whether a search begins in the project, and not at the home directory or above.
pub(super) fn is_of_the_project(context: &Context<'_>, names: &[PathBuf]) -> bool {
    let above_home = |name: &PathBuf| context.facts.home.starts_with(name);
    let root = |name: &PathBuf| name == Path::new("/");
    paths::is_inside(names, context.facts, &context.directories)
        && !names.iter().any(|name| above_home(name) || root(name))
}
