//! Finds rules that can never match: no path, host or command has that form.

use super::{Rule, Specifier};
use crate::pattern::command::CommandPattern;
use crate::pattern::path::PathPattern;

/// Message about an invalid rule, and the fix.
pub(crate) type Finding = (String, &'static str);

/// Returns a finding with a fixed message.
pub(crate) fn found(message: &str, help: &'static str) -> Option<Finding> {
    Some((message.to_owned(), help))
}

/// Returns the text between the parentheses of a rule.
pub(crate) fn inside(rule: &Rule) -> Option<&str> {
    rule.text.trim().split_once('(')?.1.strip_suffix(')')
}

/// Returns why a rule that refuses or asks cannot mean anything, if that is sure: no path and no host is ever like that.
pub(crate) fn senseless(rule: &Rule) -> Option<(String, &'static str)> {
    match &rule.specifier {
        Specifier::Read(pattern) | Specifier::Edit(pattern) => spelled(inside(rule)?, pattern),
        Specifier::Domain(_) => domain(rule),
        Specifier::Command(_) => misspelt(rule),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => None,
    }
}

/// Returns the pattern of a rule about commands.
pub(crate) fn pattern(rule: &Rule) -> Option<&CommandPattern> {
    match &rule.specifier {
        Specifier::Command(pattern) => Some(pattern),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Read(_)
        | Specifier::Edit(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => None,
    }
}

/// Returns why no command is ever written as the rule has it.
pub(crate) fn misspelt(rule: &Rule) -> Option<Finding> {
    let words = pattern(rule)?.words();
    let program = words.first()?;
    if program.windows(2).any(|pair| pair == [Some(b':'), None]) {
        return found(
            "`:*` means further words only at the end of a rule",
            "use a space instead of the colon, as in `Bash(git * push)`",
        );
    }
    if program.first() == Some(&Some(b'^')) {
        return found(
            "a rule is not a regular expression, and no program has such a name",
            "write the program itself, followed by `:*`",
        );
    }
    let holds = |byte: u8| program.contains(&Some(byte));
    if program.first() == Some(&Some(b'{')) && holds(b',') && holds(b'}') {
        return found(
            "braces in a rule are not alternatives, and the shell leaves none in the name of a program",
            "write a rule for each program",
        );
    }
    None
}

/// Returns what is wrong with the way in which a path is written.
pub(crate) fn spelled(text: &str, pattern: &PathPattern) -> Option<Finding> {
    if text.starts_with('$') {
        return found(
            "a variable in a rule is not replaced",
            "write `~/` for the home directory, or the path from `//` on",
        );
    }
    if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
        return found("only `~/` means a home directory", "write the path from `//` on");
    }
    if text.split('/').any(is_left_open) {
        return found(
            "the bracket `[` is not closed",
            "close it with `]`, or write `\\[` for the character",
        );
    }
    if pattern.has_empty_class() {
        return found("a range in `[ ]` contains no character", "write it from low to high");
    }
    None
}

/// Says whether a segment has a `[` without a `]` behind it.
fn is_left_open(segment: &str) -> bool {
    let open = segment
        .match_indices('[')
        .rfind(|(at, _)| !segment.get(..*at).is_some_and(|before| before.ends_with('\\')));
    open.is_some_and(|(at, _)| !segment.get(at..).is_some_and(|rest| rest.contains(']')))
}

/// Says why the host of a rule is invalid.
pub(crate) fn domain(rule: &Rule) -> Option<Finding> {
    let host = inside(rule)?.trim().strip_prefix("domain:")?.trim().trim_end_matches('.');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
    // Other letters than those of ASCII are compared in their encoded form.
    if !host.is_ascii() {
        return None;
    }
    if !host.chars().all(plain) || host.len() > 253 || host.split('.').any(|it| it.len() > 63) {
        return found("not a valid host name", "write the host alone, such as `docs.example.com`");
    }
    let last = host.rsplit('.').next()?;
    let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    if number && !host.contains('*') && host.parse::<std::net::Ipv4Addr>().is_err() {
        return found("not a valid host name or address", "write four numbers up to 255");
    }
    None
}
