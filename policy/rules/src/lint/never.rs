//! Rules that nothing ever meets.

use super::problem;
use crate::decision::Decision;
use crate::knowledge::{knowledge, listed};
use crate::layer::Layer;
use crate::pattern::path::PathPattern;
use crate::rule::senseless::{Finding, domain, found, inside, misspelt, pattern, spelled};
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

fn tool(rule: &Rule) -> Option<Finding> {
    let known = knowledge().known_tools.contains(&rule.tool.as_str()) || rule.tool.contains('_');
    (!known).then(|| {
        let message = format!("unknown tool `{}`", rule.tool);
        (message, "tool names are case-sensitive, such as `Bash` or `WebFetch`")
    })
}
