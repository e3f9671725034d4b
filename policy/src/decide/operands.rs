//! Operands of programs of which it is not known what they do with them, and of code that such programs run.

use std::path::Path;

use stockade_parser::{Effect, EffectKind, SimpleCommand, Word};

use crate::Decision;
use crate::knowledge::{knowledge, listed};
use crate::paths;

use super::context::Context;
use super::expanded;
use super::files::{Access, Extent, add_linked, hits, pattern, possible_hits};
use super::part::{Certainty, Draft, Hit};

/// Marks in one word between which files are looked for.
const MOST_MARKS: usize = 8;

/// Says how surely a command reads whatever file one of its words names: an unknown program, or code that it is given and
/// hands its operands to.
pub(super) fn opens_operands(command: &SimpleCommand) -> Option<Certainty> {
    let tables = knowledge();
    let program = super::allow_cover::program(command);
    let runs = |effect: &Effect| match effect.kind {
        // A program that runs the project's code does what its operands say.
        EffectKind::ProjectCode => effect.word == 0,
        EffectKind::Execute | EffectKind::LoadCode => true,
        EffectKind::ReadOnly
        | EffectKind::Read
        | EffectKind::Write
        | EffectKind::Network
        | EffectKind::Settings => false,
    };
    let runs = || command.effects.iter().any(runs);
    if !command.effects_known || (listed(&tables.interpreters, program) && runs()) {
        return Some(Certainty::Certain);
    }
    let typed = command.words.first().and_then(Word::exact).unwrap_or_default();
    (listed(&tables.spelled_out, typed) || runs()).then_some(Certainty::Later)
}

/// Judges the operands of a command that may do anything with them: one that names a path that may not be read is
/// refused, and one that may not be written, or that rules ask about, is asked.
pub(super) fn judge_operands(
    context: &Context<'_>,
    draft: &mut Draft,
    command: &SimpleCommand,
    directory: Option<&Path>,
    certainty: Certainty,
) {
    for word in command.words.iter().skip(1).filter(|word| word.exact().is_none()) {
        if let Some(shape) = paths::shape(word, directory) {
            draft.add(possible_hits(context, Access::Read, Some(&shape), Certainty::Later));
        }
        expanded::add(context, draft, word, directory, Access::Read);
    }
    for bytes in operands(command) {
        let Some(written) = paths::written(&bytes, directory) else { continue };
        let names = paths::names(&written, context.facts, directory);
        let place = stockade_rules::normal(&written);
        add_linked(context, draft, Some(command), &place, Extent::Path, Access::Read);
        for effect in [Decision::Deny, Decision::Ask] {
            let hits = hits(context, effect, Access::Read, &names).into_iter();
            let about_paths = hits.filter(|hit| pattern(context, hit.rule).is_some());
            draft.add(about_paths.map(|hit| Hit { certainty, ..hit }));
        }
        let index = context.rules.by_effect(Decision::Deny).edit();
        let strikes = |id: &usize| {
            pattern(context, *id).is_some_and(|p| {
                names.iter().any(|n| p.matches(n, context.anchors(Decision::Deny)))
            })
        };
        let possible: Vec<Hit> = index
            .candidates(&names)
            .into_iter()
            .filter(strikes)
            .map(|rule| Hit { rule, certainty: Certainty::Later })
            .collect();
        draft.add(possible);
    }
}

/// Returns the exact words of a command that could name files: operands, and what stands behind an option letter or
/// between marks in any word.
pub(super) fn operands(command: &SimpleCommand) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for word in command.words.iter().skip(1) {
        let Some(bytes) = word.exact() else { continue };
        found.extend(pieces(bytes));
        match bytes {
            [b'-', b'-', ..] => {}
            [b'-', _, value @ ..] if !value.is_empty() => found.push(value.to_vec()),
            [b'-', ..] | [] => {}
            operand => found.push(operand.to_vec()),
        }
    }
    found
}

/// Returns the parts of a word that could name files of their own: `key=file`, `host:file`, `@file`, `a,b`.
pub(super) fn pieces(word: &[u8]) -> Vec<Vec<u8>> {
    let marks: Vec<usize> = word
        .iter()
        .enumerate()
        .filter(|(_, byte)| b"=:,@".contains(byte))
        .map(|(place, _)| place)
        .take(MOST_MARKS)
        .collect();
    let behind = marks.iter().filter_map(|place| word.get(place + 1..));
    let starts = std::iter::once(word).chain(behind);
    let part = |start: &[u8]| {
        let end = start.iter().position(|byte| b"=:,@".contains(byte)).unwrap_or(start.len());
        [start.to_vec(), start.get(..end).unwrap_or_default().to_vec()]
    };
    let parts = starts.flat_map(part);
    let plain = |part: &Vec<u8>| !part.is_empty() && part != word && !part.starts_with(b"-");
    let schemes = knowledge().file_schemes.iter();
    let named = schemes.filter_map(|scheme| {
        let at = word.windows(scheme.len()).position(|part| part == scheme.as_bytes())?;
        Some(word.get(at + scheme.len()..)?.to_vec())
    });
    parts.chain(named).filter(plain).collect()
}
