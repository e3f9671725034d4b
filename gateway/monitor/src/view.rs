//! A verdict as every front door shows it.

use serde_json::{Value, json};
use stockade_policy::{Change, Decision, Evidence, Origin, Part, RuleMatch, Verdict};

use crate::hooks::{self, Report};
use crate::protocol::types::{DecisionView, EventView, PartView, RuleView, SandboxView};
use crate::settings::Snapshot;

/// Returns `verdict` as front doors show it; `input` is what was judged.
pub fn decision(verdict: &Verdict, snapshot: &Snapshot, input: Value) -> DecisionView {
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
        commands_unlisted: verdict.unlisted as u64,
        commands: verdict.parts.iter().map(|found| part(found, verdict)).collect(),
        reason: verdict.reason.clone(),
        code: verdict.code.into(),
        help: verdict.help.clone(),
        suggestion: verdict.suggestion.clone(),
        input,
        explanation: String::new(),
        evidence: Value::Null,
        settings_sha256: snapshot.sha256.clone(),
        warnings: snapshot.warnings.clone(),
        hooks: Vec::new(),
        context: Vec::new(),
        messages: Vec::new(),
        stop: None,
        question_id: None,
    }
}

/// Adds what hooks said to a verdict.
pub fn add_hooks(view: &mut DecisionView, report: Report) {
    view.warnings.extend(report.notices);
    view.hooks.extend(report.ran.iter().map(hooks::view));
    view.context.extend(report.context);
    view.messages.extend(report.messages);
    view.stop = view.stop.take().or(report.stop);
}

/// Adds what hooks said when the session of a call began.
pub fn add_beginning(view: &mut DecisionView, said: EventView) {
    view.warnings.extend(said.notices);
    view.hooks.extend(said.hooks);
    view.context.extend(said.context);
    view.messages.extend(said.messages);
    view.stop = view.stop.take().or(said.stop);
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

/// Returns why a verdict is what it is, for programs.
pub fn evidence(evidence: &Evidence, verdict: &Verdict) -> Value {
    let parts = verdict.parts.iter().zip(&evidence.parts).map(|(part, found)| {
        let forms = found.forms.iter().map(|form| json!({"form": form.name, "text": form.text}));
        let rules = found.rules.iter().map(|weighed| {
            let mut object = place(&weighed.text, weighed.effect, &weighed.origin);
            if let Some(members) = object.as_object_mut() {
                members.insert("won".to_owned(), weighed.won.into());
                members.insert("why".to_owned(), weighed.why.clone().into());
            }
            object
        });
        json!({
            "text": part.text,
            "span": [part.span.start, part.span.end],
            "decision": part.decision.name(),
            "by": part.by.name(),
            "reason": part.reason,
            "forms": forms.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
            "further_rules": found.further,
        })
    });
    let change = match &evidence.change {
        Change::Add { effect, rules, file, gives } => {
            json!({"add": rules, "effect": effect.name(), "file": file, "gives": gives.name()})
        }
        Change::Remove { rules, gives } => {
            let rules = rules.iter().map(|(text, origin)| {
                json!({"rule": text, "file": origin.file, "line": origin.line, "column": origin.column})
            });
            json!({"remove": rules.collect::<Vec<_>>(), "gives": gives.name()})
        }
        Change::None(why) => json!({ "none": why }),
    };
    json!({
        "parts": parts.collect::<Vec<_>>(),
        "parts_unlisted": verdict.unlisted,
        "surroundings": evidence.surroundings,
        "change": change,
    })
}

fn place(rule: &str, effect: Decision, origin: &Origin) -> Value {
    json!({
        "rule": rule,
        "effect": effect.name(),
        "source": origin.layer.name(),
        "file": origin.file,
        "line": origin.line,
        "column": origin.column,
    })
}

/// Returns a verdict that a person or the lack of one turned into a refusal.
pub fn refused(mut view: DecisionView, code: &str, reason: &str) -> DecisionView {
    view.decision = Decision::Deny.name().into();
    view.code = code.into();
    view.reason = reason.into();
    view
}

/// Returns what was enforced, as front doors show it.
pub fn sandbox(enforced: &stockade_spec::Enforced) -> SandboxView {
    use stockade_spec::{Protection, State};
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
