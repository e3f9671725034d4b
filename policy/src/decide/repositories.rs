//! Repositories that git finds where a command runs: the configuration of one names programs, so a rule for git covers a
//! command only in a repository whose configuration is known to be harmless.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use stockade_parser::{CommandKind, Directory, EffectKind, SimpleCommand, Word};

use crate::facts::{Facts, GitPlace, Repository, SandboxState};
use crate::knowledge::{knowledge, listed};
use crate::paths;

use super::allow_cover::program;
use super::context::Context;
use super::places;
use super::shell::Shell;

/// Returns the places in which git looks for a repository for commands of the text.
pub(crate) fn repositories_of_shell(shell: &Shell<'_>, facts: &Facts) -> BTreeSet<GitPlace> {
    let commands = shell.commands.iter();
    commands.filter_map(|command| sought(shell, facts, command)?.ok()).flatten().collect()
}

/// Returns why it is not known that git starts nothing for this command but what the command names.
pub(super) fn doubt(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
) -> Option<String> {
    let name = || String::from_utf8_lossy(program(command)).into_owned();
    let Ok(places) = sought(shell, context.facts, command)? else {
        return Some(format!(
            "the directory in which `{}` looks for its repository is not known before it runs",
            name()
        ));
    };
    places.iter().find_map(|place| doubtful(context, shell, command, place))
}

fn doubtful(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    place: &GitPlace,
) -> Option<String> {
    let directory = place.path();
    let found = context.facts.repositories.get(place);
    match found {
        Some(Repository::Doubtful(why)) => return Some(why.clone()),
        None => {
            let shown = directory.display();
            return Some(format!("unknown which repository git finds in `{shown}`"));
        }
        Some(Repository::Harmless | Repository::Missing) => {}
    }
    if let GitPlace::Within(_) = place {
        return None;
    }
    if *place == GitPlace::Above(context.facts.cwd.clone()) {
        return None;
    }
    let brought = || {
        context.made.anywhere(Some(command))
            || context.made.goes_through(Some(command), directory)
            || context.made.lies_below(Some(command), directory)
    };
    let known = |other: &SimpleCommand| {
        other.effects_known || other.kind != CommandKind::External || std::ptr::eq(other, command)
    };
    let is_made = found == Some(&Repository::Missing) && !shell.commands.iter().all(known);
    let is_written = shell.writes.iter().any(|target| may_configure(&target.word));
    (is_made || is_written || brought()).then(|| {
        format!(
            "the same text may put a repository into `{}` before git runs there",
            directory.display()
        )
    })
}

/// Says whether a file of this name may be part of a git directory (`gitrepository-layout(5)`).
fn may_configure(word: &Word) -> bool {
    let Some(bytes) = word.exact() else { return true };
    let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    [&b"config"[..], b"config.worktree", b"HEAD", b"commondir", b".git"].contains(&name)
}

/// Returns the places in which a command has git look for its repository, if it is one that uses git; an error if only the
/// running shell knows them.
fn sought(
    shell: &Shell<'_>,
    facts: &Facts,
    command: &SimpleCommand,
) -> Option<Result<Vec<GitPlace>, ()>> {
    let tables = knowledge();
    let uses_git =
        command.kind == CommandKind::External && listed(&tables.git.programs, program(command));
    if !uses_git {
        return None;
    }
    let found: Option<Vec<PathBuf>> = match command.directory {
        Directory::Unknown => places::directories(shell, facts, command).into_iter().collect(),
        Directory::Start | Directory::Known(_) => {
            paths::directory(&command.directory, facts).map(|it| vec![it])
        }
    };
    let Some(directories) = found else { return Some(Err(())) };
    let places = directories.into_iter().map(|directory| chosen(command, directory));
    let mut places: Vec<GitPlace> = match places.collect() {
        Some(places) => places,
        None => return Some(Err(())),
    };
    if facts.sandbox != SandboxState::Enforced && shell.commands.iter().any(|it| adds(it, command))
    {
        let within = |place: &GitPlace| match place {
            GitPlace::Above(directory) => Some(GitPlace::Within(directory.clone())),
            GitPlace::At(_) | GitPlace::Within(_) => None,
        };
        let inner: Vec<GitPlace> = places.iter().filter_map(within).collect();
        places.extend(inner);
    }
    Some(Ok(places))
}

/// Says whether a command other than `user` may make git's index name a repository.
fn adds(command: &SimpleCommand, user: &SimpleCommand) -> bool {
    let only_reads = command.effects.iter().any(|effect| effect.kind == EffectKind::ReadOnly);
    command.kind == CommandKind::External
        && !std::ptr::eq(command, user)
        && !only_reads
        && listed(&knowledge().git.programs, program(command))
}

/// Returns the git directory that `git init` makes where an option or `GIT_DIR` says so (`git-init(1)`).
pub(super) fn made(command: &SimpleCommand, directory: &Path) -> Option<PathBuf> {
    if command.kind != CommandKind::External || program(command) != b"git" {
        return None;
    }
    let variable = command.assignments.iter().rev().find(|it| it.name.as_slice() == b"GIT_DIR");
    let mut chosen = variable.and_then(|it| it.value.exact());
    let mut words = command.words.iter().skip(1).map(|word| word.exact().unwrap_or_default());
    while let Some(word) = words.next() {
        match word {
            b"init" => break,
            b"--git-dir" => chosen = words.next(),
            other if other.starts_with(b"--git-dir=") => chosen = other.get(b"--git-dir=".len()..),
            other if listed(&knowledge().git.valued, other) || other == b"-C" => drop(words.next()),
            other if other.starts_with(b"-") => {}
            _ => return None,
        }
    }
    paths::written(chosen?, Some(directory))
}

/// Returns where git looks for the repository of a command that runs in `directory` (`git(1)`, Options).
fn chosen(command: &SimpleCommand, directory: PathBuf) -> Option<GitPlace> {
    let tables = knowledge();
    let (mut directory, mut git_directory) = (directory, None);
    let mut words = command.words.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(option) = word.exact() else {
            // A sub-command that is not known before it runs is not an option, or could be one.
            return (!word.may_start_with(b"-")).then_some(GitPlace::Above(directory));
        };
        if !option.starts_with(b"-") {
            break;
        }
        let path = |word: &Word| word.exact().map(|it| PathBuf::from(OsStr::from_bytes(it)));
        match option {
            b"-C" => directory = directory.join(path(words.next()?)?),
            b"--git-dir" => git_directory = Some(path(words.next()?)?),
            b"--bare" => git_directory = Some(PathBuf::new()),
            other => match other.strip_prefix(b"--git-dir=") {
                Some(path) => git_directory = Some(PathBuf::from(OsStr::from_bytes(path))),
                None if listed(&tables.git.valued, other) => drop(words.next()),
                None => {}
            },
        }
    }
    let place = match git_directory {
        Some(path) => GitPlace::At(directory.join(path)),
        None => GitPlace::Above(directory),
    };
    Some(place)
}
