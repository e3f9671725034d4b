//! The variables that a text gives values to otherwise than by a plain assignment: loops, arithmetic, builtins that name
//! a variable, expansions, redirections (bash 5.2 manual). What bash does at once when it assigns is here as well.

use std::collections::HashSet;

use crate::expression::{Change, names};
use crate::extract::Walk;
use crate::{Assigned, Bytes, Operator, Reason, Span, Target, Word};

/// The names that were noted, once each.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub list: Vec<Assigned>,
    seen: HashSet<(Option<u32>, Bytes)>,
}

impl Walk<'_> {
    /// The text gives `name` a value, by the builtin at `command` or by something that is not a command.
    pub(crate) fn names_variable(&mut self, name: &[u8], command: Option<u32>, span: Span) {
        let name = name.split(|byte| *byte == b'[').next().unwrap_or_default().into();
        self.note_variable(Assigned { name, command, read: false, span });
    }

    /// Takes note of a variable, once for each command that names it.
    pub(crate) fn note_variable(&mut self, assigned: Assigned) {
        let key = (assigned.command, assigned.name.clone());
        if assigned.name.is_empty() || !self.assigned.seen.insert(key) {
            return;
        }
        self.kept += 2 * (size_of::<Assigned>() + assigned.name.len() + 32);
        self.assigned.list.push(assigned);
    }

    /// The same for every name to which an expression of arithmetic assigns.
    pub(crate) fn expression_names(&mut self, text: &[u8], command: u32, span: Span) {
        for (name, change) in names(text) {
            if change != Change::None {
                self.names_variable(&name, Some(command), span);
                self.history_file(&name, None, Some(command), span);
            }
        }
    }

    /// Bash cuts the file that `HISTFILE` names to the length in `HISTFILESIZE` as soon as that is assigned.
    pub(crate) fn history_file(
        &mut self,
        name: &[u8],
        value: Option<&Word>,
        command: Option<u32>,
        span: Span,
    ) {
        if name != b"HISTFILE" || value.and_then(Word::exact) == Some(b"") {
            return;
        }
        match value {
            Some(word) => {
                let word = word.clone();
                self.writes.push(Target { word, command, operator: Operator::Append, span });
            }
            None => {
                let detail = "the file of the history, which bash writes, is not known".to_owned();
                self.doubt(Reason::State, span, detail, String::new());
            }
        }
    }
}
