//! Rules that were weighed for a part: the winner, and the others with the reason why they did not win.

use stockade_parser::{EffectKind, SimpleCommand, Word};

use super::{Question, Weighed, forms};
use crate::Decision;
use crate::Mode;
use crate::decide::files::{Access, related};
use crate::decide::part::{Certainty, Draft, Hit, Settled, Subject};
use crate::decide::reach::{self, Obstacle};
use crate::decide::shell::{Shell, pattern};
use crate::decide::{allow_cover, context::Context, repositories};
use crate::index::RuleId;
use crate::rule::{Rule, Specifier};
use crate::verdict::By;

/// How many rules that do not match are listed for a part.
const LISTED: usize = 8;

/// Returns the rules that were weighed, the winner first, and how many more were not listed.
pub(super) fn rules(
    question: &Question<'_>,
    draft: &Draft,
    settled: &Settled,
) -> (Vec<Weighed>, usize) {
    let context = question.context;
    let mut hits = draft.hits.clone();
    hits.sort_by_key(|hit| (Some(hit.rule) != settled.rule, rank(context, hit.rule), hit.rule));
    let matched = hits.iter().filter_map(|hit| {
        let rule = context.rules.rule(hit.rule)?;
        let won = settled.rule == Some(hit.rule);
        Some(Weighed { won, ..weighed(rule, outcome(context, settled, hit, rule)) })
    });
    let mut found: Vec<Weighed> = matched.collect();
    let known: Vec<RuleId> = hits.iter().map(|hit| hit.rule).collect();
    let mut near = near(question, draft);
    near.sort_by_key(|id| (rank(context, *id), *id));
    near.dedup();
    near.retain(|id| !known.contains(id));
    let further = near.len().saturating_sub(LISTED);
    for id in near.into_iter().take(LISTED) {
        let Some(rule) = context.rules.rule(id) else { continue };
        found.push(weighed(rule, missed(question, draft, id, rule)));
    }
    (found, further)
}

fn rank(context: &Context<'_>, id: RuleId) -> u8 {
    match context.rules.rule(id).map(|rule| rule.effect) {
        Some(Decision::Deny) => 0,
        Some(Decision::Ask) => 1,
        Some(Decision::Allow) | None => 2,
    }
}

fn weighed(rule: &Rule, why: String) -> Weighed {
    let (text, origin) = (rule.text.clone(), rule.origin.clone());
    Weighed { text, effect: rule.effect, origin, won: false, why }
}

/// Says why a rule that matched won or lost.
fn outcome(context: &Context<'_>, settled: &Settled, hit: &Hit, rule: &Rule) -> String {
    if settled.rule == Some(hit.rule) {
        return match hit.certainty {
            Certainty::Certain => "it matches".to_owned(),
            Certainty::Later => {
                "a word that is not known before it runs could make it match".to_owned()
            }
            Certainty::Below => "it matches a path below a searched directory".to_owned(),
            Certainty::Linked => "a link made by the same command could lead there".to_owned(),
        };
    }
    let bare = rule.specifier == Specifier::Every && rule.tool == "Bash";
    if rule.effect == Decision::Ask && bare && context.auto_allow {
        return "the command runs sandboxed, which satisfies rules that ask about every command"
            .to_owned();
    }
    if rule.effect == Decision::Allow && context.mode == Mode::Plan && settled.by != By::Rule {
        return "plan mode overrides allow rules".to_owned();
    }
    let winner = settled.rule.and_then(|id| context.rules.rule(id));
    match (winner, settled.by) {
        (Some(winner), By::Rule) if winner.effect > rule.effect => {
            format!("{} overrides {}", winner.effect.name(), rule.effect.name())
        }
        (Some(winner), By::Rule) if winner.effect < rule.effect => {
            "it could match only by a word that is known later, and something asks already"
                .to_owned()
        }
        (Some(winner), By::Rule) if winner.origin.layer > rule.origin.layer => {
            format!("it also matches; {} settings come first", winner.origin.layer.name())
        }
        (_, By::Rule) => "it also matches; the other comes first".to_owned(),
        (_, By::Builtin) if settled.decision == Decision::Allow => {
            "it is harmless without a rule".to_owned()
        }
        (_, By::Builtin) => "this check is always on and overrides allow rules".to_owned(),
        (_, By::Hook) => "the hook's answer overrides it".to_owned(),
        (_, By::Mode) => "the mode overrides it".to_owned(),
        (_, By::Human | By::Sandbox | By::Default | By::Error) => {
            "it does not cover this part".to_owned()
        }
    }
}

/// Returns the rules about the same program, path or tool, whether they match or not.
fn near(question: &Question<'_>, draft: &Draft) -> Vec<RuleId> {
    let context = question.context;
    let mut found = Vec::new();
    for effect in [Decision::Deny, Decision::Ask, Decision::Allow] {
        let index = context.rules.by_effect(effect);
        match (draft.subject, question.shell) {
            (Subject::Command(place), Some(shell)) => {
                let Some(command) = shell.commands.get(place) else { continue };
                let words = shell.forms(command).first_words();
                if words.iter().any(Option::is_none) {
                    continue;
                }
                found.extend(index.commands(&words));
            }
            (Subject::Write(_), _) => found.extend(related(context, effect, Access::Write)),
            (Subject::Read(_), _) => found.extend(related(context, effect, Access::Read)),
            (Subject::Tool, _) => found.extend(index.named(context.tool)),
            (Subject::Command(_) | Subject::Doubt, _) => {}
        }
    }
    found
}

/// Says why a rule about the same thing does not match.
fn missed(question: &Question<'_>, draft: &Draft, id: RuleId, rule: &Rule) -> String {
    let (Subject::Command(place), Some(shell)) = (draft.subject, question.shell) else {
        return "it does not match".to_owned();
    };
    let (Some(command), Some(pattern)) = (shell.commands.get(place), pattern(question.context, id))
    else {
        return "it does not match".to_owned();
    };
    if rule.effect != Decision::Allow {
        return "the words are others".to_owned();
    }
    if let Some(doubt) = repositories::doubt(question.context, shell, command) {
        return doubt;
    }
    if pattern.is_compound() {
        return "it names more than one command, and each is judged separately".to_owned();
    }
    if !pattern.covers(&command.words) {
        return match command.words.iter().any(|word| word.exact().is_none()) {
            true => "the words are others, or are not known before it runs".to_owned(),
            false => "the words are others".to_owned(),
        };
    }
    if !allow_cover::are_safe(&command.assignments) {
        return "no wildcard rule applies after the assignment".to_owned();
    }
    if allow_cover::looks_through(shell, place) {
        return "rules look through this wrapper; the command inside is judged".to_owned();
    }
    match reach::obstacle(question.context, shell, place, command, pattern) {
        Some(obstacle) => {
            let told = told(shell, command, &obstacle);
            // An exact rule does not help a part that always asks.
            let helped = draft.hard.is_none() && draft.own.is_none();
            if helped { format!("{told}; an exact rule does") } else { told }
        }
        None => "it does not cover this part".to_owned(),
    }
}

fn told(shell: &Shell<'_>, command: &SimpleCommand, obstacle: &Obstacle<'_>) -> String {
    let shown = |word: &Word| forms::joined(shell.source, std::slice::from_ref(word), None);
    let program = command.words.first().map(shown).unwrap_or_default();
    match obstacle {
        Obstacle::Executor => {
            format!("this wildcard does not cover `{program}`, which runs its arguments")
        }
        Obstacle::Unnamed => {
            format!("a wildcard in place of the program does not cover what `{program}` does here")
        }
        Obstacle::Strays(word) => {
            format!("a wildcard in an address does not cover `{}`", shown(word))
        }
        Obstacle::Unread => {
            format!(
                "a wildcard does not cover `{program}`, whose options could run or write things"
            )
        }
        Obstacle::Starts(inner) => {
            let text = forms::joined(shell.source, &inner.words, None);
            format!("a wildcard does not cover that it starts `{text}`")
        }
        Obstacle::Overrides(word) => {
            format!("a wildcard does not cover `{}`, which changes what runs", shown(word))
        }
        Obstacle::Effect(effect) => {
            let does = match effect.kind {
                EffectKind::Execute => "could run other programs or code",
                EffectKind::LoadCode => "loads code",
                EffectKind::ProjectCode => "runs code that others wrote",
                EffectKind::Settings => "changes settings or a service",
                EffectKind::Write => "writes a file",
                EffectKind::Read => "reads a file outside of the working directories",
                EffectKind::Network => "sends a name that is not known before it runs",
                EffectKind::ReadOnly => "reaches further",
            };
            let word = command.words.get(effect.word as usize).map(shown).unwrap_or_default();
            format!("a wildcard does not cover `{word}`, which {does}")
        }
    }
}
