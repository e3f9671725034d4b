//! A verdict as sentences: what was decided, about which part, by which rule, and what helps.

use crate::verdict::{By, Decision, RuleMatch, Verdict};

/// Longest text of a part that is shown whole, in characters.
const SHOWN: usize = 120;

/// Returns the verdict for people: what was decided about which part, by which rule in which file and line,
/// and what can be done. Lines after the first are indented; nothing stands before the first word.
pub fn explain(verdict: &Verdict) -> String {
    let mut lines = vec![headline(verdict)];
    match verdict.decisive_rule() {
        Some(rule) if verdict.by == By::Rule => lines.push(format!("  by {}", place(rule))),
        Some(_) | None => lines.push(format!("  because {}", verdict.reason)),
    }
    if verdict.code == "rule_possible" {
        lines.push("  because a word that is known only later could match it".to_owned());
    }
    if matches!(verdict.code, "dont_ask" | "no_person") && verdict.by == By::Rule {
        lines.push(format!("  because {}", verdict.reason));
    }
    lines.extend(losers(verdict));
    if !verdict.help.is_empty() {
        lines.push(format!("  try: {}", verdict.help));
    }
    lines.join("\n")
}

fn headline(verdict: &Verdict) -> String {
    let verb = match verdict.decision {
        Decision::Allow => "allowed",
        Decision::Ask => "a person must decide about",
        Decision::Deny => "denied",
    };
    let Some(number) = deciding_part(verdict) else { return format!("{verb} the call") };
    let Some(part) = verdict.parts.get(number) else { return format!("{verb} the call") };
    let text = shortened(&part.text);
    match verdict.parts.len() {
        1 => format!("{verb} `{text}`"),
        count => format!("{verb} `{text}` (part {} of {count})", number + 1),
    }
}

/// Returns the part that decided: that of the deciding rule, else the first with the verdict's decision.
fn deciding_part(verdict: &Verdict) -> Option<usize> {
    if verdict.by == By::Hook {
        return None;
    }
    let worst = verdict.parts.iter().map(|part| part.decision).max();
    let by_rule = verdict.decisive_rule().map(|rule| rule.part);
    by_rule.or_else(|| verdict.parts.iter().position(|part| Some(part.decision) == worst))
}

fn place(rule: &RuleMatch) -> String {
    let origin = &rule.origin;
    format!(
        "{} rule `{}` in {}:{}",
        rule.effect.name(),
        rule.text,
        origin.file.display(),
        origin.line
    )
}

/// Rules that matched and did not decide, with the reason.
fn losers(verdict: &Verdict) -> Vec<String> {
    let winner = verdict.decisive_rule();
    let mut told: Vec<(&str, &crate::layer::Origin)> = Vec::new();
    let mut lines = Vec::new();
    for rule in verdict.rules.iter().filter(|rule| !rule.decisive) {
        if rule.effect >= verdict.decision && verdict.decision != Decision::Deny {
            continue;
        }
        if told.contains(&(rule.text.as_str(), &rule.origin)) {
            continue;
        }
        told.push((&rule.text, &rule.origin));
        let why = match (winner, verdict.by) {
            (Some(winner), By::Rule) if winner.effect > rule.effect => {
                format!("{} goes before {}", winner.effect.name(), rule.effect.name())
            }
            (Some(winner), By::Rule) if winner.origin.layer > rule.origin.layer => {
                format!("{} settings are named first", winner.origin.layer.name())
            }
            (_, By::Rule) => "another rule is named first".to_owned(),
            (_, By::Builtin) => "this check is always on".to_owned(),
            (_, By::Hook) => "the hook goes before it".to_owned(),
            (_, By::Mode) => "the mode goes before it".to_owned(),
            (_, By::Human | By::Sandbox | By::Default | By::Error) => {
                "it does not cover every part".to_owned()
            }
        };
        lines.push(format!("  not by {}: {why}", place(rule)));
    }
    lines
}

fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= SHOWN {
        return line;
    }
    let mut short: String = line.chars().take(SHOWN - 1).collect();
    short.push('…');
    short
}
