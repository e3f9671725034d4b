//! Simple commands: rules that strike them, and whether they are covered.

use stockade_parser::SimpleCommand;

use crate::Decision;
use crate::Mode;
use crate::index::RuleId;
use crate::pattern::command::Strike;

use super::context::Context;
use super::part::{Certainty, Cover, Draft, Hit, Own, Subject};
use super::shell::{Shell, blanket, pattern};
use super::{allow_cover, critical, files, guarded, history, known};

/// Returns one part for each simple command.
pub(super) fn parts(context: &Context<'_>, shell: &Shell<'_>) -> Vec<Draft> {
    let exact: Vec<Option<RuleId>> =
        shell.commands.iter().map(|command| exact_rule(context, command)).collect();
    let blanket = blanket(context);
    let judged = shell.commands.iter().enumerate();
    judged.map(|(index, command)| part(context, shell, index, command, &exact, blanket)).collect()
}

fn part(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    command: &SimpleCommand,
    exact: &[Option<RuleId>],
    blanket: Option<RuleId>,
) -> Draft {
    let mut draft = Draft::new(Subject::Command(index), command.span, shell.text(command));
    draft.confinable = true;
    draft.add(strikes(context, shell, command));
    files::judge_command(context, &mut draft, command);
    draft.hard = critical::finding(context, shell, command)
        .map(|reason| ("critical_path", reason))
        .or_else(|| history::finding(shell, command).map(|reason| ("lost_history", reason)));
    if draft.own.is_none() && context.unconfined {
        draft.own = unconfined(context, shell, index, exact);
    }
    let rules = allow_cover::rules(context, shell, index, exact, blanket);
    draft.add(rules.iter().copied().map(Hit::certain));
    // Outside the sandbox the exact rule is the one that counts.
    let known = known::doubt_for_rules(context, command).is_none();
    let exact = allow_cover::exact_at_or_above(shell, index, exact);
    let exact = exact.filter(|_| context.unconfined && known);
    if draft.own.as_ref().is_none_or(|own| !own.protected) {
        let counted = exact.as_ref().map_or(rules.as_slice(), std::slice::from_ref);
        draft.own = known::let_out(context, shell, index, counted).or(draft.own);
    }
    draft.cover = match exact.as_ref().or(rules.iter().min()) {
        // INVARIANT: a rule never makes plan mode ask about what is harmless without it.
        Some(rule) if context.mode != Mode::Plan => Cover::Rule(*rule),
        Some(rule) => match allow_cover::without_rule(context, shell, index) {
            harmless @ Cover::Builtin(_) => harmless,
            Cover::Nothing(_) | Cover::Rule(_) | Cover::Mode(_) => Cover::Rule(*rule),
        },
        None => allow_cover::without_rule(context, shell, index),
    };
    if draft.hard.is_none() {
        draft.hard = unread(context, shell, index, &draft.cover)
            .or_else(|| guarded::hard(context, shell, index, &draft.cover));
    }
    draft
}

/// A program text that is not read can start what a rule forbids. Confinement holds it; without, only a rule about this
/// very program answers for it.
fn unread(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    cover: &Cover,
) -> Option<(&'static str, String)> {
    let needed = context.rules.has_command_specifier() || files::has_strict_rules(context);
    if context.is_confined() || !needed {
        return None;
    }
    let place = shell.unread.get(shell.inside.unread_of(index)?)?;
    let answered = match cover {
        Cover::Rule(id) => pattern(context, *id).is_some(),
        Cover::Builtin(_) => true,
        Cover::Mode(_) | Cover::Nothing(_) => false,
    };
    let text = String::from_utf8_lossy(place.span.of(shell.source)).into_owned();
    let reason = format!(
        "the programs that `{text}` starts are unknown, so deny and ask rules cannot be checked"
    );
    (!answered).then_some(("unread", reason))
}

/// Returns the deny and ask rules that strike the command.
fn strikes(context: &Context<'_>, shell: &Shell<'_>, command: &SimpleCommand) -> Vec<Hit> {
    if !context.rules.has_command_specifier() {
        return Vec::new();
    }
    let forms = shell.forms(command);
    let first_words = forms.first_words();
    let mut found = Vec::new();
    for effect in [Decision::Deny, Decision::Ask] {
        for rule in context.rules.by_effect(effect).commands(&first_words) {
            let Some(pattern) = pattern(context, rule) else { continue };
            match pattern.strikes(&forms) {
                Strike::No => {}
                Strike::Possible => found.push(Hit { rule, certainty: Certainty::Later }),
                Strike::Certain => found.push(Hit::certain(rule)),
            }
        }
    }
    found
}

/// Returns the first exact rule for the command, assignments included or safe.
fn exact_rule(context: &Context<'_>, command: &SimpleCommand) -> Option<RuleId> {
    let program = command.words.first()?.exact()?;
    if known::doubt_for_rules(context, command).is_some() {
        return None;
    }
    let assigned = command.assignments.first().and_then(|assignment| {
        let value = assignment.value.exact()?;
        Some([assignment.name.as_slice(), b"=", value].concat())
    });
    let first_words = [Some(program.to_vec()), assigned.or_else(|| Some(program.to_vec()))];
    let candidates = context.rules.by_effect(Decision::Allow).commands(&first_words);
    candidates.into_iter().find(|id| {
        pattern(context, *id).is_some_and(|pattern| {
            let plain =
                allow_cover::are_safe(&command.assignments) && pattern.covers(&command.words);
            pattern.is_exact()
                && (plain || pattern.covers_with_assignments(&command.assignments, &command.words))
        })
    })
}

/// A call that leaves the sandbox needs a rule for exactly this command.
fn unconfined(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    exact: &[Option<RuleId>],
) -> Option<Own> {
    if allow_cover::exact_at_or_above(shell, index, exact).is_some() {
        return None;
    }
    if matches!(allow_cover::without_rule(context, shell, index), Cover::Builtin(_)) {
        return None;
    }
    let reason = "the call asks to run outside the sandbox".to_owned();
    Some(Own { code: "outside_sandbox", reason, protected: false })
}
