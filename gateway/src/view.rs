//! A verdict as every front door shows it.

use serde_json::Value;
use stockade_policy::{Decision, Part, RuleMatch, Verdict};

use crate::protocol::types::{DecisionView, PartView, RuleView, SandboxView};
use crate::settings::Snapshot;

/// Returns `verdict` as front doors show it; `input` is what was judged.
pub(crate) fn decision(verdict: &Verdict, snapshot: &Snapshot, input: Value) -> DecisionView {
    let deciding = verdict.decisive_rule();
    let mut rules: Vec<&RuleMatch> = verdict.rules.iter().collect();
    rules.sort_by_key(|rule| !rule.decisive);
    DecisionView {
        decision: verdict.decision.name().into(),
        rule: deciding.map(|rule| rule.text.clone()),
        source: verdict.source().into(),
        file: deciding.map(|rule| rule.origin.file.display().to_string()),
        line: deciding.map(|rule| rule.origin.line),
        column: deciding.map(|rule| rule.origin.column),
        rules: rules.into_iter().map(rule).collect(),
        commands: verdict.parts.iter().map(|found| part(found, verdict)).collect(),
        reason: verdict.reason.clone(),
        code: verdict.code.into(),
        help: verdict.help.clone(),
        suggestion: verdict.suggestion.clone(),
        input,
        explanation: String::new(),
        settings_sha256: snapshot.sha256.clone(),
        warnings: snapshot.warnings.clone(),
    }
}

fn rule(found: &RuleMatch) -> RuleView {
    RuleView {
        rule: found.text.clone(),
        effect: found.effect.name().into(),
        source: found.origin.layer.name().into(),
        file: found.origin.file.display().to_string(),
        line: found.origin.line,
        column: found.origin.column,
    }
}

fn part(found: &Part, verdict: &Verdict) -> PartView {
    let rule = found.rule.and_then(|index| verdict.rules.get(index));
    PartView {
        text: found.text.clone(),
        span: (found.span.start, found.span.end),
        decision: found.decision.name().into(),
        rule: rule.map(|rule| rule.text.clone()),
        reason: found.reason.clone(),
    }
}

/// Returns a verdict that a person or the lack of one turned into a refusal.
pub(crate) fn refused(mut view: DecisionView, code: &str, reason: &str) -> DecisionView {
    view.decision = Decision::Deny.name().into();
    view.code = code.into();
    view.reason = reason.into();
    view
}

/// Returns what was enforced, as front doors show it.
pub(crate) fn sandbox(enforced: &stockade_sandbox::Enforced) -> SandboxView {
    use stockade_sandbox::{Protection, State};
    let mut view = SandboxView::default();
    for protection in Protection::ALL {
        let name = protection.name();
        match enforced.states.get(protection) {
            Some(State::Enforced(_)) => view.enforced.push(name.into()),
            Some(State::Partial(open)) => view.missing.push(format!("{name}: partial: {open}")),
            Some(State::Missing(why)) => view.missing.push(format!("{name}: {why}")),
            Some(State::Off(setting)) => view.missing.push(format!("{name}: off: {setting}")),
            None => view.missing.push(format!("{name}: not reported")),
        }
    }
    view
}
