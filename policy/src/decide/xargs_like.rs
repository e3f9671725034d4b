//! Programs that start another one with the words that they read, such as `xargs`.

use stockade_parser::{
    Glob, Position, Reason, RedirectTarget, SimpleCommand, Stdin, Word, WordClass,
};

use crate::knowledge::{Search, knowledge, listed};

use super::critical::is_option;
use super::search::{program_of, started_removers};
use super::shell::Shell;

/// Says whether a name that is found may bring any word to a program that removes whole directories: blanks in it part it.
pub(super) fn brings_any_word(shell: &Shell<'_>, search: &Search, feeder: &SimpleCommand) -> bool {
    let recursive = |remover: &SimpleCommand| {
        // The words that are read come last, and are unknown in any case.
        let appended = |word: &Word| {
            matches!(&word.class, WordClass::Unknown { reason: Reason::Substitution, .. })
        };
        let words =
            remover.words.split_last().map_or(&[][..], |(last, rest)| match appended(last) {
                true => rest,
                false => &remover.words,
            });
        let mut options = words.iter().skip(1);
        options.any(|word| search.recursive.iter().any(|wanted| is_option(word, wanted)))
    };
    !keeps_names_whole(search, feeder) && started_removers(shell, feeder).any(recursive)
}

/// Says whether an option surely stands there with which each name is one word.
fn keeps_names_whole(search: &Search, feeder: &SimpleCommand) -> bool {
    let mut words = feeder.words.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(bytes) = word.exact().filter(|bytes| bytes.starts_with(b"-")) else { break };
        if listed(&search.whole, bytes) {
            return true;
        }
        let letters = bytes.get(1..).unwrap_or_default();
        let plain = letters.iter().all(|letter| listed(&search.flags, &[b'-', *letter]));
        if plain && letters.iter().any(|letter| listed(&search.whole, &[b'-', *letter])) {
            return true;
        }
        // The next word may be the value of the option.
        if bytes.len() == 2 && !plain {
            words.next();
        }
    }
    false
}

/// Returns the words that a command surely gets from what starts it: those of a text, or printed right in front of it.
pub(super) fn given(shell: &Shell<'_>, command: &SimpleCommand) -> Vec<Word> {
    let tables = knowledge();
    let feeds = |outer: &&SimpleCommand| {
        let program = program_of(outer).unwrap_or_default();
        let searches = tables.removers.iter().filter_map(|row| row.search.as_ref());
        searches.into_iter().any(|search| listed(&search.feeds, program))
    };
    let feeders = command.via.iter().filter_map(|via| shell.commands.get(via.command as usize));
    let mut found = Vec::new();
    for feeder in feeders.filter(feeds) {
        for redirect in feeder.redirects.iter() {
            if let RedirectTarget::Text(word) = &redirect.target {
                part(word, &mut found);
            }
        }
        let Some(printer) = printer(shell, feeder) else { continue };
        let program = program_of(printer).unwrap_or_default();
        let lists = listed(&tables.lists, program);
        if !lists && !listed(&tables.prints, program) {
            continue;
        }
        let option = |word: &&Word| word.exact().is_some_and(|bytes| bytes.starts_with(b"-"));
        let words: Vec<&Word> = printer.words.iter().skip(1).filter(|it| !option(it)).collect();
        if lists && words.is_empty() {
            let class =
                WordClass::Pattern { glob: vec![Glob::Star].into(), may_stay_literal: true };
            found.push(Word { span: printer.span, class });
        }
        words.into_iter().for_each(|word| part(word, &mut found));
    }
    found
}

/// Adds the words that a program reads of a text, where blanks part them.
fn part(text: &Word, found: &mut Vec<Word>) {
    match text.exact() {
        Some(bytes) => {
            // `printf` makes a line feed or a NUL of a backslash and a letter.
            let parts = bytes.split(|byte| byte.is_ascii_whitespace() || b"\0\\".contains(byte));
            let parts = parts.filter(|part| !part.is_empty());
            found.extend(parts.map(|part| Word::literal(text.span, part)));
        }
        None => found.push(text.clone()),
    }
}

/// Returns the command right in front of a part of a pipeline.
fn printer<'a>(shell: &Shell<'a>, feeder: &SimpleCommand) -> Option<&'a SimpleCommand> {
    let Position::Pipeline(place) = feeder.position else { return None };
    let before = Position::Pipeline(place.checked_sub(1)?);
    let end = shell.commands.iter().position(|known| std::ptr::eq(known, feeder))?;
    let earlier = shell.commands.get(..end)?;
    let found = earlier.iter().rev().find(|it| it.position == before)?;
    (feeder.stdin == Stdin::Pipe).then_some(found)
}
