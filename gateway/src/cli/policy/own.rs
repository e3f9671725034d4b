//! Commands that the text of an allow rule itself lets through, with a word for each of its stars.

use serde_json::json;
use stockade_parser::{CommandTree, EffectKind, SimpleCommand};
use stockade_policy::{By, Decision, Layer, Problem, Rule, Severity};

use super::Court;
use crate::judge::Scene;
use crate::protocol::errors::Failure;

/// Word in the place of a star: a file that could be a program.
const WORD: &str = "./x";

/// Judges the commands that rules with wildcards spell out, and returns for each rule what it lets through that
/// starts programs or loads code.
pub(super) async fn reached(court: &Court, scene: &Scene) -> Result<Vec<Problem>, Failure> {
    let mut found = Vec::new();
    for rule in scene.snapshot.rules.rules() {
        for text in commands(rule) {
            let judged = court.judged(scene, "Bash", json!({ "command": text })).await?;
            let verdict = &judged.verdict;
            let decisive = verdict.decisive_rule().map(|decisive| &decisive.origin);
            if verdict.decision != Decision::Allow
                || verdict.by != By::Rule
                || decisive != Some(&rule.origin)
            {
                continue;
            }
            let Some((severity, does)) = judged.tree.as_ref().and_then(danger) else { continue };
            found.push(Problem {
                severity,
                origin: rule.origin.clone(),
                text: rule.text.clone(),
                message: format!("this allows `{text}`, which {does}"),
                help: "make the rule narrower, or move it to `ask`".to_owned(),
            });
            break;
        }
    }
    Ok(found)
}

/// Returns commands that an allow rule with a wildcard may cover: its text alone, and with a word for each star.
fn commands(rule: &Rule) -> Vec<String> {
    let inside = rule.text.trim().strip_prefix("Bash(").and_then(|text| text.strip_suffix(')'));
    let Some(inside) = inside else { return Vec::new() };
    let open = inside.strip_suffix(":*").or_else(|| inside.strip_suffix(" *"));
    let text = open.unwrap_or(inside).replace('*', WORD);
    let wild = open.is_some() || inside.contains('*');
    if rule.effect != Decision::Allow || rule.origin.layer == Layer::Builtin || !wild {
        return Vec::new();
    }
    match open {
        Some(_) => vec![text.clone(), format!("{text} {WORD}")],
        None => vec![text],
    }
}

/// Returns how bad it is, and what the text starts or loads, as a verb with its object.
fn danger(tree: &CommandTree) -> Option<(Severity, &'static str)> {
    let starts = |command: &SimpleCommand| command.via.last().is_some_and(|via| !via.strip);
    let runs = |command: &SimpleCommand| {
        command.effects.iter().any(|effect| match effect.kind {
            EffectKind::LoadCode => true,
            EffectKind::Execute => !is_file(command, effect.word),
            EffectKind::ReadOnly
            | EffectKind::Write
            | EffectKind::Read
            | EffectKind::Network
            | EffectKind::ProjectCode
            | EffectKind::Settings => false,
        })
    };
    let commands = tree.commands();
    if !tree.unread().is_empty() || commands.iter().any(|one| starts(one) || runs(one)) {
        return Some((Severity::Error, "runs other programs or code"));
    }
    let file = |command: &SimpleCommand| {
        let mut effects = command.effects.iter();
        effects.any(|effect| effect.kind == EffectKind::Execute)
    };
    commands.iter().any(file).then_some((Severity::Warning, "runs any content of the file"))
}

/// Says whether what runs is a file that the word names.
fn is_file(command: &SimpleCommand, word: u32) -> bool {
    let mut effects = command.effects.iter();
    effects.any(|effect| effect.kind == EffectKind::Read && effect.word == word)
}
