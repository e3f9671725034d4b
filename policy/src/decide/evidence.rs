//! Why a verdict is what it is: each part with the forms that were compared, the rule that won, the rules that
//! lost and why, and the smallest change of the rules that would change the answer.
//!
//! All of it is found by judging again: nothing of it costs a decision that nobody asks about.

mod change;
mod forms;
mod text;
mod weigh;

use std::path::{Path, PathBuf};

use crate::Decision;
use crate::Mode;
use crate::Origin;
use crate::Rules;
use crate::facts::{Call, Facts, HookVerdict, SandboxState};
use crate::verdict::Verdict;

use super::context::Context;
use super::part::{self, Draft};
use super::shell::{self, Shell};
use super::tools;

/// Why a verdict is what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// For each part of the verdict, in its order.
    pub parts: Vec<PartEvidence>,
    /// Mode, sandbox and hook: what holds for the whole call, one sentence each.
    pub surroundings: Vec<String>,
    /// The smallest change of rules that would change the answer, tried out.
    pub change: Change,
}

/// Forms and rules that were compared for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartEvidence {
    /// The normal forms that rules were held against.
    pub forms: Vec<Form>,
    /// The rules that were weighed: the winner first, then those that lost.
    pub rules: Vec<Weighed>,
    /// How many further rules about the same program or tool do not match and are not listed.
    pub further: usize,
}

/// One normal form of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Name of the form, such as `as typed`.
    pub name: &'static str,
    /// The text.
    pub text: String,
}

/// A rule that was weighed for a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighed {
    /// The rule as it is written.
    pub text: String,
    /// Decision that the rule makes.
    pub effect: Decision,
    /// Origin of the rule.
    pub origin: Origin,
    /// True if the rule decided this part.
    pub won: bool,
    /// Why it won or lost.
    pub why: String,
}

/// A change of the rules, judged before it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// These rules, written into `file`.
    Add {
        /// The list that they go into.
        effect: Decision,
        /// The texts.
        rules: Vec<String>,
        /// The settings file.
        file: PathBuf,
        /// Decision about the call with the rules added.
        gives: Decision,
    },
    /// Removal of these rules.
    Remove {
        /// Text and origin of each.
        rules: Vec<(String, Origin)>,
        /// Decision about the call with the rules removed.
        gives: Decision,
    },
    /// No rule changes the answer, and why.
    None(String),
}

/// Where a rule that a person wants would be written.
#[derive(Debug, Clone, Copy)]
pub struct RuleFiles<'a> {
    /// This person's settings for this project.
    pub local: &'a Path,
    /// The managed settings, where no other file's rules count.
    pub managed: &'a Path,
}

/// Explains the verdict of [`super::evaluate`] on the same rules, call and facts.
pub fn explain(
    rules: &Rules,
    call: &Call<'_>,
    facts: &Facts,
    verdict: &Verdict,
    files: RuleFiles<'_>,
) -> Evidence {
    match call {
        Call::Bash { tree, input } => {
            let shell = Shell::of(tree);
            let context = Context::new(rules, facts, "Bash", input, Some(&shell));
            let question = Question { context: &context, shell: Some(&shell), verdict };
            question.answer(shell::parts(&context, &shell), files)
        }
        Call::Tool { name, input } => {
            let context = Context::new(rules, facts, name, input, None);
            let question = Question { context: &context, shell: None, verdict };
            question.answer(tools::parts(&context), files)
        }
    }
}

/// A verdict whose reasons are wanted.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub context: &'a Context<'a>,
    /// The text of a shell call.
    pub shell: Option<&'a Shell<'a>>,
    pub verdict: &'a Verdict,
}

impl Question<'_> {
    pub(super) fn answer(&self, drafts: Vec<Draft>, files: RuleFiles<'_>) -> Evidence {
        let settled: Vec<_> =
            drafts.iter().map(|draft| part::settle(self.context, draft)).collect();
        let deciding = super::strictest(&settled).unwrap_or_default();
        let listed = super::bounds::listed(&settled, deciding).into_iter();
        let parts = listed.filter_map(|place| Some(self.part(drafts.get(place)?))).collect();
        let change = change::smallest(self, &drafts, files);
        Evidence { parts, surroundings: surroundings(self.context), change }
    }

    fn part(&self, draft: &Draft) -> PartEvidence {
        let settled = part::settle(self.context, draft);
        let (rules, further) = weigh::rules(self, draft, &settled);
        PartEvidence { forms: forms::of(self, draft), rules, further }
    }
}

fn surroundings(context: &Context<'_>) -> Vec<String> {
    let asked = context.facts.mode;
    let mut found = vec![match context.mode == asked {
        true => format!("mode: {}", asked.name()),
        false => {
            let held = context.mode.name();
            format!("mode: {held}, for {} is locked or refused to root", asked.name())
        }
    }];
    if context.tool == "Bash" {
        found.push(format!("sandbox: {}", confinement(context)));
        if let Some(shell) = &context.rules.settings().shell {
            found.push(format!("shell: {}", shell.display()));
        }
    }
    if let Some(hook) = &context.facts.hook {
        let said = match hook.verdict {
            HookVerdict::Allow => "allow",
            HookVerdict::Ask => "ask",
            HookVerdict::Defer => "defer",
            HookVerdict::Deny => "deny",
        };
        let place = text::place(&hook.origin, &context.facts.cwd);
        found.push(format!("hook: {said}, by the one in {place}"));
    }
    if context.rules.settings().managed_rules_only {
        found.push("rules: only allow and ask rules of managed settings apply".to_owned());
    }
    if !context.facts.interactive {
        found.push("person: nobody can be asked".to_owned());
    }
    found
}

fn confinement(context: &Context<'_>) -> &'static str {
    let sandbox = &context.rules.settings().sandbox;
    match context.facts.sandbox {
        _ if context.unconfined => "off: the call asks to run outside; only exact rules apply",
        SandboxState::Off if sandbox.enabled => "off for this call",
        SandboxState::Off => "off, so nothing is allowed for being sandboxed",
        SandboxState::Unavailable => {
            "not available here, so nothing is allowed for being sandboxed"
        }
        SandboxState::Enforced if context.auto_allow => "on; sandboxed commands need no rule",
        SandboxState::Enforced if context.mode == Mode::Plan => "on; plan mode asks nevertheless",
        SandboxState::Enforced if !sandbox.auto_allow => {
            "on; `sandbox.autoAllowBashIfSandboxed` is false, so each part needs a rule"
        }
        SandboxState::Enforced => {
            "on; `sandbox.excludedCommands` names a part, so each part needs a rule"
        }
    }
}

#[cfg(test)]
mod tests;
