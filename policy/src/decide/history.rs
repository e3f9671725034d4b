//! Commands that destroy what version control holds: its history, and what it does not hold yet.

use std::borrow::Cow;

use stockade_parser::{SimpleCommand, Word, WordClass};

use crate::knowledge::{Historian, Loss, knowledge, listed};
use crate::pattern::command::base_name;
use crate::pattern::tool::NameGlob;

use super::critical::is_option;
use super::shell::Shell;
use super::trees::is_sub_command;

/// Returns why the command needs a person, whatever rules say.
pub(super) fn finding(shell: &Shell<'_>, command: &SimpleCommand) -> Option<String> {
    let word = command.words.first()?;
    let program = base_name(&command.words).or_else(|| word.exact())?;
    for one in &knowledge().historians {
        let Some(mut words) = spelled_out(one, program, &command.words) else { continue };
        if words.iter().any(|word| is_branch(shell, word)) {
            for word in words.to_mut().iter_mut().filter(|word| is_branch(shell, word)) {
                *word = Word::literal(word.span, b"branch");
            }
        }
        for row in &one.losses {
            if let Some(reasons) = loses(one, row, command, &words) {
                let said = said(shell, row, &words, &reasons);
                return Some(format!("`{said}` always needs a person: {}", row.lost));
            }
        }
    }
    None
}

/// Says whether a word is the name of a branch, by the command that prints it. A person would be asked for each `git push origin
/// $(git branch --show-current)` otherwise; of a branch whose name begins with `+` nothing is known here.
fn is_branch(shell: &Shell<'_>, word: &Word) -> bool {
    if word.exact().is_some() {
        return false;
    }
    let typed = word.span.of(shell.source);
    let bare = typed.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(typed);
    let inner = bare.strip_prefix(b"$(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|inner| knowledge().branches.iter().any(|it| it.as_bytes() == inner))
}

/// Returns the words of a program that the entry names, with `git-gc` as `git gc`.
fn spelled_out<'a>(one: &Historian, program: &[u8], words: &'a [Word]) -> Option<Cow<'a, [Word]>> {
    if listed(&one.names, program) {
        return Some(Cow::Borrowed(words));
    }
    let (first, rest) = words.split_first()?;
    let dashed = |name: &&str| program.strip_prefix(name.as_bytes())?.strip_prefix(b"-");
    let name = one.names.iter().find(|name| dashed(name).is_some())?;
    let start = [name.as_bytes(), dashed(name)?].map(|part| Word::literal(first.span, part));
    Some(start.into_iter().chain(rest.iter().cloned()).collect())
}

/// Returns the words for which a row counts, if it does.
fn loses<'a>(
    one: &Historian,
    row: &Loss,
    command: &'a SimpleCommand,
    words: &'a [Word],
) -> Option<Vec<&'a Word>> {
    if !row.commands.is_empty() && !is_sub_command(&row.commands, &one.valued, words) {
        return None;
    }
    if unless(one, row, words) {
        return None;
    }
    if row.when.is_empty() {
        return Some(Vec::new());
    }
    if !row.behind.is_empty() {
        return chosen(row, command, words);
    }
    let given = |wanted: &str| words.iter().skip(1).find(|word| is_given(word, wanted));
    row.when.iter().find_map(|texts| texts.split(' ').map(given).collect())
}

/// Says whether an argument made from the word could be the wanted one.
fn is_given(word: &Word, wanted: &str) -> bool {
    if let Some(option) = wanted.strip_suffix("=*") {
        return match known_start(word) {
            Some(start) if start.contains(&b'=') => is_option(&before_value(word), option),
            Some(start) => word.exact().is_none() && option.as_bytes().starts_with(start),
            None => true,
        };
    }
    match wanted.strip_suffix('*') {
        Some(prefix) => word.may_start_with(prefix.as_bytes()),
        None => is_option(&before_value(word), wanted),
    }
}

/// Returns what the word surely begins with; none when it could be several.
fn known_start(word: &Word) -> Option<&[u8]> {
    match &word.class {
        WordClass::Exact(bytes) => Some(bytes),
        WordClass::Pattern { .. } => None,
        WordClass::Unknown { count: stockade_parser::Count::Any, .. } => None,
        WordClass::Unknown { prefix, .. } => Some(prefix),
    }
}

/// Returns a long option without its value.
fn before_value(word: &Word) -> Word {
    let name = known_start(word).filter(|start| start.starts_with(b"--")).and_then(|start| {
        let end = start.iter().position(|byte| *byte == b'=')?;
        start.get(..end)
    });
    name.map_or_else(|| word.clone(), |name| Word::literal(word.span, name))
}

/// Returns the words by which one of the options that a row names has a value that fits, or an assignment in front.
fn chosen<'a>(row: &Loss, command: &'a SimpleCommand, words: &'a [Word]) -> Option<Vec<&'a Word>> {
    let fits = |word: &Word| row.when.iter().any(|wanted| is_value(word, wanted));
    let attached = |word: &&Word| {
        let text = word.exact().unwrap_or_default();
        let value = |option: &&str| text.strip_prefix(option.as_bytes())?.strip_prefix(b"=");
        let value = row.behind.iter().find_map(value);
        value.is_some_and(|value| fits(&Word::literal(word.span, value)))
    };
    if let Some(word) = words.iter().find(attached) {
        return Some(vec![word]);
    }
    let mut pairs = words.iter().zip(words.iter().skip(1));
    let separate = |(before, word): &(&Word, &Word)| {
        before.exact().is_some_and(|option| listed(&row.behind, option)) && fits(word)
    };
    if let Some((option, word)) = pairs.find(separate) {
        return Some(vec![option, word]);
    }
    let held = |word: &&Word| {
        let holds = |wanted: &&str| is_value(word, &format!("*{wanted}"));
        word.exact().is_some() && row.when.iter().any(holds)
    };
    command.assignments.iter().map(|assignment| &assignment.value).find(held).map(|it| vec![it])
}

/// Says whether a value fits a pattern, in any case of letters; a word that is not known before it runs when it could.
fn is_value(word: &Word, wanted: &str) -> bool {
    let Some(start) = known_start(word) else { return true };
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    if word.exact().is_some() {
        return NameGlob::new(wanted).matches(&start);
    }
    let fixed = wanted.split('*').next().unwrap_or_default();
    start.starts_with(fixed) || fixed.starts_with(&start)
}

/// Says whether an option surely stands there with which nothing is lost.
fn unless(one: &Historian, row: &Loss, words: &[Word]) -> bool {
    let mut found = false;
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        // Behind a word that may be more than one, or an option with a value, nothing is sure.
        let Some(bytes) = word.exact().filter(|bytes| *bytes != b"--") else { break };
        let takes_value =
            |option: &[u8]| listed(&row.valued, option) || listed(&one.valued, option);
        match bytes {
            [b'-', b'-', ..] if takes_value(bytes) => drop(rest.next()),
            [b'-', b'-', name @ ..] => {
                found |= listed(&row.unless, bytes);
                // `--no-dry-run` takes `-n` back.
                if name.starts_with(b"no-") {
                    return false;
                }
            }
            [b'-', letters @ ..] => {
                let valued = |letter: &u8| takes_value(&[b'-', *letter]);
                let end = letters.iter().position(valued);
                let plain = letters.get(..end.unwrap_or(letters.len())).unwrap_or_default();
                found |= plain.iter().any(|letter| listed(&row.unless, &[b'-', *letter]));
                if end.is_some_and(|end| end + 1 == letters.len()) {
                    rest.next();
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the program, the sub-command and the words for which a row counts, as people see them.
fn said(shell: &Shell<'_>, row: &Loss, words: &[Word], reasons: &[&Word]) -> String {
    let text = |word: &Word| {
        let bytes = word.exact().unwrap_or_else(|| word.span.of(shell.source));
        String::from_utf8_lossy(bytes).into_owned()
    };
    let named = |word: &&Word| {
        let known = |bytes: &[u8]| row.commands.iter().flatten().any(|it| it.as_bytes() == bytes);
        word.exact().is_some_and(known)
    };
    let first = words.first().and_then(Word::exact).unwrap_or_default();
    let name = first.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let most = row.commands.iter().map(Vec::len).max().unwrap_or_default();
    let commands = words.iter().skip(1).filter(named).take(most);
    let mut parts = vec![String::from_utf8_lossy(name).into_owned()];
    parts.extend(commands.chain(reasons.iter().copied()).map(text));
    parts.dedup();
    parts.join(" ")
}
