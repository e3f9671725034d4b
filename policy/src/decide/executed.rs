//! Which files a text executes besides those whose names it has.

use stockade_parser::{CommandTree, EffectKind, SimpleCommand};

use crate::knowledge::{knowledge, listed};

use super::cover;

/// Builtins that execute a file.
const SOURCES: [&[u8]; 2] = [b".", b"source"];

/// Which files a text executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Executed {
    /// Those that it names.
    Named,
    /// Also those that builders and runners execute by their own rules (`Makefile`, `package.json`).
    OfBuilders,
    /// Any: a name is known only when it runs, as of a pattern or of a word that another command prints.
    Any,
}

/// Returns which files a text executes.
pub fn executed_by(tree: &CommandTree) -> Executed {
    if !tree.opaque_spans().is_empty() {
        return Executed::Any;
    }
    tree.commands().iter().map(of).max().unwrap_or(Executed::Named)
}

fn of(command: &SimpleCommand) -> Executed {
    let Some((first, rest)) = command.words.split_first() else { return Executed::Named };
    let Some(program) = first.exact() else { return Executed::Any };
    let (tables, base) = (knowledge(), cover::program(command));
    let executes = listed(&tables.interpreters, base) || SOURCES.contains(&program);
    if executes && rest.iter().any(|word| word.exact().is_none()) {
        return Executed::Any;
    }
    let builds = command.effects.iter().any(|effect| effect.kind == EffectKind::ProjectCode);
    match builds || listed(&tables.runners, base) {
        true => Executed::OfBuilders,
        false => Executed::Named,
    }
}
