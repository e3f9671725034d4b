//! Trust in the name of a program: it counts only for a file that commands cannot change. Programs that run what the
//! project brings along leave the sandbox by the person's own word alone.

use std::collections::BTreeSet;

use stockade_parser::{CommandKind, EffectKind, Position, SimpleCommand, Word};

use crate::Rules;
use crate::facts::{Doubt, Facts, SandboxState};
use crate::index::RuleId;
use crate::knowledge::{is_unsafe, knowledge, listed};
use crate::{Layer, Origin};

use super::allow_cover;
use super::context::Context;
use super::files::{self, Access};
use super::part::Own;
use super::shell::Shell;

/// Returns every word that names a program.
pub(crate) fn programs_of_shell(shell: &Shell<'_>) -> BTreeSet<Vec<u8>> {
    let external = |command: &&SimpleCommand| command.kind == CommandKind::External;
    let commands = shell.commands.iter().filter(external);
    commands.filter_map(|command| Some(command.words.first()?.exact()?.to_vec())).collect()
}

/// Returns why the name of a program does not tell what runs; none where it does.
pub(super) fn doubt(context: &Context<'_>, command: &SimpleCommand) -> Option<String> {
    let word = command.words.first().and_then(Word::exact)?;
    if command.kind != CommandKind::External {
        return None;
    }
    let doubt = context.facts.doubts.programs.get(word)?;
    let name = String::from_utf8_lossy(word);
    match doubt {
        Doubt::Exposed(_) if context.only_reads => None,
        Doubt::Exposed(directory) => Some(format!(
            "`{name}` is looked for in `{}` first, where commands can write",
            directory.display()
        )),
        Doubt::Planted(file) => {
            Some(format!("`{name}` would be `{}`, which commands can write", file.display()))
        }
        Doubt::Absent(file) => Some(format!(
            "`{name}` is `{}`, which commands can write, so an unsandboxed command does not use it; use its path",
            file.display()
        )),
    }
}

/// The same for rules: one that spells out a path means the file that is there, whoever wrote it.
pub(super) fn doubt_for_rules(context: &Context<'_>, command: &SimpleCommand) -> Option<String> {
    let word = command.words.first().and_then(Word::exact).unwrap_or_default();
    match context.is_confined() || word.contains(&b'/') {
        true => None,
        false => doubt(context, command),
    }
}

/// Says whether nothing in the text does more than read.
pub(super) fn only_reads(shell: &Shell<'_>) -> bool {
    let reads = |command: &SimpleCommand| {
        let kinds = |kind| matches!(kind, EffectKind::ReadOnly | EffectKind::Read);
        let known = command.effects_known && !command.effects.is_empty();
        let bare = command.kind == CommandKind::AssignmentOnly;
        let steps = listed(&knowledge().directory_changers, allow_cover::program(command));
        bare || steps || (known && command.effects.iter().all(|effect| kinds(effect.kind)))
    };
    let nowhere = |word: &Word| word.exact().is_some_and(|it| files::is_no_file(it, Access::Write));
    shell.opaque.is_empty()
        && shell.unread.is_empty()
        && shell.commands.iter().all(reads)
        && shell.writes.iter().all(|target| nowhere(&target.word))
}

/// Says whether a program runs what the project brings along: by its name, or because it is a file of the project.
pub(super) fn is_runner(facts: &Facts, command: &SimpleCommand) -> bool {
    let Some(word) = command.words.first().and_then(Word::exact) else { return true };
    let own = word.contains(&b'/')
        && (!word.starts_with(b"/") || facts.doubts.programs.contains_key(word));
    own || listed(&knowledge().runners, allow_cover::program(command))
}

/// Returns the name of each program that runs what the project brings along.
pub(crate) fn builders_of_shell(shell: &Shell<'_>, facts: &Facts) -> BTreeSet<Vec<u8>> {
    let runners = shell.commands.iter().filter(|command| is_runner(facts, command));
    runners.map(|command| builder(command).to_vec()).collect()
}

/// Returns the name under which a yes to a builder is kept: that of the program, or the path of a file of the project.
fn builder(command: &SimpleCommand) -> &[u8] {
    let word = command.words.first().and_then(Word::exact).unwrap_or_default();
    match word.starts_with(b"/") || !word.contains(&b'/') {
        true => allow_cover::program(command),
        false => word,
    }
}

/// Says whether settings are the person's own, or those of who manages the machine.
pub(super) fn is_of_the_person(facts: &Facts, origin: &Origin) -> bool {
    match origin.layer {
        Layer::User | Layer::Policy => true,
        Layer::Flag => !facts.doubts.settings.contains(&origin.file),
        Layer::Builtin | Layer::Project | Layer::Local => false,
    }
}

/// Returns the commands but the shells that others start for them: settings are not written with those in mind.
pub(super) fn typed_out(commands: &[SimpleCommand]) -> impl Iterator<Item = &SimpleCommand> {
    commands.iter().filter(|command| command.position != Position::Shell)
}

/// Says whether a call runs outside the sandbox: each of its commands is excluded, and all is understood.
pub(crate) fn excluded_from_sandbox(rules: &Rules, shell: &Shell<'_>, facts: &Facts) -> bool {
    let patterns = &rules.settings().sandbox.excluded;
    let excluded = |command: &SimpleCommand| {
        let word = command.words.first().and_then(Word::exact).unwrap_or_default();
        let is_known = word.contains(&b'/') || !facts.doubts.programs.contains_key(word);
        let plain = command.assignments.iter().all(|one| {
            !one.array && !one.append && one.value.exact().is_some() && !is_unsafe(&one.name)
        });
        let counts = |origin| !is_runner(facts, command) || is_of_the_person(facts, origin);
        let mut fitting = patterns.iter().filter(|(it, _)| it.covers(&command.words));
        is_known && plain && fitting.any(|(_, origin)| counts(origin))
    };
    shell.opaque.is_empty()
        && !shell.commands.is_empty()
        && typed_out(shell.commands).all(excluded)
        && shell.guarded.is_empty()
}

/// A program that runs what the project brings along, and that leaves the sandbox, needs a rule of the person's own.
pub(super) fn let_out(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    rules: &[RuleId],
) -> Option<Own> {
    let command = shell.commands.get(index)?;
    let sandbox = &context.rules.settings().sandbox;
    let is_out = context.unconfined || context.facts.sandbox == SandboxState::Off;
    if !sandbox.enabled || !is_out || !is_runner(context.facts, command) {
        return None;
    }
    let own = |id: &RuleId| {
        let rule = context.rules.rule(*id);
        rule.is_some_and(|rule| is_of_the_person(context.facts, &rule.origin))
    };
    let harmless = || {
        matches!(allow_cover::without_rule(context, shell, index), super::part::Cover::Builtin(_))
    };
    let changed = context.facts.doubts.changed.get(builder(command));
    if (rules.iter().any(own) && changed.is_none()) || harmless() {
        return None;
    }
    let name =
        String::from_utf8_lossy(command.words.first().and_then(Word::exact).unwrap_or_default());
    if let Some(changed) = changed {
        let reason = format!(
            "`{name}` runs code of the project outside of the sandbox, and {}; `stockade review` shows the changes",
            changed.told
        );
        return Some(Own { code: "builder_changed", reason, protected: true });
    }
    let reason = format!(
        "`{name}` runs code of the project outside of the sandbox; only an allow rule of the user or managed settings permits that"
    );
    Some(Own { code: "runner_outside", reason, protected: true })
}

#[cfg(test)]
mod tests;
