//! Rules that nothing ever meets.

use super::{pattern, problem};
use crate::decision::Decision;
use crate::knowledge::{knowledge, listed};
use crate::layer::Layer;
use crate::pattern::path::PathPattern;
use crate::rule::{Rule, Specifier};
use crate::settings::Problem;

/// Returns why no call ever meets the rule, if that can be told from its text.
pub(super) fn never(rule: &Rule) -> Option<Problem> {
    let (message, help) = match &rule.specifier {
        Specifier::Command(_) if rule.tool == "Bash" => command(rule)?,
        Specifier::Read(pattern) | Specifier::Edit(pattern) => path(rule, pattern)?,
        Specifier::Domain(_) => domain(rule)?,
        Specifier::Every if rule.effect == Decision::Allow => tool(rule)?,
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Command(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => return None,
    };
    Some(problem(rule, message, help.to_owned()))
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

type Finding = (String, &'static str);

fn found(message: &str, help: &'static str) -> Option<Finding> {
    Some((message.to_owned(), help))
}

fn inside(rule: &Rule) -> Option<&str> {
    rule.text.trim().split_once('(')?.1.strip_suffix(')')
}

/// Returns why no command is ever written as the rule has it.
fn misspelt(rule: &Rule) -> Option<Finding> {
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

fn command(rule: &Rule) -> Option<Finding> {
    if rule.effect != Decision::Allow {
        return None;
    }
    if let Some(finding) = misspelt(rule) {
        return Some(finding);
    }
    let pattern = pattern(rule)?;
    let first = pattern.first_words()?.into_iter().next()?;
    if first.contains(&b'$') || first.starts_with(b"~") {
        return found(
            "the shell replaces the first word, and a word that is not known before it runs matches no allow rule",
            "write the path out",
        );
    }
    if pattern.is_exact() {
        return None;
    }
    if first.contains(&b'=') {
        return found(
            "a wildcard rule that begins with an assignment covers nothing",
            "remove the assignment, or write the whole command",
        );
    }
    let name = String::from_utf8_lossy(&first);
    if listed(&knowledge().looked_through, &first) {
        let message = format!("rules look through `{name}`, so this wildcard is never tried");
        return Some((message, "write a rule for the command after it"));
    }
    if pattern.literal_words() == 1 && listed(&knowledge().starters, &first) {
        let message = format!("a wildcard does not cover what `{name}` starts");
        return Some((message, "write the whole command"));
    }
    None
}

fn path(rule: &Rule, pattern: &PathPattern) -> Option<Finding> {
    let text = inside(rule)?;
    if let Some(finding) = spelled(text, pattern) {
        return Some(finding);
    }
    if text.trim() != text {
        return found("a space at the end is part of the name", "remove the space");
    }
    pattern.is_source_anchored().then(|| from_settings(rule, text)).flatten()
}

/// Returns what is wrong with the way in which a path is written.
fn spelled(text: &str, pattern: &PathPattern) -> Option<Finding> {
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

/// Returns the warning about a path that begins at the place of the settings, if it is one.
pub(super) fn misplaced(rule: &Rule) -> Option<Problem> {
    let is_anchored = match &rule.specifier {
        Specifier::Read(pattern) | Specifier::Edit(pattern) => pattern.is_source_anchored(),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Command(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => false,
    };
    let (message, help) = from_settings(rule, inside(rule).filter(|_| is_anchored)?)?;
    Some(problem(rule, message, help.to_owned()))
}

fn from_settings(rule: &Rule, text: &str) -> Option<Finding> {
    let first = text.strip_prefix('/')?.split('/').next()?;
    let own = matches!(rule.origin.layer, Layer::Project | Layer::Local);
    let tables = knowledge();
    let list = if own { &tables.foreign_directories } else { &tables.system_directories };
    if listed(list, first.as_bytes()) {
        let message =
            format!("a single `/` begins at the directory of the settings, not at `/{first}`");
        return Some((message, "write `//` for the root of the file system"));
    }
    None
}

fn domain(rule: &Rule) -> Option<Finding> {
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

fn tool(rule: &Rule) -> Option<Finding> {
    let known = knowledge().known_tools.contains(&rule.tool.as_str()) || rule.tool.contains('_');
    (!known).then(|| {
        let message = format!("unknown tool `{}`", rule.tool);
        (message, "tool names are case-sensitive, such as `Bash` or `WebFetch`")
    })
}
