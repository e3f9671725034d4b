//! Evidence as text for people.

use std::path::Path;

use super::{Change, Evidence, PartEvidence, Weighed};
use crate::Decision;
use crate::Origin;
use crate::verdict::{By, Part, Verdict};

/// Longest text of a part or form that is shown whole, in characters.
const SHOWN: usize = 240;

impl Evidence {
    /// Returns the whole explanation, one fact a line. Files beneath `here` are named relative to it. Text from
    /// outside stands in it as it is: whoever prints it makes control characters visible.
    pub fn text(&self, verdict: &Verdict, here: &Path) -> String {
        let mut lines = Vec::new();
        for (number, (part, evidence)) in verdict.parts.iter().zip(&self.parts).enumerate() {
            lines.push(heading(part, number, verdict));
            lines.push(format!("  because {}", because(part, evidence, here)));
            for form in &evidence.forms {
                lines.push(format!("  {}: {}", form.name, shortened(&form.text)));
            }
            lines.extend(
                evidence.rules.iter().filter(|rule| !rule.won).map(|rule| lost(rule, here)),
            );
            if evidence.further > 0 {
                lines.push(format!("  and {} more rules that do not match", evidence.further));
            }
        }
        if verdict.unlisted > 0 {
            lines.push(format!("and {} more parts, none of them stricter", verdict.unlisted));
        }
        lines.extend(self.surroundings.iter().cloned());
        lines.push(change(&self.change, here));
        lines.join("\n")
    }
}

fn heading(part: &Part, number: usize, verdict: &Verdict) -> String {
    let text = shortened(part.text.trim());
    let verb = word(part.decision);
    let count = verdict.parts.len() + verdict.unlisted;
    match count {
        1 => format!("`{text}`: {verb}"),
        _ if verdict.unlisted > 0 => format!("one of {count} parts, `{text}`: {verb}"),
        _ => format!("part {} of {count}, `{text}`: {verb}", number + 1),
    }
}

fn because(part: &Part, evidence: &PartEvidence, here: &Path) -> String {
    match evidence.rules.iter().find(|rule| rule.won) {
        Some(rule) if part.by == By::Rule => {
            let place = place(&rule.origin, here);
            format!("of the {} rule `{}` in {place}: {}", rule.effect.name(), rule.text, rule.why)
        }
        Some(_) | None => part.reason.clone(),
    }
}

fn lost(rule: &Weighed, here: &Path) -> String {
    let place = place(&rule.origin, here);
    format!("  lost: {} rule `{}` in {place}: {}", rule.effect.name(), rule.text, rule.why)
}

/// Returns `file:line:column`, relative to `here` where it lies beneath.
pub(super) fn place(origin: &Origin, here: &Path) -> String {
    let file = origin.file.strip_prefix(here).unwrap_or(&origin.file);
    format!("{}:{}:{}", file.display(), origin.line, origin.column)
}

fn change(change: &Change, here: &Path) -> String {
    match change {
        Change::Add { effect, rules, file, gives } => {
            let named: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
            let file = file.strip_prefix(here).unwrap_or(file).display();
            let noun = if rules.len() == 1 { "rule" } else { "rules" };
            let (effect, verb) = (effect.name(), word(*gives));
            format!(
                "smallest change: the {effect} {noun} {} in {file}; tried, and then it is {verb}",
                named.join(", ")
            )
        }
        Change::Remove { rules, gives } => {
            let named: Vec<String> = rules
                .iter()
                .map(|(text, origin)| format!("`{text}` in {}", place(origin, here)))
                .collect();
            let verb = word(*gives);
            format!(
                "smallest change: without {}; tried, and then it is {verb}",
                named.join(" and ")
            )
        }
        Change::None(why) => format!("smallest change: none; {why}"),
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "asked",
        Decision::Deny => "denied",
    }
}

fn shortened(text: &str) -> String {
    let line = text.replace(['\n', '\r', '\t'], " ");
    if line.chars().count() <= SHOWN {
        return line;
    }
    let mut short: String = line.chars().take(SHOWN - 1).collect();
    short.push('…');
    short
}
