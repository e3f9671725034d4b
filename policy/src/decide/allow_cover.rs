//! Coverage of a simple command: by allow rules, the read-only set, accepted edits, a harmless `cd`.

use stockade_parser::{
    Assignment, CommandKind, Directory, Effect, EffectKind, Locality, Position, SimpleCommand, Via,
    Word,
};

use crate::Decision;
use crate::Mode;
use crate::index::RuleId;
use crate::knowledge::{is_unsafe, knowledge, listed};
use crate::paths;
use crate::pattern::command::base_name;

use super::context::Context;
use super::expanded;
use super::guarded;
use super::known;
use super::part::Cover;
use super::reach;
use super::repositories;
use super::shell::{Shell, pattern};

/// Says whether each assignment is one that rules look past.
pub(super) fn are_safe(assignments: &[Assignment]) -> bool {
    assignments.iter().all(|assignment| {
        !assignment.array
            && !assignment.append
            && assignment.value.exact().is_some()
            && listed(&knowledge().safe_variables, &assignment.name)
    })
}

/// Returns every allow rule that covers the command.
pub(super) fn rules(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    exact: &[Option<RuleId>],
    blanket: Option<RuleId>,
) -> Vec<RuleId> {
    let Some(command) = shell.commands.get(index) else { return Vec::new() };
    let mut found: Vec<RuleId> = blanket.into_iter().collect();
    if known::doubt_for_rules(context, command).is_some() {
        return found;
    }
    if repositories::doubt(context, shell, command).is_some() {
        // An exact rule is about the directory in which the session works.
        let is_at_home = command.directory == Directory::Start && context.facts.session.is_none();
        found.extend(exact_at_or_above(shell, index, exact).filter(|_| is_at_home));
        return found;
    }
    found.extend(exact_at_or_above(shell, index, exact));
    let guarded = guarded::of_command(shell, index).is_some();
    if guarded || !are_safe(&command.assignments) || looks_through(shell, index) {
        return found;
    }
    let Some(program) = command.words.first().and_then(Word::exact) else { return found };
    let candidates = context.rules.by_effect(Decision::Allow).commands(&[Some(program.to_vec())]);
    found.extend(candidates.into_iter().filter(|id| {
        pattern(context, *id).is_some_and(|pattern| {
            pattern.covers(&command.words)
                && reach::reaches(context, shell, index, command, pattern)
        })
    }));
    found.extend(reach::from_runner(context, shell, command));
    found
}

/// Returns the exact rule for the command or for one that it is part of.
pub(super) fn exact_at_or_above(
    shell: &Shell<'_>,
    index: usize,
    exact: &[Option<RuleId>],
) -> Option<RuleId> {
    let own = exact.get(index).copied().flatten();
    own.or_else(|| {
        let via = &shell.commands.get(index)?.via;
        via.iter().find_map(|via| exact.get(via.command as usize).copied().flatten())
    })
}

/// Says whether the command is a wrapper that rules look through: the command inside is judged in its place.
pub(super) fn looks_through(shell: &Shell<'_>, index: usize) -> bool {
    started_by(shell, index).any(|(_, via)| via.strip)
}

/// Returns the commands that the command at `index` starts itself.
pub(super) fn started_by<'a>(
    shell: &Shell<'a>,
    index: usize,
) -> impl Iterator<Item = (&'a SimpleCommand, &'a Via)> {
    let commands = shell.commands;
    shell.inside.started_by(index).filter_map(move |place| {
        let inner = commands.get(place)?;
        Some((inner, inner.via.last()?))
    })
}

pub(super) fn is_inside(
    context: &Context<'_>,
    command: &SimpleCommand,
    object: Option<&Word>,
) -> bool {
    let directory = paths::directory(&command.directory, context.facts);
    let Some(word) = object else { return false };
    match word.exact() {
        Some(bytes) => paths::written(bytes, directory.as_deref()).is_some_and(|written| {
            let names = paths::names(&written, context.facts, directory.as_deref());
            paths::is_inside(&names, context.facts, &context.directories)
                && !context.made.goes_through(Some(command), &stockade_rules::normal(&written))
        }),
        None => paths::shape(word, directory.as_deref()).is_some_and(|shape| {
            let fixed = paths::fixed_directory(&shape);
            let whole = !shape.open;
            whole
                && paths::is_inside(&[fixed], context.facts, &context.directories)
                && expanded::is_inside(context, &shape)
        }),
    }
}

/// Returns the program's name: the last part of its path when it lies in a system directory.
pub(super) fn program(command: &SimpleCommand) -> &[u8] {
    let word = command.words.first().and_then(Word::exact).unwrap_or_default();
    base_name(&command.words).unwrap_or(word)
}

/// Says whether the program is named as the tables mean it, not by a path of the project's own.
fn is_of_the_system(command: &SimpleCommand) -> bool {
    let Some(word) = command.words.first().and_then(Word::exact) else { return false };
    match base_name(&command.words) {
        None => true,
        Some(base) => {
            let directory = word.get(..word.len() - base.len()).unwrap_or_default();
            [b"/bin/".as_slice(), b"/usr/bin/", b"/sbin/", b"/usr/sbin/"].contains(&directory)
        }
    }
}

/// Returns what covers the command without an allow rule.
pub(super) fn without_rule(context: &Context<'_>, shell: &Shell<'_>, index: usize) -> Cover {
    let Some(command) = shell.commands.get(index) else {
        return Cover::Nothing("no rule allows it".to_owned());
    };
    if command.kind == CommandKind::AssignmentOnly {
        return assignments_only(command);
    }
    let own = |one: &Assignment| {
        let rows = knowledge().own_variables.iter();
        let mut names = rows.filter(|(name, _)| name.as_bytes() == program(command));
        names.any(|(_, names)| listed(names, &one.name)) && one.value.exact().is_some()
    };
    let mut bad = command.assignments.iter();
    if let Some(bad) = bad.find(|one| !are_safe(std::slice::from_ref(*one)) && !own(one)) {
        let name = String::from_utf8_lossy(&bad.name);
        return Cover::Nothing(format!("no rule applies after the assignment of `{name}`"));
    }
    if let Some(reason) = guarded::of_command(shell, index) {
        return Cover::Nothing(reason);
    }
    if let Some(doubt) = known::doubt(context, command) {
        return Cover::Nothing(doubt);
    }
    if let Some(doubt) = repositories::doubt(context, shell, command) {
        return Cover::Nothing(doubt);
    }
    if looks_through(shell, index) {
        return Cover::Builtin("the command inside is judged".to_owned());
    }
    if command.position == Position::Shell {
        return Cover::Builtin("a shell whose commands are judged".to_owned());
    }
    if command.kind == CommandKind::Function {
        return Cover::Builtin("a function of this text, whose commands are judged".to_owned());
    }
    let starts = started_by(shell, index).next().is_some();
    let reads = !starts && is_read_only(context, command);
    if reads && !context.facts.terminal {
        return Cover::Builtin("it only reads".to_owned());
    }
    if !starts && changes_directory_inside(context, command) {
        return Cover::Builtin("it stays inside the working directories".to_owned());
    }
    if !starts && is_accepted_edit(context, command) {
        return Cover::Mode("file commands inside the working directories are accepted".to_owned());
    }
    Cover::Nothing(match reads {
        true => "at a terminal a read-only command can start a pager or accept input".to_owned(),
        false => "no rule allows it".to_owned(),
    })
}

fn assignments_only(command: &SimpleCommand) -> Cover {
    let bad = command.assignments.iter().find(|one| is_unsafe(&one.name));
    match bad {
        None => Cover::Builtin("it only sets variables".to_owned()),
        Some(one) => Cover::Nothing(guarded::reason(&one.name)),
    }
}

fn is_read_only(context: &Context<'_>, command: &SimpleCommand) -> bool {
    let tables = knowledge();
    let kinds = |kind: EffectKind| match kind {
        EffectKind::ReadOnly | EffectKind::Read => true,
        EffectKind::Execute
        | EffectKind::Write
        | EffectKind::Network
        | EffectKind::LoadCode
        | EffectKind::ProjectCode
        | EffectKind::Settings => false,
    };
    let moved = (command.directory != Directory::Start || context.facts.session.is_some())
        && paths::directory(&command.directory, context.facts)
            .is_none_or(|directory| stockade_rules::normal(&directory) != context.facts.anchor());
    !tables.broken
        && command.effects_known
        && command.locality == Locality::Here
        && is_of_the_system(command)
        && command.effects.iter().any(|effect| effect.kind == EffectKind::ReadOnly)
        && command.effects.iter().all(|effect| kinds(effect.kind))
        && !(moved && listed(&tables.directory_sensitive, program(command)))
        && !listed(&tables.directory_changers, program(command))
        && !(listed(&tables.naming_builtins, program(command)) && names_unsafe(command))
        && command.effects.iter().all(|effect| match effect.kind {
            EffectKind::Read => reads_inside(context, command, effect.object(&command.words)),
            EffectKind::ReadOnly
            | EffectKind::Execute
            | EffectKind::Write
            | EffectKind::Network
            | EffectKind::LoadCode
            | EffectKind::ProjectCode
            | EffectKind::Settings => true,
        })
}

/// Says whether a word names, or ends in the name of, a variable that decides what later commands run.
fn names_unsafe(command: &SimpleCommand) -> bool {
    command.words.iter().skip(1).any(|word| {
        let Some(bytes) = word.exact() else { return true };
        let name = bytes.split(|byte| *byte == b'[').next().unwrap_or_default();
        let ends = (0..name.len()).filter_map(|at| name.get(at..));
        is_unsafe(name) || (name.starts_with(b"-") && ends.into_iter().any(is_unsafe))
    })
}

fn reads_inside(context: &Context<'_>, command: &SimpleCommand, object: Option<&Word>) -> bool {
    // Without an object it may read anything.
    let Some(word) = object else { return false };
    let none =
        |path: &[u8]| super::files::is_no_file(path, super::files::Access::Read) || path == b"-";
    if word.exact().is_some_and(none) || is_inside(context, command, Some(word)) {
        return true;
    }
    let directory = paths::directory(&command.directory, context.facts);
    let Some(written) = word.exact().and_then(|bytes| paths::written(bytes, directory.as_deref()))
    else {
        return false;
    };
    let names = paths::names(&written, context.facts, directory.as_deref());
    !super::files::hits(context, Decision::Allow, super::files::Access::Read, &names).is_empty()
}

/// Says whether the command is a `cd` whose target is inside the working directories.
fn changes_directory_inside(context: &Context<'_>, command: &SimpleCommand) -> bool {
    if !listed(&knowledge().directory_changers, program(command))
        || base_name(&command.words).is_some()
    {
        return false;
    }
    let operands: Vec<&Word> = command
        .words
        .iter()
        .skip(1)
        .filter(|word| !matches!(word.exact(), Some(b"--" | b"-L" | b"-P")))
        .collect();
    match operands.as_slice() {
        [word] => {
            let stays = word
                .exact()
                .is_some_and(|bytes| !bytes.starts_with(b"-") && !bytes.starts_with(b"+"));
            stays && is_inside(context, command, Some(*word))
        }
        _ => false,
    }
}

/// Says whether acceptEdits covers the command.
fn is_accepted_edit(context: &Context<'_>, command: &SimpleCommand) -> bool {
    let kinds = |effect: &Effect| match effect.kind {
        EffectKind::ReadOnly => true,
        EffectKind::Read | EffectKind::Write => {
            is_inside(context, command, effect.object(&command.words))
        }
        EffectKind::Execute
        | EffectKind::Network
        | EffectKind::LoadCode
        | EffectKind::ProjectCode
        | EffectKind::Settings => false,
    };
    context.mode == Mode::AcceptEdits
        && command.effects_known
        && command.locality == Locality::Here
        && is_of_the_system(command)
        && listed(&knowledge().accept_edits_commands, program(command))
        && command.effects.iter().all(kinds)
}
