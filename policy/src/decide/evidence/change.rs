//! The smallest change of the rules that would change the answer, tried out before it is named.

use std::collections::HashSet;
use std::path::Path;

use crate::Decision;
use crate::Rules;
use crate::rule::{self, Reading};
use crate::verdict::{By, Verdict};
use crate::{Layer, Origin};

use super::{Change, Question, RuleFiles};
use crate::decide::context::Context;
use crate::decide::part::{self, Draft, Subject};
use crate::decide::{evaluate_shell, evaluate_tool, files, shell, suggest, tools};

/// How many rules are taken out one after the other before it is given up.
const MOST_REMOVED: usize = 8;
/// How many rules are proposed at once.
const MOST_ADDED: usize = 32;

/// Returns the smallest change that would change the verdict.
pub(super) fn smallest(question: &Question<'_>, drafts: &[Draft], at: RuleFiles<'_>) -> Change {
    let verdict = question.verdict;
    match (verdict.decision, verdict.by) {
        (Decision::Allow, _) => refusal(question, drafts, at),
        (Decision::Ask | Decision::Deny, By::Hook) => {
            Change::None("a hook decided, and no allow rule overrides it".to_owned())
        }
        (Decision::Ask | Decision::Deny, By::Rule) => removal(question),
        (Decision::Ask | Decision::Deny, _) => permission(question, drafts, at),
    }
}

/// The narrowest deny rule for the part that decided.
fn refusal(question: &Question<'_>, drafts: &[Draft], at: RuleFiles<'_>) -> Change {
    let wanted = drafts.iter().find_map(|draft| narrowest(question, draft));
    match wanted {
        Some(text) => add(question, Decision::Deny, vec![text], at),
        None => Change::None("no single rule matches exactly this call".to_owned()),
    }
}

/// The narrowest allow rule for each part that nothing covers.
fn permission(question: &Question<'_>, drafts: &[Draft], at: RuleFiles<'_>) -> Change {
    let mut texts = Vec::new();
    let settled: Vec<_> =
        drafts.iter().map(|draft| part::settle(question.context, draft)).collect();
    let open: HashSet<usize> = drafts
        .iter()
        .zip(&settled)
        .filter(|(_, settled)| settled.decision != Decision::Allow)
        .filter_map(|(draft, _)| match draft.subject {
            Subject::Command(place) => Some(place),
            Subject::Write(_) | Subject::Read(_) | Subject::Doubt | Subject::Tool => None,
        })
        .collect();
    for (draft, settled) in drafts.iter().zip(settled) {
        // An exact rule for a command covers what it starts.
        if settled.decision == Decision::Allow || is_started_by(question, draft, &open) {
            continue;
        }
        let wanted = narrowest(question, draft);
        // Some checks are answered by a rule that spells the command out, so it is tried.
        if settled.by != By::Default
            && !wanted.as_ref().is_some_and(|text| lifts(question, draft, text, at))
        {
            return Change::None(no_rule(settled.code, &settled.reason));
        }
        match wanted {
            Some(text) if texts.contains(&text) => {}
            Some(_) if texts.len() == MOST_ADDED => {
                return Change::None(format!("more than {MOST_ADDED} rules would be needed"));
            }
            Some(text) => texts.push(text),
            None => {
                return Change::None(format!("no rule can match exactly `{}`", draft.text));
            }
        }
    }
    match texts.is_empty() {
        true => Change::None(format!("{}; no rule changes that", question.verdict.reason)),
        false => add(question, Decision::Allow, texts, at),
    }
}

/// Says whether a part is a command that one of the commands at these places starts.
fn is_started_by(question: &Question<'_>, draft: &Draft, places: &HashSet<usize>) -> bool {
    let (Subject::Command(place), Some(shell)) = (draft.subject, question.shell) else {
        return false;
    };
    shell.commands.get(place).is_some_and(|command| {
        command.via.iter().any(|via| places.contains(&(via.command as usize)))
    })
}

/// The rules that refuse or ask, one after the other, until the answer is another.
fn removal(question: &Question<'_>) -> Change {
    let mut left = question.context.rules.clone();
    let mut gone = Vec::new();
    let mut verdict = question.verdict.clone();
    while gone.len() < MOST_REMOVED {
        let Some(found) = verdict.decisive_rule().filter(|_| verdict.by == By::Rule).cloned()
        else {
            break;
        };
        if found.effect == Decision::Allow {
            break;
        }
        left = without(&left, &found.text, &found.origin);
        gone.push((found.text, found.origin));
        verdict = judge(question, &left);
        if verdict.decision < question.verdict.decision {
            return Change::Remove { rules: gone, gives: verdict.decision };
        }
    }
    Change::None(format!("removing rules is not enough: {}", verdict.reason))
}

/// Says whether an allow rule lets a part run.
fn lifts(question: &Question<'_>, draft: &Draft, text: &str, at: RuleFiles<'_>) -> bool {
    let Ok((rules, _)) = with(question, Decision::Allow, &[text.to_owned()], at) else {
        return false;
    };
    let Context { facts, tool, input, .. } = question.context;
    let Some(shell) = question.shell else {
        return judge(question, &rules).decision == Decision::Allow;
    };
    let context = Context::new(&rules, facts, tool, input, Some(shell));
    shell::parts(&context, shell).iter().any(|part| {
        let is_same = part.subject == draft.subject && part.span == draft.span;
        is_same && part::settle(&context, part).decision == Decision::Allow
    })
}

/// Returns why no allow rule helps with a check that is always on; for some it is another rule that would.
fn no_rule(code: &str, reason: &str) -> String {
    match code {
        "runner_outside" | "builder_changed" => reason.to_owned(),
        "plan" => format!("{reason}; exit plan mode to run it"),
        _ => format!("{reason}; no allow rule changes that"),
    }
}

/// Returns the rules with further ones, and the file in which those would stand; an error is a text that is not a rule.
fn with<'a>(
    question: &Question<'_>,
    effect: Decision,
    texts: &[String],
    at: RuleFiles<'a>,
) -> Result<(Rules, &'a Path), String> {
    let locked = question.context.rules.settings().managed_rules_only && effect != Decision::Deny;
    let (layer, file) = if locked { (Layer::Policy, at.managed) } else { (Layer::Local, at.local) };
    let mut rules: Vec<rule::Rule> = question.context.rules.rules().to_vec();
    for text in texts {
        let origin =
            Origin { layer, file: file.to_owned(), line: 1, column: 1, pointer: String::new() };
        match rule::read(text, effect, origin, &question.context.facts.project) {
            Reading::Good(rule) => rules.push(rule),
            Reading::Odd(..) | Reading::Void(_) | Reading::Malformed(..) => {
                return Err(format!("`{text}` is not a valid rule"));
            }
        }
    }
    Ok((question.context.rules.with(rules), file))
}

fn add(question: &Question<'_>, effect: Decision, texts: Vec<String>, at: RuleFiles<'_>) -> Change {
    let (rules, file) = match with(question, effect, &texts, at) {
        Ok(found) => found,
        Err(why) => return Change::None(why),
    };
    let verdict = judge(question, &rules);
    match verdict.decision == question.verdict.decision {
        true => Change::None(format!("a rule is not enough: {}", verdict.reason)),
        false => {
            Change::Add { effect, rules: texts, file: file.to_owned(), gives: verdict.decision }
        }
    }
}

fn judge(question: &Question<'_>, rules: &Rules) -> Verdict {
    let Context { facts, tool, input, .. } = question.context;
    match question.shell {
        Some(shell) => evaluate_shell(rules, shell, input, facts),
        None => evaluate_tool(rules, tool, input, facts),
    }
}

fn without(rules: &Rules, text: &str, origin: &Origin) -> Rules {
    let kept = rules.rules().iter().filter(|rule| rule.text != text || rule.origin != *origin);
    rules.with(kept.cloned().collect())
}

/// Returns the text of the narrowest rule about a part.
fn narrowest(question: &Question<'_>, draft: &Draft) -> Option<String> {
    let context = question.context;
    let path = |verb: &str, path: &std::path::Path| {
        let shown = stockade_rules::normal(path).display().to_string();
        (!shown.contains(['*', '?', '[', '\\', '!'])).then(|| format!("{verb}(/{shown})"))
    };
    match draft.subject {
        Subject::Command(place) => suggest::exact_rule(question.shell?.commands.get(place)?),
        Subject::Write(place) => path(
            "Edit",
            &files::written_target(context, question.shell?, question.shell?.writes.get(place)?)?,
        ),
        Subject::Read(place) => path(
            "Read",
            &files::written_target(context, question.shell?, question.shell?.reads.get(place)?)?,
        ),
        Subject::Tool => match tools::path_of_tool(context.tool, context.input, context.facts) {
            Some(written) => {
                let edits = crate::knowledge::knowledge().edit_tools.iter();
                let verb =
                    if edits.clone().any(|row| row.name == context.tool) { "Edit" } else { "Read" };
                path(verb, &written)
            }
            None => suggest::rule_of_tool(context),
        },
        Subject::Doubt => None,
    }
}
