//! Merges the answers of several hooks. The strictest wins, and nothing depends on which of them ended first.

use serde_json::Value;
use stockade_policy::{Blocking, HookEvent, HookOutcome, HookVerdict, Layer, Origin};

use super::{HookAnswer, Ran, Report, describe};

/// Merges what hooks said before a call.
pub fn before(mut ran: Vec<Ran>) -> Report {
    in_order(&mut ran);
    let mut report = told(&ran);
    report.outcome = strictest(&ran);
    update(&mut report, &ran);
    report.ran = ran;
    report
}

/// Returns what still holds of a report when the input of the call changes: a yes was about the old input and counts no
/// more, unless it came with the new one.
pub fn kept(report: &Report, input: &Value) -> Option<HookOutcome> {
    let gave = |run: &&Ran| {
        run.event == HookEvent::PreToolUse
            && run.answer.as_ref().is_ok_and(|it| it.updated.as_ref() == Some(input))
    };
    let givers: Vec<Ran> = report.ran.iter().filter(gave).cloned().collect();
    let other = report.outcome.clone().filter(|it| it.verdict != HookVerdict::Allow);
    stricter(other, strictest(&givers))
}

/// Adds to a report what hooks said of a new input; `kept` is the outcome so far.
pub fn again(
    mut report: Report,
    kept: Option<HookOutcome>,
    input: &Value,
    mut second: Vec<Ran>,
) -> Report {
    in_order(&mut second);
    let told = told(&second);
    report.notices.extend(told.notices);
    report.context.extend(told.context);
    report.messages.extend(told.messages);
    report.stop = report.stop.or(told.stop);
    report.outcome = stricter(kept, strictest(&second));
    let differs = |run: &&Ran| {
        run.answer.as_ref().is_ok_and(|it| it.updated.as_ref().is_some_and(|new| new != input))
    };
    if let Some(run) = second.iter().find(differs) {
        report.outcome = stricter(report.outcome, Some(disagreement(&run.origin)));
    }
    report.ran.extend(second);
    report
}

/// Merges the answers to a question: one no is enough, and two different inputs are no answer.
pub fn requested(mut ran: Vec<Ran>) -> Report {
    in_order(&mut ran);
    let mut report = told(&ran);
    report.outcome = strictest(&ran);
    let allows = report.outcome.as_ref().is_some_and(|it| it.verdict == HookVerdict::Allow);
    let mut given = ran.iter().filter_map(given).filter(|_| allows);
    report.updated = given.next();
    if let Some((first, _)) = &report.updated
        && given.any(|(other, _)| other != *first)
    {
        report.notices.push("two hooks answered the question with different inputs".into());
        (report.outcome, report.updated) = (None, None);
    }
    report.ran = ran;
    report
}

/// Collects what hooks have to tell, whatever they decide.
pub fn told(ran: &[Ran]) -> Report {
    let mut report = Report::default();
    for run in ran {
        match &run.answer {
            Ok(answer) => said(&mut report, run.event, answer),
            Err(failure) => {
                let place = describe(&run.origin);
                let words = format!("the hook {place} failed: {failure}; correct it there");
                if run.event.holds_something_up() && run.origin.layer == Layer::Policy {
                    report.blocks.push(words.clone());
                }
                report.notices.push(words);
            }
        }
    }
    report
}

fn said(report: &mut Report, event: HookEvent, answer: &HookAnswer) {
    report.messages.extend(answer.message.clone());
    report.notices.extend(answer.message.clone());
    report.context.extend(answer.context.clone());
    report.notices.extend(answer.context.clone());
    report.retry |= answer.retry;
    if report.stop.is_none() {
        report.stop = answer.stop.clone();
    }
    if answer.wants_rules {
        report.notices.push("a hook tried to change rules, which is not supported".into());
    }
    let is_decided_elsewhere = matches!(event, HookEvent::PreToolUse | HookEvent::ConfigChange);
    let blocks = event.blocking() == Blocking::Blocks && !is_decided_elsewhere;
    if blocks && answer.verdict == Some(HookVerdict::Deny) {
        report.notices.extend((!answer.reason.is_empty()).then(|| answer.reason.clone()));
        report.blocks.push(answer.reason.clone());
    }
}

/// Returns the strictest outcome; among equals that of the strongest layer, then the first of the settings.
pub fn strictest(ran: &[Ran]) -> Option<HookOutcome> {
    let mut found = None;
    for run in ran {
        let (verdict, reason) = match &run.answer {
            Ok(answer) => (answer.verdict, answer.reason.clone()),
            Err(failure) => {
                let managed = run.origin.layer == Layer::Policy;
                let place = describe(&run.origin);
                let reason =
                    format!("the managed hook {place} failed: {failure}; correct it there");
                (managed.then_some(HookVerdict::Deny), reason)
            }
        };
        let origin = run.origin.clone();
        found = stricter(found, verdict.map(|verdict| HookOutcome { verdict, reason, origin }));
    }
    found
}

/// Returns the stricter of two outcomes, the first of two that are equally strict.
fn stricter(first: Option<HookOutcome>, second: Option<HookOutcome>) -> Option<HookOutcome> {
    match (first, second) {
        (Some(first), Some(second)) if rank(second.verdict) > rank(first.verdict) => Some(second),
        (Some(first), _) => Some(first),
        (None, second) => second,
    }
}

/// Takes the new input of the hooks; two that differ make a question of it. A call that is refused or put off keeps
/// the input that it came with.
fn update(report: &mut Report, ran: &[Ran]) {
    let over = |it: &HookOutcome| matches!(it.verdict, HookVerdict::Deny | HookVerdict::Defer);
    if report.outcome.as_ref().is_some_and(over) {
        return;
    }
    let given: Vec<(Value, Origin)> = ran.iter().filter_map(given).collect();
    let Some((first, rest)) = given.split_first() else { return };
    report.updated = Some(first.clone());
    if let Some((_, origin)) = rest.iter().find(|(input, _)| *input != first.0) {
        report.outcome = stricter(report.outcome.take(), Some(disagreement(origin)));
    }
}

fn disagreement(origin: &Origin) -> HookOutcome {
    let reason = "two hooks gave different inputs".to_owned();
    HookOutcome { verdict: HookVerdict::Ask, reason, origin: origin.clone() }
}

fn given(run: &Ran) -> Option<(Value, Origin)> {
    Some((run.answer.as_ref().ok()?.updated.clone()?, run.origin.clone()))
}

/// Puts runs into the order of the settings, in which they were not necessarily ended.
fn in_order(ran: &mut [Ran]) {
    ran.sort_by_key(|run| run.index);
}

fn rank(verdict: HookVerdict) -> u8 {
    match verdict {
        HookVerdict::Allow => 0,
        HookVerdict::Ask => 1,
        HookVerdict::Defer => 2,
        HookVerdict::Deny => 3,
    }
}
