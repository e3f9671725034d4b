//! How far a pattern with a wildcard reaches: what options and operands start, load or write must be spelled
//! out in it.

use stockade_parser::{Effect, EffectKind, Object, SimpleCommand, Word};

use crate::Decision;
use crate::Mode;
use crate::index::RuleId;
use crate::knowledge::{knowledge, listed};
use crate::pattern::command::{CommandPattern, base_name};

use super::allow_cover::{are_safe, is_inside, program, started_by};
use super::context::Context;
use super::hosts;
use super::shell::{Shell, pattern};

/// Part of a command that a pattern with a wildcard does not reach.
#[derive(Debug, Clone, Copy)]
pub(super) enum Obstacle<'a> {
    /// A program that runs what it is given.
    Executor,
    /// A program that the pattern does not name, by a path, or with words that do more than read.
    Unnamed,
    /// A program whose options are known to run or write things, and of which no row knows which.
    Unread,
    /// A command that it starts.
    Starts(&'a SimpleCommand),
    /// An option that changes what runs.
    Overrides(&'a Word),
    /// A word that leads to another host than the pattern names.
    Strays(&'a Word),
    /// Something that an option or operand does.
    Effect(&'a Effect),
}

/// Says whether a pattern that fits the words of a command covers it.
pub(super) fn reaches(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    command: &SimpleCommand,
    pattern: &CommandPattern,
) -> bool {
    obstacle(context, shell, index, command, pattern).is_none()
}

/// Returns why a pattern that fits the words of a command does not cover it.
pub(super) fn obstacle<'a>(
    context: &Context<'_>,
    shell: &Shell<'a>,
    index: usize,
    command: &'a SimpleCommand,
    pattern: &CommandPattern,
) -> Option<Obstacle<'a>> {
    if pattern.is_exact() {
        return None;
    }
    let tables = knowledge();
    let program = program(command);
    let executor = listed(&tables.executors, program);
    let named = pattern.words().first().is_some_and(|word| word.first() != Some(&None));
    if executor && (context.mode == Mode::Auto || (named && pattern.has_open_program())) {
        return Some(Obstacle::Executor);
    }
    let literal = match !named {
        true => match any_program(command, pattern, executor) {
            Ok(spelled) => spelled,
            Err(obstacle) => return Some(obstacle),
        },
        false => pattern.literal_words(),
    };
    // No row of the tables covers a program whose options are known to run or write things.
    let unread = !command.effects_known && command.effects.is_empty();
    let doubtful = executor || listed(&tables.option_executors, program);
    if unread && doubtful && !(literal > 1 && listed(&tables.project_runners, program)) {
        return Some(Obstacle::Unread);
    }
    let project = is_runner(command);
    let started = started_by(shell, index).map(|(inner, _)| inner).find(|inner| {
        let place = place_of(command, inner);
        if judges_inside(command) {
            return false;
        }
        !project || place.is_none_or(|place| place >= literal)
    });
    let starts = started.map(Obstacle::Starts);
    let overrides = || {
        let stray = || hosts::stray(command, pattern, literal).map(Obstacle::Strays);
        overrides(command, program, literal).map(Obstacle::Overrides).or_else(stray)
    };
    let mut effects = command.effects.iter();
    let unreached = |effect: &&Effect| !effect_reached(context, command, effect, literal);
    starts.or_else(overrides).or_else(|| effects.find(unreached).map(Obstacle::Effect))
}

/// Returns how many words a pattern spells out that begins with a star, the program among them: the star stands for the name
/// of a program, and for words behind it only where those do no more than read.
fn any_program<'a>(
    command: &SimpleCommand,
    pattern: &CommandPattern,
    executor: bool,
) -> Result<usize, Obstacle<'a>> {
    let words = pattern.words();
    let pairs = || command.words.iter().zip(&words).skip(1);
    let same = |(word, spelled): (&Word, &Vec<Option<u8>>)| {
        word.exact().is_some_and(|it| it.iter().copied().map(Some).eq(spelled.iter().copied()))
    };
    let enough = match pattern.is_open() {
        true => command.words.len() >= words.len(),
        false => command.words.len() == words.len(),
    };
    let alone = words.len() > 1 && enough && pairs().all(same);
    let runs_spelled = listed(&knowledge().spelled_out, program(command)) && !pattern.is_open();
    if executor && !(alone && runs_spelled) {
        return Err(Obstacle::Executor);
    }
    let acts = |effect: &Effect| match effect.kind {
        EffectKind::ReadOnly | EffectKind::Read => false,
        EffectKind::ProjectCode => !alone,
        EffectKind::Network => !alone || effect.object(&command.words).is_some(),
        EffectKind::Execute | EffectKind::LoadCode | EffectKind::Write | EffectKind::Settings => {
            true
        }
    };
    let by_path = base_name(&command.words).is_some();
    // Of an unknown program words such as the names of sub-commands do no harm by themselves.
    let plain = |word: &Word| {
        let name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        word.exact().is_some_and(|it| !it.starts_with(b"-") && it.iter().all(name))
    };
    let covered = command.words.len().saturating_sub(words.len());
    let unread =
        !alone && !command.effects_known && !command.words.iter().skip(1).take(covered).all(plain);
    if by_path || unread || command.effects.iter().any(acts) {
        return Err(Obstacle::Unnamed);
    }
    Ok(if alone { words.len() } else { 1 })
}

/// Returns the allow rules for the runner of a command that spell the command out.
pub(super) fn from_runner(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
) -> Vec<RuleId> {
    let outer = command.via.last().map(|via| via.command as usize);
    let Some((index, runner)) = outer.and_then(|index| Some((index, shell.commands.get(index)?)))
    else {
        return Vec::new();
    };
    let runs = is_runner(runner) && are_safe(&runner.assignments);
    let place = if runs { place_of(runner, command) } else { None };
    let (Some(place), Some(name)) = (place, runner.words.first().and_then(Word::exact)) else {
        return Vec::new();
    };
    let mut found = context.rules.by_effect(Decision::Allow).commands(&[Some(name.to_vec())]);
    found.retain(|id| {
        pattern(context, *id).is_some_and(|pattern| {
            place < pattern.literal_words()
                && pattern.covers(&runner.words)
                && reaches(context, shell, index, runner, pattern)
        })
    });
    found
}

/// Says whether the command runs what the project brings along.
fn is_runner(command: &SimpleCommand) -> bool {
    command.effects.iter().any(|effect| effect.kind == EffectKind::ProjectCode)
}

/// Returns where in a command the words of the command inside begin.
fn place_of(command: &SimpleCommand, inner: &SimpleCommand) -> Option<usize> {
    let first = inner.words.first()?;
    command.words.iter().position(|word| word.span == first.span)
}

/// Returns a word that the pattern does not spell out and that is, or could be, an option that changes what
/// the program runs.
fn overrides<'a>(command: &'a SimpleCommand, program: &[u8], literal: usize) -> Option<&'a Word> {
    let module = module_of(command, program);
    let is_meant = |name: &str| name.as_bytes() == program || Some(name.as_bytes()) == module;
    let known = knowledge().override_options.iter().filter(|(name, _)| is_meant(name));
    let options: Vec<&&str> = known.flat_map(|(_, options)| options).collect();
    let words = command.words.iter().enumerate().skip(1);
    let before = words.take_while(|(_, word)| word.exact() != Some(b"--"));
    before.filter(|(place, _)| *place >= literal).map(|(_, word)| word).find(|word| {
        options.iter().any(|option| {
            // Where the table knows the command, no word that is not known before it runs may become an option.
            let no_option =
                command.effects_known && word.exact().is_none() && option.starts_with('-');
            !no_option && may_be_option(word, option)
        })
    })
}

/// Returns the module that an interpreter runs as a program (`python3 -m pytest`): its options are those of the program.
fn module_of<'a>(command: &'a SimpleCommand, program: &[u8]) -> Option<&'a [u8]> {
    let words = command.words.iter();
    let mut pairs = words.clone().zip(words.skip(1));
    let named = pairs.find(|(option, _)| option.exact() == Some(b"-m"));
    let is_interpreter = listed(&knowledge().interpreters, program);
    named.filter(|_| is_interpreter).and_then(|(_, module)| module.exact())
}

/// Says whether a word is, or could be, the option, perhaps shortened.
fn may_be_option(word: &Word, option: &str) -> bool {
    // As many letters as tell one option from most others.
    const SHORTEST: usize = 4;
    let shortened = word.exact().is_some_and(|bytes| {
        let stem = bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
        let long = option.starts_with("--") && !option.contains('=');
        long && stem.len() >= SHORTEST && option.as_bytes().starts_with(stem)
    });
    shortened || word.may_start_with(option.as_bytes())
}

fn effect_reached(
    context: &Context<'_>,
    command: &SimpleCommand,
    effect: &Effect,
    literal: usize,
) -> bool {
    let word = effect.word as usize;
    let option = command.words.get(word).is_none_or(|word| word.may_start_with(b"-"));
    let spelled = word < literal && !option;
    match effect.kind {
        EffectKind::ReadOnly => true,
        // A name that is not known before it runs takes what it is made of to whoever answers for it.
        EffectKind::Network => effect.object(&command.words).is_none_or(|it| it.exact().is_some()),
        EffectKind::Read => {
            let object = effect.object(&command.words);
            let quiet = matches!(effect.object, Object::Named(_))
                || listed(&knowledge().quiet_readers, program(command));
            !quiet || word < literal || is_inside(context, command, object) || is_no_file(object)
        }
        // The command that it starts is a part of its own.
        EffectKind::Execute if judges_inside(command) => true,
        // On word 0 the program does it whatever its words are: a wildcard says nothing about that.
        EffectKind::Execute | EffectKind::LoadCode => {
            (spelled && word > 0) || is_script(context, command, effect)
        }
        EffectKind::Settings => spelled && word > 0,
        EffectKind::ProjectCode if is_elsewhere(context, command, effect) => false,
        EffectKind::ProjectCode if leads_elsewhere(context, command, effect, literal) => false,
        EffectKind::ProjectCode if listed(&knowledge().spelled_out, program(command)) => {
            spelled || only_tells_version(command)
        }
        EffectKind::ProjectCode => !option,
        EffectKind::Write => {
            (spelled && word > 0)
                || (!option && is_plain_write(context, command, effect))
                || is_write_to_repository(command, effect)
        }
    }
}

/// Says whether each command that this one starts is a part that is judged, and nothing else of it matters.
fn judges_inside(command: &SimpleCommand) -> bool {
    command.effects_known && listed(&knowledge().judged_inside, program(command))
}

/// Says whether the only word of a command asks for its version.
fn only_tells_version(command: &SimpleCommand) -> bool {
    let tells =
        |word: &Word| word.exact().is_some_and(|it| listed(&knowledge().version_options, it));
    command.words.len() == 2 && command.words.get(1).is_some_and(tells)
}

/// Says whether a write names no file and is one to the repository, by what the sub-command does.
fn is_write_to_repository(command: &SimpleCommand, effect: &Effect) -> bool {
    let sub_command = command.words.get(1).and_then(Word::exact).unwrap_or_default();
    let whole = [program(command), b" ", sub_command].concat();
    effect.object(&command.words).is_none()
        && command.effects_known
        && listed(&knowledge().repository_writers, &whole)
}

/// Standard input, or what is a file in name only, such as `/dev/null`.
fn is_no_file(object: Option<&Word>) -> bool {
    object.and_then(Word::exact).is_some_and(|path| {
        path == b"-" || super::files::is_no_file(path, super::files::Access::Read)
    })
}

/// The code is that of a directory outside the working directories, such as of `git -C /elsewhere`.
fn is_elsewhere(context: &Context<'_>, command: &SimpleCommand, effect: &Effect) -> bool {
    effect.word > 0
        && command.effects.iter().any(|other| {
            other.kind == EffectKind::Read
                && other.word == effect.word
                && !is_inside(context, command, other.object(&command.words))
        })
}

/// A word that the pattern does not spell out names a place outside the working directories to a program that
/// runs or builds what it is pointed at.
fn leads_elsewhere(
    context: &Context<'_>,
    command: &SimpleCommand,
    effect: &Effect,
    literal: usize,
) -> bool {
    let (tables, program) = (knowledge(), program(command));
    if effect.word > 0 && !listed(&tables.spelled_out, program) {
        return false;
    }
    let words = command.words.iter().enumerate().skip(literal.max(1));
    let before = words.take_while(|(_, word)| word.exact() != Some(b"--"));
    before.filter_map(|(_, word)| Some((word, word.exact()?))).any(|(word, bytes)| {
        let value = bytes.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
        [bytes, bytes.get(value..).unwrap_or_default()].into_iter().any(|path| {
            let label = path.starts_with(b"//") && listed(&tables.label_programs, program);
            let away = (path.starts_with(b"/") && !label)
                || path.split(|byte| *byte == b'/').any(|segment| segment == b"..");
            // The program is what expands `~` here.
            path.starts_with(b"~")
                || (away && !is_inside(context, command, Some(&Word::literal(word.span, path))))
        })
    })
}

/// A script file of the project that an interpreter is given: what a wildcard rule for the interpreter is for.
/// A word behind an option could be the option's value.
fn is_script(context: &Context<'_>, command: &SimpleCommand, effect: &Effect) -> bool {
    let place = effect.word as usize;
    let plain =
        |place: usize| command.words.get(place).is_some_and(|word| !word.may_start_with(b"-"));
    let behind = place.checked_sub(1).is_some_and(plain);
    let reads = |other: &Effect| {
        other.kind == EffectKind::Read
            && other.word == effect.word
            && other.object(&command.words) == effect.object(&command.words)
    };
    plain(place)
        && behind
        && command.effects.iter().any(reads)
        && effect.object(&command.words).is_some_and(|object| object.exact().is_some())
        && is_inside(context, command, effect.object(&command.words))
}

/// Says whether the write is what the program's name says, inside the working directories.
fn is_plain_write(context: &Context<'_>, command: &SimpleCommand, effect: &Effect) -> bool {
    let name = program(command);
    let sub_command = command.words.get(1).and_then(Word::exact).unwrap_or_default();
    let writers = &knowledge().writers;
    let whole = [name, b" ", sub_command].concat();
    (listed(writers, name) || listed(writers, &whole))
        && is_inside(context, command, effect.object(&command.words))
}
