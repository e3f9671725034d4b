//! Names in the text of a hook: programs that it starts, files that it reads and writes. Where the text does not tell,
//! nothing is taken for known.

use std::collections::BTreeSet;

use stockade_parser::{CommandKind, CommandTree, EffectKind, SimpleCommand, Target, Word};

use crate::knowledge::{knowledge, listed};

use super::cover;
use super::files::{self, Access};
use super::shell::Shell;

/// Programs and other words that a text names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// Words that name programs.
    pub programs: BTreeSet<Vec<u8>>,
    /// Every other word.
    pub words: BTreeSet<Vec<u8>>,
}

/// Returns what a text names, or why that cannot be told, or depends on the directory in which it runs.
pub fn named_by(tree: &CommandTree) -> Result<Named, String> {
    let shell = Shell::of(tree);
    if let Some(opaque) = shell.opaque.first() {
        return Err(format!("`{}` is not understood", shown(&shell, opaque.span)));
    }
    if !shell.guarded.is_empty() {
        return Err("it sets a variable that decides what runs".to_owned());
    }
    let mut named = Named::default();
    for command in shell.commands {
        take(&shell, command, &mut named)?;
    }
    for (targets, access) in [(shell.writes, Access::Write), (shell.reads, Access::Read)] {
        for target in targets {
            take_target(&shell, target, access, &mut named)?;
        }
    }
    Ok(named)
}

fn take(shell: &Shell<'_>, command: &SimpleCommand, named: &mut Named) -> Result<(), String> {
    for assignment in &*command.assignments {
        named.words.extend(assignment.value.exact().map(<[u8]>::to_vec));
    }
    let Some((first, rest)) = command.words.split_first() else { return Ok(()) };
    let name = || shown(shell, first.span);
    let Some(program) = first.exact() else {
        return Err(format!("`{}` is known only when it runs", name()));
    };
    if command.kind == CommandKind::External {
        named.programs.insert(program.to_vec());
        if program.contains(&b'/') && !program.starts_with(b"/") {
            return Err(here(&name()));
        }
    }
    let tables = knowledge();
    let base = cover::program(command);
    let mut effects = command.effects.iter();
    let builds = listed(&tables.runners, base) && !listed(&tables.interpreters, base);
    if builds || effects.any(|effect| effect.kind == EffectKind::ProjectCode) {
        return Err(format!("`{}` runs code of the project", name()));
    }
    if listed(&tables.directory_sensitive, base) {
        return Err(here(&name()));
    }
    take_words(shell, command, rest, named)
}

/// Takes the words behind a program.
fn take_words(
    shell: &Shell<'_>,
    command: &SimpleCommand,
    words: &[Word],
    named: &mut Named,
) -> Result<(), String> {
    let harmless =
        |kind| matches!(kind, EffectKind::ReadOnly | EffectKind::Read | EffectKind::Network);
    let acts = !command.effects_known || !command.effects.iter().all(|it| harmless(it.kind));
    let builtin = command.kind != CommandKind::External;
    if builtin && listed(&knowledge().printing_builtins, cover::program(command)) {
        return Ok(());
    }
    for word in words {
        match word.exact() {
            Some(bytes) if !command.effects_known && is_relative(bytes) => {
                return Err(here(&shown(shell, word.span)));
            }
            Some(bytes) => drop(named.words.insert(bytes.to_vec())),
            None if acts && !builtin => {
                return Err(format!("`{}` is known only when it runs", shown(shell, word.span)));
            }
            None => {}
        }
    }
    for effect in command.effects.iter() {
        let object = effect.object(&command.words).and_then(Word::exact);
        let (Some(path), EffectKind::Read | EffectKind::Write) = (object, effect.kind) else {
            continue;
        };
        let access = if effect.kind == EffectKind::Read { Access::Read } else { Access::Write };
        if files::is_no_file(path, access) || path == b"-" {
            continue;
        }
        if !path.starts_with(b"/") {
            return Err(here(&String::from_utf8_lossy(path)));
        }
        named.words.insert(path.to_vec());
    }
    Ok(())
}

fn take_target(
    shell: &Shell<'_>,
    target: &Target,
    access: Access,
    named: &mut Named,
) -> Result<(), String> {
    let text = || shown(shell, target.word.span);
    match target.word.exact() {
        None => Err(format!("`{}` is known only when it runs", text())),
        Some(path) if files::is_no_file(path, access) => Ok(()),
        Some(path) if !path.starts_with(b"/") => Err(here(&text())),
        Some(path) => {
            named.words.insert(path.to_vec());
            Ok(())
        }
    }
}

/// Says whether a word, or the value of an option, looks like a path that begins in the directory of the call.
fn is_relative(word: &[u8]) -> bool {
    let value = word.splitn(2, |byte| *byte == b'=').last().unwrap_or_default();
    let is_address = value.windows(3).any(|it| it == b"://");
    value.contains(&b'/') && !value.starts_with(b"/") && !is_address
}

fn here(text: &str) -> String {
    format!("`{text}` depends on the directory of the call")
}

fn shown(shell: &Shell<'_>, span: stockade_parser::Span) -> String {
    String::from_utf8_lossy(span.of(shell.source)).into_owned()
}
