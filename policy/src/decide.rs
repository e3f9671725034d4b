//! [`evaluate`]: each command, each redirection, each path; the strictest finding wins.

mod allow_cover;
mod asked;
mod bounds;
mod brought;
mod command;
mod context;
mod critical;
pub(crate) mod evidence;
mod executed;
mod expanded;
mod files;
mod guarded;
mod harmless;
mod history;
mod hosts;
mod known;
mod links;
mod named;
mod operands;
mod part;
mod places;
mod protected;
mod reach;
mod repositories;
mod search;
mod shell;
mod suggest;
mod tools;
mod trees;
mod vcs_paths;
mod xargs_like;

use stockade_text::json::Value;

use crate::Decision;
use crate::Mode;
use crate::Rules;
use crate::facts::{Call, Facts, HookVerdict};
use crate::verdict::{By, Part, RuleMatch, Verdict};
use context::Context;
use part::{Draft, Settled};

pub(crate) use brought::brought_by_shell;
pub use executed::{Executed, executed_by};
pub(crate) use expanded::patterns_of_shell;
pub use named::{Named, named_by};

pub(crate) use known::{builders_of_shell, excluded_from_sandbox, programs_of_shell};
pub(crate) use repositories::repositories_of_shell;
pub(crate) use shell::{Shell, paths_of_shell};
pub(crate) use tools::{path_of_tool, walk_of_tool};

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
    let mut drafts = tools::parts(&context);
    asked::add(&context, &mut drafts);
    let verdict = conclude(&context, drafts);
    suggest::add_tool(verdict, &context)
}

fn evaluate_shell(rules: &Rules, shell: &Shell<'_>, input: &Value, facts: &Facts) -> Verdict {
    let context = Context::new(rules, facts, "Bash", input, Some(shell));
    let mut drafts = shell::parts(&context, shell);
    asked::add(&context, &mut drafts);
    let verdict = conclude(&context, drafts);
    suggest::add(verdict, &context, shell)
}

/// Settles each part and takes the strictest.
fn conclude(context: &Context<'_>, drafts: Vec<Draft>) -> Verdict {
    let settled: Vec<Settled> = drafts.iter().map(|draft| part::settle(context, draft)).collect();
    let Some(deciding) = strictest(&settled) else {
        return finish(context, &[empty()], 0, Listed::default());
    };
    let places = bounds::listed(&settled, deciding);
    let mut listed = Listed { unlisted: settled.len() - places.len(), ..Listed::default() };
    for place in places {
        if let (Some(draft), Some(outcome)) = (drafts.get(place), settled.get(place)) {
            listed.add(context, draft, outcome, place == deciding);
        }
    }
    let opens = drafts.into_iter().flat_map(|draft| draft.opens).collect();
    Verdict { opens, ..finish(context, &settled, deciding, listed) }
}

/// The parts and rules that a verdict lists.
#[derive(Default)]
struct Listed {
    parts: Vec<Part>,
    rules: Vec<RuleMatch>,
    /// Parts that are not listed.
    unlisted: usize,
}

impl Listed {
    /// Lists a part and the rules that matched it.
    fn add(&mut self, context: &Context<'_>, draft: &Draft, outcome: &Settled, deciding: bool) {
        let number = self.parts.len();
        let mut decided = None;
        for hit in &draft.hits {
            let Some(rule) = context.rules.rule(hit.rule) else { continue };
            let decides = outcome.rule == Some(hit.rule);
            if self.rules.len() >= bounds::LISTED_RULES && !decides {
                continue;
            }
            if decides {
                decided = Some(self.rules.len());
            }
            self.rules.push(RuleMatch {
                text: rule.text.clone(),
                effect: rule.effect,
                origin: rule.origin.clone(),
                span: draft.span,
                part: number,
                decisive: deciding && decides,
            });
        }
        self.parts.push(Part {
            span: draft.span,
            text: draft.text.clone(),
            decision: outcome.decision,
            by: outcome.by,
            rule: decided,
            reason: outcome.reason.clone(),
        });
    }
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

/// Returns the place of what decides: the strictest; among equals a rule of the strongest layer, then built-in
/// checks, then hooks; for an allow the first part that is not harmless by itself.
fn strictest(settled: &[Settled]) -> Option<usize> {
    let worst = settled.iter().map(|outcome| outcome.decision).max()?;
    let mut equal = settled.iter().enumerate().filter(|(_, outcome)| outcome.decision == worst);
    if worst == Decision::Allow {
        let first = equal.clone().find(|(_, outcome)| outcome.by != By::Builtin);
        return first.or_else(|| equal.next()).map(|(place, _)| place);
    }
    let rank = |by: By| match by {
        By::Rule => 0,
        By::Error => 1,
        By::Builtin => 2,
        By::Hook => 3,
        By::Mode => 4,
        By::Human | By::Sandbox | By::Default => 5,
    };
    equal
        .min_by_key(|(_, outcome)| (rank(outcome.by), outcome.rule.unwrap_or(usize::MAX)))
        .map(|(place, _)| place)
}

/// Applies what holds for the whole call: a hook that refuses, and questions that nobody can answer.
fn finish(
    context: &Context<'_>,
    settled: &[Settled],
    deciding: usize,
    Listed { parts, rules, unlisted }: Listed,
) -> Verdict {
    let deciding = settled.get(deciding).cloned().unwrap_or_else(empty);
    let mut verdict = Verdict {
        decision: deciding.decision,
        by: deciding.by,
        code: deciding.code,
        reason: deciding.reason,
        parts,
        unlisted,
        rules,
        suggestion: None,
        help: String::new(),
        auto_allowed: false,
        opens: Vec::new(),
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
    if verdict.code == "builder_changed" {
        // Also where the question becomes a refusal: a rule would not help.
        REVIEW.clone_into(&mut verdict.help);
    }
    if verdict.decision == Decision::Ask {
        if context.mode == Mode::DontAsk {
            unanswered(&mut verdict, "dont_ask", "mode dontAsk refuses what would be asked");
        } else if !context.facts.interactive {
            unanswered(&mut verdict, "no_person", "nobody can answer a question here");
        }
    }
    verdict.auto_allowed = verdict.decision == Decision::Allow
        && settled.iter().any(|outcome| outcome.by == By::Sandbox);
    verdict
}

/// Advice for a question that a builder raises because of changed files.
const REVIEW: &str = "a person can allow it once, or mark the changes as reviewed with `stockade review --done` at a terminal";

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
