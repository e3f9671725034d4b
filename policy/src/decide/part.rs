//! One part of a call: what was found about it, and what follows.

use std::collections::HashMap;
use std::path::PathBuf;

use stockade_parser::Span;

use crate::Decision;
use crate::Layer;
use crate::Mode;
use crate::Rules;
use crate::facts::HookVerdict;
use crate::index::RuleId;
use crate::rule::Specifier;
use crate::verdict::By;

use super::context::Context;
use super::said;

/// As many hits of one part as are looked through one by one.
const MANY_HITS: usize = 16;

/// A rule that matched a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub rule: RuleId,
    pub certainty: Certainty,
}

/// How sure it is that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// A path could lead there by a link that the same text makes.
    Linked,
    /// A word that is not known before it runs could make it match.
    Later,
    /// The rule matches a path below a directory that is gone through.
    Below,
    /// The rule matches whatever unknown words turn out to be.
    Certain,
}

/// Kind of a part, with its place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A simple command.
    Command(usize),
    /// The target of a redirection that is written.
    Write(usize),
    /// The source of one that is read.
    Read(usize),
    /// Text that is not understood, or no command at all.
    Doubt,
    /// The call of another tool.
    Tool,
}

/// Findings about one part.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub subject: Subject,
    pub span: Span,
    pub text: String,
    pub hits: Vec<Hit>,
    /// Code and reason of a part that no rule or hook can allow.
    pub hard: Option<(&'static str, String)>,
    /// Code and reason of a part that is refused, whatever rules and people say.
    pub refused: Option<(&'static str, String)>,
    /// True if the part is not understood: what covers every command may still allow it.
    pub opaque: bool,
    /// A check of the tool itself asks, before allow rules are looked at.
    pub own: Option<Own>,
    /// Protected paths that it writes, and that a yes opens.
    pub opens: Vec<PathBuf>,
    /// Reason that allows the part.
    pub cover: Cover,
    /// Confinement alone is enough.
    pub confinable: bool,
    /// Plan mode refuses it outright.
    pub edit: bool,
    /// Where the hit of each rule stands, once there are many.
    known: HashMap<RuleId, usize>,
}

/// A question of the tool itself.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub code: &'static str,
    pub reason: String,
    /// Only a managed hook answers it.
    pub protected: bool,
}

/// Reason that allows a part.
#[derive(Debug, Clone)]
pub(super) enum Cover {
    /// Nothing, and why.
    Nothing(String),
    /// The part is harmless.
    Builtin(String),
    /// An allow rule.
    Rule(RuleId),
    /// The mode.
    Mode(String),
}

/// Decision about one part, with its reason.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    pub decision: Decision,
    pub by: By,
    pub code: &'static str,
    pub reason: String,
    pub rule: Option<RuleId>,
}

impl Hit {
    pub fn certain(rule: RuleId) -> Hit {
        Hit { rule, certainty: Certainty::Certain }
    }

    /// Says whether the rule matches whatever unknown words turn out to be.
    pub fn is_certain(&self) -> bool {
        self.certainty == Certainty::Certain
    }
}

impl Draft {
    pub fn new(subject: Subject, span: Span, text: String) -> Draft {
        Draft {
            subject,
            span,
            text,
            hits: Vec::new(),
            hard: None,
            refused: None,
            known: HashMap::new(),
            opaque: false,
            own: None,
            opens: Vec::new(),
            cover: Cover::Nothing("no rule allows it".to_owned()),
            confinable: false,
            edit: false,
        }
    }

    /// Adds hits, each rule once, a certain one over a possible one.
    pub fn add(&mut self, hits: impl IntoIterator<Item = Hit>) {
        for hit in hits {
            match self.place(hit.rule).and_then(|place| self.hits.get_mut(place)) {
                Some(known) => known.certainty = known.certainty.max(hit.certainty),
                None => self.hits.push(hit),
            }
        }
    }

    /// Takes out the hits for which `is_other` says so.
    pub fn leave_out(&mut self, is_other: impl Fn(&Hit) -> bool) {
        self.hits.retain(|hit| !is_other(hit));
        self.known.clear();
    }

    fn place(&mut self, rule: RuleId) -> Option<usize> {
        if self.hits.len() < MANY_HITS {
            return self.hits.iter().position(|known| known.rule == rule);
        }
        let fresh = self.hits.iter().enumerate().skip(self.known.len());
        self.known.extend(fresh.map(|(place, known)| (known.rule, place)));
        self.known.get(&rule).copied()
    }
}

/// Says what holds for a part alone. The order of the steps is the order of precedence.
pub(super) fn settle(context: &Context<'_>, draft: &Draft) -> Settled {
    denied(context, draft)
        .or_else(|| refused(draft))
        .or_else(|| hard(context, draft))
        .or_else(|| asked(context, draft))
        .or_else(|| own(context, draft))
        .or_else(|| planned(context, draft))
        .or_else(|| hooked(context, draft))
        .or_else(|| bypassed(context, draft))
        .or_else(|| covered(context, draft))
        .unwrap_or_else(|| uncovered(draft))
}

/// Returns the first hit of an effect, strongest layer first.
fn first(rules: &Rules, draft: &Draft, effect: Decision, fits: fn(&Hit) -> bool) -> Option<RuleId> {
    let has_effect = |hit: &Hit| rules.rule(hit.rule).is_some_and(|rule| rule.effect == effect);
    let counts = |hit: &&Hit| fits(hit) && has_effect(hit);
    let found = draft.hits.iter().filter(counts).map(|hit| hit.rule);
    // A valid rule is the better reason.
    let is_invalid = |id: RuleId| rules.rule(id).is_some_and(|rule| rule.fault.is_some());
    found.min_by_key(|id| (is_invalid(*id), *id))
}

fn by_rule(
    context: &Context<'_>,
    id: RuleId,
    decision: Decision,
    code: &'static str,
    note: &str,
) -> Settled {
    let told = context.rules.rule(id).map(|rule| {
        let (kind, origin) = (rule.effect.name(), &rule.origin);
        let place = format!("`{}` in {}:{}", rule.text, origin.file.display(), origin.line);
        match &rule.fault {
            Some(fault) => {
                format!("invalid {kind} rule {place}: {}; {}", fault.message, fault.help)
            }
            None => format!("{kind} rule {place}"),
        }
    });
    let reason = format!("{}{note}", told.unwrap_or_default());
    Settled { decision, by: By::Rule, code, reason, rule: Some(id) }
}

fn denied(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    let id = first(context.rules, draft, Decision::Deny, Hit::is_certain)?;
    Some(by_rule(context, id, Decision::Deny, "rule_deny", ""))
}

fn hard(_: &Context<'_>, draft: &Draft) -> Option<Settled> {
    let (code, reason) = draft.hard.as_ref()?;
    Some(builtin(Decision::Ask, code, reason.clone()))
}

fn refused(draft: &Draft) -> Option<Settled> {
    let (code, reason) = draft.refused.as_ref()?;
    Some(builtin(Decision::Deny, code, reason.clone()))
}

fn asked(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    if let Some(id) = ask_rule(context, draft) {
        return Some(by_rule(context, id, Decision::Ask, "rule_ask", ""));
    }
    let id = first(context.rules, draft, Decision::Deny, |hit| !hit.is_certain())
        .or_else(|| first(context.rules, draft, Decision::Ask, |hit| !hit.is_certain()))?;
    let hit = draft.hits.iter().find(|hit| hit.rule == id)?;
    let note = match hit.certainty {
        Certainty::Certain => "",
        Certainty::Later => ", which a word that is not known before it runs could match",
        Certainty::Below => ", which matches a path below a searched directory",
        Certainty::Linked => ", to which a link made by the same command could lead",
    };
    Some(by_rule(context, id, Decision::Ask, "rule_possible", note))
}

/// Returns the ask rule that counts. What asks about every command is answered by confinement.
fn ask_rule(context: &Context<'_>, draft: &Draft) -> Option<RuleId> {
    let fits = |hit: &&Hit| {
        hit.is_certain()
            && context.rules.rule(hit.rule).is_some_and(|rule| {
                let bare = rule.specifier == Specifier::Every && rule.tool == "Bash";
                rule.effect == Decision::Ask && !(bare && context.auto_allow)
            })
    };
    draft.hits.iter().filter(fits).map(|hit| hit.rule).min()
}

fn own(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    let own = draft.own.as_ref()?;
    if context.mode == Mode::BypassPermissions {
        return None;
    }
    let hook = context.facts.hook.as_ref().filter(|hook| hook.verdict == HookVerdict::Allow);
    let lifted = hook.is_some_and(|hook| !own.protected || hook.origin.layer == Layer::Policy);
    if lifted {
        return None;
    }
    if draft.edit && context.mode == Mode::Plan {
        return None;
    }
    Some(builtin(Decision::Ask, own.code, own.reason.clone()))
}

fn planned(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    if context.mode != Mode::Plan || matches!(draft.cover, Cover::Builtin(_)) {
        return None;
    }
    let settled = |decision, reason: &str| Settled {
        decision,
        by: By::Mode,
        code: "plan",
        reason: reason.to_owned(),
        rule: None,
    };
    if draft.edit {
        return Some(settled(
            Decision::Deny,
            "plan mode writes nothing until the plan is approved",
        ));
    }
    let command = matches!(context.tool, "Bash" | "PowerShell" | "Monitor");
    command.then(|| settled(Decision::Ask, "plan mode asks about everything that is not read-only"))
}

fn hooked(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    let hook = context.facts.hook.as_ref()?;
    let settled = |decision, code, words: &str| Settled {
        decision,
        by: By::Hook,
        code,
        reason: said(words, &hook.reason),
        rule: None,
    };
    match hook.verdict {
        HookVerdict::Allow if draft.opaque => None,
        HookVerdict::Allow => Some(settled(Decision::Allow, "hook_allow", "a hook allowed it")),
        HookVerdict::Ask => {
            Some(settled(Decision::Ask, "hook_ask", "a hook wants a person to decide"))
        }
        HookVerdict::Defer => Some(settled(Decision::Ask, "hook_defer", "a hook deferred it")),
        HookVerdict::Deny => Some(settled(Decision::Deny, "hook_deny", "a hook refused")),
    }
}

fn bypassed(context: &Context<'_>, _: &Draft) -> Option<Settled> {
    (context.mode == Mode::BypassPermissions).then(|| Settled {
        decision: Decision::Allow,
        by: By::Mode,
        code: "bypass",
        reason: "mode bypassPermissions asks no questions".to_owned(),
        rule: None,
    })
}

fn covered(context: &Context<'_>, draft: &Draft) -> Option<Settled> {
    match &draft.cover {
        Cover::Rule(id) => Some(by_rule(context, *id, Decision::Allow, "rule_allow", "")),
        Cover::Builtin(reason) => Some(builtin(Decision::Allow, "read_only", reason.clone())),
        Cover::Mode(reason) => Some(Settled {
            decision: Decision::Allow,
            by: By::Mode,
            code: "mode",
            reason: reason.clone(),
            rule: None,
        }),
        Cover::Nothing(_) if draft.confinable && context.auto_allow => Some(Settled {
            decision: Decision::Allow,
            by: By::Sandbox,
            code: "sandbox",
            reason: "it runs sandboxed".to_owned(),
            rule: None,
        }),
        Cover::Nothing(_) => None,
    }
}

fn uncovered(draft: &Draft) -> Settled {
    let reason = match &draft.cover {
        Cover::Nothing(reason) => reason.clone(),
        Cover::Builtin(_) | Cover::Rule(_) | Cover::Mode(_) => String::new(),
    };
    Settled { decision: Decision::Ask, by: By::Default, code: "no_rule", reason, rule: None }
}

fn builtin(decision: Decision, code: &'static str, reason: String) -> Settled {
    Settled { decision, by: By::Builtin, code, reason, rule: None }
}
