//! Braces with alternatives, which mean nothing in a rule: a person thinks that both are covered, and neither is.

use super::{pattern, problem};
use crate::layer::Origin;
use crate::merged::Rules;
use crate::rule::{Rule, Specifier};
use crate::settings::{Problem, SandboxSettings, Severity};

/// Returns the warning about alternatives in the path or command of a rule.
pub(super) fn in_rule(rule: &Rule) -> Option<Problem> {
    let text = rule.text.split_once('(')?.1.strip_suffix(')')?;
    let found = match &rule.specifier {
        // Without a wildcard it is one text as it was typed, and the shell may read alternatives there.
        Specifier::Command(_) if pattern(rule).is_none_or(|it| it.is_exact()) => None,
        Specifier::Command(_) => alternatives(text).filter(|found| !is_count(found)),
        Specifier::Read(_) | Specifier::Edit(_) => alternatives(text),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => None,
    }?;
    Some(problem(rule, message(found), "write a rule for each".to_owned()))
}

/// Returns the warnings about alternatives in the lists of paths of the sandbox.
pub(super) fn in_lists(rules: &Rules) -> Vec<Problem> {
    let SandboxSettings { allow_write, deny_write, deny_read, allow_read, .. } =
        &rules.settings().sandbox;
    let all = [allow_write, deny_write, deny_read, allow_read].into_iter().flatten();
    // Those that begin at several places stand there as well by the place of their file.
    let all = all.filter(|(path, _)| !path.starts_with("./"));
    all.filter_map(|(path, origin)| in_path(path, origin)).collect()
}

fn in_path(path: &str, origin: &Origin) -> Option<Problem> {
    Some(Problem {
        severity: Severity::Warning,
        origin: origin.clone(),
        text: path.to_owned(),
        message: message(alternatives(path)?),
        help: "write an entry for each".to_owned(),
    })
}

fn message(found: &str) -> String {
    format!("`{found}` stands for these very characters, not for one or the other")
}

/// Returns the first part of `text` that a shell would read as alternatives, such as `{a,b}` or `{1..3}`.
fn alternatives(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let (before, from) = text.split_at_checked(start)?;
        let length = from.find('}')?;
        let (found, inside) = (from.get(..=length)?, from.get(1..length)?);
        let is_quoted = ['\'', '"'].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
        let is_plain = !inside.contains(|it: char| it.is_whitespace() || "'\"$\\{".contains(it));
        let has_more = inside.contains(',') || inside.contains("..");
        (!before.ends_with(['$', '\\']) && !is_quoted && is_plain && has_more).then_some(found)
    })
}

/// Says whether it is a count of a regular expression, such as `{1,3}`.
fn is_count(found: &str) -> bool {
    found.bytes().all(|byte| byte.is_ascii_digit() || b"{,}".contains(&byte))
}
