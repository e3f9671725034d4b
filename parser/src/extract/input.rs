//! Shells that read their text from the standard input of the whole text. Where that is known to be empty, they run
//! nothing.

use std::collections::BTreeSet;

use crate::extract::{Redirecting, Walk};
use crate::nested::Doubt;
use crate::{Operator, Reason, Stdin};

/// Readers of standard input, and whether something in the text gives it to them.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Commands whose inner ones have their standard input, and shells.
    pub same: BTreeSet<u32>,
    /// Shells that read a text there, with what is to be said if it may not be empty.
    pub readers: Vec<(u32, Doubt)>,
    /// Somewhere in the text something else becomes standard input of something.
    pub moved: bool,
}

impl Walk<'_> {
    /// Says whether the text that a shell reads may be an empty standard input.
    pub(super) fn may_be_empty(&self, doubt: &Doubt) -> bool {
        // Not a file or descriptor that an operand names.
        self.start.stdin_empty && doubt.reason == Reason::StdinProgram && doubt.word == Some(0)
    }

    /// Takes note of a redirection anywhere in the text.
    pub(super) fn note_input(&mut self, redirecting: &Redirecting) {
        let input = match redirecting.operator {
            Operator::Read
            | Operator::ReadWrite
            | Operator::DuplicateInput
            | Operator::HereDocument
            | Operator::HereDocumentTabs
            | Operator::HereString => true,
            Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::DuplicateOutput
            | Operator::WriteBoth
            | Operator::AppendBoth => redirecting.variable || redirecting.descriptor == Some(0),
        };
        self.inputs.moved |= input;
    }

    /// Doubts each shell whose standard input may be another than that of the text, or than an empty one.
    pub(super) fn shells_with_input(&mut self) {
        for (index, doubt) in std::mem::take(&mut self.inputs.readers) {
            let Some(command) = self.commands.get(index as usize) else { continue };
            let of_text = !self.inputs.moved
                && command.stdin == Stdin::Inherited
                && self.inputs.same.contains(&index)
                && command.via.iter().all(|via| self.inputs.same.contains(&via.command));
            if !of_text {
                let span = command.words.first().map_or(command.span, |word| word.span);
                self.doubt(doubt.reason, span, doubt.detail, doubt.help);
            }
        }
    }
}
