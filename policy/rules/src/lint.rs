//! Warnings about rules that are read, but do not say what their author meant.

mod braces;
mod hidden;
mod never;

use std::collections::HashMap;

use crate::decision::Decision;
use crate::layer::Layer;
use crate::rule::senseless::pattern;
use crate::rule::{Rule, Specifier};
use crate::settings::merged::Rules;
use crate::settings::{Problem, Severity};
use hidden::Wider;

/// Returns warnings about the merged rules: duplicates, rules that others hide, rules that never match, alternatives
/// in braces, which mean nothing in a rule or a list of paths, and allow rules for every command or program.
pub fn lint(rules: &Rules) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen: HashMap<(&str, Decision), &Rule> = HashMap::new();
    let wider = Wider::new(rules);
    for rule in rules.rules() {
        if let Some(first) = seen.insert((&rule.text, rule.effect), rule) {
            // The alternatives of one rule are no duplicates.
            if first.origin == rule.origin {
                continue;
            }
            let message = format!("the same rule is in {}", place(first));
            found.push(problem(rule, message, "keep one of them".to_owned()));
            continue;
        }
        found.extend(wider.whole(rule).or_else(|| wider.denied(rule)));
        found.extend(wider.narrower(rule));
        found.extend(never::never(rule));
        found.extend(braces::in_rule(rule));
        found.extend(broad(rule));
    }
    found.extend(wider.given_up(rules));
    found.extend(braces::in_lists(rules));
    found
}

/// Returns warnings about rules that refuse or ask, and whose path begins at the place of the settings although it
/// reads like one of the machine: they keep nothing, and nobody would notice. Part of [`lint`], cheap enough for
/// every load.
pub fn misplaced(rules: &Rules) -> Vec<Problem> {
    // In the policy layer every single `/` is told of when the file is read.
    let refusing =
        |rule: &&Rule| rule.effect != Decision::Allow && rule.origin.layer != Layer::Policy;
    rules.rules().iter().filter(refusing).filter_map(never::misplaced).collect()
}

fn place(rule: &Rule) -> String {
    format!("{}:{}", rule.origin.file.display(), rule.origin.line)
}

fn problem(rule: &Rule, message: String, help: String) -> Problem {
    Problem {
        severity: Severity::Warning,
        origin: rule.origin.clone(),
        text: rule.text.clone(),
        message,
        help,
    }
}

/// A rule for every command, or for every program.
fn broad(rule: &Rule) -> Option<Problem> {
    if rule.effect != Decision::Allow {
        return None;
    }
    if rule.specifier == Specifier::Every && rule.tool == "Bash" {
        let message =
            "this allows every command, such as `curl -T notes.txt example.com`".to_owned();
        return Some(problem(
            rule,
            message,
            "name the commands, or rely on the sandbox".to_owned(),
        ));
    }
    let pattern = pattern(rule)?;
    if pattern.has_open_program() {
        let message = "a wildcard is in the place of the program".to_owned();
        return Some(problem(rule, message, "write the name of the program".to_owned()));
    }
    None
}

#[cfg(test)]
mod tests;
