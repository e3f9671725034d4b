//! [`evaluate`]: each command, each redirection, each path; the strictest finding wins.

mod command;
mod context;
mod cover;
mod critical;
pub(crate) mod evidence;
mod files;
mod links;
mod part;
mod reach;
mod shell;
mod suggest;
mod tools;
mod trees;

use stockade_parser::json::Value;

use crate::facts::{Call, Facts, HookVerdict, Mode};
use crate::merged::Rules;
use crate::verdict::{By, Decision, Part, RuleMatch, Verdict};
use context::Context;
use part::{Draft, Settled};

pub(crate) use context::further_directories;
pub(crate) use shell::{Shell, excluded_from_sandbox, paths_of_shell};
pub(crate) use tools::path_of_tool;

/// Decides one call.
///
/// The strictest finding wins; nothing found, nothing understood and nothing known are asked or denied.
pub fn evaluate(rules: &Rules, call: &Call<'_>, facts: &Facts) -> Verdict {
    match call {
        Call::Bash { tree, input } => evaluate_shell(rules, &Shell::of(tree), input, facts),
        Call::Tool { name, input } => evaluate_tool(rules, name, input, facts),
    }
}

fn evaluate_tool(rules: &Rules, name: &str, input: &Value, facts: &Facts) -> Verdict {
    let context = Context::new(rules, facts, name, input, None);
    let verdict = conclude(&context, tools::parts(&context));
    suggest::add_tool(verdict, &context)
}

fn evaluate_shell(rules: &Rules, shell: &Shell<'_>, input: &Value, facts: &Facts) -> Verdict {
    let context = Context::new(rules, facts, "Bash", input, Some(shell));
    let verdict = conclude(&context, shell::parts(&context, shell));
    suggest::add(verdict, &context, shell)
}

/// Settles each part and takes the strictest.
fn conclude(context: &Context<'_>, drafts: Vec<Draft>) -> Verdict {
    let mut rules: Vec<RuleMatch> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut settled: Vec<(Settled, Option<usize>)> = Vec::new();
    for draft in drafts {
        let outcome = part::settle(context, &draft);
        let first = rules.len();
        let number = parts.len();
        for hit in &draft.hits {
            let Some(rule) = context.rules.rule(hit.rule) else { continue };
            rules.push(RuleMatch {
                text: rule.text.clone(),
                effect: rule.effect,
                origin: rule.origin.clone(),
                span: draft.span,
                part: number,
                decisive: false,
            });
        }
        let rule = outcome
            .rule
            .and_then(|rule| draft.hits.iter().position(|hit| hit.rule == rule))
            .map(|place| first + place);
        parts.push(Part {
            span: draft.span,
            text: draft.text,
            decision: outcome.decision,
            by: outcome.by,
            rule,
            reason: outcome.reason.clone(),
        });
        settled.push((outcome, rule));
    }
    let Some((deciding, rule)) = strictest(&settled) else {
        return finish(context, empty(), parts, rules);
    };
    if let Some(found) = rule.and_then(|rule| rules.get_mut(rule)) {
        found.decisive = true;
    }
    finish(context, deciding.clone(), parts, rules)
}

/// A call without any part decides nothing: a person does.
fn empty() -> Settled {
    Settled {
        decision: Decision::Ask,
        by: By::Builtin,
        code: "empty",
        reason: "there is nothing to run".to_owned(),
        rule: None,
    }
}

/// Returns what decides: the strictest; among equals a rule of the strongest layer, then built-in checks,
/// then hooks; for an allow the first part that is not harmless by itself.
fn strictest(settled: &[(Settled, Option<usize>)]) -> Option<&(Settled, Option<usize>)> {
    let worst = settled.iter().map(|(outcome, _)| outcome.decision).max()?;
    let equal = settled.iter().filter(|(outcome, _)| outcome.decision == worst);
    if worst == Decision::Allow {
        let first = equal.clone().find(|(outcome, _)| outcome.by != By::Builtin);
        return first.or_else(|| equal.clone().next());
    }
    let rank = |by: By| match by {
        By::Rule => 0,
        By::Error => 1,
        By::Builtin => 2,
        By::Hook => 3,
        By::Mode => 4,
        By::Human | By::Sandbox | By::Default => 5,
    };
    equal.min_by_key(|(outcome, _)| (rank(outcome.by), outcome.rule.unwrap_or(usize::MAX)))
}

/// Applies what holds for the whole call: a hook that refuses, and questions that nobody can answer.
fn finish(
    context: &Context<'_>,
    deciding: Settled,
    parts: Vec<Part>,
    rules: Vec<RuleMatch>,
) -> Verdict {
    let mut verdict = Verdict {
        decision: deciding.decision,
        by: deciding.by,
        code: deciding.code,
        reason: deciding.reason,
        parts,
        rules,
        suggestion: None,
        help: String::new(),
        auto_allowed: false,
    };
    if let Some(hook) = &context.facts.hook
        && hook.verdict == HookVerdict::Deny
    {
        verdict.decision = Decision::Deny;
        verdict.by = By::Hook;
        verdict.code = "hook_deny";
        verdict.reason = said("a hook refused", &hook.reason);
        for rule in &mut verdict.rules {
            rule.decisive = false;
        }
    }
    if verdict.decision == Decision::Ask {
        if context.mode == Mode::DontAsk {
            unanswered(&mut verdict, "dont_ask", "mode dontAsk refuses what would be asked");
        } else if !context.facts.interactive {
            unanswered(&mut verdict, "no_person", "nobody can be asked here");
        }
    }
    verdict.auto_allowed = verdict.decision == Decision::Allow
        && verdict.parts.iter().any(|part| part.by == By::Sandbox);
    verdict
}

fn unanswered(verdict: &mut Verdict, code: &'static str, why: &str) {
    verdict.decision = Decision::Deny;
    verdict.code = code;
    verdict.reason = format!("{}; {why}", verdict.reason);
    if verdict.by != By::Rule && verdict.by != By::Hook {
        verdict.by = By::Mode;
    }
}

/// Joins our words with those of a hook, if it had any.
fn said(ours: &str, theirs: &str) -> String {
    if theirs.trim().is_empty() { ours.to_owned() } else { format!("{ours}: {}", theirs.trim()) }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod tests;
