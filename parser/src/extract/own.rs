//! Programs that the text itself makes or names to others: files that it writes and then starts, and variables whose
//! values other programs take for commands.

use std::collections::BTreeSet;

use crate::extract::Walk;
use crate::nested::{self, Reading};
use crate::{
    Assignment, CommandKind, EffectKind, Shared, SimpleCommand, Span, Stdin, Thin, Unread, Word,
    WordClass,
};

/// Says whether a command assigns variables that other programs may see.
pub(super) fn assigns(command: &SimpleCommand) -> bool {
    let name = command.words.first().and_then(Word::exact).unwrap_or_default();
    let declares = command.kind == CommandKind::Builtin && DECLARES.contains(&name);
    declares || !command.assignments.is_empty()
}

/// Builtins whose operands assign variables for programs.
const DECLARES: [&[u8]; 5] = [b"export", b"declare", b"typeset", b"readonly", b"local"];

impl Walk<'_> {
    /// Notes the programs by path that a command of the same text may have written: what they are is not known.
    pub(super) fn programs_made_here(&mut self) {
        let by_path: Vec<usize> = self
            .commands
            .iter()
            .enumerate()
            .filter(|(_, command)| program(command).is_some())
            .map(|(number, _)| number)
            .collect();
        if by_path.is_empty() {
            return;
        }
        let objects = self.commands.iter().flat_map(|command| {
            let writes = command.effects.iter().filter(|effect| effect.kind == EffectKind::Write);
            writes.filter_map(|effect| effect.object(&command.words))
        });
        let targets = self.writes.iter().map(|target| &target.word);
        let exact = objects.chain(targets).filter_map(Word::exact);
        let written: BTreeSet<&[u8]> = exact.map(plain_path).collect();
        let mut found = Vec::new();
        for number in by_path {
            let Some(command) = self.commands.get(number) else { continue };
            let Some(path) = program(command).map(plain_path) else { continue };
            // A folder into which something was copied counts as well.
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            let mut places = ends.chain([path.len()]).filter_map(|end| path.get(..end));
            if places.any(|place| !place.is_empty() && written.contains(place)) {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                found.push(Unread { command: number, span: command.span });
            }
        }
        self.unread.extend(found);
    }

    /// Notes the programs that read their text from a standard input that this text gives to the shell.
    pub(super) fn programs_on_stdin(&mut self) {
        if !self.stdin_moved {
            return;
        }
        for number in std::mem::take(&mut self.stdin_readers) {
            if let Some(command) = self.commands.get(number as usize) {
                self.unread.push(Unread { command: number, span: command.span });
            }
        }
    }

    /// Reads what the variables that a command assigns make other programs start.
    pub(super) fn read_variables(&mut self, command: &SimpleCommand) -> Reading {
        let mut found = Reading::default();
        let name = command.words.first().and_then(Word::exact).unwrap_or_default();
        let declared: Vec<Assignment> =
            if command.kind == CommandKind::Builtin && DECLARES.contains(&name) {
                command.words.iter().skip(1).filter_map(assignment).collect()
            } else {
                Vec::new()
            };
        for assignment in command.assignments.iter().chain(&declared) {
            let row = [assignment.name.as_ref(), b"="].concat();
            let class = WordClass::Exact(row.into());
            let pseudo = SimpleCommand {
                words: vec![
                    Word { span: assignment.span, class },
                    Word { span: assignment.span, class: assignment.value.class.clone() },
                ]
                .into(),
                // Not a copy of `command`: that may hold as many assignments as there are turns here.
                assignments: Thin::EMPTY,
                redirects: Thin::EMPTY,
                position: command.position,
                via: command.via.clone(),
                kind: CommandKind::External,
                directory: command.directory.clone(),
                locality: command.locality,
                stdin: Stdin::Inherited,
                effects: Shared::EMPTY,
                effects_known: false,
                span: command.span,
            };
            let reading = nested::read(&mut self.rows, &pseudo);
            // A value that is not understood here counts as unread; it starts nothing by itself.
            if reading.unread.is_some() || !reading.doubts.is_empty() {
                found.unread = Some(0);
            } else {
                found.inner.extend(reading.inner);
            }
        }
        found
    }

    pub(super) fn note_unread(&mut self, command: u32, span: Span) {
        if self.unread.last().is_none_or(|last| last.command != command) {
            self.unread.push(Unread { command, span });
        }
    }
}

/// The program of a command, if it is named by a path outside the folders of the system.
fn program(command: &SimpleCommand) -> Option<&[u8]> {
    let path = command.words.first()?.exact()?;
    let own = path.contains(&b'/') && !nested::is_of_the_system(path);
    own.then_some(path)
}

/// A path without `./` in front and `/` behind.
fn plain_path(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path.strip_suffix(b"/").unwrap_or(path)
}

/// An operand `NAME=VALUE`.
fn assignment(word: &Word) -> Option<Assignment> {
    let (text, exact): (&[u8], bool) = match &word.class {
        WordClass::Exact(text) => (text, true),
        WordClass::Unknown { prefix, .. } => (prefix, false),
        WordClass::Pattern { .. } => return None,
    };
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let class = if exact {
        WordClass::Exact(text.get(equals + 1..)?.into())
    } else {
        crate::word::build::unknown_word(word.span, crate::Reason::Parameter, crate::Count::One)
            .class
    };
    Some(Assignment {
        name: text.get(..equals)?.into(),
        array: false,
        append: false,
        value: Word { span: word.span, class },
        span: word.span,
    })
}
