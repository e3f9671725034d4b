//! Variables that decide what later commands run, assigned otherwise than by `NAME=value`.

use std::collections::HashMap;

use stockade_parser::Assigned;

use crate::index::RuleId;
use crate::knowledge::{is_unsafe, knowledge, listed};

use super::context::Context;
use super::files;
use super::part::{Cover, Draft, Hit, Subject};
use super::shell::{Shell, pattern};

/// Assignments of a text to such variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guarded<'a> {
    /// By a loop, arithmetic, an expansion, a redirection.
    alone: Vec<&'a Assigned>,
    /// By the builtin with this place in the list of commands.
    commands: HashMap<u32, &'a Assigned>,
}

impl<'a> Guarded<'a> {
    pub fn of(assigned: &'a [Assigned]) -> Guarded<'a> {
        let mut found = Guarded::default();
        for one in assigned.iter().filter(|one| is_unsafe(&one.name)) {
            match one.command {
                Some(command) => drop(found.commands.insert(command, one)),
                None => found.alone.push(one),
            }
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.commands.is_empty()
    }
}

/// Returns a part for each such variable that no command assigns.
pub(super) fn parts(
    context: &Context<'_>,
    shell: &Shell<'_>,
    blanket: Option<RuleId>,
) -> Vec<Draft> {
    let held = needs_rules_held(context);
    let found = shell.guarded.alone.iter().map(|one| {
        let text = String::from_utf8_lossy(one.span.of(shell.source)).into_owned();
        let mut draft = Draft::new(Subject::Doubt, one.span, text);
        draft.confinable = true;
        draft.cover = blanket.map_or(Cover::Nothing(reason(&one.name)), Cover::Rule);
        draft.add(blanket.map(Hit::certain));
        draft.hard = held.then(|| ("unread", unread(&one.name)));
        draft
    });
    found.collect()
}

/// Returns why no rule with a wildcard covers the command at `index`: it assigns such a variable.
pub(super) fn of_command(shell: &Shell<'_>, index: usize) -> Option<String> {
    let place = u32::try_from(index).ok()?;
    shell.guarded.commands.get(&place).map(|one| reason(&one.name))
}

/// Returns why only a rule about this very command answers for it: what it assigns could start what a rule forbids.
pub(super) fn hard(
    context: &Context<'_>,
    shell: &Shell<'_>,
    index: usize,
    cover: &Cover,
) -> Option<(&'static str, String)> {
    let one = shell.guarded.commands.get(&u32::try_from(index).ok()?)?;
    let answered = match cover {
        Cover::Rule(id) => pattern(context, *id).is_some(),
        Cover::Builtin(_) | Cover::Mode(_) | Cover::Nothing(_) => false,
    };
    (!one.read && !answered && needs_rules_held(context)).then(|| ("unread", unread(&one.name)))
}

/// Says whether rules are to be held against what runs, and confinement does not hold it.
fn needs_rules_held(context: &Context<'_>) -> bool {
    !context.is_confined()
        && (context.rules.has_command_specifier() || files::has_strict_rules(context))
}

fn unread(name: &[u8]) -> String {
    format!("{}, so deny and ask rules cannot be checked", reason(name))
}

/// Returns why a command that assigns the variable needs a person.
pub(super) fn reason(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    match listed(&knowledge().cutting_variables, name) {
        true => format!("bash truncates its history file when `{text}` is assigned"),
        false => format!("`{text}` decides what later commands run"),
    }
}
