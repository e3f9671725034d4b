//! A reading as one line of text, for the examples of the tables.

use super::*;
use crate::{
    Directory, EffectKind, Glob, Operator, Position, Programs, Redirect, RedirectTarget, Shared,
    Span, Thin,
};

/// Makes words of a text with blanks, quotes, `$x` and patterns: a small shell for tests only.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut bytes = text.bytes().peekable();
    while let Some(first) = bytes.peek().copied() {
        if first == b' ' {
            bytes.next();
            continue;
        }
        let (mut value, mut glob, mut unknown) = (Vec::new(), Vec::new(), None);
        let mut quote = None;
        let (mut suffix, mut joined) = (Vec::new(), false);
        while let Some(byte) = bytes.next() {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (None, b'\'' | b'"') => quote = Some(byte),
                (None, b' ') => break,
                (None | Some(b'"'), b'\\') => value.extend(bytes.next()),
                (None | Some(b'"'), b'$') if bytes.peek().is_some_and(u8::is_ascii_alphabetic) => {
                    while bytes.next_if(u8::is_ascii_alphanumeric).is_some() {}
                    let count = if quote.is_some() { Count::One } else { Count::Any };
                    unknown = Some(count);
                    joined |= suffix.iter().any(|byte| b"./:=".contains(byte));
                    suffix.clear();
                }
                (None, b'*' | b'?') => {
                    if !value.is_empty() {
                        glob.push(Glob::Literal(std::mem::take(&mut value)));
                    }
                    glob.push(if byte == b'*' { Glob::Star } else { Glob::Question });
                }
                (_, byte) if unknown.is_some() => suffix.push(byte),
                (_, byte) => value.push(byte),
            }
        }
        let class = match unknown {
            Some(count) => WordClass::Unknown {
                reason: Reason::Parameter,
                count,
                prefix: value.into(),
                suffix: suffix.into(),
                joined,
            },
            None if !glob.is_empty() => {
                if !value.is_empty() {
                    glob.push(Glob::Literal(value));
                }
                WordClass::Pattern { glob: glob.into(), may_stay_literal: true }
            }
            None => WordClass::Exact(value.into()),
        };
        words.push(Word { span: Span::default(), class });
    }
    words
}

fn show_word(word: &Word) -> String {
    match &word.class {
        WordClass::Exact(bytes) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            if text.is_empty() || text.contains([' ', '\n']) { format!("{text:?}") } else { text }
        }
        WordClass::Pattern { glob, .. } => glob
            .iter()
            .map(|piece| match piece {
                Glob::Literal(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Glob::Star | Glob::Other(_) => "*".into(),
                Glob::Question => "?".into(),
            })
            .collect(),
        WordClass::Unknown { count, prefix, suffix, .. } => {
            let mark = if *count == Count::One { "$1" } else { "$@" };
            [&String::from_utf8_lossy(prefix), mark, &String::from_utf8_lossy(suffix)].concat()
        }
    }
}

fn show_inner(inner: &Inner) -> String {
    let place = |locality: &Locality| match locality {
        Locality::Here => "",
        Locality::Remote => "remote ",
        Locality::Container => "container ",
    };
    match inner {
        Inner::Command(InnerCommand { words, assignments, strip, locality, directory, .. }) => {
            let mut parts = vec![];
            parts.extend(directory.iter().map(|directory| format!("[{}]", show_word(directory))));
            parts.extend(assignments.iter().map(|assignment| {
                let name = String::from_utf8_lossy(&assignment.name);
                format!("{name}={}", show_word(&assignment.value))
            }));
            parts.extend(words.iter().map(show_word));
            let strip = if *strip { "strip " } else { "" };
            format!("{}{strip}run {}", place(locality), parts.join(" "))
        }
        Inner::Text(InnerText { bytes, dialect, positional, locality, child, .. }) => {
            let name = match (child, dialect) {
                (false, _) => "eval",
                (true, Dialect::Bash) => "bash",
                (true, Dialect::Sh) => "sh",
            };
            let text = String::from_utf8_lossy(bytes);
            let words: String =
                positional.iter().flatten().map(|word| format!(" {}", show_word(word))).collect();
            format!("{}{name} `{}`{words}", place(locality), text.replace('\n', "\\n"))
        }
    }
}

fn show_effect(effect: &Effect, words: &[Word]) -> String {
    let name = match effect.kind {
        EffectKind::ReadOnly => return "read-only".into(),
        EffectKind::Execute => return "execute".into(),
        EffectKind::Write => "write",
        EffectKind::Read => "read",
        EffectKind::Network => "network",
        EffectKind::LoadCode => "load-code",
        EffectKind::ProjectCode => return "project-code".into(),
        EffectKind::Settings => return "settings".into(),
    };
    match effect.object(words) {
        Some(word) => format!("{name} {}", show_word(word)),
        None => format!("{name} ?"),
    }
}

/// Makes a command of a text; a word `<<<text` is a here-string.
fn command(text: &str) -> SimpleCommand {
    let (text, here) = match text.split_once("<<<") {
        Some((text, here)) => (text, words(here)),
        None => (text, Vec::new()),
    };
    let redirects: Vec<Redirect> = here
        .into_iter()
        .map(|word| Redirect {
            operator: Operator::HereString,
            descriptor: None,
            target: RedirectTarget::Text(word),
            span: Span::default(),
        })
        .collect();
    let words = words(text);
    let builtin = words.first().and_then(Word::exact).is_some_and(crate::state::is_builtin);
    let kind = if builtin { CommandKind::Builtin } else { CommandKind::External };
    SimpleCommand {
        words: words.into(),
        assignments: Thin::EMPTY,
        stdin: if redirects.is_empty() { Stdin::Inherited } else { Stdin::Text },
        redirects: redirects.into(),
        position: Position::Top,
        via: Shared::EMPTY,
        kind,
        directory: Directory::Start,
        locality: Locality::Here,
        effects: Shared::EMPTY,
        effects_known: false,
        span: Span::default(),
    }
}

/// Reads a command with the built-in tables and shows everything that came out.
fn show(text: &str) -> String {
    let command = command(text);
    let reading = read(&mut Rows::new(Programs::builtin()), &command);
    let mut parts: Vec<String> = reading.inner.iter().map(show_inner).collect();
    for effect in reading.effects.iter().map(|effect| show_effect(effect, &command.words)) {
        if !parts.contains(&effect) {
            parts.push(effect);
        }
    }
    let doubts = reading.doubts.iter().map(|doubt| {
        let word = doubt.word.map_or(String::new(), |word| format!("@{word}"));
        format!("doubt {}{word}", doubt.reason.code())
    });
    parts.extend(doubts);
    parts.extend(reading.unread.map(|word| format!("unread@{word}")));
    if !reading.effects_known {
        parts.push("unknown".into());
    }
    parts.join("; ")
}

#[test]
fn a_path_outside_the_system_adds_commands_but_is_not_trusted() {
    assert_eq!(show("/usr/bin/nice ls"), "strip run ls; read-only");
    assert_eq!(show("/tmp/nice ls"), "run ls; execute; unknown");
    assert_eq!(show("./ls"), "unknown");
    assert_eq!(show("/bin/ls"), "read-only");
}

#[test]
fn a_function_is_not_the_program_of_its_name() {
    let mut command = command("ls");
    command.kind = CommandKind::Function;
    let reading = read(&mut Rows::new(Programs::builtin()), &command);
    assert_eq!((reading.effects, reading.effects_known), (Vec::new(), false));
}

#[test]
fn a_program_without_row_has_unknown_effects_and_no_doubt() {
    assert_eq!(show("no-such-program --x $y"), "unknown");
}

/// Returns the examples of the built-in tables: file, command and what is read of it.
fn examples() -> Vec<(&'static str, String, String)> {
    let tables = [
        ("wrappers", include_str!("../../../policies/commands/wrappers.jsonc")),
        ("evaluators", include_str!("../../../policies/commands/evaluators.jsonc")),
        ("effects", include_str!("../../../policies/commands/effects.jsonc")),
        ("read_only", include_str!("../../../policies/commands/read_only.jsonc")),
    ];
    let mut found = Vec::new();
    for (file, text) in tables {
        let table =
            stockade_text::json::read(text.as_bytes(), stockade_text::json::Dialect::Commented)
                .unwrap();
        for row in table.get("rows").unwrap().elements().unwrap() {
            for member in row.get("tests").unwrap().members().unwrap() {
                let expected = member.value.text().unwrap().to_owned();
                found.push((file, member.key.clone(), expected));
            }
        }
    }
    found
}

#[test]
fn the_examples_of_the_builtin_tables_hold() {
    let mut wrong = String::new();
    for (file, input, expected) in examples() {
        let found = show(&input);
        if found != expected {
            wrong += &format!("{file}\t{input}\t{expected}\t{found}\n");
        }
    }
    assert!(wrong.is_empty(), "examples that do not hold (file, input, expected, found):\n{wrong}");
}
