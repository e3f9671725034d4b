//! Braces with alternatives where they mean nothing, as in a rule that allows: a person thinks that both are covered, and
//! neither is.

use super::{pattern, problem};
use crate::decision::Decision;
use crate::layer::Origin;
use crate::rule::braces::{alternatives, is_count};
use crate::rule::{Rule, Specifier};
use crate::settings::merged::Rules;
use crate::settings::{Problem, SandboxSettings, Severity};

/// Returns the warning about alternatives in the path or command of a rule.
pub(super) fn in_rule(rule: &Rule) -> Option<Problem> {
    // A rule that refuses or asks applies to each alternative.
    if rule.effect != Decision::Allow {
        return None;
    }
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
    let SandboxSettings { allow_write, allow_read, .. } = &rules.settings().sandbox;
    let all = [allow_write, allow_read].into_iter().flatten();
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
    format!("`{found}` matches these characters literally, not one or the other")
}
