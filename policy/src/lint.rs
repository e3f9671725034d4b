//! Warnings about rules that are read, but do not say what their author meant.

use std::collections::HashMap;

use crate::knowledge::{knowledge, listed};
use crate::merged::Rules;
use crate::pattern::command::CommandPattern;
use crate::rule::{Rule, Specifier};
use crate::settings::{Problem, Severity};
use crate::verdict::Decision;

/// Returns warnings about the merged rules: duplicates, rules that others hide, and allow rules that cover
/// more than they seem to, with a command as witness.
pub fn lint(rules: &Rules) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen: HashMap<(&str, Decision), &Rule> = HashMap::new();
    let bare: Vec<&Rule> =
        rules.rules().iter().filter(|rule| rule.specifier == Specifier::Every).collect();
    for rule in rules.rules() {
        if let Some(first) = seen.insert((&rule.text, rule.effect), rule) {
            let message = format!("the same rule stands in {}", place(first));
            found.push(problem(rule, message, "keep one of them".to_owned()));
            continue;
        }
        found.extend(hidden(rule, &bare).or_else(|| denied(rules, rule)));
        found.extend(narrower(rules, rule));
        found.extend(never(rule));
        found.extend(broad(rule));
    }
    found
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

fn pattern(rule: &Rule) -> Option<&CommandPattern> {
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

/// A rule with a specifier beside one for every call of the tool.
fn hidden(rule: &Rule, bare: &[&Rule]) -> Option<Problem> {
    if rule.specifier == Specifier::Every {
        return None;
    }
    let wider = bare.iter().find(|wide| {
        wide.tool == rule.tool && (wide.effect == rule.effect || wide.effect == Decision::Deny)
    })?;
    let message = format!("`{}` in {} speaks of every call already", wider.text, place(wider));
    Some(problem(rule, message, "take one of the two out".to_owned()))
}

/// An allow or ask rule whose every command a deny rule refuses.
fn denied(rules: &Rules, rule: &Rule) -> Option<Problem> {
    if rule.effect == Decision::Deny {
        return None;
    }
    let winner = wider(rules, rule, Decision::Deny)?;
    let message =
        format!("`{}` in {} refuses all that this rule speaks of", winner.text, place(winner));
    Some(problem(rule, message, "take one of the two out".to_owned()))
}

/// A rule beside a wider one of the same list.
fn narrower(rules: &Rules, rule: &Rule) -> Option<Problem> {
    let wider = wider(rules, rule, rule.effect)?;
    if rule.effect == Decision::Allow && pattern(rule).is_some_and(CommandPattern::is_exact) {
        // An exact rule covers what a wildcard does not: options that start, load or write.
        return None;
    }
    let message = format!("`{}` in {} covers all of this already", wider.text, place(wider));
    Some(problem(rule, message, "take this one out".to_owned()))
}

/// Returns another wildcard rule of this effect that matches all that the rule matches.
fn wider<'r>(rules: &'r Rules, rule: &Rule, effect: Decision) -> Option<&'r Rule> {
    let own = pattern(rule).filter(|_| rule.tool == "Bash")?;
    let words = own.spelled()?;
    let first = own.first_words()?.into_iter().next()?;
    let candidates = rules.index(effect).commands(&[Some(first)]);
    let candidates = candidates.into_iter().filter_map(|id| rules.rule(id));
    candidates.filter(|wide| !std::ptr::eq(*wide, rule)).find(|wide| {
        pattern(wide).is_some_and(|pattern| {
            !pattern.is_exact() && pattern != own && pattern.strikes_raw(words.as_bytes())
        })
    })
}

/// An allow rule that no command meets.
fn never(rule: &Rule) -> Option<Problem> {
    if rule.effect != Decision::Allow || rule.tool != "Bash" {
        return None;
    }
    let pattern = pattern(rule)?;
    let first = pattern.first_words()?.into_iter().next()?;
    if first.contains(&b'$') || first.contains(&b'~') {
        let message =
            "the shell puts something else for the first word, and a word that is known only \
                       later meets no allow rule"
                .to_owned();
        return Some(problem(rule, message, "write the path out".to_owned()));
    }
    if first.contains(&b'=') && !pattern.is_exact() {
        let message = "a wildcard rule that begins with an assignment covers nothing".to_owned();
        let help = "leave the assignment out, or write the whole command".to_owned();
        return Some(problem(rule, message, help));
    }
    None
}

/// A wildcard rule for a program that runs what it is given.
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
        let message = "a wildcard stands where the program is named".to_owned();
        return Some(problem(rule, message, "spell the program out".to_owned()));
    }
    let first = pattern.first_words()?.into_iter().next()?;
    if pattern.literal_words() == 1 && !pattern.is_exact() && listed(&knowledge().executors, &first)
    {
        let name = String::from_utf8_lossy(&first);
        let message = format!("`{name}` runs what its words name, such as `{name} ./script`");
        return Some(problem(rule, message, "spell out the first operand as well".to_owned()));
    }
    None
}
